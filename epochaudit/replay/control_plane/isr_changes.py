"""Frame `isr_changes`: every AlterPartition at the controller that answered it, with the states that the controller can have had.

The answer to a change has the partition epoch of the record that it wrote, so its position in the metadata log is exact. A refused
request, or one that changed nothing, has no record: its position is bounded. A controller stamps the request line and the CreateTime
of the records that it writes by one clock, so it had all that it had written before the arrival, and nothing that it wrote after the
answer. Times of records of another controller count for nothing. If the answer implies that the request's epochs were current, only
the offsets at which they were are possible.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    FOLLOWER_STARTS,
    ISR_UPDATED,
    LEADER_AND_ISR_SKIPPED,
    LEADER_STARTS,
    UPDATE_METADATA,
)
from epochaudit.events.times import FOREVER, SLACK_MS, TOLERANCE_MS
from epochaudit.events.views import answer_code, holds, of_types, ref
from epochaudit.kafka.api_versions import ELIGIBILITY_CHECK_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_BROKER_EPOCH, RECOVERED, RECOVERING
from epochaudit.kafka.releases import MetadataVersion
from epochaudit.replay.state.cluster_history import (
    ACTIVE,
    FENCED,
    HISTORY_COLUMNS,
    INELIGIBLE,
    SHUTTING_DOWN,
    UNKNOWN,
    UNREGISTERED,
    checks_eligibility,
    cluster_history,
    level_at,
    of_the_node,
    standing_of,
    states_of,
)
from epochaudit.replay.state.controller_tenures import can_have_had, with_stays
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.live_brokers import with_absent_members
from epochaudit.replay.state.log_gaps import gap_between, server_log_gaps
from epochaudit.replay.state.partition_states import OF_CONTROLLER, OF_RECORD, partition_states
from epochaudit.replay.state.record_clock import on_record_clock
from epochaudit.spark.columns import let

EPOCHS_WERE_CURRENT: Final = (
    Errors.NONE, Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA, Errors.NEW_LEADER_ELECTED,
)  # fmt: skip
"""Error codes that the controller answers after it has checked both epochs."""

_COLUMNS: Final = (
    "cluster", "node", "event_type", "file", "file_order", "byte_offset", "time_ms", "arrival_ms", "api_version", "correlation_id",
    "client_id", "connection", "request_error_code", "error_code", "topic", "topic_id", "partition", "broker_id", "broker_epoch",
    "leader_epoch", "partition_epoch", "isr", "isr_broker_epochs", "leader_recovery_state", "response_leader",
    "response_leader_epoch", "response_partition_epoch", "response_isr",
)  # fmt: skip
_WITH_EPOCHS: Final = (LEADER_STARTS, FOLLOWER_STARTS, ISR_UPDATED, LEADER_AND_ISR_SKIPPED)
_EPOCHS: Final = ("leader_epoch", "partition_epoch")
_STATE: Final = (
    "clock", "next_clock", "time_ms", "next_ms", "node", "controller_epoch", "leader_epoch", "partition_epoch", "leader",
    "isr", "replicas", "next_partition_epoch", "leader_recovery_state", "state_ref",
)  # fmt: skip

_INTERMEDIATE: Final = (
    "states", "known_topic", "id_refs", "sightings", "recreated", "shutdown_requests", "identity", "members", "since", "until", "oldest",
    "newest", "led", "stays", "topic_removed_ms", "log_end_ms", "migrates",
)  # fmt: skip


def isr_changes(events: DataFrame) -> DataFrame:
    """One row per (AlterPartition request, partition) at the node that answered.

    Needs: the events table. Clock: position in the metadata log (KRaft), the controller's own clock (ZooKeeper).
    Adds, beside the request's and response's own columns:
      request_ref          the request's line
      zookeeper            a ZooKeeper controller answered
      has_metadata_log, log_complete, log_whole  as in `cluster_history`, the first two for a KRaft controller
      metadata_level       at the request's position; without one, the last level of the log
      checks_eligibility   AlterPartition 3 or later, that level, or the node's release shows that the controller checks members
                           (KIP-841); null: not in the evidence
      from_ms, to_ms       arrival and answer on the clock of the records; null if the zone of the node's log4j clock is unknown
      covered              the evidence reaches beyond the answer, so that it has any later state that the controller can have had
      topic_known          a topic of the name or id is known; removed_ref the record that removed it, unless the controller cannot
                           have had that
      removed_before       (KRaft) the topic was removed at each position that the controller can have had
      without_partition    the metadata log has no hole, the topic exists, and no state of the partition can have been the controller's
      ambiguous_name       several topics had the name
      code                 the top-level error code if there is one, else the partition's
      committed            struct of the state that the accepted change wrote, of a change answered 108 the election;
                           committed_ref its record
      candidate_states     states that the controller can have had, oldest first: array of struct(place, leader_epoch,
                           partition_epoch, leader, isr, replicas ...). For an accepted change, the state before its record; for
                           one answered 108 that state and the next one. Null if no state of the partition is recorded
      current              the one of them that has the request's epochs
      current_ref          its record or line, that of the newest of them if none has these epochs
      current_leader       the leader in these epochs; (ZooKeeper) in this leader epoch. (KRaft) Null if several led in them, as the
                           partition was created again under its topic id
      state_leader_epoch, state_partition_epoch, state_leader, state_replicas, state_ref  of the newest of them
      in_tenure            (ZooKeeper) the newest state is of the node's latest election
      certainly_stale      the request's leader epoch, or (KRaft) partition epoch, is lower than in the oldest of them; (ZooKeeper) the
                           controller had logged that one before the request arrived
      leader_epoch_behind, leader_epoch_ahead, partition_epoch_behind, partition_epoch_ahead  the request's epoch is lower,
                           or higher, than in some of them
      malformed            in some of them the sender is not the leader, or the leader may not request this ISR
      reassigned           one of them completes a reassignment and starts the next leader epoch
      topic_deleted        the metadata log is complete, and does not have the topic or removes it before the answer
      fenced_members, shutting_down_members, unregistered_members  ISR members that were ineligible at every position in the
                           metadata log that the controller can have had, each in the first of the three that fits; null if the
                           request has no position there
      stale_members        other members whose broker epoch in the request is not the registered one; null likewise
      maybe_fenced, maybe_shutting_down, maybe_unregistered, maybe_other_epoch  some member was so, or can have been so, at some
                           such position
      unrecorded_shutdowns members that were eligible by the log, but had requested a controlled shutdown from the node
                           (BrokerHeartbeat) before the request arrived: a shutdown that began below metadata.version 3.3-IV3 has
                           no record; wanted_ref the heartbeat of the first
      shutdown_unknown     neither records nor heartbeats show whether some member was shutting down
      fenced_ref, shutting_down_ref, unregistered_ref, stale_ref  the record that began the standing of the first of these
                           members; of stale_members the registration or the later record that has the broker epoch
      ineligible_members   members that were ineligible at some such position, for any reason
      dead_*               (ZooKeeper) as in `live_brokers`
      held_before          (ZooKeeper) the node had logged, answered or been sent the state of its answer before: the request need
                           not have changed anything
      sender_release       Kafka release of the requesting leader as a number (3003000 for 3.3.0)
      sender_lines_recorded  that leader's lines about ISR changes are recorded
      sender_log_recorded  its server.log is recorded for the whole time in which it may have sent the request: from its last line
                           about the partition in these or earlier epochs to its first one in later epochs
      isr_reset_recorded   one of them withdraws an ISR in this leader epoch after error code 107 or 55
      superseding_ref      (ZooKeeper) before the request arrived, the controller's own broker had received another topic under the
                           name of the request's topic id: the first statement of the first such topic
      resent_ref           the leader's next AlterPartition for the partition on the connection, if it has the same content
    """
    requests = events.where((F.col("event_type") == ALTER_PARTITION) & F.col("partition").isNotNull())
    rows = requests.select(*_COLUMNS, ref().alias("request_ref"))
    rows = rows.join(F.broadcast(cluster_history(events)), "cluster", "left").withColumns(of_the_node())
    return (
        rows.transform(_identified, events)
        .join(_states_by_partition(events), ["cluster", "identity", "partition"], "left")
        .transform(_timed)
        .transform(_with_candidate_states)
        .transform(_with_held_before, events)
        .join(F.broadcast(_shutdown_requests(events)), ["cluster", "node"], "left")
        .transform(_with_members)
        .transform(with_absent_members)
        .transform(_at_the_sender)
        .transform(_with_sender_log, events)
        .drop(*HISTORY_COLUMNS, *_INTERMEDIATE)
    )


def _identified(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Completes topic and topic_id. Adds topic_known, and identity, the key of the partition's states."""
    rows = with_identity(
        rows, topic_incarnations(events), "known_topic", "topic_removed_ms", "id_refs", "sightings", "recreated"
    )
    rows = rows.withColumn("topic_known", F.col("known_topic").isNotNull())
    return rows.withColumn("identity", F.when(F.col("zookeeper"), F.col("topic")).otherwise(F.col("topic_id")))


def _states_by_partition(events: DataFrame) -> DataFrame:
    """One row per (cluster, identity, partition): states, its committed states in order."""
    states = partition_states(events, OF_RECORD, OF_CONTROLLER)
    state = F.struct(
        F.when(F.col("scope") == OF_RECORD, F.col("clock")).otherwise(F.lit(None)).alias("place"), "tick", *_STATE
    )
    ordered = F.array_sort(F.collect_list(F.struct("clock", "tick", state.alias("state"))))
    listed = states.groupBy("cluster", "scope", "identity", "partition").agg(ordered.alias("ordered"))
    return listed.select(
        "cluster", "identity", "partition", F.transform("ordered", lambda s: s["state"]).alias("states")
    )


def _timed(rows: DataFrame) -> DataFrame:
    """Adds code, committed, and the columns of `on_record_clock` (but writes) and of `with_stays`."""
    code = answer_code()
    changed = (code == Errors.NONE) & (F.col("response_partition_epoch") > F.col("partition_epoch"))

    def is_written(state: Column) -> Column:
        # an answer of 108 has no epochs: the change also elected another leader, in the next ones
        elected = (state["leader_epoch"] == F.col("leader_epoch") + 1) & (state["leader"] != F.col("broker_id"))
        next_epoch = state["partition_epoch"] == F.col("partition_epoch") + 1
        return F.when(code == Errors.NEW_LEADER_ELECTED, elected & next_epoch).otherwise(
            changed & (state["partition_epoch"] == F.col("response_partition_epoch"))
        )

    written = F.try_element_at(F.filter("states", is_written), F.lit(1))
    rows = rows.withColumns({"code": code, "written": F.when(~F.col("zookeeper"), written)})
    rows = on_record_clock(rows, F.col("written")).transform(with_stays)
    own = holds(F.col("writes")) | F.col("to_ms").isNull()
    return rows.withColumn("committed", F.when(own, F.col("written"))).drop("written", "writes")


def _with_candidate_states(rows: DataFrame) -> DataFrame:
    """Adds the states that the controller can have had when it decided, and compares the request to them."""
    zookeeper, epoch, partition_epoch = F.col("zookeeper"), F.col("leader_epoch"), F.col("partition_epoch")
    from_ms, to_ms = F.coalesce("from_ms", F.lit(0)), F.coalesce("to_ms", F.lit(FOREVER))
    place = F.col("committed.partition_epoch") - 1

    def possible(state: Column) -> Column:
        next_clock, next_ms = (F.coalesce(state[name], F.lit(FOREVER)) for name in ("next_clock", "next_ms"))
        in_time = (state["time_ms"] <= to_ms + TOLERANCE_MS) & (next_ms + SLACK_MS >= from_ms)
        logged = (state["node"] == F.col("node")) & in_time
        recorded = can_have_had(state["place"], next_clock, state["time_ms"], next_ms)
        # a change that elects is in its own state, too: LD-06 reports that one
        last = F.when(F.col("code") == Errors.NEW_LEADER_ELECTED, place + 1).otherwise(place)
        at_place = state["partition_epoch"].between(place, last)
        return F.when(place.isNotNull(), at_place).when(zookeeper, logged).otherwise(recorded)

    def same(state: Column) -> Column:
        return (state["leader_epoch"] == epoch) & (state["partition_epoch"] == partition_epoch)

    rows = rows.withColumn("candidate_states", F.filter("states", possible))
    rows = rows.withColumns(
        {
            "current": F.try_element_at(F.filter("candidate_states", same), F.lit(-1)),
            "oldest": F.try_element_at("candidate_states", F.lit(1)),
            "newest": F.try_element_at("candidate_states", F.lit(-1)),
        }
    )
    leaders = F.array_distinct(F.filter("candidate_states", same)["leader"])
    # a ZooKeeper controller answers 0 if it has the requested state already, whatever the partition epoch
    older_partition_epoch = ~zookeeper & (F.col("oldest.partition_epoch") > partition_epoch)
    older_leader_epoch = F.col("oldest.leader_epoch") > epoch
    # a ZooKeeper controller logs no line about the states that it finds when it is elected
    begun_before = ~zookeeper | (F.col("oldest.time_ms") + SLACK_MS < from_ms)
    return rows.withColumns(
        {
            **{
                f"state_{name}": F.col(f"newest.{name}")
                for name in ("leader_epoch", "partition_epoch", "leader", "replicas")
            },
            "state_ref": F.col("newest.state_ref"),
            "current_ref": F.coalesce("current.state_ref", "newest.state_ref"),
            # the lines of a ZooKeeper controller lack most ISR changes
            "current_leader": F.coalesce(
                F.when(zookeeper | (F.size(leaders) == 1), F.col("current.leader")),
                F.when(zookeeper & (F.col("newest.leader_epoch") == epoch), F.col("newest.leader")),
            ),
            "in_tenure": F.col("newest.controller_epoch") == _latest_election(to_ms),
            "certainly_stale": (older_leader_epoch & begun_before) | older_partition_epoch,
            "leader_epoch_behind": F.col("newest.leader_epoch") > epoch,
            "leader_epoch_ahead": F.col("oldest.leader_epoch") < epoch,
            "partition_epoch_behind": F.col("newest.partition_epoch") > partition_epoch,
            "partition_epoch_ahead": F.col("oldest.partition_epoch") < partition_epoch,
            "malformed": _malformed(F.coalesce("current", "newest")),
            "reassigned": (F.col("newest.leader_epoch") > epoch)
            & (F.col("newest.replicas") != F.col("current.replicas")),
            "covered": zookeeper | holds(F.col("covered")),
            "superseding_ref": _superseding_here(),
        }
    ).withColumns(_removal())


def _with_held_before(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds held_before.

    A ZooKeeper controller answers a request for the ISR that it has, in an older partition epoch, too, and checks no member
    (LeaderAndIsr.equalsAllowStalePartitionEpoch): a leader sends again what it got no answer to.
    """
    answer = ("response_leader_epoch", "response_partition_epoch")
    of_answer = Window.partitionBy("cluster", "node", "identity", "partition", *answer, F.col("code") == Errors.NONE)
    answered_before = F.row_number().over(of_answer.orderBy("time_ms", "file_order", "byte_offset")) > 1

    def logged(state: Column) -> Column:
        same = F.lit(True)
        for name in answer:
            same &= state[name.removeprefix("response_")] == F.col(name)
        return same & (state["node"] == F.col("node")) & (state["time_ms"] <= F.col("time_ms"))

    of_partition = [F.col(name.removeprefix("response_")).alias(name) for name in answer]
    sent = of_types(events, UPDATE_METADATA).where(F.col("partition").isNotNull())
    sent = sent.groupBy("cluster", "node", "topic", "partition", *of_partition).agg(F.min("time_ms").alias("sent_ms"))
    rows = rows.join(sent, ["cluster", "node", "topic", "partition", *answer], "left")
    logged_before = holds(F.exists("states", logged))
    held_before = answered_before | logged_before | (F.col("sent_ms") <= F.col("time_ms"))
    return rows.withColumn("held_before", F.col("zookeeper") & holds(held_before)).drop("sent_ms")


def _removal() -> dict[str, Column]:
    """Whether the metadata log has topic and partition. Needs: candidate_states, the columns of `with_identity` and `with_stays`."""
    of_log = F.filter("sightings", lambda s: s["node"].isNull() & (s["topic_id"] == F.col("topic_id")))
    place, removed_ms = F.get(of_log, F.lit(0))["deleted"], F.col("topic_removed_ms")
    is_removed, forever = ~F.col("zookeeper") & removed_ms.isNotNull(), F.lit(FOREVER)
    # the record of an accepted change shows where the controller was
    wrote_before = holds(F.col("committed.place") < place)
    maybe = is_removed & ~wrote_before & can_have_had(place, forever, removed_ms, forever)
    never_known = F.col("log_whole") & ~F.col("topic_known")
    one_topic = F.col("log_whole") & F.col("topic_id").isNotNull() & ~holds(F.col("ambiguous_name")) & ~maybe
    without_state = F.coalesce(F.size("candidate_states"), F.lit(0)) <= 0
    return {
        "removed_ref": F.when(maybe, F.col("id_refs.removed")),
        "removed_before": is_removed & ~can_have_had(F.lit(-1), place, F.lit(0), removed_ms),
        "topic_deleted": F.col("log_complete") & (never_known | maybe),
        "without_partition": F.col("log_complete") & F.col("topic_known") & one_topic & without_state,
    }


def _superseding_here() -> Column:
    """Where the controller's own broker first received another topic under the name, before the request arrived; null: it had not."""
    here = F.filter("sightings", lambda s: s["node"] == F.col("node"))
    own = F.array_min(F.filter(here, lambda s: s["topic_id"] == F.col("topic_id"))["since"])
    in_time = F.col("arrival_ms") - SLACK_MS
    later = F.filter(here, lambda s: (s["since"] > own) & (s["since"] < in_time))
    return F.array_min(F.transform(later, lambda s: F.struct(s["since"], s["ref"])))["ref"]


def _latest_election(until: Column) -> Column:
    """Controller epoch of the answering node's latest election up to a time of its own clock."""
    own = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= until))
    return F.array_max(own["controller_epoch"])


def _malformed(state: Column) -> Column:
    """In this state the answer would be INVALID_REQUEST (ReplicationControlManager.validateAlterPartitionData)."""
    recovering = F.coalesce("leader_recovery_state", F.lit(RECOVERED)) == RECOVERING
    recovered = F.coalesce(state["leader_recovery_state"], F.lit(RECOVERED)) == RECOVERED
    return (
        (state["leader"] != F.col("broker_id"))
        | ~F.array_contains("isr", state["leader"])
        | (F.size(F.array_except("isr", state["replicas"])) > 0)
        | (F.size(F.array_distinct("isr")) < F.size("isr"))
        | (recovering & (recovered | (F.size("isr") > 1)))
    )


def _shutdown_requests(events: DataFrame) -> DataFrame:
    """One row per node that answers heartbeats: shutdown_requests, by incarnation of a broker. Clock: the node's host.

    Array of struct(broker_id, broker_epoch, wanted_ms, answered_ms, ref, stayed_ms). wanted_ms, answered_ms, ref: arrival, answer
    and line of the first accepted heartbeat with wantShutDown; null without one. stayed_ms: arrival of the last one without it. A
    broker repeats wantShutDown until its end.
    """
    code = F.coalesce(answer_code(), F.lit(Errors.NONE))
    accepted = of_types(events, BROKER_HEARTBEAT).where((F.col("source") == "request_log") & (code == Errors.NONE))
    wants = holds(F.col("want_shut_down"))
    first = F.min(F.when(wants, F.struct("arrival_ms", "time_ms", ref().alias("ref"))))
    by_incarnation = accepted.groupBy("cluster", "node", "broker_id", "broker_epoch").agg(
        first.alias("first"), F.max(F.when(~wants, F.col("arrival_ms"))).alias("stayed_ms")
    )
    request = F.struct(
        "broker_id", "broker_epoch", F.col("first.arrival_ms").alias("wanted_ms"), F.col("first.time_ms").alias("answered_ms"),
        F.col("first.ref").alias("ref"), "stayed_ms",
    )  # fmt: skip
    return by_incarnation.groupBy("cluster", "node").agg(F.collect_list(request).alias("shutdown_requests"))


def _member(broker_id: Column, sent: Column, states: Column) -> Column:
    """A member in the states that it can have had. sent: the broker epoch that the request states."""
    others = F.array_except(states["broker_epoch"], F.array(sent))
    standings = F.array_distinct(F.transform(states, standing_of))
    return let(
        standings,
        lambda known: F.struct(
            broker_id.alias("broker_id"),
            known.alias("standings"),
            ((sent != NO_BROKER_EPOCH) & (F.size(others) > 0)).alias("maybe_other_epoch"),
            ((sent != NO_BROKER_EPOCH) & ~F.array_contains(states["broker_epoch"], sent)).alias("other_epoch"),
            F.try_element_at(states["ref"], F.lit(-1)).alias("ref"),
            _shutdown(broker_id, F.array_distinct(states["broker_epoch"]), known).alias("shutdown"),
        ),
    )


def _shutdown(broker_id: Column, broker_epochs: Column, standings: Column) -> Column:
    """A member's controlled shutdown by records and heartbeats: struct(recorded, granted, wanted_ref).

    recorded: records or heartbeats show whether the member was shutting down. granted: the controller had answered its heartbeat
    with wantShutDown before the request arrived, and wrote no record. wanted_ref: that heartbeat. From metadata.version 3.3-IV3
    on, the controller writes a record of the shutdown of a broker that registered since
    (ReplicationControlManager.handleBrokerInControlledShutdown).
    """
    of_log = holds(F.forall(standings, lambda s: s.isin(FENCED, SHUTTING_DOWN, UNREGISTERED)))

    def registered_at(epochs: Column) -> Column:
        return F.array_min(
            F.filter(states_of(broker_id), lambda s: F.array_contains(epochs, s["broker_epoch"]))["since"]
        )

    def asked(epochs: Column) -> Column:
        only = F.when((F.size(epochs) == 1) & F.forall(standings, lambda s: s == ACTIVE), F.get(epochs, F.lit(0)))
        own = let(
            only,
            lambda epoch: F.filter(
                "shutdown_requests", lambda r: (r["broker_id"] == broker_id) & (r["broker_epoch"] == epoch)
            ),
        )
        return F.get(own, F.lit(0))

    def shutdown(recorded: Column, request: Column) -> Column:
        stays = (request["stayed_ms"] >= F.col("time_ms")) | (request["wanted_ms"] >= F.col("time_ms"))
        leaves = holds(~recorded & (request["answered_ms"] < F.col("arrival_ms")))
        return F.struct(
            (of_log | recorded | holds(stays) | leaves).alias("recorded"),
            leaves.alias("granted"),
            request["ref"].alias("wanted_ref"),
        )

    def of_epochs(epochs: Column) -> Column:
        recorded = holds(let(registered_at(epochs), level_at) >= MetadataVersion.IBP_3_3_IV3)
        return let(recorded, lambda known: let(asked(epochs), lambda request: shutdown(known, request)))

    return let(broker_epochs, of_epochs)


def _with_members(rows: DataFrame) -> DataFrame:
    """Adds the standing of the new ISR's members at each position in the metadata log that the controller can have had."""
    current = F.col("code").isin(*EPOCHS_WERE_CURRENT)
    place = F.col("committed.place")
    exact = place.isNotNull()
    since = F.when(exact, place - 1).when(current, F.col("current.place"))
    until = F.when(exact, place).when(current, F.coalesce("current.next_clock", F.lit(FOREVER)))

    def can_have_stood(state: Column) -> Column:
        there = (state["since"] < F.col("until")) & (state["until"] > F.col("since"))
        return there & (exact | can_have_had(state["since"], state["until"], state["since_ms"], state["until_ms"]))

    def member(broker_id: Column, index: Column) -> Column:
        sent = F.coalesce(F.get("isr_broker_epochs", index), F.lit(NO_BROKER_EPOCH))
        return let(F.filter(states_of(broker_id), can_have_stood), lambda states: _member(broker_id, sent, states))

    rows = rows.withColumns(
        {"since": since, "until": until, "metadata_level": level_at(F.coalesce(since, F.lit(FOREVER)))}
    )
    rows = rows.withColumn("members", F.when(F.col("since").isNotNull(), F.transform("isr", member)))
    new_version = F.when(F.col("api_version") >= ELIGIBILITY_CHECK_VERSION, F.lit(True))
    return rows.withColumns(
        {
            **_standing(),
            "checks_eligibility": F.coalesce(
                new_version, checks_eligibility(F.col("node"), F.col("metadata_level"), F.col("time_ms"))
            ),
            "committed_ref": F.col("committed.state_ref"),
            "group_id": F.lit(None).cast("string"),
        }
    )


def _standing() -> dict[str, Column]:
    """Columns about the eligibility of members. Needs: members."""
    maybe_eligible = F.array(F.lit(ACTIVE), F.lit(UNKNOWN))

    def at_times(member: Column, *standings: str) -> Column:
        return F.arrays_overlap(member["standings"], F.array(*(F.lit(standing) for standing in standings)))

    def ineligible(member: Column) -> Column:
        """At every position that the controller can have had."""
        return ~F.arrays_overlap(member["standings"], maybe_eligible)

    fenced = F.filter("members", lambda m: ineligible(m) & at_times(m, FENCED))
    shutting_down = F.filter("members", lambda m: ineligible(m) & at_times(m, SHUTTING_DOWN) & ~at_times(m, FENCED))
    unregistered = F.filter("members", lambda m: ineligible(m) & ~at_times(m, FENCED, SHUTTING_DOWN))
    stale = F.filter("members", lambda m: m["other_epoch"] & ~ineligible(m) & ~at_times(m, UNKNOWN))
    leaving = F.filter("members", lambda m: m["shutdown"]["granted"])
    named = F.filter("members", lambda m: at_times(m, *INELIGIBLE) | m["maybe_other_epoch"])
    return {
        "fenced_members": fenced["broker_id"],
        "shutting_down_members": shutting_down["broker_id"],
        "unregistered_members": unregistered["broker_id"],
        "stale_members": stale["broker_id"],
        "fenced_ref": F.try_element_at(fenced["ref"], F.lit(1)),
        "shutting_down_ref": F.try_element_at(shutting_down["ref"], F.lit(1)),
        "unregistered_ref": F.try_element_at(unregistered["ref"], F.lit(1)),
        "stale_ref": F.try_element_at(stale["ref"], F.lit(1)),
        "maybe_unregistered": F.exists("members", lambda m: at_times(m, UNREGISTERED, UNKNOWN)),
        "maybe_other_epoch": F.exists("members", lambda m: m["maybe_other_epoch"]),
        "maybe_fenced": F.exists("members", lambda m: at_times(m, FENCED, UNKNOWN)),
        "maybe_shutting_down": F.exists("members", lambda m: at_times(m, SHUTTING_DOWN, UNKNOWN)),
        "unrecorded_shutdowns": leaving["broker_id"],
        "wanted_ref": F.try_element_at(leaving["shutdown"]["wanted_ref"], F.lit(1)),
        "shutdown_unknown": F.exists("members", lambda m: ~m["shutdown"]["recorded"]),
        "ineligible_members": named["broker_id"],
    }


def _at_the_sender(rows: DataFrame) -> DataFrame:
    """Adds the release and lines of the requesting leader, and resent_ref."""
    content = ("leader_epoch", "partition_epoch", "isr")
    after = Window.partitionBy("cluster", "node", "connection", "topic", "partition").orderBy(
        "correlation_id", "file_order", "byte_offset"
    )
    following = F.lead(F.struct(*content, "request_ref")).over(after)
    same = F.struct(*(F.col(f"following.{name}") for name in content)) == F.struct(*content)
    release = F.filter("releases", lambda r: r["node"] == F.col("broker_id"))["version"]
    reset = F.struct(F.col("broker_id").alias("node"), "topic", "partition", "leader_epoch")
    return (
        rows.withColumn("following", following)
        .withColumns(
            {
                "resent_ref": F.when(same, F.col("following.request_ref")),
                "sender_release": F.array_min(release),
                "sender_lines_recorded": F.array_contains("isr_loggers", F.col("broker_id")),
                "isr_reset_recorded": F.exists("isr_resets", lambda recorded: recorded == reset),
            }
        )
        .drop("following")
    )


def _with_sender_log(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds sender_log_recorded. Clock: the requesting leader's host, as the controller's host has another one.

    The lines name the topic: several topics of one name are not distinguished.
    """
    sender = F.col("node").alias("broker_id")
    of_partition = ["cluster", "broker_id", "topic", "partition"]
    lines = of_types(events, *_WITH_EPOCHS).select("cluster", sender, "topic", "partition", "time_ms", *_EPOCHS)
    by_partition = lines.groupBy(*of_partition).agg(F.collect_list(F.struct("time_ms", *_EPOCHS)).alias("lines"))
    log = server_log_gaps(events).select("cluster", sender, "first_ms", "gaps")

    def later(line: Column) -> Column:
        of_later_epoch = (line["leader_epoch"] > F.col("leader_epoch")) | (
            line["partition_epoch"] > F.col("partition_epoch")
        )
        return holds(of_later_epoch)

    rows = rows.join(by_partition, of_partition, "left").join(F.broadcast(log), ["cluster", "broker_id"], "left")
    rows = rows.withColumns(
        {
            "since_ms": F.array_max(F.filter("lines", lambda line: ~later(line))["time_ms"]),
            "until_ms": F.array_min(F.filter("lines", later)["time_ms"]),
        }
    )
    whole = (F.col("first_ms") <= F.col("since_ms")) & ~gap_between(F.col("since_ms"), F.col("until_ms"))
    recorded = whole & (F.col("since_ms") <= F.col("until_ms")) & ~F.col("recreated")
    return rows.withColumn("sender_log_recorded", recorded).drop("lines", "since_ms", "until_ms", "first_ms", "gaps")
