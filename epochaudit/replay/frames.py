"""The frames by name, as rules refer to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from epochaudit.replay.control import control
from epochaudit.replay.fetches import fetches
from epochaudit.replay.isr_changes import isr_changes
from epochaudit.replay.leadership import leadership
from epochaudit.replay.lineage import lineage
from epochaudit.replay.metadata import metadata
from epochaudit.replay.metadata_log import log_copies
from epochaudit.replay.positions import positions

FRAMES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "control": control,
    "fetches": fetches,
    "isr_changes": isr_changes,
    "leadership": leadership,
    "lineage": lineage,
    "log_copies": log_copies,
    "metadata": metadata,
    "positions": positions,
}
