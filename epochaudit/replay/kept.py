"""Small tables that several frames read are computed once per events table, and are leaves of the frames' plans.

Tables are made of tables: with their whole ancestry in the plan of each frame, Spark would analyse it anew at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from epochaudit.session import copies

Table = Callable[[DataFrame], DataFrame]

_KEPT: Final[WeakKeyDictionary[DataFrame, dict[str, DataFrame]]] = WeakKeyDictionary()
_BUILDING: Final = RLock()  # frames are planned by several threads; one table may be made of another


def kept(table: Table) -> Table:
    """The same function, which gives the same DataFrame, computed once, whenever it is asked about the same events."""

    @wraps(table)
    def once(events: DataFrame) -> DataFrame:
        name = f"{table.__module__}.{table.__qualname__}"
        with _BUILDING:
            tables = _KEPT.setdefault(events, {})
            if name not in tables:
                tables[name] = table(events).localCheckpoint(eager=False, storageLevel=copies(events.sparkSession))
            return tables[name]

    return once


def release(events: DataFrame) -> None:
    """Lets Spark free what was kept of these events; to be called when their frames have been computed."""
    _KEPT.pop(events, None)
