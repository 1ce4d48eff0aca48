"""The frames by name, as rules refer to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from epochaudit.replay.broker_records import broker_records
from epochaudit.replay.broker_requests import broker_requests
from epochaudit.replay.control import control
from epochaudit.replay.epoch_caches import epoch_caches
from epochaudit.replay.fetches import fetches
from epochaudit.replay.isr_changes import isr_changes
from epochaudit.replay.isr_expansions import isr_expansions
from epochaudit.replay.leadership import leadership
from epochaudit.replay.lineage import lineage
from epochaudit.replay.log_order import log_order
from epochaudit.replay.metadata import metadata
from epochaudit.replay.metadata_log import log_copies
from epochaudit.replay.positions import positions

FRAMES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "broker_records": broker_records,
    "broker_requests": broker_requests,
    "control": control,
    "epoch_caches": epoch_caches,
    "fetches": fetches,
    "isr_changes": isr_changes,
    "isr_expansions": isr_expansions,
    "leadership": leadership,
    "lineage": lineage,
    "log_copies": log_copies,
    "log_order": log_order,
    "metadata": metadata,
    "positions": positions,
}
