"""The frames by name, as rules refer to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import DataFrame

from epochaudit.replay.control import control

FRAMES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "control": control,
}
