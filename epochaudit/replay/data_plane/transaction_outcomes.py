"""Frame `transaction_outcomes`: how each transaction of transaction version 2 ended, by its EndTxn and by its markers.

Under version 2 (KIP-890) each transaction has a producer epoch of its own. Its EndTxn states that epoch, and its markers the next one. No
clock is needed.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import END_TXN, WRITE_TXN_MARKERS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.api_versions import EPOCH_BUMP_END_TXN_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import EPOCH_BUMP_TRANSACTION_VERSION
from epochaudit.replay.data_plane.coordinator_logs import TRANSACTION_STATE, with_coordinator_log

# TransactionMarkerChannelManager; an administrator's markers have another client
_COORDINATOR: Final = r"^broker-\d+-txn-marker-sender$"
_KEY: Final = ("cluster", "producer_id", "marker_epoch")
_WAYS: Final = ("ended_committed", "ended_aborted", "marked_committed", "marked_aborted")
_PLACE: Final = ("time_ms", "node", "client_id", "correlation_id", "topic", "partition")


def transaction_outcomes(events: DataFrame) -> DataFrame:
    """One row per (cluster, producer id, epoch of the markers) with an accepted EndTxn 5 or an accepted marker.

    Needs: the events table. Clock: none. Columns: the subject columns (of the EndTxn, else of the marker; topic and partition of a marker
    that differs), producer_id, marker_epoch, transactional_id, and
      committed_ref, aborted_ref   an EndTxn 5 that was answered 0 and commits, aborts
      committed_marker_ref, aborted_marker_ref   a coordinator's marker that a leader accepted, and that does not state version 1, of which
                         the transaction is not. Administrators' markers are left out
      committed_marked, aborted_marked   there is such a marker, or one of version 1
      committed_marker_version, aborted_marker_version   the lowest transaction version of these markers; null: a request states none
      ended_otherwise    an EndTxn below 5 with marker_epoch was answered 0: then another transaction has the same markers' epoch
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __transaction_state
    """
    kinds = (_ended(events), _marked(events))
    rows = reduce(DataFrame.unionByName, kinds).groupBy(*_KEY).agg(
        *(F.min(way).alias(way) for way in _WAYS),
        *(F.min(F.when(F.col(way).isNotNull(), F.coalesce("transaction_version", F.lit(-1)))).alias(f"{way}_version") for way in _WAYS[2:]),
        F.max("transactional_id").alias("transactional_id"),
        F.max("ended_otherwise").alias("ended_otherwise"),
    )  # fmt: skip
    own = F.coalesce(*(F.col(way) for way in _WAYS))
    differing = F.when(F.col("ended_committed").isNotNull(), F.col("marked_aborted")).otherwise(
        F.col("marked_committed")
    )
    none = F.lit(None)
    rows = rows.withColumns({"own": own, "differing": differing}).select(
        *_KEY, "transactional_id", F.col("ended_otherwise"),
        *(F.col(f"own.{name}").alias(name) for name in ("node", "client_id", "correlation_id")),
        F.col("differing.topic").alias("topic"), F.col("differing.partition").alias("partition"),
        none.cast("string").alias("topic_id"), none.cast("string").alias("group_id"), none.cast("int").alias("leader_epoch"),
        *(F.when(~F.col(f"{way}.of_version_1"), F.col(f"{way}.ref")).alias(name) for way, name in zip(_WAYS, _REFS, strict=True)),
        F.col("marked_committed").isNotNull().alias("committed_marked"), F.col("marked_aborted").isNotNull().alias("aborted_marked"),
        *(F.nullif(F.col(f"{way}_version"), F.lit(-1)).alias(f"{name}_version")
          for way, name in zip(_WAYS[2:], ("committed_marker", "aborted_marker"), strict=True)),
    )  # fmt: skip
    return with_coordinator_log(rows, events, TRANSACTION_STATE)


_REFS: Final = ("committed_ref", "aborted_ref", "committed_marker_ref", "aborted_marker_ref")


def _way(condition: Column) -> Column:
    """The event, in the order of choice: a marker of version 1 comes last, one that states no version first, as the verdict is about it."""
    version = F.col("transaction_version")
    of_version_1 = holds(version < EPOCH_BUMP_TRANSACTION_VERSION).alias("of_version_1")
    return F.when(condition, F.struct(of_version_1, version.isNotNull().alias("stated"), *_PLACE, ref().alias("ref")))


def _ended(events: DataFrame) -> DataFrame:
    """One row per accepted EndTxn. Answers with another producer id are left out: the epochs of the former are used up."""
    rows = of_types(events, END_TXN).where(F.col("request_error_code") == Errors.NONE)
    bumps = F.col("api_version") >= EPOCH_BUMP_END_TXN_VERSION
    rows = rows.where(~bumps | (F.col("response_producer_id") == F.col("producer_id")))
    nothing = F.lit(False)
    return rows.select(
        "cluster", "producer_id", F.when(bumps, F.col("producer_epoch") + 1).otherwise(F.col("producer_epoch")).alias("marker_epoch"),
        _way(bumps & F.col("committed")).alias("ended_committed"), _way(bumps & ~F.col("committed")).alias("ended_aborted"),
        _way(nothing).alias("marked_committed"), _way(nothing).alias("marked_aborted"),
        "transaction_version", "transactional_id", (~bumps).alias("ended_otherwise"),
    )  # fmt: skip


def _marked(events: DataFrame) -> DataFrame:
    """One row per partition that accepted a coordinator's marker."""
    rows = of_types(events, WRITE_TXN_MARKERS).where(
        (F.col("error_code") == Errors.NONE) & F.col("client_id").rlike(_COORDINATOR)
    )
    nothing = F.lit(False)
    return rows.select(
        "cluster", "producer_id", F.col("producer_epoch").alias("marker_epoch"),
        _way(nothing).alias("ended_committed"), _way(nothing).alias("ended_aborted"),
        _way(F.col("committed")).alias("marked_committed"), _way(~F.col("committed")).alias("marked_aborted"),
        "transaction_version", "transactional_id", nothing.alias("ended_otherwise"),
    )  # fmt: skip
