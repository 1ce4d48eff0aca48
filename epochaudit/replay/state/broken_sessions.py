"""Fetch sessions with gaps in their recorded requests (KIP-227)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH
from epochaudit.events.views import of_types, run_rows
from epochaudit.kafka.errors import Errors
from epochaudit.spark.memo import checkpointed

SESSION: Final = ("cluster", "node", "session_id")


def is_numbered_in_session() -> Column:
    """The Fetch has a session epoch that no other request of its session has.

    Requests with a top-level error don't count towards the session: a client repeats a request if the broker's process ended
    before it sent the answer.
    """
    accepted = F.coalesce("request_error_code", F.lit(Errors.NONE)) == Errors.NONE
    return (F.col("session_id") > 0) & (F.col("session_epoch") >= 0) & accepted


@checkpointed
def broken_sessions(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, session_id) with a missing request between two recorded ones. Clock: session epoch.

    Needs: the events table. Column: session_broken, always true.
    A missing request may have added or removed partitions, so the session's later partitions are unknown. The shuffle moves one
    row per session and task.
    """
    requests = of_types(events, FETCH).where((F.col("partition_row") == 0) & is_numbered_in_session())
    expected = F.max("session_epoch") - F.min("session_epoch") + 1
    sessions = requests.groupBy(*SESSION).agg((F.sum(run_rows()) < expected).alias("session_broken"))
    return sessions.where("session_broken")
