"""The metadata log of a cluster: each committed record once, however many copies were recorded.

Every controller and broker has a copy of the log, and a capture may contain a raw copy and a dump of it. All frames take metadata
records from here.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ABORT_TRANSACTION_RECORD,
    BEGIN_TRANSACTION_RECORD,
    END_TRANSACTION_RECORD,
    KRAFT_VERSION,
    KRAFT_VOTERS,
    LEADER_CHANGE,
    PARTITION_RECORD,
    REGISTER_BROKER_RECORD,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    TOPIC_RECORD,
)
from epochaudit.events.views import holds, ref
from epochaudit.spark.memo import as_leaf, checkpointed

SOURCE: Final = "metadata_log"

_CONTENT: Final = (
    "topic", "topic_id", "partition", "replicas", "isr", "adding_replicas", "removing_replicas", "leader",
    "leader_epoch", "partition_epoch", "leader_recovery_state", "elr", "last_known_elr", "directories", "broker_id", "broker_epoch",
    "incarnation_id", "fenced", "in_controlled_shutdown", "log_dirs", "name", "value", "next_producer_id",
    "voters",
)  # fmt: skip
_COLUMNS: Final = (
    "cluster", "node", "source", "event_type", "file", "file_order", "byte_offset", "split", "line_in_split",
    "partition_row", "time_ms", "api_version", *_CONTENT, "metadata_offset", "batch_base_offset", "batch_last_offset",
    "raft_epoch", "in_snapshot",
)  # fmt: skip
_MARKS: Final = (BEGIN_TRANSACTION_RECORD, END_TRANSACTION_RECORD, ABORT_TRANSACTION_RECORD)
# written by Raft, not part of a metadata transaction
_CONTROL: Final = (LEADER_CHANGE, KRAFT_VERSION, KRAFT_VOTERS)
_LASTING: Final = "struct<epochs:array<struct<raft_epoch:int,first_offset:bigint,follows:int>>,highest:int>"
_LARGEST_INT: Final = 2**31 - 1
_KAFKA_NAMED: Final = r"\d{20}(?:-\d{10})?\.(?:log|checkpoint)"


def position() -> Column:
    """Position of a metadata record in the log as one number: odd for log records, even for the records of a snapshot.

    Needs: metadata_offset, in_snapshot, file. A snapshot replaces the state as of the end offset in its file name
    (`<end offset>-<epoch>.checkpoint`). All its records share the position just before the record of that offset.
    """
    snapshot_end = F.coalesce(F.regexp_extract("file", r"(\d{20})-\d{10}", 1).try_cast("bigint"), F.lit(0))
    return F.when(in_snapshot(), snapshot_end * 2).otherwise(record_position(F.col("metadata_offset")))


def state_snapshot() -> Column:
    """struct(position, time_ms) of a record of a snapshot that has the cluster's state; null for other records.

    A bootstrap snapshot has settings only, and its file is not named after an offset.
    Needs: event_type, position, time_ms, in_snapshot.
    """
    of_state = F.col("event_type").isin(REGISTER_BROKER_RECORD, TOPIC_RECORD, PARTITION_RECORD)
    return F.when(in_snapshot() & ((F.col("position") > 0) | of_state), F.struct("position", "time_ms"))


def record_position(offset: Column) -> Column:
    """`position` of the log record at an offset."""
    return offset * 2 + 1


def is_record_position(position: Column) -> Column:
    """The `position` is that of a record of the log itself, not of a snapshot."""
    return position % 2 == 1


def holes_before(position: Column) -> Column:
    """How many holes of the metadata log end at or before a position. Needs: holes of `metadata_log`."""
    return F.size(F.filter("holes", lambda hole: hole["until"] <= position))


@checkpointed
def metadata_log(events: DataFrame) -> DataFrame:
    """One row per record of the log, and per record of a snapshot. Clock: `position`.

    Needs: the events table. Columns: those of the events table that metadata records have; position; copies, the records of all
    copies at the offset: array of struct(raft_epoch, event_type, content, ref). content has the record's columns as JSON; null
    for none. holes, of the cluster's log: array of struct(since, until, since_ms) in order. No copy has the records at positions
    from since on; the record or the snapshot at until follows. since_ms: CreateTime of the last record before.
    A Raft leader of a later epoch overwrites uncommitted records. If copies have different Raft epochs at an offset, the record
    of the highest epoch is taken. From the first offset of an epoch on, all records of lower epochs are dropped, even if only one
    copy reaches that far. An epoch that was itself abandoned overwrites nothing, and is dropped: see `_lasting_epochs`.
    Of equal records, that of a dump is taken if there is one, as its lines are readable. Of several files with the same snapshot,
    the first is taken. No record of an incomplete snapshot is taken.
    Records of a metadata transaction (KIP-868) that was aborted, or has no end yet, are dropped. The records that begin, end and
    abort it are not.
    """
    rows = as_leaf(_records(events))
    rows = rows.join(F.broadcast(_holes(rows)), "cluster", "left")
    offset = Window.partitionBy("cluster", "position", _of_snapshot("file"), _of_snapshot("metadata_offset")).orderBy(
        "is_replaced",
        F.desc_nulls_last("raft_epoch"),
        F.desc_nulls_last("leader"),  # dumps of Kafka before 4.1 leave out the new Raft leader
        F.col("file").rlike(_KAFKA_NAMED),
        "file",
        "byte_offset",
        "partition_row",
    )
    everywhere = offset.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    content = F.nullif(F.to_json(F.struct(*_CONTENT)), F.lit("{}"))
    copy = F.struct("raft_epoch", "event_type", content.alias("content"), ref().alias("ref"))
    ranked = rows.withColumns({"rank": F.row_number().over(offset), "copies": F.collect_list(copy).over(everywhere)})
    taken = (F.col("rank") == 1) & ~F.col("is_replaced") & F.col("is_applied")
    return ranked.where(taken).drop("rank", "is_replaced", "is_applied")


def missing_offsets(events: DataFrame) -> DataFrame:
    """One row per hole of a metadata log that ends at a record: cluster, first_offset, last_offset (inclusive).

    And one per snapshot of which a part is missing: cluster, file. What precedes a snapshot may have been deleted, as the snapshot
    replaces it.
    """
    hole, snapshot = F.col("hole"), F.col("snapshot")
    holes = (
        _holes(_records(events))
        .select("cluster", F.explode("holes").alias("hole"))
        .where(is_record_position(hole["until"]))
    )
    holes = holes.select(
        "cluster",
        F.lit(None).cast("string").alias("file"),
        ((hole["since"] - 1) / 2).cast("bigint").alias("first_offset"),
        ((hole["until"] - 1) / 2 - 1).cast("bigint").alias("last_offset"),
    )
    snapshots = _log_structure(_copies(events)).select("cluster", F.explode("snapshots").alias("snapshot"))
    cut = snapshots.where(~snapshot["is_whole"]).select("cluster", snapshot["file"].alias("file"))
    return holes.unionByName(cut, allowMissingColumns=True)


def _copies(events: DataFrame) -> DataFrame:
    """The records of all copies of the log. Adds position."""
    return events.where(F.col("source") == SOURCE).select(*_COLUMNS).withColumn("position", position())


def _records(events: DataFrame) -> DataFrame:
    """The records of all copies, but for snapshots that are not whole. Adds position, is_replaced and is_applied."""
    rows = as_leaf(_copies(events))
    with_structure = rows.join(F.broadcast(_log_structure(rows)), "cluster", "left")
    of_cut = F.exists("snapshots", lambda s: ~s["is_whole"] & (s["file"] == F.col("file")))
    whole = with_structure.where(~in_snapshot() | ~holds(of_cut))
    # here: later steps would sort and store each record with all Raft epochs, snapshots and transactions
    marked = whole.withColumns({"is_replaced": _is_replaced(), "is_applied": ~_is_not_applied()})
    return marked.drop("epochs", "snapshots", "marks")


def _log_structure(rows: DataFrame) -> DataFrame:
    """One row per cluster: the Raft epochs, snapshots and metadata transactions of its log.

    Columns: epochs, as in `_lasting_epochs`; snapshots, each file of one: array of struct(position, file, is_whole); marks, the
    committed records that begin, end or abort metadata transactions, in order.
    """
    mark = F.when(
        F.col("event_type").isin(*_MARKS), F.struct("position", "metadata_offset", "raft_epoch", "event_type")
    )
    offset, is_header = F.col("metadata_offset"), F.col("event_type") == SNAPSHOT_HEADER
    is_ended = ~F.max(is_header) | F.max(F.col("event_type") == SNAPSHOT_FOOTER)  # before 3.0 it has neither
    no_offset_is_missing = F.count(offset) >= F.max(offset) - F.min(offset) + 1
    epoch = F.when(~in_snapshot(), F.col("raft_epoch")).alias("raft_epoch")
    by_epoch = rows.groupBy("cluster", "file", in_snapshot().alias("is_snapshot"), epoch).agg(
        F.min("position").alias("position"),
        F.min(offset).alias("first_offset"),
        F.max(offset).alias("last_offset"),
        (is_ended & F.coalesce(no_offset_is_missing, F.lit(True))).alias("is_whole"),
        F.collect_set(mark).alias("marks"),
    )
    run = F.when(F.col("raft_epoch").isNotNull(), F.struct("file", "raft_epoch", "first_offset", "last_offset"))
    snapshot = F.when(F.col("is_snapshot"), F.struct("position", "file", "is_whole"))
    by_cluster = by_epoch.groupBy("cluster").agg(
        F.array_sort(F.collect_list(run)).alias("runs"),
        F.collect_list(snapshot).alias("snapshots"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("marks")))).alias("marks"),
    )
    by_cluster = by_cluster.withColumn("epochs", _lasting_epochs()).drop("runs")
    return by_cluster.withColumn("marks", F.filter("marks", lambda mark: ~_overwritten(mark)))


def _lasting_epochs() -> Column:
    """The Raft epochs that overwrite lower ones: array of struct(raft_epoch, first_offset, follows).

    follows: the epoch of the record before the first one, where a file has both; else null. Leaders of the epochs between committed
    nothing, as a leader is elected with all that was committed. These epochs were abandoned, and are left out. Below an epoch of which
    this is not known, none is left out: another branch of the log may have gone on.
    Needs: runs, the records of each Raft epoch in each file: array of struct(file, raft_epoch, first_offset, last_offset) in order.
    """

    def begun(run: Column, i: Column) -> Column:
        before, offset_before = F.get("runs", i - 1), run["first_offset"] - 1
        adjoins = (before["file"] == run["file"]) & offset_before.between(before["first_offset"], before["last_offset"])
        return F.struct(
            run["raft_epoch"].alias("raft_epoch"),
            F.when(adjoins, before["raft_epoch"]).alias("follows"),
            (-run["first_offset"]).alias("place"),  # of several beginnings the lowest comes first
        )

    def with_next(found: Column, epoch: Column) -> Column:
        none_is_abandoned = found["highest"].isNull()
        follows = F.when(~none_is_abandoned, epoch["follows"])
        lasting = F.struct(
            epoch["raft_epoch"].alias("raft_epoch"),
            (-epoch["place"]).alias("first_offset"),
            follows.alias("follows"),
        )
        added = F.struct(F.concat(found["epochs"], F.array(lasting)).alias("epochs"), follows.alias("highest"))
        return F.when(none_is_abandoned | (epoch["raft_epoch"] <= found["highest"]), added).otherwise(found)

    no_epochs = F.struct(F.array().alias("epochs"), F.lit(_LARGEST_INT).alias("highest")).cast(_LASTING)
    from_the_highest = F.sort_array(F.transform("runs", begun), asc=False)
    return F.aggregate(from_the_highest, no_epochs, with_next)["epochs"]


def _holes(rows: DataFrame) -> DataFrame:
    """One row per cluster: holes, as in `metadata_log`."""
    rows = rows.where(~F.col("is_replaced"))
    in_order = Window.partitionBy("cluster").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    # at position 0 is the first snapshot, or one whose end offset is not known; no hole ends at offset 0
    first = F.nullif((F.col("position") / 2).cast("bigint"), F.lit(0).cast("bigint"))
    next_offset = F.when(in_snapshot(), first).otherwise(F.col("metadata_offset") + 1)
    expected = F.max(next_offset).over(in_order)
    since = record_position(expected).alias("since")
    hole = F.struct(since, F.col("position").alias("until"), F.max("time_ms").over(in_order).alias("since_ms"))
    narrow = rows.select("cluster", "position", "metadata_offset", "in_snapshot", "time_ms")
    marked = narrow.select("cluster", F.when(first > expected, hole).alias("hole"))
    return marked.groupBy("cluster").agg(F.array_sort(F.collect_set("hole")).alias("holes"))


def _overwritten(record: Column) -> Column:
    """A later Raft epoch begins at the record's offset or before it, or the record's own epoch was abandoned. Needs: epochs."""
    by_later = F.exists(
        "epochs",
        lambda e: (
            (e["raft_epoch"] > record["raft_epoch"])
            & ((e["first_offset"] <= record["metadata_offset"]) | (e["follows"] < record["raft_epoch"]))
        ),
    )
    return holds(by_later)


def _is_replaced() -> Column:
    """The record was overwritten in a later Raft epoch, or its snapshot is taken from another file. Needs: epochs, snapshots."""
    from_another_file = F.exists(
        "snapshots",
        lambda s: s["is_whole"] & (s["position"] == F.col("position")) & (s["file"] < F.col("file")),
    )
    has_end_offset = F.col("position") > 0  # 0: the first snapshot, or a file name without an end offset
    record = F.struct("raft_epoch", "metadata_offset")
    return F.when(in_snapshot(), has_end_offset & holds(from_another_file)).otherwise(_overwritten(record))


def _is_not_applied() -> Column:
    """The record belongs to a metadata transaction that was aborted or has no end. Needs: marks."""
    before = F.try_element_at(F.filter("marks", lambda mark: mark["position"] < F.col("position")), F.lit(-1))
    after = F.get(F.filter("marks", lambda mark: mark["position"] > F.col("position")), F.lit(0))
    inside = ~in_snapshot() & ~F.col("event_type").isin(*_MARKS, *_CONTROL)
    ended = holds(after["event_type"] == END_TRANSACTION_RECORD)
    return inside & holds(before["event_type"] == BEGIN_TRANSACTION_RECORD) & ~ended


def in_snapshot() -> Column:
    """The record stands in a snapshot of the metadata log, not in the log itself."""
    return holds(F.col("in_snapshot"))


def _of_snapshot(name: str) -> Column:
    return F.when(in_snapshot(), F.col(name))
