"""Checkpoints of small tables that several frames read: each is computed once per events table.

They are leaves of the frames' plans. Tables are derived from tables, and Spark would otherwise analyse the whole ancestry in
each frame's plan, at each step.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from pyspark.sql import DataFrame, SparkSession

from epochaudit.spark.session import is_remote, is_tuned_for_small_plans, jobs_of, storage_level

Table = Callable[[DataFrame], DataFrame]


class _Slot:
    """The table of one function, after its first call."""

    def __init__(self) -> None:
        self.building = Lock()
        self.table: DataFrame | None = None


_TABLES: Final[WeakKeyDictionary[DataFrame, dict[str, _Slot]]] = WeakKeyDictionary()
_ASKING: Final = Lock()
_RETIRED: Final[list[DataFrame]] = []
_REMOTE: Final[WeakSet[SparkSession]] = WeakSet()  # sessions of Spark Connect with checkpoints


def checkpointed(table: Table) -> Table:
    """The function, returning one checkpointed DataFrame for each events table."""

    @wraps(table)
    def once(events: DataFrame) -> DataFrame:
        name = f"{table.__module__}.{table.__qualname__}"
        with _ASKING:  # frames are planned by several threads
            slot = _TABLES.setdefault(events, {}).setdefault(name, _Slot())
        with slot.building:  # a table may be derived from others, but not from itself
            if slot.table is None:
                if is_remote(events.sparkSession):
                    _REMOTE.add(events.sparkSession)
                with jobs_of(events.sparkSession, table.__name__):
                    slot.table = _computed(table(events))
            return slot.table

    return once


def as_leaf(rows: DataFrame) -> DataFrame:
    """The same rows as a leaf of further plans, if the session is tuned for small plans: Spark analyses what is below at each step.

    It pays for rows that a frame reads twice: joined with themselves, they would be renamed as a whole at each step, and computed twice.
    With more rows it costs more to store them than to analyse the plan again. Unchanged over Spark Connect, which analyses a plan as
    a whole.
    """
    spark = rows.sparkSession
    if is_remote(spark) or not is_tuned_for_small_plans(spark):
        return rows
    return _computed(rows)


def _computed(rows: DataFrame) -> DataFrame:
    """The rows as a checkpoint that is complete before anything reads it.

    If the first job that reads it had to complete it, the audit might never end. That job marks the checkpoint as complete, while Spark's
    scheduler looks at it for another job: each thread holds the lock that the other one waits for (RDDCheckpointData.checkpoint,
    DAGScheduler.getCacheLocs; Spark 4.2).
    """
    return rows.localCheckpoint(eager=True, storageLevel=storage_level(rows.sparkSession))


def share(events: DataFrame, others: DataFrame) -> None:
    """Let `others` use the checkpoints of `events`, which must be computed of rows that both have."""
    with _ASKING:
        _TABLES.setdefault(others, {}).update(_TABLES.pop(events, {}))


def unpersist(events: DataFrame) -> None:
    """Let Spark free the checkpoints of these events; call it after their frames have been computed.

    Those of a Spark Connect session go with the next call, or with the session. Its client asks the server to remove a checkpoint in
    `__del__`. Inside the deallocation of a deep plan that request corrupts protobuf's memory, and the process aborts.
    By the next call the plans that read the checkpoints no longer exist, so that each `__del__` runs by itself.
    """
    while _RETIRED:
        del _RETIRED[-1]
    tables = [slot.table for slot in _TABLES.pop(events, {}).values() if slot.table is not None]
    if is_remote(events.sparkSession):
        _RETIRED.extend(tables)


@atexit.register
def _close_remote_sessions() -> None:
    """Close the clients of Spark Connect, of which the server then frees all checkpoints.

    The `__del__` of a checkpoint would otherwise ask the server while the interpreter ends. That request waits for a thread that can no
    longer start, and the process never ends.
    """
    for spark in [*_REMOTE]:
        spark.client.close()
