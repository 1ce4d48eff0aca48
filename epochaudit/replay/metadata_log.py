"""The metadata log of a cluster, each committed record once, whatever copies of it were recorded.

Every controller and broker has a copy of the log, and a capture may hold a raw copy and a dump of it beside each other.
All frames take metadata records from here.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import ref
from epochaudit.replay.kept import kept

SOURCE: Final = "metadata_log"

_CONTENT: Final = (
    "topic", "topic_id", "partition", "replicas", "isr", "adding_replicas", "removing_replicas", "leader",
    "leader_epoch", "partition_epoch", "leader_recovery_state", "elr", "last_known_elr", "broker_id", "broker_epoch", "incarnation_id",
    "fenced", "in_controlled_shutdown", "name", "value",
)  # fmt: skip
_COLUMNS: Final = (
    "cluster", "node", "source", "event_type", "file", "file_order", "byte_offset", "split", "line_in_split",
    "partition_row", "time_ms", "api_version", *_CONTENT, "metadata_offset", "batch_base_offset", "batch_last_offset",
    "raft_epoch", "in_snapshot",
)  # fmt: skip
_BEGIN: Final = "BEGIN_TRANSACTION_RECORD"
_END: Final = "END_TRANSACTION_RECORD"
_ABORT: Final = "ABORT_TRANSACTION_RECORD"
_MARKS: Final = (_BEGIN, _END, _ABORT)
_CONTROL: Final = ("LEADER_CHANGE", "KRAFT_VERSION", "KRAFT_VOTERS")  # written by raft, in no metadata transaction
_KAFKA_NAMED: Final = r"\d{20}(?:-\d{10})?\.(?:log|checkpoint)"


def position() -> Column:
    """Place of a metadata record in the log as one number: odd for log records, even for the end offset of a snapshot.

    Needs: metadata_offset, in_snapshot, file. A snapshot replaces the state as of the end offset in its file name
    (`<end offset>-<epoch>.checkpoint`), so all its records share the place just before the record of that offset.
    """
    snapshot_end = F.coalesce(F.regexp_extract("file", r"(\d{20})-\d{10}", 1).try_cast("bigint"), F.lit(0))
    return F.when(_in_snapshot(), snapshot_end * 2).otherwise(F.col("metadata_offset") * 2 + 1)


@kept
def metadata_log(events: DataFrame) -> DataFrame:
    """One row per record of the log, and per record of a snapshot. Clock: `position`.

    Columns: those of the events table that metadata records have, `position`, and `copies`: what each copy of the log
    has at the offset, array of struct(raft_epoch, event_type, content, ref), content being the record's columns as
    JSON, null for none.
    A raft leader of a later epoch overwrites what was not committed before: where copies differ in the raft epoch of an
    offset, the record of the highest stands, and behind the first offset of an epoch all records of lower epochs are
    dropped, also where only one copy reaches. Of equal records one is taken: that of a dump, if there is one, as its
    lines can be looked up by hand. Of several files with one snapshot the first is taken.
    Records of a metadata transaction (KIP-868) that was aborted, or has no end yet, are dropped. The records that begin,
    end and abort it stay.
    """
    rows = events.where(F.col("source") == SOURCE).select(*_COLUMNS).withColumn("position", position())
    rows = rows.join(F.broadcast(_course(rows)), "cluster", "left")
    offset = Window.partitionBy("cluster", "position", _of_snapshot("file"), _of_snapshot("metadata_offset")).orderBy(
        F.desc_nulls_last("raft_epoch"),
        F.desc_nulls_last("leader"),  # dumps of Kafka before 4.1 leave out who became raft leader
        F.col("file").rlike(_KAFKA_NAMED),
        "file",
        "byte_offset",
        "partition_row",
    )
    everywhere = offset.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    content = F.nullif(F.to_json(F.struct(*_CONTENT)), F.lit("{}"))
    copy = F.struct("raft_epoch", "event_type", content.alias("content"), ref().alias("ref"))
    ranked = rows.withColumns({"rank": F.row_number().over(offset), "copies": F.collect_list(copy).over(everywhere)})
    stands = (F.col("rank") == 1) & ~_is_replaced() & ~_is_not_applied()
    return ranked.where(stands).drop("rank", "starts", "marks")


def _course(rows: DataFrame) -> DataFrame:
    """One row per cluster: how its log went.

    starts: where each raft epoch starts, and the first file of each snapshot. marks: the committed beginnings and ends
    of metadata transactions, in order.
    """
    term = F.when(_in_snapshot(), F.col("position")).otherwise(F.col("raft_epoch"))
    mark = F.when(
        F.col("event_type").isin(*_MARKS), F.struct("position", "metadata_offset", "raft_epoch", "event_type")
    )
    terms = rows.groupBy("cluster", _in_snapshot().alias("is_snapshot"), term.alias("term")).agg(
        F.min("metadata_offset").alias("first_offset"),
        F.min("file").alias("first_file"),
        F.collect_set(mark).alias("marks"),
    )
    start = F.struct("is_snapshot", "term", "first_offset", "first_file")
    courses = terms.groupBy("cluster").agg(
        F.collect_list(start).alias("starts"), F.array_sort(F.flatten(F.collect_list("marks"))).alias("marks")
    )
    return courses.withColumn("marks", F.filter("marks", lambda mark: ~_overwritten(mark)))


def _overwritten(record: Column) -> Column:
    """The raft epoch that follows a record's begins at its offset or before."""
    later = F.exists(
        "starts",
        lambda s: (
            ~s["is_snapshot"] & (s["term"] > record["raft_epoch"]) & (s["first_offset"] <= record["metadata_offset"])
        ),
    )
    return F.coalesce(later, F.lit(False))


def _is_replaced() -> Column:
    """The record was overwritten in a later raft epoch, or its snapshot is taken from another file."""
    elsewhere = F.exists(
        "starts",
        lambda s: s["is_snapshot"] & (s["term"] == F.col("position")) & (s["first_file"] != F.col("file")),
    )
    named = F.col("position") > 0  # at 0 are the first snapshots and those whose file name does not tell
    record = F.struct("raft_epoch", "metadata_offset")
    return F.when(_in_snapshot(), named & F.coalesce(elsewhere, F.lit(False))).otherwise(_overwritten(record))


def _is_not_applied() -> Column:
    """The record belongs to a metadata transaction that was aborted or has no end."""
    before = F.try_element_at(F.filter("marks", lambda mark: mark["position"] < F.col("position")), F.lit(-1))
    after = F.get(F.filter("marks", lambda mark: mark["position"] > F.col("position")), F.lit(0))
    inside = ~_in_snapshot() & ~F.col("event_type").isin(*_MARKS, *_CONTROL)
    ended = F.coalesce(after["event_type"] == _END, F.lit(False))
    return inside & F.coalesce(before["event_type"] == _BEGIN, F.lit(False)) & ~ended


def _in_snapshot() -> Column:
    return F.coalesce("in_snapshot", F.lit(False))


def _of_snapshot(name: str) -> Column:
    return F.when(_in_snapshot(), F.col(name))


def log_copies(events: DataFrame) -> DataFrame:
    """One row per record of the metadata log that several copies hold.

    Clock: the metadata offset. Columns: the subject columns (node: the raft leader, null if the log does not name it;
    of the record's content, topic, topic_id and partition), event_type, metadata_offset, raft_epoch, and
      raft_epochs   the distinct ones at the offset
      event_types   those of the copies in the record's own raft epoch, and contents, as far as known: distinct ones
      all_known     each of these copies is of a type and version whose content is known, or none has any
      record_ref    the record; other_ref: the first of these copies that differs from it, else the next copy
    """
    log = metadata_log(events).where((F.size("copies") > 1) & ~_in_snapshot())
    own = F.filter("copies", lambda c: c["raft_epoch"].eqNullSafe(F.col("raft_epoch")))
    log = log.withColumns({"own": own, "record": F.get("copies", F.lit(0))})
    differs = F.filter(
        "own",
        lambda c: (c["event_type"] != F.col("record.event_type")) | (c["content"] != F.col("record.content")),
    )
    return log.select(
        "cluster",
        F.lit(None).cast("int").alias("node"),
        "topic",
        "topic_id",
        "partition",
        F.lit(None).cast("int").alias("leader_epoch"),
        F.lit(None).cast("string").alias("client_id"),
        F.lit(None).cast("string").alias("group_id"),
        F.lit(None).cast("int").alias("correlation_id"),
        "event_type",
        "metadata_offset",
        "raft_epoch",
        F.array_distinct("copies.raft_epoch").alias("raft_epochs"),
        F.array_distinct("own.event_type").alias("event_types"),
        F.array_distinct(F.array_compact("own.content")).alias("contents"),
        F.size(F.array_distinct(F.transform("own", lambda c: c["content"].isNull()))).eqNullSafe(1).alias("all_known"),
        F.col("record.ref").alias("record_ref"),
        F.coalesce(F.get(differs, F.lit(0)), F.get("copies", F.lit(1)))["ref"].alias("other_ref"),
    )
