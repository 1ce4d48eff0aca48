"""Frame `control`: what each control request met at the broker that received it (ZooKeeper mode).

LeaderAndIsr, StopReplica and UpdateMetadata are applied under ReplicaManager.replicaStateChangeLock, and the lines of
state-change.log are written under it: the line order of that file is the order of application. The request log is
written on completion. A request is therefore placed at its own "Handling …" line, found by api, controller id and
correlation id. Up to 2.5 these lines are of level TRACE: a LeaderAndIsr is placed at its first "Received …" line, which
is written just before the lock is taken, a StopReplica, whose line has no correlation id, at the line of its partition,
and a "starts at Leader Epoch" line of server.log after the "Received …" line of its partition and epoch. Other
server.log events, which belong to the same host and clock, and requests without a line are placed between state-change
lines by time, and are marked so.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.releases import STATED, version_number

REQUESTS: Final = ("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA")
STARTS: Final = ("LEADER_STARTS", "FOLLOWER_STARTS")
ANCHORS: Final = (
    "LEADER_AND_ISR_HANDLING",
    "STOP_REPLICA_HANDLING",
    "UPDATE_METADATA_APPLIED",
    "UPDATE_METADATA_IGNORED",
)
RECEIVED: Final = ("LEADER_AND_ISR_RECEIVED", "STOP_REPLICA_RECEIVED")  # a line per partition, of level TRACE
FINISHED: Final = "LEADER_AND_ISR_FINISHED"
SKIPPED: Final = "LEADER_AND_ISR_SKIPPED"
IGNORED: Final = "LEADER_AND_ISR_IGNORED"
CREATED: Final = "PARTITION_CREATED"
NEWER_PARTITION_EPOCH: Final = "newer_partition_epoch"
LEADER_UNAVAILABLE: Final = "leader_unavailable"
PROCESS: Final = (
    "PROCESS_STARTING",
    "PROCESS_SHUTTING_DOWN",
    "KAFKA_VERSION",
    "BROKER_REGISTERED",
    "STALE_BROKER_EPOCH",
)

EPOCH_DURING_DELETE: Final = -2
LEADER_DURING_DELETE: Final = -2

LEADER_EPOCH_REFUSED: Final = 11  # of a partition in LeaderAndIsr: older than what is installed, or equal to it

# What is remembered of an earlier or later row of the partition.
_MET: Final = (
    "seq", "process", "place", "ordered_by", "leader", "leader_epoch", "partition_epoch", "topic_id", "known_topic_id",
    "controller_epoch", "replicas", "error_code",
)  # fmt: skip

# The request log's time is when the line was written, after the answer had been sent: 109 ms after it on a busy broker, so the
# arrival that follows from it may lie that much after the request's own "Handling" line.
_WRITING_LAG_MS: Final = 2_000

# How long after "Received LeaderAndIsr request" its partitions may start: one request may bring thousands of them.
_STARTING_MS: Final = 60_000

_COLUMNS: Final = (
    "cluster", "node", "source", "event_type", "file", "file_order", "byte_offset", "split", "line_in_split", "partition_row",
    "time_ms", "api_version", "correlation_id", "client_id", "connection", "request_queue_time_us", "arrival_ms",
    "request_error_code", "topic", "topic_id", "partition", "error_code", "controller_id", "controller_epoch",
    "is_kraft_controller", "broker_id", "broker_epoch", "current_broker_epoch", "leader", "leader_epoch", "partition_epoch",
    "partition_controller_epoch", "isr", "replicas", "is_new", "delete_partition", "value", "reason",
)  # fmt: skip


def control(events: DataFrame) -> DataFrame:
    """One row per (control request, partition) at the broker that received it, with the state it met.

    Beside them one row per line of a replica that starts a leader epoch, or is left as it is because its partition epoch is
    newer: a KRaft broker makes these transitions without a request.
    Needs: the events table. Clock: the broker's own state-change.log order.
    Adds, beside the request's own columns:
      ordered_by            `state_change_log` or `time` (no line of the request is recorded)
      state_change_recorded the node has a state-change.log in the capture
      process               ordinal of the broker process, from the start-up lines of server.log
      kafka_version         of that process, as major*1,000,000 + minor*1,000 + patch; what capture.toml states, if it does
      process_recorded      some line tells of a process of the node: a restart would be seen
      own_broker_epoch      of that process, with own_broker_epoch_ref
      met_controller_epoch  highest controller epoch of the control requests this process had accepted, with met_controller_ref
      met_overlaps          that request had not finished when this one arrived and only time orders the two
      installed_*           epoch the replica was last proven to hold ("starts at leader epoch"), null after a restart or a deletion,
                            with installed_partition_epoch and the topic id it then had
      known_topic_id        the topic id that the broker last had for the partition, this row included
      accepted_*            the last LeaderAndIsr answered 0 for the partition since a deletion; held_topic_id the topic id it left
      restores_topic_id     the id is the one before a LeaderAndIsr with another id was accepted
      deleted_ref           the StopReplica that last deleted the replica, in this process or an earlier one
      metadata_*            the last UpdateMetadata for the partition: its leader, replicas and whether it came after the LeaderAndIsr
      metadata_leader_epoch that this process then had in its metadata cache, null if none; metadata_topic_id its topic id
      metadata_overlaps     that request had not finished when this one arrived and only time orders the two
      told_controller_epoch the controller epoch of an UpdateMetadata before, if it was the last and gave the partition a leader epoch;
                            told_ref its place
      alive_*               the next LeaderAndIsr or UpdateMetadata that treats the partition as living
      highest_leader_epoch  that an accepted LeaderAndIsr or UpdateMetadata or a start of the partition had, in the whole capture
      handling_recorded     the lines that begin and end the handling of the LeaderAndIsr stand in one file: none between them is missing
      applied_ref           the line in between that says what became of the partition
      confirmed_ref         the next LeaderAndIsr for the partition, if it shows that the epoch of this one was installed
      reborn                the name had another topic id at this broker before
      topic_deletion_seen   some broker of the cluster was told that the topic (by id) is being deleted
    """
    moves = F.col("event_type").isin(*STARTS) | F.coalesce(F.col("reason") == NEWER_PARTITION_EPOCH, F.lit(False))
    requests = _partition_state(_process_state(_placed(events))).where(F.col("is_request") | moves)
    return _with_topic_deletions(requests).withColumns(_subject())


def _subject() -> dict[str, Column]:
    return {"group_id": F.lit(None).cast("string"), "request_ref": F.col("own_ref")}


def _placed(events: DataFrame) -> DataFrame:
    """Control requests, state-change lines and process events, each with its place in the node's order of application."""
    event_type = F.col("event_type")
    lines = (*STARTS, *ANCHORS, *RECEIVED, FINISHED, SKIPPED, IGNORED, CREATED, *PROCESS)
    rows = of_types(events, *REQUESTS, *lines).select(*_COLUMNS)
    of_replica = (event_type != IGNORED) | (F.col("reason") == LEADER_UNAVAILABLE)
    rows = rows.where(F.col("node").isNotNull() & of_replica)
    rows = rows.withColumns(
        {
            "is_request": event_type.isin(*REQUESTS),
            "is_line": F.col("source") == "state_change_log",
            "own_ref": ref(),
            "api": F.when(event_type.isin(*REQUESTS), event_type).when(
                event_type.isin(*ANCHORS, *RECEIVED, FINISHED),
                F.regexp_replace(event_type, "_(HANDLING|APPLIED|IGNORED|RECEIVED|FINISHED)$", ""),
            ),
            "started_ms": F.when(event_type.isin(*REQUESTS), _apply_ms()).otherwise(F.col("time_ms")),
        }
    )
    line = F.struct("file_order", "byte_offset")
    by_time = Window.partitionBy("cluster", "node").orderBy(
        "started_ms", F.col("is_request").cast("int"), "file_order", "byte_offset"
    )
    rows = _anchored(rows, F.struct(line.alias("line"), "time_ms", F.col("own_ref").alias("ref")))
    nearest = F.last(F.when(F.col("is_line"), line), ignorenulls=True).over(by_time)
    return rows.withColumns(
        {
            "place": F.when(F.col("is_line"), line).otherwise(F.coalesce("anchor.line", nearest)),
            "rank": F.when(F.col("is_line"), 0).when(F.col("is_request") & F.col("anchor").isNotNull(), 1).otherwise(2),
            "line_ref": F.col("anchor.ref"),
            "ordered_by": F.when(F.col("anchor").isNotNull(), "state_change_log").otherwise("time"),
        }
    )


def _anchored(rows: DataFrame, place: Column) -> DataFrame:
    """Adds `anchor`: the `place` of the state-change line that a request, or a start up to 2.5, belongs to."""
    event_type, received = F.col("event_type"), F.col("event_type").isin(*RECEIVED)
    in_time = ("time_ms", F.col("is_line").desc(), "is_request", "file_order", "byte_offset")
    by_correlation = Window.partitionBy("cluster", "node", "api", "controller_id", "correlation_id").orderBy(*in_time)
    by_partition = Window.partitionBy("cluster", "node", "topic", "partition", "cause").orderBy(*in_time)
    previous_ms = _latest(received, F.col("time_ms"), _before(by_correlation))
    opens = received & F.coalesce(F.col("time_ms") > previous_ms + _WRITING_LAG_MS, F.lit(True))
    epoch = F.when(received | event_type.isin(*STARTS), F.col("leader_epoch").cast("string"))
    rows = rows.withColumns(
        {
            "opens": opens & F.col("correlation_id").isNotNull(),
            # what the line of a partition and the request or start that belongs to it have in common
            "cause": F.when(F.col("api") == "STOP_REPLICA", F.col("delete_partition").cast("string")).otherwise(epoch),
        }
    ).withColumns(
        {
            "handled": _latest(event_type.isin(*ANCHORS), place, by_correlation),
            "opened": _latest(F.col("opens"), place, by_correlation),
            "caused": _latest(received, place, by_partition),
            "finished": _latest(event_type == FINISHED, place, by_correlation),
        }
    )
    recent = F.col("arrival_ms") - _WRITING_LAG_MS  # the controller's correlation ids start again at 0
    stops = F.when(F.col("api") == "STOP_REPLICA", F.col("caused"))
    of_request = F.coalesce(
        *(F.when(found["time_ms"] >= recent, found) for found in (F.col("handled"), F.col("opened"), stops))
    )
    lately = F.col("caused.time_ms") >= F.col("time_ms") - _STARTING_MS
    of_start = F.when(event_type.isin(*STARTS) & lately, F.col("caused"))
    return rows.withColumns(
        {
            "anchor": F.when(F.col("is_request"), of_request).otherwise(of_start),
            "finished": F.when(F.col("is_request") & (F.col("finished.time_ms") >= recent), F.col("finished")),
        }
    )


def _apply_ms() -> Column:
    """Earliest moment at which the handler can have begun: arrival and the time in the request queue."""
    return F.coalesce(F.col("arrival_ms") + F.floor(F.col("request_queue_time_us") / 1000), F.col("time_ms"))


def _order() -> list[Column]:
    return [F.col(name) for name in ("place", "rank", "started_ms", "file_order", "byte_offset", "partition_row")]


def _before(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, -1)


def _until(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _latest(condition: Column, value: Column, window: WindowSpec) -> Column:
    return F.last(F.when(condition, value), ignorenulls=True).over(window)


def _process_state(placed: DataFrame) -> DataFrame:
    """Adds what belongs to the broker process: its ordinal, version, own epoch and the controller epoch it had accepted."""
    event_type = F.col("event_type")
    by_node = Window.partitionBy("cluster", "node").orderBy(*_order())
    rows = placed.withColumns(
        {
            "process": F.sum(F.when(event_type == "PROCESS_STARTING", 1).otherwise(0)).over(_until(by_node)),
            "state_change_recorded": F.max(F.col("is_line")).over(Window.partitionBy("cluster", "node")),
            "process_recorded": F.max(event_type.isin(*PROCESS) & (F.col("source") != STATED)).over(
                Window.partitionBy("cluster", "node")
            ),
            "stated_version": F.max(F.when(F.col("source") == STATED, _version())).over(
                Window.partitionBy("cluster", "node")
            ),
        }
    )
    by_process = Window.partitionBy("cluster", "node", "process")
    in_process = by_process.orderBy(*_order())
    accepted = F.col("is_request") & (F.col("request_error_code") == 0)
    epoch_stated = F.col("current_broker_epoch").isNotNull() & (
        (event_type == "STALE_BROKER_EPOCH") | (F.col("broker_id") == F.col("node"))
    )
    met = F.max(F.when(accepted, F.struct("controller_epoch", "controller_id", "time_ms", "own_ref"))).over(
        _before(in_process)
    )
    registered = _latest(epoch_stated, F.struct("current_broker_epoch", "own_ref"), _before(in_process))
    told = F.max(F.when(F.col("source") != STATED, _version())).over(by_process)
    rows = rows.withColumns({"met": met, "registered": registered, "kafka_version": F.coalesce("stated_version", told)})
    return rows.withColumns(
        {
            "own_broker_epoch": F.col("registered.current_broker_epoch"),
            "own_broker_epoch_ref": F.col("registered.own_ref"),
            "met_controller_epoch": F.col("met.controller_epoch"),
            "met_controller_id": F.col("met.controller_id"),
            "met_controller_ref": F.col("met.own_ref"),
            "shutting_down": F.max(event_type == "PROCESS_SHUTTING_DOWN").over(_before(in_process)),
            "met_overlaps": (F.col("ordered_by") == "time") & (F.col("met.time_ms") >= F.col("arrival_ms")),
        }
    )


def _version() -> Column:
    """The version that a row tells, null for rows that tell none."""
    return F.when(F.col("event_type") == "KAFKA_VERSION", version_number())


def _partition_state(rows: DataFrame) -> DataFrame:
    """Adds what the broker knew of the partition when the request came, and what became of it."""
    event_type, ok = F.col("event_type"), (F.col("request_error_code") == 0)
    by_partition = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(*_order())
    # what follows is looked up backwards: a window to the end is computed anew for each of its rows
    backwards = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(F.desc("seq"))
    before, after = _before(by_partition), _before(backwards)
    everywhere = by_partition.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    lai_answered = (event_type == "LEADER_AND_ISR") & ok
    lai_accepted = lai_answered & (F.col("error_code") == 0)
    delete_accepted = (event_type == "STOP_REPLICA") & ok & (F.col("error_code") == 0) & F.col("delete_partition")
    metadata_told = (event_type == "UPDATE_METADATA") & ok
    living = (lai_accepted | metadata_told) & (F.col("leader") != LEADER_DURING_DELETE)
    starts = event_type.isin(*STARTS)
    named = lai_accepted | starts | (event_type == CREATED)
    settles = starts | (event_type == SKIPPED) | (F.col("reason") == LEADER_UNAVAILABLE)
    rows = rows.withColumns(
        {
            "seq": F.row_number().over(by_partition),
            "known_topic_id": _latest(named, F.col("topic_id"), _until(by_partition)),
        }
    )
    row = F.struct(*_MET, F.col("own_ref").alias("ref"))
    rows = rows.withColumns(
        {
            "installed": _latest(starts, row, before),
            "accepted": _latest(lai_accepted, row, before),
            "named": _latest(lai_accepted & F.col("topic_id").isNotNull(), row, before),
            "deleted": _latest(delete_accepted, row, before),
            "created": _latest(event_type == CREATED, row, before),
            "metadata": _latest(metadata_told, row, before),
            "alive": _latest(living, row, after),
            "settled": _latest(settles, row, after),
            "following": _latest(lai_answered, row, after),
            "reborn": F.min("topic_id").over(before) != F.max("topic_id").over(before),
            "highest_leader_epoch": F.max(F.when(living | starts, F.col("leader_epoch"))).over(everywhere),
        }
    )
    rows = rows.withColumns({**_held(), **_cached(), **_handled()})
    replaces = lai_accepted & (F.col("held_topic_id") != F.col("topic_id"))
    return rows.withColumn("restores_topic_id", _restores(_latest(replaces, F.struct("seq", "held_topic_id"), before)))


def _restores(replaced: Column) -> Column:
    """The id is the one that the replica had before a LeaderAndIsr with another was accepted, and not deleted since."""
    since = replaced["seq"] > F.coalesce("deleted.seq", F.lit(0))
    return F.coalesce(since & (replaced["held_topic_id"] == F.col("topic_id")), F.lit(False))


def _held() -> dict[str, Column]:
    """What the broker held of the replica."""
    deleted_seq = F.coalesce("deleted.seq", F.lit(0))
    forgotten = F.greatest(deleted_seq, F.coalesce("created.seq", F.lit(0)))
    held = (F.col("installed.process") == F.col("process")) & (F.col("installed.seq") > forgotten)
    standing = F.col("accepted.seq") > deleted_seq
    named = F.col("named.seq") > deleted_seq
    return {
        "installed_leader_epoch": F.when(held, F.col("installed.leader_epoch")),
        "installed_partition_epoch": F.when(held, F.col("installed.partition_epoch")),
        "installed_topic_id": F.when(held, F.col("installed.known_topic_id")),
        "installed_ref": F.when(held, F.col("installed.ref")),
        "accepted_leader_epoch": F.when(standing, F.col("accepted.leader_epoch")),
        "accepted_controller_epoch": F.when(standing, F.col("accepted.controller_epoch")),
        "accepted_in_process": standing & (F.col("accepted.process") == F.col("process")),
        "accepted_replicas": F.when(standing, F.col("accepted.replicas")),
        "accepted_ref": F.when(standing, F.col("accepted.ref")),
        "held_topic_id": F.when(named, F.col("named.topic_id")),
        "held_topic_id_ref": F.when(named, F.col("named.ref")),
        "deleted_ref": F.col("deleted.ref"),
        "deleted_since_installed": F.col("deleted.seq") > F.coalesce("installed.seq", F.lit(0)),
        "alive_ref": F.col("alive.ref"),
        "alive_topic_id": F.col("alive.topic_id"),
        "alive_replicas": F.col("alive.replicas"),
    }


def _cached() -> dict[str, Column]:
    """What the broker's metadata cache had of the partition."""
    being_deleted = F.col("metadata.leader") == LEADER_DURING_DELETE
    cached = (F.col("metadata.process") == F.col("process")) & ~being_deleted
    since_accepted = F.col("metadata.seq") > F.coalesce("accepted.seq", F.lit(0))
    by_time = (F.col("ordered_by") == "time") | (F.col("metadata.ordered_by") == "time")
    overlaps = by_time & (F.col("metadata.ref.time_ms") >= F.col("arrival_ms"))
    told = ~being_deleted & (F.col("metadata.leader_epoch") >= 0) & ~F.coalesce(overlaps, F.lit(False))
    return {
        "metadata_leader": F.col("metadata.leader"),
        "metadata_replicas": F.col("metadata.replicas"),
        "metadata_ref": F.col("metadata.ref"),
        "metadata_leader_epoch": F.when(cached, F.col("metadata.leader_epoch")),
        "metadata_topic_id": F.when(cached, F.col("metadata.topic_id")),
        "metadata_overlaps": overlaps,
        "told_controller_epoch": F.when(told, F.col("metadata.controller_epoch")),
        "told_ref": F.when(told, F.col("metadata.ref")),
        "deletion_announced": F.coalesce(being_deleted & since_accepted, F.lit(False)),
    }


def _handled() -> dict[str, Column]:
    """What became of the partition between the first and the last line of the request's handling."""
    begun, ended = F.col("anchor"), F.col("finished")
    in_order = ended["line"] > begun["line"]
    whole = in_order & (begun["ref"]["file"] == ended["ref"]["file"])  # of two files, one between them may be missing
    same_epoch = F.coalesce(F.col("settled.leader_epoch") == F.col("leader_epoch"), F.lit(True))
    applied = in_order & (F.col("settled.place") < ended["line"]) & same_epoch
    again = (F.col("following.process") == F.col("process")) & (
        F.col("following.leader_epoch") == F.col("leader_epoch")
    )
    return {
        "handling_recorded": F.coalesce(whole, F.lit(False)),
        "applied_ref": F.when(applied, F.col("settled.ref")),
        "confirmed_ref": F.when(
            again & (F.col("following.error_code") == LEADER_EPOCH_REFUSED), F.col("following.ref")
        ),
    }


def _with_topic_deletions(requests: DataFrame) -> DataFrame:
    """Adds `topic_deletion_seen` by (cluster, topic id, or name where the version has no ids)."""
    known_id = F.coalesce("topic_id", "held_topic_id", "metadata.topic_id", "topic")
    deletions = (
        requests.where((F.col("event_type") == "UPDATE_METADATA") & (F.col("leader") == LEADER_DURING_DELETE))
        .select("cluster", F.coalesce("topic_id", "topic").alias("identity"))
        .distinct()
        .withColumn("topic_deletion_seen", F.lit(True))
    )
    joined = requests.withColumn("identity", known_id).join(F.broadcast(deletions), ["cluster", "identity"], "left")
    return joined.withColumn("topic_deletion_seen", F.coalesce("topic_deletion_seen", F.lit(False)))
