"""Frame `control`: control requests, with the state at the broker that received them (ZooKeeper mode).

A broker applies LeaderAndIsr, StopReplica and UpdateMetadata under ReplicaManager.replicaStateChangeLock and writes the lines of
state-change.log under it. The line order of that file is the order of application; the request log is written on completion.
A request is therefore placed at its own "Handling …" line, found by api, controller id and correlation id.
Up to 2.5 these lines are of level TRACE:
* A LeaderAndIsr is placed at its first "Received …" line, which is written just before the lock is taken.
* A StopReplica is placed at the line of its partition, which has no correlation id.
* A "starts at Leader Epoch" line of server.log is placed after the "Received …" line of its partition and epoch.
Other events of server.log, which have the same host and clock, and requests without a line are placed between state-change lines
by time. `ordered_by` marks them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    BROKER_REGISTERED,
    DELETE_TOPICS,
    FOLLOWER_STARTS,
    KAFKA_VERSION,
    LEADER_AND_ISR,
    LEADER_AND_ISR_FINISHED,
    LEADER_AND_ISR_HANDLING,
    LEADER_AND_ISR_IGNORED,
    LEADER_AND_ISR_RECEIVED,
    LEADER_AND_ISR_SKIPPED,
    LOG_DELETION_SCHEDULED,
    PARTITION_CREATED,
    PROCESS_SHUTTING_DOWN,
    PROCESS_STARTING,
    STALE_BROKER_EPOCH,
    STOP_REPLICA,
    STOP_REPLICA_HANDLING,
    STOP_REPLICA_RECEIVED,
    TOPIC_DELETION_COMPLETED,
    UPDATE_METADATA,
    UPDATE_METADATA_APPLIED,
    UPDATE_METADATA_IGNORED,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.api_versions import RECOVERY_STATE_LEADER_AND_ISR_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import EPOCH_DURING_DELETE, FULL, LEADER_DURING_DELETE
from epochaudit.kafka.releases import MAJOR, MINOR, release
from epochaudit.replay.control_plane.refusal_lines import refusal_lines
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.replay.state.incarnations import deletes_replica, deletes_topic, refused
from epochaudit.replay.state.inferred_topic_ids import is_inferred, topic_in_words
from epochaudit.replay.state.log_gaps import gaps_so_far
from epochaudit.replay.state.releases import STATED, version_number

REQUESTS: Final = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
ANCHORS: Final = (LEADER_AND_ISR_HANDLING, STOP_REPLICA_HANDLING, UPDATE_METADATA_APPLIED, UPDATE_METADATA_IGNORED)
RECEIVED: Final = (LEADER_AND_ISR_RECEIVED, STOP_REPLICA_RECEIVED)  # a line per partition, at level TRACE
NEWER_PARTITION_EPOCH: Final = "newer_partition_epoch"
LEADER_UNAVAILABLE: Final = "leader_unavailable"
ZOOKEEPER_ERROR: Final = "zookeeper_error"
PROCESS: Final = (PROCESS_STARTING, PROCESS_SHUTTING_DOWN, KAFKA_VERSION, BROKER_REGISTERED, STALE_BROKER_EPOCH)
WITH_KRAFT: Final = ("kraft", "zookeeper_in_migration")  # `name` of a BROKER_REGISTERED: with which controller

FULL_FIRST_VERSION: Final = release("3.6.2")  # 3.6.1 looks for strays after its answer, and by name only

# 2.8 opens the log after it has looked at the topic id (Partition.checkOrSetTopicId): of a process's first LeaderAndIsr for a partition it
# neither compares nor stores the id. A request of version 6 shows that the broker is 3.2 or later.
_STORES_FIRST_ID: Final = release("3.0")

# Columns of an earlier or later row of the partition that a row refers to.
_REFERRED_COLUMNS: Final = (
    "seq", "process", "certain_process", "place", "ordered_by", "event_type", "leader", "leader_epoch", "previous_epoch", "partition_epoch",
    "topic_id", "known_topic_id",
    "controller_epoch", "is_kraft_controller", "replicas", "error_code", "full_requests", "of_deleted_topic", "request_gaps",
    "stores_no_id", "had_no_replica", "own_deletion_ref",
)  # fmt: skip

# A line of the request log is written after the answer was sent: 109 ms after it on a busy broker. The arrival is computed from
# that time, and may therefore be as much after the request's own "Handling" line.
_WRITING_LAG_MS: Final = 2_000

# A controller's first request to a broker asks for its API versions and has number 0. A connection that fails may need another such one.
_FIRST_NUMBER: Final = 2

# How long after "Received LeaderAndIsr request" its partitions may start: one request may bring thousands of them.
_STARTING_MS: Final = 60_000

_COLUMNS: Final = (
    "cluster", "node", "source", "event_type", "file", "file_order", "gaps_before", "byte_offset", "split", "line_in_split",
    "partition_row", "time_ms", "api_version", "correlation_id", "client_id", "connection", "request_queue_time_us", "arrival_ms",
    "request_error_code", "topic", "topic_id", "partition", "error_code", "controller_id", "controller_epoch",
    "is_kraft_controller", "broker_id", "broker_epoch", "current_broker_epoch", "leader", "leader_epoch", "partition_epoch",
    "previous_epoch",
    "partition_controller_epoch", "isr", "replicas", "is_new", "delete_partition", "request_type", "name", "value", "reason",
)  # fmt: skip


def control(events: DataFrame) -> DataFrame:
    """One row per (control request, partition) at the broker that received it, with the state before it.

    Also one row per line of a replica that starts a leader epoch, or is left unchanged because its partition epoch is newer: a
    KRaft broker makes these transitions without a request. And one row per line of `refusal_lines`, which has no other column than
    those of that function.
    Needs: the events table. Clock: the broker's own state-change.log order.
    Of the other rows of a node, only those with the same gaps_so_far count.
    Adds, beside the request's own columns:
      request_ref           the line of the request, or of the start
      line_ref              the line of state-change.log by which the broker handles the request
      started_ms            when the broker began to handle it, of a request, or the line's time
      shutting_down         the process had begun its shutdown
      ordered_by            `state_change_log`, or `time` if no line of the request is recorded
      gaps_so_far           how many times files of the node's logs are missing up to this row
      state_change_recorded the node has a state-change.log in the capture
      process               ordinal of the broker process, by the start-up lines of server.log; before the first of these, and after a
                            shutdown, by the broker epochs of the node's control requests, of which each new process has a newer one
      process_ref           what shows the start of that process: its first start-up line, or the request with the newer broker epoch; null:
                            none is recorded
      kafka_version         of that process, as major*1,000,000 + minor*1,000 + patch; that of capture.toml, if it states one;
                            kafka_version_ref where it is stated
      kafka_release         the same as `3.9.1`
      process_begun         the start of that process is recorded, and since then neither a file nor a control request is missing
      process_recorded      some line shows a process of the node, so that a restart or shutdown would be recorded
      process_recorded_before  such a line stands before the row, so that a restart or shutdown after it would be recorded
      own_broker_epoch      of that process, as the sender knows it: a broker in migration has one from ZooKeeper, and one from the
                            KRaft controller; own_broker_epoch_ref its event
      former_broker_epoch   the lowest one that the process had from that sender
      kraft_controller_seen a KRaft controller had sent requests to some broker of the cluster, under a lower controller epoch
      highest_controller_epoch  highest controller epoch of the control requests that this process had accepted; also
                            highest_controller_id, highest_controller_ref
      highest_overlaps      that request had not finished when this one arrived, and only time orders the two
      installed_*           epoch that the replica was last proven to have ("starts at leader epoch"), with its partition epoch
                            and topic id; null after a restart or a deletion, and if the replica's own line states a lower one
      no_epoch_before       the evidence shows that the broker held no leader epoch of the partition before the first recorded one, or
                            none above the request's: process_begun, or the replica's creation or deletion is recorded in the process,
                            or the line about the result states an older epoch or none
      known_topic_id        the topic id that the broker last had for the partition, this row included; null after its deletion
      topic_id_carried      that id was not stated since the installed_* epoch, and another topic of the name may have replaced it: no
                            line of this process states a creation, or the row has leader epoch 0 and partition epoch 0
      requests_missing_since_installed  a control request that came after the installed_* epoch is missing from the request log: a
                            controller numbers what it sends on a connection one by one (NetworkClient), and the broker logs all
      accepted_*            the last LeaderAndIsr answered 0 for the partition since a deletion. Of a StopReplica of a deletion (leader
                            epoch -2), accepted_leader_epoch, accepted_ref and held_topic_id are of the topic whose records the replica
                            has, even if the broker has accepted a LeaderAndIsr of a topic that was deleted before
      storage_error_ref     the LeaderAndIsr that this process answered 56 (KAFKA_STORAGE_ERROR) since the last one answered 0: the
                            replica's log directory had failed
      former_leader_epoch   epoch that the replica had started at or accepted under an older broker epoch, if this process may still hold
                            it: a broker also gets a newer broker epoch where its session with ZooKeeper expires, and nothing else
                            shows the start of this process
      held_topic_id         topic id of the last such request that has one, held_topic_id_ref; held_topic the same in words. Null if a
                            LeaderAndIsr of type FULL without that id has moved the replica aside since
      requests_missing_since_named  the same since that request
      named_in_process      that request came to this process
      named_without_storing  the broker may not have stored its id, as Kafka 2.8 in the first LeaderAndIsr for a partition that a process
                            accepts; named_uncompared: nor compared it with that of a replica which it may have had
      moved_aside_ref       the LeaderAndIsr that stated the id with which the replica was moved aside
      restores_topic_id     the id is the one before a LeaderAndIsr with another id was accepted
      deleted_ref           the StopReplica that last deleted the replica, in this process or an earlier one; deleted_since_installed: it
                            came after the installed_* epoch
      forgotten_*           the last LeaderAndIsr that this process answered 0 before that deletion, if it has accepted none since
                            and no request announced the topic's deletion
      outlived_ref          the row that shows that leader epoch, or a newer one, of the partition after the deletion
      log_deleted_ref       the line by which the broker deletes the replica's log, after the installed_* epoch
      metadata_*            the last UpdateMetadata for the partition: its leader, replicas and whether it came after the
                            LeaderAndIsr
      metadata_leader_epoch epoch that this process then had in its metadata cache, null if none; metadata_topic_id its topic id
      former_metadata_leader_epoch  epoch that it had there under an older broker epoch, if it may still have it, as former_leader_epoch
      metadata_overlaps     that request had not finished when this one arrived, and only time orders the two
      last_update_metadata_controller_epoch  controller epoch of the last UpdateMetadata, if it gave the partition a leader
                            epoch and is known to have come before; update_metadata_ref its event. Neither this one nor
                            accepted_controller_epoch is of a late duplicate about a topic whose deletion had been announced
      alive_*               the next LeaderAndIsr or UpdateMetadata that does not delete the topic, and is not itself older than a
                            LeaderAndIsr that this process had accepted for the topic
      highest_leader_epoch  of the accepted LeaderAndIsr and UpdateMetadata and the starts of the partition, in the whole capture
      finished_ref          the line that ends the handling of the LeaderAndIsr, if handling_recorded
      handling_recorded     the lines that begin and end the handling of the LeaderAndIsr are in one file, so that no line between
                            them is missing
      applied_ref           the line between them about the result for the partition
      unapplied_ref         the line between them that an exception of the ZooKeeper client kept the broker from applying it
      confirmed_ref         the next LeaderAndIsr for the partition, if its answer shows that this one's epoch was installed
      refuted_ref           the same, if it brings the same epoch of the same topic id and its answer shows that it was not
      topic_id_changed      held_topic_id is not the first topic id that this broker received for the name. Of a StopReplica of a
                            deletion former_topic_id_ref is where the first one was stated, and former_deletion_ref the last
                            UpdateMetadata that announced the deletion of a topic with another id
      deletion_announced    the last UpdateMetadata of the topic that the replica has announced its deletion (leader -2); a late
                            duplicate about a former topic of the name, by its id, does not count
      own_deletion_ref      the UpdateMetadata that had announced to this broker the deletion of the topic with the row's topic id
      published_before      an UpdateMetadata had brought the row's topic id before; metadata_deleted: the deletion of the topic with
                            metadata_topic_id had been announced by then
      topic_deletion_seen   some broker of the cluster received the deletion of the topic (by id)
    """
    transitions = F.col("event_type").isin(*STARTS) | holds(F.col("reason") == NEWER_PARTITION_EPOCH)
    return (
        events.transform(_placed)
        .transform(_process_state)
        .transform(_partition_state)
        .where(F.col("is_request") | transitions)
        .transform(_with_topic_deletions, events)
        .transform(_with_kraft_controllers, events)
        .withColumns(_subject())
        .unionByName(refusal_lines(events), allowMissingColumns=True)
    )


def _subject() -> dict[str, Column]:
    return {"group_id": F.lit(None).cast("string"), "request_ref": F.col("own_ref")}


def _placed(events: DataFrame) -> DataFrame:
    """One row per (control request, partition), state-change line and process event: place, in the node's order of application."""
    event_type = F.col("event_type")
    lines = (
        *STARTS,
        *ANCHORS,
        *RECEIVED,
        LEADER_AND_ISR_FINISHED,
        LEADER_AND_ISR_SKIPPED,
        LEADER_AND_ISR_IGNORED,
        PARTITION_CREATED,
        LOG_DELETION_SCHEDULED,
        *PROCESS,
    )
    rows = of_types(events, *REQUESTS, *lines).select(*_COLUMNS)
    is_relevant = (event_type != LEADER_AND_ISR_IGNORED) | (F.col("reason") == LEADER_UNAVAILABLE)
    rows = rows.where(F.col("node").isNotNull() & is_relevant)
    rows = rows.withColumns(
        {
            "is_request": event_type.isin(*REQUESTS),
            "is_line": F.col("source") == "state_change_log",
            "own_ref": ref(),
            "api": F.regexp_replace(event_type, "_(HANDLING|APPLIED|IGNORED|RECEIVED|FINISHED)$", ""),
            "started_ms": F.when(event_type.isin(*REQUESTS), _apply_ms()).otherwise(F.col("time_ms")),
            "follows_a_gap": _follows_a_gap(),
        }
    )
    line = F.struct("file_order", "byte_offset")
    by_time = Window.partitionBy("cluster", "node").orderBy(
        "started_ms", F.col("is_request").cast("int"), "file_order", "byte_offset"
    )
    rows = _anchored(rows, F.struct(line.alias("line"), "time_ms", "controller_epoch", F.col("own_ref").alias("ref")))
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
            "opens": opens,
            # a partition's line and its request or start have this value in common
            "cause": F.when(F.col("api") == STOP_REPLICA, F.col("delete_partition").cast("string")).otherwise(epoch),
        }
    ).withColumns(
        {
            "handled": _latest(event_type.isin(*ANCHORS), place, by_correlation),
            "opened": _latest(F.col("opens"), place, by_correlation),
            "caused": _latest(received, place, by_partition),
            "finished": _latest(event_type == LEADER_AND_ISR_FINISHED, place, by_correlation),
        }
    )
    earliest_ms = F.col("arrival_ms") - _WRITING_LAG_MS  # each controller counts correlation ids from 0
    stops = F.when(F.col("api") == STOP_REPLICA, F.col("caused"))

    def own(found: Column) -> Column:
        """A line of another controller epoch belongs to a request of the same controller, elected before, with the same correlation id."""
        of_epoch = F.coalesce(found["controller_epoch"] == F.col("controller_epoch"), F.lit(True))
        return F.when((found["time_ms"] >= earliest_ms) & of_epoch, found)

    of_request = F.coalesce(*map(own, (F.col("handled"), F.col("opened"), stops)))
    lately = F.col("caused.time_ms") >= F.col("time_ms") - _STARTING_MS
    of_start = F.when(event_type.isin(*STARTS) & lately, F.col("caused"))
    return rows.withColumns(
        {
            "anchor": F.when(F.col("is_request"), of_request).otherwise(of_start),
            "finished": F.when(F.col("is_request") & (F.col("finished.time_ms") >= earliest_ms), F.col("finished")),
        }
    )


def _follows_a_gap() -> Column:
    """The row begins a control request, and the one before it is missing.

    That is one on its connection, or, if the row is the controller's first one in its epoch, any before it: a controller that is elected
    numbers its requests to a broker from 0 on (ControllerChannelManager.addNewBroker).
    """
    lower = Window.partitionBy("cluster", "node", "connection").orderBy("correlation_id")
    previous = F.max("correlation_id").over(lower.rangeBetween(Window.unboundedPreceding, -1))
    missing = F.col("connection").isNotNull() & (F.col("correlation_id") > previous + 1)
    of_controller = Window.partitionBy("cluster", "node", "controller_id", "controller_epoch")
    is_request = F.col("event_type").isin(*REQUESTS)
    lowest = F.min(F.when(is_request, F.col("correlation_id"))).over(of_controller)
    begins_late = (F.col("correlation_id") == lowest) & (lowest > _FIRST_NUMBER)
    begins = is_request & (F.col("partition_row") == 0)
    return begins & (holds(missing) | holds(begins_late))


def _apply_ms() -> Column:
    """Earliest time at which the handler can have begun: arrival plus the time in the request queue."""
    return F.coalesce(F.col("arrival_ms") + F.floor(F.col("request_queue_time_us") / 1000), F.col("time_ms"))


def _order() -> list[Column]:
    return [F.col(name) for name in ("place", "rank", "started_ms", "file_order", "byte_offset", "partition_row")]


def _before(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, -1)


def _until(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def _latest(condition: Column, value: Column, window: WindowSpec) -> Column:
    return F.last(F.when(condition, value), ignorenulls=True).over(window)


def _with_process(placed: DataFrame) -> DataFrame:
    """Adds what shows processes of the node, and the ordinals of the row's process: process, process_ref and certain_process.

    certain_process: the same, but counts no newer broker epoch that a session with ZooKeeper may have had which expired.
    """
    event_type = F.col("event_type")
    of_node = Window.partitionBy("cluster", "node")
    by_node = of_node.orderBy(*_order())
    of_process = event_type.isin(*PROCESS) & (F.col("source") != STATED)
    of_zookeeper = F.when(F.col("is_request") & ~_by_kraft() & (F.col("broker_epoch") > 0), F.col("broker_epoch"))
    gap_in_server_log = (F.col("source") == "server_log") & (F.col("gaps_before") > 0)
    rows = placed.withColumns(
        {
            "gaps_so_far": gaps_so_far(_until(by_node)),
            "state_change_recorded": F.max(F.col("is_line")).over(of_node),
            "process_recorded": F.max(of_process).over(of_node),
            "process_recorded_before": holds(F.max(of_process).over(_before(by_node))),
            "stated_version": F.max(F.when(F.col("source") == STATED, _version())).over(of_node),
            "epoch_before": F.max(of_zookeeper).over(_before(by_node)),
            "process_stops": _latest(
                event_type.isin(PROCESS_STARTING, PROCESS_SHUTTING_DOWN),
                event_type == PROCESS_SHUTTING_DOWN,
                _before(by_node),
            ),
            "server_log_has_gaps": holds(F.max(gap_in_server_log).over(of_node)),
        }
    )
    # a newer broker epoch in a control request shows a new process where server.log may lack the line of its start:
    # before its first such line, where it has gaps, and after a shutdown
    stopped = holds(F.col("process_stops"))
    may_lack_start = ~F.col("process_recorded_before") | F.col("server_log_has_gaps") | stopped
    newer_epoch = may_lack_start & (of_zookeeper > F.col("epoch_before"))
    starting = holds((event_type == PROCESS_STARTING) | newer_epoch)
    # a session with ZooKeeper that expires gives the same process a newer broker epoch (KafkaController.processRegisterBrokerAndReelect)
    certainly_starting = holds((event_type == PROCESS_STARTING) | (newer_epoch & stopped))
    return rows.withColumns(
        {
            "process": F.sum(starting.cast("int")).over(_until(by_node)),
            "certain_process": F.sum(certainly_starting.cast("int")).over(_until(by_node)),
            "process_ref": _latest(starting, F.col("own_ref"), _until(by_node)),
            "begins_process": starting,
        }
    ).drop("epoch_before", "process_stops", "server_log_has_gaps")


def _process_state(placed: DataFrame) -> DataFrame:
    """Adds what belongs to the broker process: its ordinal, version, own epoch and the controller epoch it had accepted."""
    event_type = F.col("event_type")
    rows = _with_process(placed)
    by_node = Window.partitionBy("cluster", "node").orderBy(*_order())
    by_process = Window.partitionBy("cluster", "node", "process", "gaps_so_far")
    in_process = by_process.orderBy(*_order())
    accepted = F.col("is_request") & (F.col("request_error_code") == Errors.NONE)
    # of those with the highest epoch the earliest: it was certainly applied first
    earliest = (-F.col("time_ms")).alias("earliest")
    newest = F.struct("controller_epoch", earliest, "controller_id", "time_ms", "own_ref", "ordered_by")
    highest = F.max(F.when(accepted, newest)).over(_before(in_process))
    full = accepted & (event_type == LEADER_AND_ISR) & (F.col("request_type") == FULL) & (F.col("partition_row") == 0)
    logged_version = F.max(F.when(F.col("source") != STATED, _version())).over(by_process)
    version = F.coalesce("stated_version", logged_version)
    rows = rows.withColumns(
        {
            "highest_controller": highest,
            "kafka_version": version["number"],
            "kafka_version_ref": version["ref"],
            "full_requests": F.count(F.when(full, 1)).over(_until(by_node)),
            "request_gaps": F.count(F.when(F.col("follows_a_gap"), 1)).over(_until(by_node)),
            **_own_broker_epochs(_before(in_process)),
        }
    )
    parts = (F.floor(F.col("kafka_version") / unit) % MINOR for unit in (MAJOR, MINOR, 1))
    release = F.concat_ws(".", *(part.cast("string") for part in parts))
    return rows.withColumns(
        {
            "kafka_release": F.when(F.col("kafka_version").isNotNull(), release),
            "highest_controller_epoch": F.col("highest_controller.controller_epoch"),
            "highest_controller_id": F.col("highest_controller.controller_id"),
            "highest_controller_ref": F.col("highest_controller.own_ref"),
            "process_begun": holds(F.max("begins_process").over(_until(in_process)))
            & ~holds(F.max("follows_a_gap").over(_until(in_process))),
            "shutting_down": F.max(event_type == PROCESS_SHUTTING_DOWN).over(_before(in_process)),
            "highest_overlaps": _by_time("highest_controller")
            & (F.col("highest_controller.time_ms") >= F.col("arrival_ms")),
        }
    )


def _own_broker_epochs(before: WindowSpec) -> dict[str, Column]:
    """The broker's own epoch to which a request of this sender is compared (ZkBrokerEpochManager.isBrokerEpochStale).

    A ZooKeeper controller has the czxid of the broker's znode, a KRaft controller the epoch of the registration with itself. A
    refusal prints the czxid in both cases (KafkaApis).
    """
    event_type = F.col("event_type")
    own = (event_type == STALE_BROKER_EPOCH) | (F.col("broker_id") == F.col("node"))
    stated = F.col("current_broker_epoch").isNotNull() & own
    with_kraft = holds((event_type == BROKER_REGISTERED) & F.col("name").isin(*WITH_KRAFT))
    epoch = F.struct("current_broker_epoch", "own_ref")

    def of_sender(kraft: Column, zookeeper: Column) -> Column:
        return F.when(_by_kraft(), kraft).otherwise(zookeeper)

    last = of_sender(_latest(stated & with_kraft, epoch, before), _latest(stated & ~with_kraft, epoch, before))
    lowest = (
        F.min(F.when(stated & of_kind, F.col("current_broker_epoch"))).over(before)
        for of_kind in (with_kraft, ~with_kraft)
    )
    return {
        "own_broker_epoch": last["current_broker_epoch"],
        "own_broker_epoch_ref": last["own_ref"],
        "former_broker_epoch": of_sender(*lowest),
    }


def _by_time(other: str) -> Column:
    """Only time orders the request and the other one: state-change.log lacks the lines of at least one of them."""
    return (F.col("ordered_by") == "time") | (F.col(f"{other}.ordered_by") == "time")


def _by_kraft() -> Column:
    """A KRaft controller sent the request, during a migration from ZooKeeper."""
    return holds(F.col("is_kraft_controller"))


def _version() -> Column:
    """The version that a row states: struct(number, ref); null for other rows."""
    number = version_number()
    stated = F.struct(number.alias("number"), F.col("own_ref").alias("ref"))
    return F.when((F.col("event_type") == KAFKA_VERSION) & number.isNotNull(), stated)


def _answered(event_type: str) -> Column:
    return (F.col("event_type") == event_type) & (F.col("request_error_code") == Errors.NONE)


def _lai_accepted() -> Column:
    return _answered(LEADER_AND_ISR) & (F.col("error_code") == Errors.NONE)


def _announces_deletion() -> Column:
    return _answered(UPDATE_METADATA) & (F.col("leader") == LEADER_DURING_DELETE)


def _announces_former_deletion(held: Column) -> Column:
    """The row announces once more that a former topic of the name is being deleted; the replica has another topic id (held)."""
    stated = ~is_inferred(F.col("topic_id")) & ~is_inferred(held)
    return F.col("own_deletion_ref").isNotNull() & holds((F.col("topic_id") != held) & stated)


def _taken_over() -> Column:
    """The last accepted LeaderAndIsr is of a topic whose deletion had been announced before; the replica is of its successor.

    A broker that has not stored the replica's topic id applies such a request (2.8). The log is still that of the successor.
    """
    return holds(
        (F.col("of_present_topic.seq") > _deleted_seq())
        & (F.col("of_present_topic.topic_id") != F.col("accepted.topic_id"))
    )


def _starts() -> Column:
    return F.col("event_type").isin(*STARTS)


def _names_topic() -> Column:
    """The row gives the partition a topic id."""
    return (_lai_accepted() | _starts() | (F.col("event_type") == PARTITION_CREATED)) & F.col("topic_id").isNotNull()


def _of_partition(*order: Column) -> WindowSpec:
    """What the broker did while files are missing is not known: each run of files is a log of its own."""
    return Window.partitionBy("cluster", "node", "topic", "partition", "gaps_so_far").orderBy(*order)


def _with_topic(rows: DataFrame) -> DataFrame:
    """Adds seq, the row's number in the partition, and what the broker knew of the topic: what it names, and whether it was deleted."""
    by_partition = _of_partition(*_order())
    before = _before(by_partition)
    log_opened = F.struct(_lai_accepted().alias("opens"), "process")
    names = F.struct(_names_topic().alias("named"), "topic_id")
    changes_name = _names_topic() | deletes_replica() | (F.col("event_type") == LOG_DELETION_SCHEDULED)
    deletion = F.struct("topic_id", F.col("own_ref").alias("ref"))
    announced = F.collect_list(F.when(_announces_deletion(), deletion)).over(before)
    published = F.collect_set(F.when(_answered(UPDATE_METADATA), F.col("topic_id"))).over(before)
    of_own_id = F.filter(announced, lambda one: one["topic_id"] == F.col("topic_id"))
    rows = rows.withColumns(
        {
            "log_before": _latest(_lai_accepted() | deletes_replica(), log_opened, before),
            "seq": F.row_number().over(by_partition),
            "names": _latest(changes_name, names, _until(by_partition)),
            "of_deleted_topic": _names_deleted(announced),
            "own_deletion_ref": F.try_element_at(of_own_id, F.lit(-1))["ref"],
            "published_before": holds(F.array_contains(published, F.col("topic_id"))),
        }
    )
    opened_before = F.col("log_before.opens") & (F.col("log_before.process") == F.col("process"))
    return rows.withColumns(
        {
            "known_topic_id": F.when(F.col("names.named"), F.col("names.topic_id")),
            "stores_no_id": ~holds(opened_before) & ~_stores_first_id(),
            "had_no_replica": holds(F.col("is_new")) | ~F.coalesce("log_before.opens", F.lit(True)),
        }
    )


def _partition_state(rows: DataFrame) -> DataFrame:
    """Adds the state of the partition at the broker when the request arrived, and the result of the request."""
    event_type, stated = F.col("event_type"), F.col("topic_id").isNotNull()
    by_partition = _of_partition(*_order())
    # following rows are looked up in descending order: Spark recomputes a window to the end for each row
    before, after = _before(by_partition), _before(_of_partition(F.desc("seq")))
    everywhere = Window.partitionBy("cluster", "node", "topic", "partition")
    living = (_lai_accepted() | _answered(UPDATE_METADATA)) & (F.col("leader") != LEADER_DURING_DELETE)
    failed = _answered(LEADER_AND_ISR) & (F.col("error_code") == Errors.KAFKA_STORAGE_ERROR)
    settles = _starts() | (event_type == LEADER_AND_ISR_SKIPPED) | (F.col("reason") == LEADER_UNAVAILABLE)
    row = F.struct(*_REFERRED_COLUMNS, F.col("own_ref").alias("ref"))
    stated_id = F.when(stated, F.struct("topic_id", F.col("own_ref").alias("ref")))
    rows = _with_topic(rows).withColumns(
        {
            "installed": _latest(_starts(), row, before),
            "accepted": _latest(_lai_accepted(), row, before),
            "of_present_topic": _latest(_lai_accepted() & F.col("own_deletion_ref").isNull(), row, before),
            "failed": _latest(failed, row, before),
            "named": _latest(_lai_accepted() & stated, row, before),
            "deleted": _latest(deletes_replica(), row, before),
            "created": _latest(event_type == PARTITION_CREATED, row, before),
            "metadata": _latest(_answered(UPDATE_METADATA), row, before),
            "log_deleted": _latest(event_type == LOG_DELETION_SCHEDULED, row, before),
            "names_seq": _latest(_names_topic(), F.col("seq"), _until(by_partition)),
            "first_topic_id": F.first(stated_id, ignorenulls=True).over(before),
            "highest_leader_epoch": F.max(F.when(living | _starts(), F.col("leader_epoch"))).over(everywhere),
        }
    )
    of_accepted, of_records = (
        _latest(_announces_deletion() & ~_announces_former_deletion(state["topic_id"]), row, before)
        for state in (F.col("accepted"), F.when(_taken_over(), F.col("of_present_topic")).otherwise(F.col("accepted")))
    )
    rows = rows.withColumns({"announced": of_accepted, "announced_of_records": of_records})
    rows = rows.withColumns(
        {
            "alive": _latest(living & ~_outdated(), row, after),
            "settled": _latest(settles, F.struct(*_REFERRED_COLUMNS, "reason", F.col("own_ref").alias("ref")), after),
            "following": _latest(_answered(LEADER_AND_ISR), row, after),
        }
    )
    rows = rows.withColumns({**_held(), **_cached(), **_handled()})
    replaces = _lai_accepted() & (F.col("held_topic_id") != F.col("topic_id"))
    return rows.withColumn("restores_topic_id", _restores(_latest(replaces, F.struct("seq", "held_topic_id"), before)))


def _stores_first_id() -> Column:
    """The broker opens the log before it looks at the topic id."""
    of_later_version = F.col("api_version") >= RECOVERY_STATE_LEADER_AND_ISR_VERSION
    return holds(F.col("kafka_version") >= _STORES_FIRST_ID) | holds(of_later_version)


def _names_deleted(announced: Column) -> Column:
    """The deletion of the row's topic, or of one that may be it, had been announced: the row is a late duplicate."""
    return F.exists(announced, lambda one: F.coalesce(one["topic_id"] == F.col("topic_id"), F.lit(True)))


def _restores(replaced: Column) -> Column:
    """The id is the one that the replica had before a LeaderAndIsr with another was accepted, without a deletion since."""
    since = replaced["seq"] > F.coalesce("deleted.seq", F.lit(0))
    return holds(since & (replaced["held_topic_id"] == F.col("topic_id")))


def _outdated() -> Column:
    """A LeaderAndIsr or UpdateMetadata older than a LeaderAndIsr that this process had accepted for the same topic."""
    same_topic = F.coalesce(F.col("topic_id") == F.col("accepted.topic_id"), F.lit(True))
    deleted_since = holds(F.col("announced.seq") > F.col("accepted.seq"))
    older = (F.col("leader_epoch") < F.col("accepted.leader_epoch")) & (F.col("accepted.process") == F.col("process"))
    return holds(older & same_topic & ~deleted_since)


def _held() -> dict[str, Column]:
    """Columns about the replica that the broker had."""
    return {**_installed(), **_accepted(), **_named(), **_deleted()}


def _deleted_seq() -> Column:
    return F.coalesce("deleted.seq", F.lit(0))


def _standing() -> Column:
    """The accepted LeaderAndIsr came after the replica's last deletion."""
    return F.col("accepted.seq") > _deleted_seq()


def _in_process(state: str) -> Column:
    return F.col(f"{state}.process") == F.col("process")


def _installed() -> dict[str, Column]:
    created_or_deleted = F.greatest(_deleted_seq(), F.coalesce("created.seq", F.lit(0)))
    held = _in_process("installed") & (F.col("installed.seq") > created_or_deleted)
    held = held & ~holds(_applied() & _held_none_or_older())
    # a line of the creation would name another topic; if that line is missing, the replica starts from nothing all the same
    begins = (F.col("leader_epoch") == 0) & (F.col("partition_epoch") == 0)
    created_since = _in_process("created") & ~holds(begins)
    former_installed = _may_outlast("installed") & (F.col("installed.seq") > created_or_deleted)
    former_accepted = _may_outlast("accepted") & _standing()
    return {
        "installed_leader_epoch": F.when(held, F.col("installed.leader_epoch")),
        "installed_partition_epoch": F.when(held, F.col("installed.partition_epoch")),
        "installed_topic_id": F.when(held, F.col("installed.known_topic_id")),
        "installed_ref": F.when(held, F.col("installed.ref")),
        "no_epoch_before": F.col("process_begun")
        | holds(_in_process("created") | _in_process("deleted"))
        | holds(_applied() & _held_none_or_older()),
        "requests_missing_since_installed": held & (F.col("request_gaps") > F.col("installed.request_gaps")),
        "topic_id_carried": ~holds(created_since | (F.col("names_seq") > F.col("installed.seq"))),
        "former_leader_epoch": F.greatest(
            F.when(former_installed, F.col("installed.leader_epoch")),
            F.when(former_accepted, F.col("accepted.leader_epoch")),
        ),
        "log_deleted_ref": F.when(F.col("log_deleted.seq") > F.col("installed.seq"), F.col("log_deleted.ref")),
    }


def _deletes() -> Column:
    """The row is a StopReplica of a topic's deletion."""
    return holds(F.col("leader_epoch") == EPOCH_DURING_DELETE)


def _of_deletion(state: str) -> Column:
    """A LeaderAndIsr before the row; for the StopReplica of a deletion the one of the topic whose records the replica has."""
    return F.when(_deletes() & _taken_over(), F.col("of_present_topic")).otherwise(F.col(state))


def _accepted() -> dict[str, Column]:
    standing, accepted = _standing(), _of_deletion("accepted")
    failed = _in_process("failed") & (F.col("failed.seq") > F.coalesce("accepted.seq", F.lit(0)))
    of_other_topic = F.col("accepted.of_deleted_topic")
    return {
        "accepted_leader_epoch": F.when(standing, accepted["leader_epoch"]),
        "accepted_controller_epoch": F.when(standing & ~of_other_topic, F.col("accepted.controller_epoch")),
        "accepted_in_process": standing & _in_process("accepted"),
        "accepted_replicas": F.when(standing, F.col("accepted.replicas")),
        "accepted_ref": F.when(standing, accepted["ref"]),
        "storage_error_ref": F.when(failed, F.col("failed.ref")),
    }


def _named() -> dict[str, Column]:
    """About the topic id of the replica."""
    # a FULL request moves aside the replicas that it does not list with the same topic id, before it compares any id
    moved = (F.col("named.full_requests") < F.col("full_requests")) & (F.col("named.topic_id") != F.col("topic_id"))
    moved &= F.coalesce(F.col("kafka_version") >= FULL_FIRST_VERSION, F.lit(True))
    named = (F.col("named.seq") > _deleted_seq()) & ~holds(moved)
    held = _of_deletion("named")
    held_topic_id = F.when(named, held["topic_id"])
    id_changed = named & (held["topic_id"] != F.col("first_topic_id.topic_id"))
    former, announced = id_changed & _deletes(), F.col("announced_of_records")
    of_former_topic = announced["topic_id"] != held["topic_id"]
    return {
        "held_topic_id": held_topic_id,
        "held_topic": topic_in_words(held_topic_id),
        "held_topic_id_ref": F.when(named, held["ref"]),
        "moved_aside_ref": F.when(moved, F.col("named.ref")),
        "topic_id_changed": id_changed,
        "former_topic_id_ref": F.when(former, F.col("first_topic_id.ref")),
        "former_deletion_ref": F.when(former & of_former_topic, announced["ref"]),
        "requests_missing_since_named": named & (F.col("request_gaps") > F.col("named.request_gaps")),
        "named_in_process": named & _in_process("named"),
        "named_without_storing": named & F.col("named.stores_no_id"),
        "named_uncompared": named & F.col("named.stores_no_id") & ~F.col("named.had_no_replica"),
    }


def _deleted() -> dict[str, Column]:
    """About the replica's deletion, and what shows that the topic exists afterwards."""
    unannounced = F.coalesce(F.col("announced.seq") < F.col("accepted.seq"), F.lit(True))
    forgotten = (F.col("accepted.seq") < _deleted_seq()) & _in_process("accepted") & unannounced
    outlived = forgotten & (F.col("alive.leader_epoch") >= F.col("accepted.leader_epoch"))
    return {
        "deleted_ref": F.col("deleted.ref"),
        "deleted_since_installed": F.col("deleted.seq") > F.coalesce("installed.seq", F.lit(0)),
        "forgotten_leader_epoch": F.when(forgotten, F.col("accepted.leader_epoch")),
        "forgotten_topic_id": F.when(forgotten, F.col("accepted.topic_id")),
        "forgotten_ref": F.when(forgotten, F.col("accepted.ref")),
        "forgotten_by_ref": F.when(forgotten, F.col("deleted.ref")),
        "outlived_ref": F.when(outlived, F.col("alive.ref")),
        "alive_ref": F.col("alive.ref"),
        "alive_leader_epoch": F.col("alive.leader_epoch"),
        "alive_topic_id": F.col("alive.topic_id"),
        "alive_replicas": F.col("alive.replicas"),
    }


def _may_outlast(state: str) -> Column:
    """The process has a newer broker epoch than at this row of the same topic, and nothing else shows that it is another process."""
    in_doubt = (F.col(f"{state}.process") < F.col("process")) & (
        F.col(f"{state}.certain_process") == F.col("certain_process")
    )
    return in_doubt & F.coalesce(F.col(f"{state}.topic_id") == F.col("topic_id"), F.lit(True))


def _cached() -> dict[str, Column]:
    """Columns about the partition in the broker's metadata cache."""
    being_deleted = F.col("metadata.leader") == LEADER_DURING_DELETE
    cached = (F.col("metadata.process") == F.col("process")) & ~being_deleted
    of_topic = F.when(_deletes(), F.col("announced_of_records.seq")).otherwise(F.col("announced.seq"))
    announced = F.coalesce(of_topic > _of_deletion("accepted")["seq"], being_deleted)
    overlaps = _by_time("metadata") & (F.col("metadata.ref.time_ms") >= F.col("arrival_ms"))
    gave_epoch = ~being_deleted & (F.col("metadata.leader_epoch") >= 0) & ~F.col("metadata.of_deleted_topic")
    gave_epoch = gave_epoch & ~overlaps
    return {
        "metadata_leader": F.col("metadata.leader"),
        "metadata_replicas": F.col("metadata.replicas"),
        "metadata_ref": F.col("metadata.ref"),
        "metadata_leader_epoch": F.when(cached, F.col("metadata.leader_epoch")),
        "metadata_topic_id": F.when(cached, F.col("metadata.topic_id")),
        "metadata_deleted": F.col("metadata.own_deletion_ref").isNotNull(),
        "former_metadata_leader_epoch": F.when(
            _may_outlast("metadata") & ~being_deleted, F.col("metadata.leader_epoch")
        ),
        "metadata_overlaps": overlaps,
        "last_update_metadata_controller_epoch": F.when(gave_epoch, F.col("metadata.controller_epoch")),
        "update_metadata_ref": F.when(gave_epoch, F.col("metadata.ref")),
        "deletion_announced": holds(announced),
    }


def _begun_and_finished() -> Column:
    return F.col("finished")["line"] > F.col("anchor")["line"]


def _applied() -> Column:
    """`settled` is the line about the partition between the first and the last line of the request's handling."""
    same_epoch = F.coalesce(F.col("settled.leader_epoch") == F.col("leader_epoch"), F.lit(True))
    return _begun_and_finished() & (F.col("settled.place") < F.col("finished")["line"]) & same_epoch


def _held_none_or_older() -> Column:
    """`settled` is a line that states a lower epoch before: what was installed is forgotten, as the replica was deleted since.

    ZooKeeper-mode followers from 3.6 on state their new epoch only, and write no line unless it is higher (Partition.makeFollower).
    """
    states_none = (F.col("settled.event_type") == FOLLOWER_STARTS) & F.col("settled.previous_epoch").isNull()
    return (F.col("settled.previous_epoch") < F.col("settled.leader_epoch")) | states_none


def _handled() -> dict[str, Column]:
    """Columns about the partition between the first and the last line of the request's handling."""
    begin, end = F.col("anchor"), F.col("finished")
    # between two files another one may be missing
    in_one_file = _begun_and_finished() & (begin["ref"]["file"] == end["ref"]["file"])
    zookeeper_failed = F.col("settled.reason").eqNullSafe(ZOOKEEPER_ERROR)
    again = (F.col("following.process") == F.col("process")) & (
        F.col("following.leader_epoch") == F.col("leader_epoch")
    )
    # a KRaft controller sends a leader epoch again, and a topic without id may have been created again
    accepted_again = (
        (F.col("following.error_code") == Errors.NONE)
        & (F.col("following.topic_id") == F.col("topic_id"))
        & ~holds(F.col("following.is_kraft_controller"))
    )
    return {
        "handling_recorded": holds(in_one_file),
        "finished_ref": F.when(in_one_file, end["ref"]),
        "applied_ref": F.when(_applied() & ~zookeeper_failed, F.col("settled.ref")),
        "unapplied_ref": F.when(_applied() & zookeeper_failed, F.col("settled.ref")),
        "confirmed_ref": F.when(
            again & (F.col("following.error_code") == Errors.STALE_CONTROLLER_EPOCH), F.col("following.ref")
        ),
        "refuted_ref": F.when(again & accepted_again, F.col("following.ref")),
    }


def _with_topic_deletions(requests: DataFrame, events: DataFrame) -> DataFrame:
    """Adds topic_deletion_seen by (cluster, topic id), or by name if the version has no ids.

    A node that missed a deletion has no inferred ids: there the name stands for a topic that other nodes have an inferred id of.
    """
    known_id = F.coalesce("topic_id", "held_topic_id", "metadata.topic_id", "topic")
    deletions = (
        of_types(events, UPDATE_METADATA, DELETE_TOPICS, TOPIC_DELETION_COMPLETED)
        .where(deletes_topic() & ~refused() & F.col("topic").isNotNull())
        .withColumn("name", F.when(F.coalesce(is_inferred(F.col("topic_id")), F.lit(True)), F.col("topic")))
        .select("cluster", F.explode(F.array_compact(F.array("topic_id", "name"))).alias("identity"))
        .distinct()
        .withColumn("topic_deletion_seen", F.lit(True))
    )
    joined = requests.withColumn("identity", known_id).join(F.broadcast(deletions), ["cluster", "identity"], "left")
    return joined.withColumn("topic_deletion_seen", holds(F.col("topic_deletion_seen")))


def _with_kraft_controllers(requests: DataFrame, events: DataFrame) -> DataFrame:
    """Adds kraft_controller_seen by cluster.

    Controllers of both kinds raise one controller epoch in ZooKeeper, which orders them across nodes, whose clocks do not.
    """
    first = (
        of_types(events, *REQUESTS)
        .where(_by_kraft())
        .groupBy("cluster")
        .agg(F.min("controller_epoch").alias("kraft_controller_epoch"))
    )
    joined = requests.join(F.broadcast(first), "cluster", "left")
    return joined.withColumn(
        "kraft_controller_seen", holds(F.col("kraft_controller_epoch") < F.col("controller_epoch"))
    )
