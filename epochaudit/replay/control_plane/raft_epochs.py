"""Frame `raft_epochs`: the epochs of the metadata quorum, with leaders, high watermarks and beginnings (KIP-595)."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import FETCH, FETCH_SNAPSHOT, LEADER_CHANGE, RAFT_STATE_CHANGED, VOTE
from epochaudit.events.views import PLACE, carried_ref, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.metadata_log import SOURCE, in_snapshot
from epochaudit.replay.state.places import at, of_first, of_last, then_by_place
from epochaudit.replay.state.quorum import OF_LEADERS, WITH_LEADER, is_raft_fetch, maybe_parked, quorum_restarts
from epochaudit.spark.memo import as_leaf

_RAW: Final = r"\d{20}\.log$"
_KNOWS_LEADER: Final = (
    Errors.NONE, Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH,
)  # fmt: skip


def raft_epochs(events: DataFrame) -> DataFrame:
    """One row per epoch of the metadata quorum. Clock: the epoch.

    Needs: the events table. Rows of Fetch are aggregated where they are read, by file. Columns: the subject columns (node = the
    leader), and
      raft_epoch               the epoch
      leader, leader_ref       its leader, by answers of nodes, by its own requests that begin or end the epoch, by log lines of
                               nodes that became its leader or follower, and by its LeaderChange record; null: not in the evidence
      other_leader, other_ref  another leader of the same epoch; null: none
      low, low_ref             the lowest high watermark in answers with code 0 to a Fetch in the epoch; null: none
      earlier_high, earlier_epoch, earlier_ref   the highest one in lower epochs; null: none
      start_offset, start_ref  the lowest offset of its records; null: its LeaderChange record is not recorded
      begins_again             as in `quorum_restarts`
    """
    answers = as_leaf(_fetch_answers(events))
    leaders = reduce(
        DataFrame.unionByName, (_of_answers(answers), _of_requests(events), _of_lines(events), _of_records(events))
    )
    by_leader = leaders.groupBy("cluster", "raft_epoch", "leader").agg(_first_readable("ref"))
    fact = F.struct("leader", "found.ref")
    by_epoch = by_leader.groupBy("cluster", "raft_epoch").agg(F.min(fact).alias("first"), F.max(fact).alias("last"))
    rows = by_epoch.join(_watermarks(answers), ["cluster", "raft_epoch"], "full").join(
        _starts(events), ["cluster", "raft_epoch"], "full"
    )
    rows = rows.join(F.broadcast(quorum_restarts(events)), "cluster", "left")
    lower = Window.partitionBy("cluster").orderBy("raft_epoch").rowsBetween(Window.unboundedPreceding, -1)
    earlier = F.max(F.when(F.col("high").isNotNull(), F.struct("high", "raft_epoch", "high_ref"))).over(lower)
    rows = rows.withColumn("earlier", earlier)
    differs = F.col("last.leader") != F.col("first.leader")
    return rows.select(
        "cluster", F.col("first.leader").alias("node"), "raft_epoch", F.col("first.leader").alias("leader"),
        F.col("first.ref").alias("leader_ref"),
        F.when(differs, F.col("last.leader")).alias("other_leader"),
        F.when(differs, F.col("last.ref")).alias("other_ref"),
        "low", "low_ref",
        F.col("earlier.high").alias("earlier_high"), F.col("earlier.raft_epoch").alias("earlier_epoch"),
        F.col("earlier.high_ref").alias("earlier_ref"),
        "start_offset", "start_ref",
        "begins_again",
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id", "client_id", "group_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch", "correlation_id")),
    )  # fmt: skip


def _fetch_answers(events: DataFrame) -> DataFrame:
    """One row per (node, file, asked epoch, answered leader and epoch, served): lowest and highest high watermark, first answer."""
    served = F.col("error_code") == Errors.NONE
    watermark = F.when(served & (F.col("high_watermark") >= 0), F.col("high_watermark"))
    leader = F.when(~maybe_parked() & F.col("error_code").isin(*_KNOWS_LEADER), F.col("hinted_leader"))
    rows = of_types(events, FETCH).where(is_raft_fetch()).select(
        "cluster", "node", "file", "current_leader_epoch", "hinted_leader_epoch", leader.alias("named_leader"),
        watermark.alias("watermark"), "file_order", *PLACE,
    )  # fmt: skip
    return rows.groupBy("cluster", "node", "file", "current_leader_epoch", "hinted_leader_epoch", "named_leader").agg(
        F.min("watermark").alias("low"),
        F.max("watermark").alias("high"),
        *of_last(PLACE, then_by_place(-F.col("watermark")), "low_"),
        *of_last(PLACE, then_by_place(F.col("watermark")), "high_"),
        *of_first(PLACE, at(), "named_"),
    )


def _of_answers(answers: DataFrame) -> DataFrame:
    """One row per aggregated answer that names a leader and its epoch."""
    named = answers.where((F.col("named_leader") >= 0) & (F.col("hinted_leader_epoch") >= 0))
    return named.select(
        "cluster", F.col("hinted_leader_epoch").alias("raft_epoch"), F.col("named_leader").alias("leader"),
        carried_ref("named").alias("ref"),
    )  # fmt: skip


def _of_requests(events: DataFrame) -> DataFrame:
    """Leaders in the answers to other requests, and those that began or ended an epoch.

    The latter are sent by the leader of the epoch only (KafkaRaftClient.pollLeader, pollResigned): a refusal as too old does not
    make them untrue.
    """
    snapshot = F.col("event_type") == FETCH_SNAPSHOT
    knows = ~snapshot | F.col("error_code").isin(*_KNOWS_LEADER)
    rows = of_types(events, VOTE, *OF_LEADERS, FETCH_SNAPSHOT).where(F.col("in_response") & knows)
    named = F.struct(
        F.when(snapshot, F.col("hinted_leader")).otherwise(F.col("response_leader")).alias("leader"),
        F.when(snapshot, F.col("hinted_leader_epoch")).otherwise(F.col("response_leader_epoch")).alias("raft_epoch"),
    )
    led = F.col("event_type").isin(*OF_LEADERS) & F.col("error_code").isin(Errors.NONE, Errors.FENCED_LEADER_EPOCH)
    rows = rows.select(
        "cluster", ref().alias("ref"),
        F.explode(F.array(named, F.when(led, F.struct("leader", "raft_epoch")))).alias("fact"),
    )  # fmt: skip
    return rows.where((F.col("fact.leader") >= 0) & (F.col("fact.raft_epoch") >= 0)).select(
        "cluster", "fact.raft_epoch", "fact.leader", "ref"
    )


def _of_lines(events: DataFrame) -> DataFrame:
    """One row per log line of a node that has become the leader of an epoch, or a follower of one."""
    lines = of_types(events, RAFT_STATE_CHANGED).where(F.col("name").isin(*WITH_LEADER) & (F.col("leader") >= 0))
    return lines.where(F.col("raft_epoch") >= 0).select("cluster", "raft_epoch", "leader", ref().alias("ref"))


def _of_records(events: DataFrame) -> DataFrame:
    """One row per LeaderChange record."""
    return (
        _leader_changes(events)
        .where(F.col("leader") >= 0)
        .select("cluster", "raft_epoch", "leader", ref().alias("ref"))
    )


def _leader_changes(events: DataFrame) -> DataFrame:
    """LeaderChange records of all copies of the log: one that was overwritten was written by its leader, too."""
    in_log = (F.col("source") == SOURCE) & ~in_snapshot()
    return of_types(events, LEADER_CHANGE).where(in_log & F.col("raft_epoch").isNotNull())


def _watermarks(answers: DataFrame) -> DataFrame:
    """One row per epoch, which a Fetch with code 0 states itself: an answer names the epoch of the moment at which it is built."""
    known = answers.where(F.col("low").isNotNull())
    low, high = F.struct("low", carried_ref("low").alias("ref")), F.struct("high", carried_ref("high").alias("ref"))
    by_epoch = known.groupBy("cluster", F.col("current_leader_epoch").alias("raft_epoch")).agg(
        F.min(low).alias("lowest"), F.max(high).alias("highest")
    )
    return by_epoch.select(
        "cluster", "raft_epoch", "lowest.low", F.col("lowest.ref").alias("low_ref"), "highest.high",
        F.col("highest.ref").alias("high_ref"),
    )  # fmt: skip


def _starts(events: DataFrame) -> DataFrame:
    """One row per epoch with a LeaderChange record: the lowest offset of its records, start_offset and start_ref.

    Of 3.3 to 3.5 a leader may append others before that record: it notifies the controller of its leadership first
    (KafkaRaftClient.onBecomeLeader).
    """
    in_log = (F.col("source") == SOURCE) & ~in_snapshot() & F.col("metadata_offset").isNotNull()
    records = events.where(in_log & F.col("raft_epoch").isNotNull())
    own = ref()
    start = F.struct("metadata_offset", _is_raw(own).alias("raw"), own.alias("ref"))
    by_epoch = records.groupBy("cluster", "raft_epoch").agg(
        F.min(start).alias("start"), F.max(F.col("event_type") == LEADER_CHANGE).alias("begins")
    )
    return by_epoch.where("begins").select(
        "cluster",
        "raft_epoch",
        F.col("start.metadata_offset").alias("start_offset"),
        F.col("start.ref").alias("start_ref"),
    )


def _first_readable(name: str) -> Column:
    """found: struct with ref, the first reference of a group; to a raw segment only if there is no line."""
    return F.min(F.struct(_is_raw(F.col(name)).alias("raw"), F.col(name).alias("ref"))).alias("found")


def _is_raw(reference: Column) -> Column:
    """The reference is to a raw segment, in which there are no lines to read."""
    return reference["file"].rlike(_RAW)
