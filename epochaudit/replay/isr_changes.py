"""Frame `isr_changes`: every AlterPartition at the controller that answered it, with the state the controller can have met.

The answer to a change carries the partition epoch of the record it wrote, so its place in the metadata log is exact. A
refused request and one that changed nothing leave no record: their place is bracketed. The controller writes the request
line and the records' CreateTime by one clock, so only states that can have stood between arrival and answer remain; and
where the answer implies that the request's epochs were the current ones, only the offsets at which they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import ref
from epochaudit.replay.cluster_history import FOREVER, RECORD_DELAY_MS, checks_eligibility, cluster_history, level_at, states_of
from epochaudit.replay.partition_states import CONTROLLER, RECORD, partition_states
from epochaudit.replay.topic_identities import topic_identities, topic_key_of_name

NEW_LEADER_ELECTED: Final = 108
EPOCHS_WERE_CURRENT: Final = (0, 55, 107, NEW_LEADER_ELECTED)  # answers that come after the checks of both epochs
ELIGIBILITY_CHECK_VERSION: Final = 2  # AlterPartition 2 is 3.3's

# log4j prints whole milliseconds, so a line and an arrival can be off by one each.
_CLOCK_GRAIN_MS: Final = 2
_QUARTER_HOUR_MS: Final = 900_000

_COLUMNS: Final = (
    "cluster", "node", "event_type", "file", "file_order", "byte_offset", "time_ms", "arrival_ms", "api_version", "correlation_id",
    "client_id", "connection", "request_error_code", "error_code", "topic", "topic_id", "partition", "broker_id", "broker_epoch",
    "leader_epoch", "partition_epoch", "isr", "isr_broker_epochs", "leader_recovery_state", "response_leader",
    "response_leader_epoch", "response_partition_epoch", "response_isr",
)  # fmt: skip
_STATE: Final = (
    "clock", "next_clock", "time_ms", "next_ms", "node", "controller_epoch", "leader_epoch", "partition_epoch", "leader", "isr",
    "replicas", "leader_recovery_state", "state_ref",
)  # fmt: skip


def isr_changes(events: DataFrame) -> DataFrame:
    """One row per (AlterPartition request, partition) at the node that answered.

    Needs: the events table. Clock: position in the metadata log (KRaft), the controller's own clock (ZooKeeper).
    Adds, beside the request's and response's own columns:
      request_ref          the request's line
      zookeeper            no metadata log, but signs of a ZooKeeper controller
      has_metadata_log, log_complete, log_end_ms  as in `cluster_history`; metadata_level and checks_eligibility at the request
      from_ms, to_ms       arrival and answer on the clock of the records; null if the node's log4j clock can't be related to it
      covered              the evidence reaches beyond the answer: an absent later state is really absent
      code                 the top-level error code if there is one, else the partition's
      committed            the record that the accepted change wrote: struct of the state; committed_ref its place
      met                  states that the controller can have held, oldest first: array of struct(place, leader_epoch,
                           partition_epoch, leader, isr, replicas …); for an accepted change, the one before its record;
                           null where the partition is in no evidence
      current              the one of them that has the request's epochs
      met_leader_epoch, met_partition_epoch, met_leader, met_ref  of the newest of them
      in_tenure            (ZooKeeper) it is of the node's latest election
      certainly_stale      in all of them the request's leader or (KRaft) partition epoch is behind
      certainly_mismatched none of them has the request's epochs
      leader_epoch_behind, leader_epoch_ahead, partition_epoch_behind, partition_epoch_ahead  so in some of them
      malformed            in some of them the sender is not the leader, or the ISR not one that this leader may ask for
      reassigned           one of them completes a reassignment and starts the next leader epoch
      topic_gone           the metadata log is complete and the topic not in it, or removed before the answer
      certainly_* and possibly_*  ISR members: fenced, shutting_down, in every or in some state that the controller can have met
      ineligible_members   members that some such state makes ineligible, for any reason; ineligible_ref the record
    """
    requests = events.where((F.col("event_type") == "ALTER_PARTITION") & F.col("partition").isNotNull())
    rows = requests.select(*_COLUMNS, ref().alias("request_ref"))
    rows = rows.join(F.broadcast(cluster_history(events)), "cluster", "left")
    rows = _identified(rows, events).join(_states_by_partition(events), ["cluster", "identity", "partition"], "left")
    rows = _met(_timed(rows))
    return _with_members(rows).drop("brokers", "levels", "raft_leaders", "releases", "elections", "states", "named_topic",
                                    "identified_topic_id", "identity", "topic_key", "members", "since", "until")


def _identified(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Completes topic and topic id, whichever the version carries, and says by which the states are told."""
    rows = rows.withColumn("topic_key", F.coalesce("topic_id", topic_key_of_name(F.col("topic"))))
    rows = rows.join(F.broadcast(topic_identities(events)), ["cluster", "topic_key"], "left")
    return rows.withColumns(
        {
            "zookeeper": F.coalesce("zookeeper", F.lit(False)),
            "topic_known": F.col("named_topic").isNotNull(),
            "topic": F.coalesce("topic", "named_topic"),
            "topic_id": F.coalesce("topic_id", "identified_topic_id"),
            "recreated": F.coalesce("recreated", F.lit(False)),
        }
    ).withColumn("identity", F.when(F.col("zookeeper"), F.col("topic")).otherwise(F.col("topic_id")))


def _states_by_partition(events: DataFrame) -> DataFrame:
    """One row per (cluster, identity, partition): its committed states in order, as an array."""
    states = partition_states(events, RECORD, CONTROLLER)
    state = F.struct(
        F.when(F.col("scope") == RECORD, F.col("clock")).otherwise(F.lit(None)).alias("place"), "tick", *_STATE
    )
    ordered = F.array_sort(F.collect_list(F.struct("clock", "tick", state.alias("state"))))
    listed = states.groupBy("cluster", "scope", "identity", "partition").agg(ordered.alias("ordered"))
    return listed.select("cluster", "identity", "partition", F.transform("ordered", lambda s: s["state"]).alias("states"))


def _timed(rows: DataFrame) -> DataFrame:
    """Places arrival and answer on the clock of the records.

    log4j prints local time without a zone, CreateTime is UTC: the zone is what lies, in quarters of an hour, between the
    node's accepted changes and their records. A ZooKeeper controller's own lines share its clock and zone.
    """
    code = F.when(F.col("request_error_code") != 0, F.col("request_error_code")).otherwise(F.col("error_code"))
    changed = (code == 0) & (F.col("response_partition_epoch") > F.col("partition_epoch"))
    written = F.try_element_at(
        F.filter("states", lambda s: changed & (s["partition_epoch"] == F.col("response_partition_epoch"))), F.lit(1)
    )
    lag = F.col("written.time_ms") - F.col("arrival_ms")
    zone = (F.round(lag / _QUARTER_HOUR_MS) * _QUARTER_HOUR_MS).cast("bigint")
    fits = (lag - zone).between(-RECORD_DELAY_MS, F.col("time_ms") - F.col("arrival_ms") + _CLOCK_GRAIN_MS)
    by_node = Window.partitionBy("cluster", "node")
    rows = rows.withColumns({"code": code, "written": F.when(~F.col("zookeeper"), written)})
    rows = rows.withColumn("own_zone_ms", F.when(fits, zone))  # what does not fit was written by another request
    agreed = F.min("own_zone_ms").over(by_node) == F.max("own_zone_ms").over(by_node)  # not so across a change of summer time
    zone_ms = F.coalesce("own_zone_ms", F.when(agreed, F.max("own_zone_ms").over(by_node)))
    rows = rows.withColumn("zone_ms", F.when(F.col("zookeeper"), F.lit(0)).otherwise(zone_ms))
    return rows.withColumns(
        {
            "from_ms": F.col("arrival_ms") + F.col("zone_ms"),
            "to_ms": F.col("time_ms") + F.col("zone_ms"),
            "committed": F.when(F.col("own_zone_ms").isNotNull() | F.col("zone_ms").isNull(), F.col("written")),
        }
    ).drop("written", "own_zone_ms", "zone_ms")


def _met(rows: DataFrame) -> DataFrame:
    """Adds the states of the partition that the controller can have held when it decided, and how the request compares."""
    zookeeper, epoch, partition_epoch = F.col("zookeeper"), F.col("leader_epoch"), F.col("partition_epoch")
    delay = F.when(zookeeper, F.lit(_CLOCK_GRAIN_MS)).otherwise(F.lit(RECORD_DELAY_MS))
    from_ms, to_ms = F.coalesce("from_ms", F.lit(0)), F.coalesce("to_ms", F.lit(FOREVER))

    def possible(state: Column) -> Column:
        at_node = ~zookeeper | (state["node"] == F.col("node"))
        begun = state["time_ms"] <= to_ms + _CLOCK_GRAIN_MS
        return at_node & begun & (F.coalesce(state["next_ms"], F.lit(FOREVER)) + delay >= from_ms)

    def same(state: Column) -> Column:
        return (state["leader_epoch"] == epoch) & (state["partition_epoch"] == partition_epoch)

    def older(state: Column) -> Column:
        # a ZooKeeper controller answers 0 to a state it already has, whatever the partition epoch
        return (state["leader_epoch"] > epoch) | (~zookeeper & (state["partition_epoch"] > partition_epoch))

    replaced = F.filter("states", lambda s: s["partition_epoch"] == F.col("committed.partition_epoch") - 1)
    rows = rows.withColumn("met", F.when(F.col("committed").isNotNull(), replaced).otherwise(F.filter("states", possible)))
    newest = F.try_element_at("met", F.lit(-1))
    seen = F.coalesce(F.size("met"), F.lit(0)) > 0
    return rows.withColumns(
        {
            "current": F.try_element_at(F.filter("met", same), F.lit(-1)),
            "met_leader_epoch": newest["leader_epoch"],
            "met_partition_epoch": newest["partition_epoch"],
            "met_leader": newest["leader"],
            "met_ref": newest["state_ref"],
            "in_tenure": newest["controller_epoch"] == _latest_election(to_ms),
            "certainly_stale": seen & F.forall("met", older),
            "certainly_mismatched": seen & ~F.exists("met", same),
            "leader_epoch_behind": F.exists("met", lambda s: s["leader_epoch"] > epoch),
            "leader_epoch_ahead": F.exists("met", lambda s: s["leader_epoch"] < epoch),
            "partition_epoch_behind": F.exists("met", lambda s: s["partition_epoch"] > partition_epoch),
            "partition_epoch_ahead": F.exists("met", lambda s: s["partition_epoch"] < partition_epoch),
            "malformed": F.exists("met", _malformed),
            "reassigned": F.exists("met", lambda s: (s["leader_epoch"] == epoch + 1) & _reassigned(s)),
            "covered": zookeeper | (F.col("log_end_ms") >= to_ms),
            "topic_gone": F.col("log_complete")
            & (~F.col("topic_known") | F.coalesce(F.col("topic_removed_ms") <= to_ms, F.lit(False))),
        }
    )


def _latest_election(until: Column) -> Column:
    """Controller epoch of the answering node's latest election, by its own clock."""
    own = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= until))
    return F.array_max(F.transform(own, lambda e: e["controller_epoch"]))


def _malformed(state: Column) -> Column:
    """The request would be INVALID_REQUEST in this state: ReplicationControlManager.validateAlterPartitionData."""
    recovering = F.coalesce(F.col("leader_recovery_state"), F.lit(0)) == 1
    return (
        (state["leader"] != F.col("broker_id"))
        | ~F.array_contains("isr", state["leader"])
        | (F.size(F.array_except(F.col("isr"), state["replicas"])) > 0)
        | (recovering & ((F.size("isr") > 1) | (F.coalesce(state["leader_recovery_state"], F.lit(0)) == 0)))
    )


def _reassigned(state: Column) -> Column:
    """The state was made from the one before it by completing a reassignment: other replicas."""
    before = F.filter("met", lambda s: s["partition_epoch"] == state["partition_epoch"] - 1)
    return F.try_element_at(before, F.lit(1))["replicas"] != state["replicas"]


def _with_members(rows: DataFrame) -> DataFrame:
    """Adds the standing of the new ISR's members wherever the controller can have been in the metadata log."""
    exact, current = F.col("committed").isNotNull(), F.col("code").isin(*EPOCHS_WERE_CURRENT)
    place = F.col("committed.place")
    since = F.when(exact, place - 1).when(current, F.col("current.place"))
    until = F.when(exact, place).when(current, F.coalesce("current.next_clock", F.lit(FOREVER)))
    timed = ~exact & F.col("from_ms").isNotNull()
    from_ms, to_ms = F.col("from_ms") - RECORD_DELAY_MS, F.col("to_ms") + _CLOCK_GRAIN_MS

    def can_have_stood(state: Column) -> Column:
        there = (state["since"] < F.col("until")) & (state["until"] > F.col("since"))
        return there & (~timed | ((state["since_ms"] <= to_ms) & (state["until_ms"] >= from_ms)))

    def member(broker_id: Column, index: Column) -> Column:
        sent = F.coalesce(F.get("isr_broker_epochs", index), F.lit(-1))
        states = F.filter(states_of(broker_id), can_have_stood)
        return F.struct(broker_id.alias("broker_id"), sent.alias("sent"), states.alias("states"))

    rows = rows.withColumns({"since": since, "until": until})
    rows = rows.withColumn("members", F.when(F.col("since").isNotNull(), F.transform("isr", member)))
    rows = rows.withColumns(_standing())
    level = level_at(F.coalesce("since", F.lit(FOREVER)))
    rows = rows.withColumn("metadata_level", level)
    checks = F.when(F.col("api_version") >= ELIGIBILITY_CHECK_VERSION, F.lit(True)).otherwise(
        checks_eligibility(F.col("node"), F.col("metadata_level"))
    )
    return rows.withColumns(
        {
            "checks_eligibility": checks,
            "committed_ref": F.col("committed.state_ref"),
            "group_id": F.lit(None).cast("string"),
        }
    )


def _standing() -> dict[str, Column]:
    def known(state: Column) -> Column:
        return ~(state["assumed"] & ~F.col("log_complete")) & state["fenced"].isNotNull()

    def fenced(state: Column) -> Column:
        return known(state) & state["registered"] & state["fenced"]

    def shutting_down(state: Column) -> Column:
        return known(state) & state["registered"] & F.coalesce(state["in_controlled_shutdown"], F.lit(False))

    def ineligible(state: Column, sent: Column) -> Column:
        other_incarnation = (sent != -1) & (sent != state["broker_epoch"])
        return known(state) & (~state["registered"] | state["fenced"] | shutting_down(state) | other_incarnation)

    def ids(condition: Callable[[Column], Column]) -> Column:
        return F.transform(F.filter("members", condition), lambda m: m["broker_id"])

    def always(m: Column, holds: Callable[[Column], Column]) -> Column:
        return (F.size(m["states"]) > 0) & F.forall(m["states"], holds)

    def at_times(m: Column, holds: Callable[[Column], Column]) -> Column:
        return (F.size(m["states"]) == 0) | F.exists(m["states"], lambda s: ~known(s) | holds(s))

    def named(m: Column) -> Column:
        return F.exists(m["states"], lambda s: ineligible(s, m["sent"]))

    culprit = F.try_element_at(F.filter("members", named), F.lit(1))
    return {
        "certainly_fenced": ids(lambda m: always(m, fenced)),
        "possibly_fenced": ids(lambda m: at_times(m, fenced)),
        "certainly_shutting_down": ids(lambda m: always(m, shutting_down) & ~always(m, fenced)),
        "possibly_shutting_down": ids(lambda m: at_times(m, lambda s: shutting_down(s) & ~s["fenced"])),
        "ineligible_members": ids(named),
        "ineligible_ref": F.try_element_at(F.filter(culprit["states"], lambda s: ineligible(s, culprit["sent"])), F.lit(1))["ref"],
    }
