"""Frame `isr_changes`: every AlterPartition at the controller that answered it, with the state the controller can have met.

The answer to a change carries the partition epoch of the record it wrote, so its place in the metadata log is exact. A
refused request and one that changed nothing leave no record: their place is bracketed. The controller writes the
request line and the records' CreateTime by one clock, so only states that can have stood between arrival and answer
remain; and where the answer implies that the request's epochs were the current ones, only the offsets at which they
were.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import ref
from epochaudit.replay.cluster_history import (
    ACTIVE,
    FENCED,
    FOLDED,
    FOREVER,
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
from epochaudit.replay.incarnations import topic_incarnations, with_identity
from epochaudit.replay.live_brokers import absent_members
from epochaudit.replay.partition_states import CONTROLLER, RECORD, partition_states
from epochaudit.replay.record_clock import GRAIN_MS, SLACK_MS, on_record_clock

NEW_LEADER_ELECTED: Final = 108
EPOCHS_WERE_CURRENT: Final = (0, 55, 107, NEW_LEADER_ELECTED)  # answers that come after the checks of both epochs
ELIGIBILITY_CHECK_VERSION: Final = 2  # AlterPartition 2 is 3.3's

_COLUMNS: Final = (
    "cluster", "node", "event_type", "file", "file_order", "byte_offset", "time_ms", "arrival_ms", "api_version", "correlation_id",
    "client_id", "connection", "request_error_code", "error_code", "topic", "topic_id", "partition", "broker_id", "broker_epoch",
    "leader_epoch", "partition_epoch", "isr", "isr_broker_epochs", "leader_recovery_state", "response_leader",
    "response_leader_epoch", "response_partition_epoch", "response_isr",
)  # fmt: skip
_STATE: Final = (
    "clock", "next_clock", "time_ms", "next_ms", "node", "controller_epoch", "leader_epoch", "partition_epoch", "leader",
    "isr", "replicas", "next_partition_epoch", "leader_recovery_state", "state_ref",
)  # fmt: skip


def isr_changes(events: DataFrame) -> DataFrame:
    """One row per (AlterPartition request, partition) at the node that answered.

    Needs: the events table. Clock: position in the metadata log (KRaft), the controller's own clock (ZooKeeper).
    Adds, beside the request's and response's own columns:
      request_ref          the request's line
      zookeeper            a ZooKeeper controller answered
      has_metadata_log, log_complete, log_end_ms  as in `cluster_history`, for a KRaft controller
      metadata_level, checks_eligibility          at the request
      from_ms, to_ms       arrival and answer on the clock of the records; null if the node's log4j clock can't be related to it
      covered              the evidence reaches beyond the answer: an absent later state is really absent
      code                 the top-level error code if there is one, else the partition's
      committed            the record that the accepted change wrote: struct of the state; committed_ref its place
      met                  states that the controller can have held, oldest first: array of struct(place, leader_epoch,
                           partition_epoch, leader, isr, replicas ...); for an accepted change, the one before its record;
                           null where the partition is in no evidence
      current              the one of them that has the request's epochs
      met_leader_epoch, met_partition_epoch, met_leader, met_ref  of the newest of them
      in_tenure            (ZooKeeper) it is of the node's latest election
      certainly_stale      in the oldest of them the request's leader or (KRaft) partition epoch is already behind
      leader_epoch_behind, leader_epoch_ahead, partition_epoch_behind, partition_epoch_ahead  so in some of them
      malformed            in some of them the sender is not the leader, or the ISR not one that this leader may ask for
      reassigned           one of them completes a reassignment and starts the next leader epoch
      topic_gone           the metadata log is complete and the topic not in it, or removed before the answer
      fenced_members, shutting_down_members, unregistered_members  ISR members that were ineligible wherever the controller
                           can have been in the metadata log, the first of these that fits; stale_members: the others that
                           were named with a broker epoch that is not the registered one; null where the request has no
                           place in it
      fenced_at_times, shutting_down_at_times, unregistered_at_times, other_epoch_at_times  some member was so, or can
                           have been, at some such place
      ineligible_members   members that were ineligible at some such place, for any reason; ineligible_ref the record of the
                           first
      dead_*               (ZooKeeper) as in `live_brokers`
      sender_release       Kafka release of the leader that asked (303 for 3.3)
      sender_told          its lines about ISR changes are recorded; reset_told: one of them takes back an ISR in this leader
                           epoch after 107 or 55
      superseded           (ZooKeeper) before the request came, the controller's own broker had been told of another topic
                           under the name of the one that the request's id means
      resent_ref           the leader's next AlterPartition on the connection for the partition, if it is the same again
    """
    requests = events.where((F.col("event_type") == "ALTER_PARTITION") & F.col("partition").isNotNull())
    rows = requests.select(*_COLUMNS, ref().alias("request_ref"))
    rows = rows.join(F.broadcast(cluster_history(events)), "cluster", "left").withColumns(of_the_node())
    rows = _identified(rows, events).join(_states_by_partition(events), ["cluster", "identity", "partition"], "left")
    rows = _met(_timed(rows))
    return _at_the_sender(_with_members(rows)).drop(
        *FOLDED,
        "states",
        "known_topic",
        "sightings",
        "identity",
        "members",
        "since",
        "until",
        "oldest",
        "newest",
    )


def _identified(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Completes topic and topic id, whichever the version carries, and says by which the states are told."""
    rows = with_identity(rows, topic_incarnations(events), "known_topic", "topic_removed_ms", "sightings")
    rows = rows.withColumn("topic_known", F.col("known_topic").isNotNull())
    return rows.withColumn("identity", F.when(F.col("zookeeper"), F.col("topic")).otherwise(F.col("topic_id")))


def _states_by_partition(events: DataFrame) -> DataFrame:
    """One row per (cluster, identity, partition): its committed states in order, as an array."""
    states = partition_states(events, RECORD, CONTROLLER)
    state = F.struct(
        F.when(F.col("scope") == RECORD, F.col("clock")).otherwise(F.lit(None)).alias("place"), "tick", *_STATE
    )
    ordered = F.array_sort(F.collect_list(F.struct("clock", "tick", state.alias("state"))))
    listed = states.groupBy("cluster", "scope", "identity", "partition").agg(ordered.alias("ordered"))
    return listed.select(
        "cluster", "identity", "partition", F.transform("ordered", lambda s: s["state"]).alias("states")
    )


def _timed(rows: DataFrame) -> DataFrame:
    """Places arrival and answer on the clock of the records; adds what the request wrote."""
    code = F.when(F.col("request_error_code") != 0, F.col("request_error_code")).otherwise(F.col("error_code"))
    changed = (code == 0) & (F.col("response_partition_epoch") > F.col("partition_epoch"))
    written = F.try_element_at(
        F.filter("states", lambda s: changed & (s["partition_epoch"] == F.col("response_partition_epoch"))), F.lit(1)
    )
    rows = rows.withColumns({"code": code, "written": F.when(~F.col("zookeeper"), written)})
    rows = on_record_clock(rows, F.col("written.time_ms"))
    own = F.coalesce("writes", F.lit(False)) | F.col("to_ms").isNull()
    return rows.withColumn("committed", F.when(own, F.col("written"))).drop("written", "writes")


def _met(rows: DataFrame) -> DataFrame:
    """Adds the states of the partition that the controller can have held when it decided, and how the request compares."""
    zookeeper, epoch, partition_epoch = F.col("zookeeper"), F.col("leader_epoch"), F.col("partition_epoch")
    from_ms, to_ms = F.coalesce("from_ms", F.lit(0)), F.coalesce("to_ms", F.lit(FOREVER))
    place = F.col("committed.partition_epoch") - 1

    def possible(state: Column) -> Column:
        at_node = ~zookeeper | (state["node"] == F.col("node"))
        begun = state["time_ms"] <= to_ms + GRAIN_MS
        in_time = at_node & begun & (F.coalesce(state["next_ms"], F.lit(FOREVER)) + SLACK_MS >= from_ms)
        return F.when(place.isNotNull(), state["partition_epoch"] == place).otherwise(in_time)

    def same(state: Column) -> Column:
        return (state["leader_epoch"] == epoch) & (state["partition_epoch"] == partition_epoch)

    rows = rows.withColumn("met", F.filter("states", possible))
    rows = rows.withColumns(
        {
            "current": F.try_element_at(F.filter("met", same), F.lit(-1)),
            "oldest": F.try_element_at("met", F.lit(1)),
            "newest": F.try_element_at("met", F.lit(-1)),
        }
    )
    # a ZooKeeper controller answers 0 to a state that it already has, whatever the partition epoch
    older_partition_epoch = ~zookeeper & (F.col("oldest.partition_epoch") > partition_epoch)
    return rows.withColumns(
        {
            **{f"met_{name}": F.col(f"newest.{name}") for name in ("leader_epoch", "partition_epoch", "leader")},
            "met_ref": F.col("newest.state_ref"),
            "in_tenure": F.col("newest.controller_epoch") == _latest_election(to_ms),
            "certainly_stale": (F.col("oldest.leader_epoch") > epoch) | older_partition_epoch,
            "leader_epoch_behind": F.col("newest.leader_epoch") > epoch,
            "leader_epoch_ahead": F.col("oldest.leader_epoch") < epoch,
            "partition_epoch_behind": F.col("newest.partition_epoch") > partition_epoch,
            "partition_epoch_ahead": F.col("oldest.partition_epoch") < partition_epoch,
            "malformed": _malformed(F.coalesce("current", "newest")),
            "reassigned": (F.col("newest.leader_epoch") > epoch)
            & (F.col("newest.replicas") != F.col("current.replicas")),
            "covered": zookeeper | (F.col("log_end_ms") >= to_ms),
            "superseded": _superseded_here(),
            "topic_gone": F.col("log_complete")
            & (~F.col("topic_known") | F.coalesce(F.col("topic_removed_ms") <= to_ms, F.lit(False))),
        }
    )


def _superseded_here() -> Column:
    """Another topic of the name had taken the place of the request's, as the controller's own broker had been told."""
    here = F.filter("sightings", lambda s: s["node"] == F.col("node"))
    own = F.array_min(F.filter(here, lambda s: s["topic_id"] == F.col("topic_id"))["since"])
    in_time = F.col("arrival_ms") - SLACK_MS
    return F.coalesce(F.exists(here, lambda s: (s["since"] > own) & (s["since"] < in_time)), F.lit(False))


def _latest_election(until: Column) -> Column:
    """Controller epoch of the answering node's latest election, by its own clock."""
    own = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= until))
    return F.array_max(own["controller_epoch"])


def _malformed(state: Column) -> Column:
    """The request would be INVALID_REQUEST in this state: ReplicationControlManager.validateAlterPartitionData."""
    recovering = F.coalesce("leader_recovery_state", F.lit(0)) == 1
    recovered = F.coalesce(state["leader_recovery_state"], F.lit(0)) == 0
    return (
        (state["leader"] != F.col("broker_id"))
        | ~F.array_contains("isr", state["leader"])
        | (F.size(F.array_except("isr", state["replicas"])) > 0)
        | (recovering & (recovered | (F.size("isr") > 1)))
    )


def _with_members(rows: DataFrame) -> DataFrame:
    """Adds the standing of the new ISR's members wherever the controller can have been in the metadata log."""
    current = F.col("code").isin(*EPOCHS_WERE_CURRENT)
    # 108 states no epochs; it comes with the change that ended the state that the request names
    elected = (F.col("code") == NEW_LEADER_ELECTED) & (
        F.col("current.next_partition_epoch") == F.col("partition_epoch") + 1
    )
    place = F.coalesce("committed.place", F.when(elected, F.col("current.next_clock")))
    exact = place.isNotNull()
    since = F.when(exact, place - 1).when(current, F.col("current.place"))
    until = F.when(exact, place).when(current, F.coalesce("current.next_clock", F.lit(FOREVER)))
    untimed = exact | F.col("from_ms").isNull()
    from_ms, to_ms = F.col("from_ms") - SLACK_MS, F.col("to_ms") + GRAIN_MS

    def can_have_stood(state: Column) -> Column:
        there = (state["since"] < F.col("until")) & (state["until"] > F.col("since"))
        return there & (untimed | ((state["since_ms"] <= to_ms) & (state["until_ms"] >= from_ms)))

    def member(broker_id: Column, index: Column) -> Column:
        states = F.filter(states_of(broker_id), can_have_stood)
        sent = F.coalesce(F.get("isr_broker_epochs", index), F.lit(-1))
        others = F.array_except(states["broker_epoch"], F.array(sent))
        return F.struct(
            broker_id.alias("broker_id"),
            F.array_distinct(F.transform(states, standing_of)).alias("standings"),
            ((sent != -1) & (F.size(others) > 0)).alias("other_epoch_at_times"),
            ((sent != -1) & ~F.array_contains(states["broker_epoch"], sent)).alias("other_epoch"),
            F.try_element_at(states["ref"], F.lit(-1)).alias("ref"),
        )

    rows = rows.withColumns(
        {"since": since, "until": until, "metadata_level": level_at(F.coalesce(since, F.lit(FOREVER)))}
    )
    rows = rows.withColumn("members", F.when(F.col("since").isNotNull(), F.transform("isr", member)))
    new_version = F.when(F.col("api_version") >= ELIGIBILITY_CHECK_VERSION, F.lit(True))
    return rows.withColumns(
        {
            **_standing(),
            **absent_members(),
            "checks_eligibility": F.coalesce(
                new_version, checks_eligibility(F.col("node"), F.col("metadata_level"), F.col("time_ms"))
            ),
            "committed_ref": F.col("committed.state_ref"),
            "group_id": F.lit(None).cast("string"),
        }
    )


def _standing() -> dict[str, Column]:
    doubtful = F.array(F.lit(ACTIVE), F.lit(UNKNOWN))

    def at_times(member: Column, *standings: str) -> Column:
        return F.arrays_overlap(member["standings"], F.array(*(F.lit(standing) for standing in standings)))

    def ineligible(member: Column) -> Column:
        """So wherever the controller can have been."""
        return ~F.arrays_overlap(member["standings"], doubtful)

    fenced = F.filter("members", lambda m: ineligible(m) & at_times(m, FENCED))
    shutting_down = F.filter("members", lambda m: ineligible(m) & at_times(m, SHUTTING_DOWN) & ~at_times(m, FENCED))
    unregistered = F.filter("members", lambda m: ineligible(m) & ~at_times(m, FENCED, SHUTTING_DOWN))
    stale = F.filter("members", lambda m: m["other_epoch"] & ~ineligible(m) & ~at_times(m, UNKNOWN))
    named = F.filter("members", lambda m: at_times(m, *INELIGIBLE) | m["other_epoch_at_times"])
    return {
        "fenced_members": fenced["broker_id"],
        "shutting_down_members": shutting_down["broker_id"],
        "unregistered_members": unregistered["broker_id"],
        "stale_members": stale["broker_id"],
        "unregistered_at_times": F.exists("members", lambda m: at_times(m, UNREGISTERED, UNKNOWN)),
        "other_epoch_at_times": F.exists("members", lambda m: m["other_epoch_at_times"]),
        "fenced_at_times": F.exists("members", lambda m: at_times(m, FENCED, UNKNOWN)),
        "shutting_down_at_times": F.exists("members", lambda m: at_times(m, SHUTTING_DOWN, UNKNOWN)),
        "ineligible_members": named["broker_id"],
        "ineligible_ref": F.try_element_at(named["ref"], F.lit(1)),
    }


def _at_the_sender(rows: DataFrame) -> DataFrame:
    """Adds what is known of the leader that asked, and whether it asked the same again."""
    one = ("leader_epoch", "partition_epoch", "isr")
    after = Window.partitionBy("cluster", "node", "connection", "topic", "partition").orderBy(
        "correlation_id", "file_order", "byte_offset"
    )
    following = F.lead(F.struct(*one, "request_ref")).over(after)
    same = F.struct(*(F.col(f"following.{name}") for name in one)) == F.struct(*one)
    release = F.filter("releases", lambda r: r["node"] == F.col("broker_id"))["release"]
    reset = F.struct(F.col("broker_id").alias("node"), "topic", "partition", "leader_epoch")
    return (
        rows.withColumn("following", following)
        .withColumns(
            {
                "resent_ref": F.when(same, F.col("following.request_ref")),
                "sender_release": F.array_min(release),
                "sender_told": F.array_contains("isr_loggers", F.col("broker_id")),
                "reset_told": F.exists("isr_resets", lambda told: told == reset),
            }
        )
        .drop("following")
    )
