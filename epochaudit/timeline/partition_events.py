"""Everything recorded about one partition, to investigate a finding.

This is no frame, as no rule evaluates it: it is a view of the events in which equal requests in sequence are one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import BROKER_HEARTBEAT, PRODUCE
from epochaudit.events.views import client_host, holds, run_rows
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_EPOCH, NO_OFFSET
from epochaudit.replay.state.metadata_log import SOURCE as METADATA_LOG
from epochaudit.replay.state.metadata_log import holes_before, metadata_log

REPEATED: Final = (
    "FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_FETCH", "METADATA",
    "PRODUCE", "ADD_PARTITIONS_TO_TXN", "WRITE_TXN_MARKERS", "CLIENT_HINT_IGNORED",
)  # fmt: skip
"""Requests that clients and followers repeat, and lines that each answer repeats: a run of these becomes one row."""

OF_NODES: Final = (
    "PROCESS_STARTING", "PROCESS_STARTED", "PROCESS_SHUTTING_DOWN", "PROCESS_STOPPED", "KAFKA_VERSION",
    "BROKER_REGISTERED", "CONTROLLER_ELECTED", "CONTROLLER_READY", "CONTROLLER_RESIGNED", "CONTROLLER_ACTIVE", "CONTROLLER_STANDBY",
    "BROKERS_CHANGED", "BROKER_SESSION_EXPIRED",
)  # fmt: skip
"""Events of processes: a restart explains many events of its partitions."""

OF_PRODUCER_EPOCHS: Final = ("ADD_PARTITIONS_TO_TXN", "WRITE_TXN_MARKERS")
"""Requests about a transaction in the partition: what rises in a run of them is the producer epoch."""

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
    "committed_leader_epoch", "group_id", "metadata_offset", "position", "holes_before", "raft_epoch", "in_snapshot",
    "name", "value", "reason",
    "want_shut_down", "should_shut_down", "acks", "transactional_id", "producer_id", "producer_epoch", "committed", "coordinator_epoch",
    "last_epoch", "verify_only", "run_rows", "state_epoch", "member_id",
)  # fmt: skip
_OF_RECORDS: Final = ("FEATURE_LEVEL_RECORD", "LEADER_CHANGE")
_REQUESTER: Final = ("cluster", "node", "subject", "event_type", "client_id", "group_id", "requester", "named")


@dataclass(frozen=True)
class Subject:
    """A partition, and all topic ids of its topic's name."""

    topic: str
    ids: tuple[str, ...]
    partition: int


def topic_ids(events: DataFrame, topics: Sequence[str]) -> DataFrame:
    """One row per cluster that names one of the topics or has a metadata log.

    Needs: cluster, source, topic, topic_id. Clock: none. Columns: cluster, named (array of structs of topic and topic_id, the ids
    that are stated for the names), has_log (the events have records of a metadata log).
    """
    named, log = F.col("topic").isin(*topics), F.col("source") == METADATA_LOG
    stated = F.when(named & F.col("topic_id").isNotNull(), F.struct("topic", "topic_id"))
    return (
        events.where(named | log)
        .groupBy("cluster")
        .agg(F.collect_set(stated).alias("named"), F.max(log).alias("has_log"))
    )


def recorded_partitions(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic, partition) that an event names. Needs: cluster, topic, partition. Clock: none."""
    return events.where(F.col("topic").isNotNull()).select("cluster", "topic", "partition").distinct()


def partition_history(events: DataFrame, subjects: Sequence[Subject], *, has_log: bool = True) -> DataFrame:
    """One row per event of a subject's partition or of its topic as a whole, and one per run of equal requests.

    Needs: the events table. `has_log`: the events have metadata records; `metadata_log` gives them. A run is a sequence of requests
    at one node with the same API, leader epochs and answer, whose offsets do not go back: Fetch of one client or follower on one
    connection, other requests of one client at one host. Events of processes are rows, too, and so are the heartbeats by which
    brokers ask a KRaft controller for a controlled shutdown.

    Clock: none between nodes; within a run the order of the node's request log.
    Columns: PLACE and CONTENT, of a run those of its first request; position is that of `metadata_log`, and holes_before the number of
    its holes before the record; and
      subject              number of the subject, null for events of processes, which concern all
      requests             number of requests in the run, 1 for other rows
      last                 place and offsets of the last request: struct of PLACE, fetch_offset, offset, high_watermark
      least, greatest      lowest and highest offset that was fetched, committed or answered in the run, or of OF_PRODUCER_EPOCHS
                           the producer epoch; null if there is none
    """
    log = F.col("source") == METADATA_LOG
    of_records = {"position": F.lit(None).cast("bigint"), "holes_before": F.lit(None).cast("int")}
    rows = _with_base_offsets(events.where(~log)).withColumns(of_records)
    rows = rows.select(*PLACE, *CONTENT)
    if has_log:
        counted = holes_before(F.col("position"))
        records = metadata_log(events).withColumn("holes_before", counted).drop("copies", "holes")
        rows = rows.unionByName(records, allowMissingColumns=True).select(*PLACE, *CONTENT)
    of_each = [_is_about(subject) for subject in subjects]
    feature = (F.col("event_type") == _OF_RECORDS[0]) & (F.col("name") == "metadata.version")
    of_cluster = feature | F.col("event_type").isin(*OF_NODES, _OF_RECORDS[1])
    found = rows.where(reduce(or_, of_each) | of_cluster).unionByName(_shutdowns(rows))
    numbers = [F.when(about, F.lit(number)) for number, about in enumerate(of_each)]
    found = found.withColumn(
        "subject", numbers[0] if len(numbers) == 1 else F.explode_outer(F.array_compact(F.array(*numbers)))
    )
    repeated = F.col("event_type").isin(*REPEATED)
    requests = found.where(repeated).withColumn("topic_number", F.lit(0))
    if any(len(subject.ids) > 1 for subject in subjects):
        requests = _with_topic_number(found, found.where(repeated))
    return _single(found.where(~repeated)).unionByName(_runs(requests))


def _with_base_offsets(events: DataFrame) -> DataFrame:
    """Of acknowledged writes, a row of which is a run: fetch_offset is the first base offset, offset the last, run_rows their number."""
    acknowledged = F.col("event_type") == PRODUCE
    first_and_last = {"fetch_offset": F.get("base_offsets", F.lit(0)), "offset": F.element_at("base_offsets", -1)}
    values = {**first_and_last, "run_rows": F.size("base_offsets")}
    return events.withColumns(
        {name: F.when(acknowledged, value).otherwise(F.col(name)) for name, value in values.items()}
    )


def _is_about(subject: Subject) -> Column:
    of_topic = (F.col("topic") == subject.topic) | holds(F.col("topic_id").isin(*subject.ids))
    return of_topic & (F.col("partition").isNull() | (F.col("partition") == subject.partition))


def _shutdowns(rows: DataFrame) -> DataFrame:
    """The first heartbeat by which a broker asks a controller to shut down, and the first with each other answer."""
    answer = ("should_shut_down", "request_error_code", "error_code")
    of_answer = Window.partitionBy("cluster", "node", "broker_id", "broker_epoch", *answer).orderBy(
        "file_order", "byte_offset"
    )
    heartbeats = rows.where((F.col("event_type") == BROKER_HEARTBEAT) & F.col("want_shut_down"))
    return heartbeats.withColumn("nth", F.row_number().over(of_answer)).where("nth = 1").drop("nth")


def _with_topic_number(rows: DataFrame, requests: DataFrame) -> DataFrame:
    """Adds topic_number: how many topic ids of the name the node had stated by then, by its own clock.

    A requester that names the topic does not notice that it was created again.
    """
    accepted = F.coalesce("error_code", F.lit(Errors.NONE)) == Errors.NONE
    stated = F.col("topic_id").isNotNull() & F.col("node").isNotNull() & accepted
    first = rows.where(stated).groupBy("cluster", "node", "subject", "topic_id").agg(F.min("time_ms").alias("since_ms"))
    of_node = first.groupBy("cluster", "node", "subject").agg(F.collect_list("since_ms").alias("begun"))
    joined = requests.join(F.broadcast(of_node), ["cluster", "node", "subject"], "left")
    number = F.size(F.filter(F.coalesce("begun", F.array()), lambda since_ms: since_ms <= F.col("time_ms")))
    return joined.withColumn("topic_number", number).drop("begun")


def _offset() -> Column:
    """The offset that a request of a run fetches, commits or is answered with, or its producer epoch; null instead of -1."""
    offset = F.when(F.col("event_type") == "FETCH", F.col("fetch_offset")).otherwise(F.col("offset"))
    offset = F.when(F.col("event_type").isin(*OF_PRODUCER_EPOCHS), F.col("producer_epoch")).otherwise(offset)
    return F.when(offset != NO_OFFSET, offset)


def _last(row: Column | None = None) -> Column:
    names = (*PLACE, "fetch_offset", "offset", "high_watermark")
    return F.struct(*((F.col(name) if row is None else row[name]).alias(name) for name in names))


def _single(rows: DataFrame) -> DataFrame:
    nothing = F.lit(None).cast("bigint")
    return rows.select(
        "subject", *PLACE, *CONTENT, F.lit(1).cast("bigint").alias("requests"), _last().alias("last"), nothing.alias("least"),
        nothing.alias("greatest"),
    )  # fmt: skip


def _runs(rows: DataFrame) -> DataFrame:
    """The first request of each run, with the count, last place and offsets of the run.

    An incremental Fetch omits what has not changed: the connection's last known values fill it in. A broker gives all clients the
    same Metadata of a partition: a run of these is of the broker, not of a client.
    """
    to_all = F.col("event_type") == "METADATA"
    requester = F.when(F.col("event_type") == "FETCH", F.col("connection")).otherwise(client_host())
    version = F.col("response_leader_epoch").isNull().cast("string")  # older versions have no leader epoch
    named = F.coalesce("topic_id", "topic")
    rows = rows.withColumns(
        {
            "requester": F.when(to_all, version).otherwise(requester),
            "named": F.when(~to_all, named),  # a broker may answer by either
            "client_id": F.when(~to_all, F.col("client_id")),
        }
    )
    in_order = Window.partitionBy(*_REQUESTER).orderBy("file_order", "byte_offset", "partition_row")
    stated, fetched = ("current_leader_epoch", "last_fetched_epoch"), F.col("event_type") == "FETCH"
    known = {
        **{
            name: F.when(fetched, F.last(name, ignorenulls=True).over(in_order)).otherwise(F.col(name))
            for name in stated
        },
        "known_offset": F.last(_offset(), ignorenulls=True).over(in_order),
    }
    rows = rows.withColumns(known)
    equal = F.struct(
        *stated, "topic_number", F.coalesce("error_code", F.lit(Errors.NONE)), "request_error_code", "leader",
        "leader_epoch", "response_leader", "response_leader_epoch", F.array_sort("response_isr"), "committed_leader_epoch", "timestamp",
        "replica_id", "acks", "transactional_id", "producer_id", "committed", "coordinator_epoch", "verify_only",
        holds(F.col("forgotten")),
        F.coalesce("diverging_epoch", F.lit(NO_EPOCH)), "reason",
    )  # fmt: skip
    before = F.lag(F.struct(equal.alias("equal"), "known_offset")).over(in_order)
    run_offset = F.when(fetched, F.col("known_offset")).otherwise(_offset())
    rows = rows.withColumns({"equal": equal, "before": before, "run_offset": run_offset})
    goes_back = holds(F.col("known_offset") < F.col("before.known_offset"))
    begins = ~F.col("equal").eqNullSafe(F.col("before.equal")) | goes_back
    rows = rows.withColumn("run", F.sum(begins.cast("int")).over(in_order))
    row = F.struct(*PLACE, *CONTENT)  # structs compare by place first, which is unique
    runs = rows.groupBy(*(F.col(name).alias(f"of_{name}") for name in _REQUESTER), "run").agg(
        F.min(row).alias("first"),
        F.max(row).alias("last"),
        F.sum(run_rows()).alias("requests"),
        F.min(F.when(F.col("event_type") == PRODUCE, F.col("fetch_offset")).otherwise(F.col("run_offset"))).alias(
            "least"
        ),
        F.max("run_offset").alias("greatest"),
    )
    return runs.select(
        F.col("of_subject").alias("subject"), *(F.col(f"first.{name}") for name in (*PLACE, *CONTENT)), "requests",
        _last(F.col("last")).alias("last"), "least", "greatest",
    )  # fmt: skip
