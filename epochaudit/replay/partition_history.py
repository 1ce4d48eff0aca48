"""Everything recorded about one partition, for somebody who looks into a finding.

No frame that rules judge: a view of the events, in which what a client or follower asks over and over is one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import client_host
from epochaudit.replay.metadata_log import SOURCE as METADATA_LOG
from epochaudit.replay.metadata_log import metadata_log

REPEATED: Final = (
    "FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_FETCH", "METADATA",
    "CLIENT_HINT_IGNORED",
)  # fmt: skip
"""What is asked, or comes with each answer, over and over: runs of these become one row."""

OF_NODES: Final = (
    "PROCESS_STARTING", "PROCESS_STARTED", "PROCESS_SHUTTING_DOWN", "PROCESS_STOPPED", "KAFKA_VERSION",
    "BROKER_REGISTERED", "CONTROLLER_ELECTED", "CONTROLLER_READY", "CONTROLLER_RESIGNED", "CONTROLLER_ACTIVE", "CONTROLLER_STANDBY",
    "BROKERS_CHANGED", "BROKER_SESSION_EXPIRED",
)  # fmt: skip
"""What happened to processes: a restart explains much of what its partitions show."""

PLACE: Final = ("file_order", "byte_offset", "partition_row", "file", "split", "line_in_split", "time_ms")
CONTENT: Final = (
    "cluster", "node", "source", "event_type", "arrival_ms", "api_version", "correlation_id", "client_id", "connection",
    "request_error_code", "error_code", "topic", "topic_id", "partition",
    "controller_id", "controller_epoch", "broker_id", "broker_epoch", "current_broker_epoch", "live_brokers",
    "added_brokers", "deleted_brokers", "bounced_brokers", "leader", "leader_epoch", "partition_epoch", "isr", "replicas",
    "adding_replicas", "removing_replicas", "elr", "leader_recovery_state", "delete_partition",
    "response_leader", "response_leader_epoch", "response_partition_epoch", "response_isr",
    "replica_id", "forgotten", "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "high_watermark", "log_start_offset",
    "diverging_epoch", "diverging_end_offset", "timestamp", "offset", "start_offset", "previous_offset", "previous_epoch",
    "committed_leader_epoch", "group_id", "metadata_offset", "position", "raft_epoch", "in_snapshot", "name", "value", "reason",
)  # fmt: skip
_OF_RECORDS: Final = ("FEATURE_LEVEL_RECORD", "LEADER_CHANGE")
_ASKED: Final = ("cluster", "node", "event_type", "client_id", "group_id", "asker", "named")
_NONE: Final = -1


def topic_ids(events: DataFrame, topic: str) -> DataFrame:
    """One row per cluster that names a topic or has a metadata log.

    Needs: cluster, source, topic, topic_id. Clock: none. Columns: cluster, topic_ids (array of the ids that are stated for the
    name), has_log (there are records of a metadata log).
    """
    named, log = F.col("topic") == topic, F.col("source") == METADATA_LOG
    ids = F.collect_set(F.when(named, F.col("topic_id")))
    return events.where(named | log).groupBy("cluster").agg(ids.alias("topic_ids"), F.max(log).alias("has_log"))


def recorded_partitions(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic, partition) that any line names. Needs: cluster, topic, partition. Clock: none."""
    return events.where(F.col("topic").isNotNull()).select("cluster", "topic", "partition").distinct()


def partition_history(
    events: DataFrame, topic: str, ids: Sequence[str], partition: int, *, has_log: bool = True
) -> DataFrame:
    """One row per recorded fact of a partition and of its topic as a whole, and per run of like requests.

    Needs: the events table. `ids` are all that the topic had, `has_log` says that the events hold metadata records, which
    are then those of `metadata_log`. A run is of one client or follower on one connection, of others from one host, at one
    node: the same API, leader epochs and answer, offsets that do not go back. Starts and ends of processes are rows too.

    Clock: none between nodes; within a run the order of the node's request log. Columns: PLACE and CONTENT, of a run those
    of its first request; position is that of `metadata_log`. And
      requests             how many it is
      last                 place and offsets of its last: struct of PLACE, fetch_offset, offset, high_watermark
      least, greatest      offsets asked for (Fetch), committed or answered, over the run; null without
    """
    log = F.col("source") == METADATA_LOG
    rows = events.where(~log).withColumn("position", F.lit(None).cast("bigint")).select(*PLACE, *CONTENT)
    if has_log:
        records = metadata_log(events).drop("copies")
        rows = rows.unionByName(records, allowMissingColumns=True).select(*PLACE, *CONTENT)
    of_topic = (F.col("topic") == topic) | F.col("topic_id").isin(*ids)
    here = of_topic & (F.col("partition").isNull() | (F.col("partition") == partition))
    feature = (F.col("event_type") == _OF_RECORDS[0]) & (F.col("name") == "metadata.version")
    apart = feature | F.col("event_type").isin(*OF_NODES, _OF_RECORDS[1])
    found = rows.where(here | apart)
    repeated = F.col("event_type").isin(*REPEATED)
    asked = found.where(repeated).withColumn("incarnation", F.lit(0))
    if len(ids) > 1:
        asked = _with_incarnations(found, found.where(repeated))
    return _single(found.where(~repeated)).unionByName(_runs(asked))


def _with_incarnations(rows: DataFrame, asked: DataFrame) -> DataFrame:
    """Adds incarnation: how many ids of the name the node had stated by then, by its own clock. Who asks by name need not notice."""
    own = F.col("topic_id").isNotNull() & F.col("node").isNotNull() & (F.coalesce("error_code", F.lit(0)) == 0)
    first = rows.where(own).groupBy("cluster", "node", "topic_id").agg(F.min("time_ms").alias("since"))
    of_node = first.groupBy("cluster", "node").agg(F.collect_list("since").alias("begun"))
    joined = asked.join(F.broadcast(of_node), ["cluster", "node"], "left")
    told = F.size(F.filter(F.coalesce("begun", F.array()), lambda since: since <= F.col("time_ms")))
    return joined.withColumn("incarnation", told).drop("begun")


def _offset() -> Column:
    """The offset that a request of a run is about; -1 means none."""
    told = F.when(F.col("event_type") == "FETCH", F.col("fetch_offset")).otherwise(F.col("offset"))
    return F.when(told != _NONE, told)


def _last(row: Column | None = None) -> Column:
    names = (*PLACE, "fetch_offset", "offset", "high_watermark")
    return F.struct(*((F.col(name) if row is None else row[name]).alias(name) for name in names))


def _single(rows: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("bigint")
    return rows.select(
        *PLACE, *CONTENT, F.lit(1).cast("bigint").alias("requests"), _last().alias("last"), nothing.alias("least"),
        nothing.alias("greatest"),
    )  # fmt: skip


def _runs(rows: DataFrame) -> DataFrame:
    """The first request of each run, with what the others add. Incremental fetches leave out what has not changed.

    What a broker tells of a partition in Metadata it tells to all: runs of these are of the broker, not of a client.
    """
    to_all = F.col("event_type") == "METADATA"
    asker = F.when(F.col("event_type") == "FETCH", F.col("connection")).otherwise(client_host())
    version = F.col("response_leader_epoch").isNull().cast("string")  # older ones tell no leader epoch
    named = F.coalesce("topic_id", "topic")
    rows = rows.withColumns(
        {
            "asker": F.when(to_all, version).otherwise(asker),
            "named": F.when(~to_all, named),  # a broker may answer by either
            "client_id": F.when(~to_all, F.col("client_id")),
        }
    )
    asked = Window.partitionBy(*_ASKED).orderBy("file_order", "byte_offset", "partition_row")
    stated, fetched = ("current_leader_epoch", "last_fetched_epoch"), F.col("event_type") == "FETCH"
    known = {
        **{name: F.when(fetched, F.last(name, ignorenulls=True).over(asked)).otherwise(F.col(name)) for name in stated},
        "known_offset": F.last(_offset(), ignorenulls=True).over(asked),
    }
    rows = rows.withColumns(known)
    like = F.struct(
        *stated, "incarnation", F.coalesce("error_code", F.lit(0)), "request_error_code", "leader", "leader_epoch", "response_leader",
        "response_leader_epoch", F.array_sort("response_isr"), "committed_leader_epoch", "timestamp", "replica_id",
        F.coalesce("forgotten", F.lit(False)),
        F.coalesce("diverging_epoch", F.lit(_NONE)), "reason",
    )  # fmt: skip
    before = F.lag(F.struct(like.alias("like"), "known_offset")).over(asked)
    position = F.when(fetched, F.col("known_offset")).otherwise(_offset())
    rows = rows.withColumns({"like": like, "before": before, "position_asked": position})
    goes_back = F.coalesce(F.col("known_offset") < F.col("before.known_offset"), F.lit(False))
    begins = ~F.col("like").eqNullSafe(F.col("before.like")) | goes_back
    rows = rows.withColumn("run", F.sum(begins.cast("int")).over(asked))
    row = F.struct(*PLACE, *CONTENT)  # compared by its place first, which no two share
    runs = rows.groupBy(*(F.col(name).alias(f"of_{name}") for name in _ASKED), "run").agg(
        F.min(row).alias("first"),
        F.max(row).alias("last"),
        F.count("*").alias("requests"),
        F.min("position_asked").alias("least"),
        F.max("position_asked").alias("greatest"),
    )
    return runs.select(
        *(F.col(f"first.{name}") for name in (*PLACE, *CONTENT)), "requests", _last(F.col("last")).alias("last"), "least",
        "greatest",
    )  # fmt: skip
