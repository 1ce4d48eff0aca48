"""Small tables that several frames read are computed once per events table, and are leaves of the frames' plans.

Tables are made of tables: with their whole ancestry in the plan of each frame, Spark would analyse it anew at each step.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from epochaudit.session import copies

Table = Callable[[DataFrame], DataFrame]


class _Kept:
    """The table of one name, once it was asked for."""

    def __init__(self) -> None:
        self.building = Lock()
        self.table: DataFrame | None = None


_KEPT: Final[WeakKeyDictionary[DataFrame, dict[str, _Kept]]] = WeakKeyDictionary()
_ASKING: Final = Lock()


def kept(table: Table) -> Table:
    """The same function, which gives the same DataFrame, computed once, whenever it is asked about the same events."""

    @wraps(table)
    def once(events: DataFrame) -> DataFrame:
        name = f"{table.__module__}.{table.__qualname__}"
        with _ASKING:  # frames are planned by several threads
            asked = _KEPT.setdefault(events, {}).setdefault(name, _Kept())
        with asked.building:  # one table may be made of others, but none of itself
            if asked.table is None:
                asked.table = table(events).localCheckpoint(eager=False, storageLevel=copies(events.sparkSession))
            return asked.table

    return once


def release(events: DataFrame) -> None:
    """Lets Spark free what was kept of these events; to be called when their frames have been computed."""
    _KEPT.pop(events, None)
