"""Small tables that several frames read are built and persisted once per events table."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Final
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

Table = Callable[[DataFrame], DataFrame]

_KEPT: Final[WeakKeyDictionary[DataFrame, dict[str, DataFrame]]] = WeakKeyDictionary()
_BUILDING: Final = RLock()  # frames are planned by several threads; one table may be made of another


def kept(table: Table) -> Table:
    """The same function, which gives the same persisted DataFrame whenever it is asked about the same events."""

    @wraps(table)
    def once(events: DataFrame) -> DataFrame:
        name = f"{table.__module__}.{table.__qualname__}"
        with _BUILDING:
            tables = _KEPT.setdefault(events, {})
            if name not in tables:
                tables[name] = table(events).persist()
            return tables[name]

    return once


def release(events: DataFrame) -> None:
    """Frees what was kept of these events; to be called when their frames have been computed."""
    for table in _KEPT.pop(events, {}).values():
        table.unpersist()
