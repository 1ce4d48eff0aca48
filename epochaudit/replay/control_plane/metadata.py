"""Frame `metadata`: every committed state of a partition, with the state before it and the standing of its ISR members.

In KRaft these are the partition records of the metadata log, in the order of their offsets. A ZooKeeper cluster has no such log.
There the frame has the states that controllers log and brokers accept.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    CLEAR_ELR_RECORD,
    PARTITION_CHANGE_RECORD,
    PARTITION_RECORD,
    PARTITION_STATE_CHANGED,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds
from epochaudit.kafka.releases import MetadataVersion, release
from epochaudit.replay.state.asked_elections import with_asked_elections
from epochaudit.replay.state.cluster_history import (
    ACTIVE,
    HISTORY_COLUMNS,
    INELIGIBLE,
    checks_eligibility,
    checks_last_known,
    cluster_history,
    in_words,
    raft_leader,
    releases_of,
    standing_of,
    stated_level_at,
    states_of,
    takes_out_incarnations,
)
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.isr_before_election import with_isr_before_election
from epochaudit.replay.state.metadata_log import in_snapshot, record_position
from epochaudit.replay.state.partition_states import (
    OF_CONTROLLER,
    OF_RECORD,
    OF_REQUEST,
    STATE,
    elects_last_known,
    partition_states,
)
from epochaudit.replay.state.unclean_setting import with_unclean_setting

_FIRST_KEEPING_EPOCH: Final = release("3.6")  # where the ISR shrinks (KAFKA-15021)
_FIRST_BUMPING_ALWAYS: Final = release("3.0")
_HANDLING_MS: Final = 1000  # requests about a state may still be in flight when the controller writes the next one


def metadata(events: DataFrame) -> DataFrame:
    """One row per statement of a partition's committed state: see `partition_states` for grain, clocks and state columns.

    A state that a ClearElrRecord makes is no row, but may be the state before a row. Needs: the events table.
    node is the controller that made the change; in KRaft the Raft leader of the record's epoch, null if the log does not state it.
    "Three values" are true, false, and null: not in the evidence. Adds, beside the columns of `partition_states`:
      previous_*            leader, leader_epoch, partition_epoch, isr, replicas, elr, last_known_elr,
                            leader_recovery_state of the row before; previous_ref its event
      numbered_partition_epoch, numbered_leader_epoch, numbered_ref   the epochs and the event of the last row before that has a partition
                            epoch; null: none has. A ZooKeeper controller's line of a replica that leaves the ISR has none
                            before 3.1, except in 2.7.2, 2.8.1 and 2.8.2
      starts_anew           a ZooKeeper state with leader epoch 0 and partition epoch 0, which only a creation writes
      rolled_back           (LeaderAndIsr) a migration to KRaft was rolled back between the state before and this one
      created               the record creates the partition (KRaft; not a record of a snapshot)
      elects                the record or line changes the leader to another node
      recreated             the topic name had several topic ids
      deleted_by_name       a topic of the name was deleted, by an event without a topic id
      deleted_before        (ZooKeeper controllers) a topic of the name was deleted since the state before, by the clock of the
                            controller's own host; or, if another controller wrote that state, by the clock of its host, before it
                            was elected again
      isr_before            the ISR of the previous partition epoch, see `with_isr_before_election`; else previous_isr
      isr_before_ref        the event that states it: the record before, or an earlier one that set the ISR
      leader_before_ref     the same of previous_leader; null: the same event
      isr_before_stated     another event than the row before states it
      another_topic_id      (ZooKeeper controllers) the name had several ids, and the controller's own broker heard of one for the
                            first time since the state before, by the clock of the host
      same_topic_id         (ZooKeeper controllers) the requests that the controller's own broker received in the state before
                            and in this one have the same topic id, without another one between them
      maybe_another_topic   (ZooKeeper controllers) this state and the one before may be of two topics: the name had several, no
                            state of the partition is recorded for a controller epoch between them, and requests do not show one
                            topic id
      metadata_level        metadata.version level in force at the record; metadata_level_ref its record, or the line of capture.toml
      log_complete, migrates   as in `cluster_history`
      checks_eligibility    the controller is 3.3 or later; three values
      bumps_on_shrink       an ISR that shrinks increments the leader epoch (metadata.version below 3.6-IV0); three values
      bumps_or_not          (KRaft 2.8) a shrink by the controller increments it, one that the leader requested does not; three
                            values
      unclean_permitted     an unclean election of the topic was permitted; three values. unclean_permitted_ref: the setting that permits
                            or forbids it; see `with_unclean_setting`
      asked_by, asked_ref   the client that requested an unclean election of the partition, and asked_of the controller that it asked; see
                            `with_asked_elections`
      by_administrator      the election may be the result of such a request: there was no leader before, the elected broker was
                            not unfenced in the same batch of records, and the controller is not older than 2.4
      members               (KRaft) ISR members: array of struct(broker_id, standing, ref, since, superseded_live). standing:
                            active, fenced, shutting_down, unregistered or unknown, by their registration at the record's
                            position. ref, since: the record of that standing and its position
      standings             the distinct standings of the members
      leader_standing       the leader's standing, if it is a member; leader_ref the record of it; leader_standing_in_words
      elects_last_known     the record elects the last known leader, marked as unclean, as the ISR and the ELR were empty without the one
                            broker that may leave them in this record (KIP-966)
      checks_last_known     the controller is 4.1 or later, and elects the last known leader only if it is active; three values
      returns               the leader was not active, and was unfenced before the next record of the partition
      superseded_live       all ineligible members were in the ISR before, and are ineligible because they registered over an own
                            incarnation that was not fenced; null if the ISR before or the state of the former incarnation is unknown
      takes_out             the controller is 4.0 or later, and would have removed them; three values
      ineligible_members    members that are fenced, shutting_down or unregistered, as texts "3 fenced"
      ineligible_ref        the record of the first
    """
    states = partition_states(events, OF_RECORD, OF_CONTROLLER, OF_REQUEST).where(
        F.col("event_type") != CLEAR_ELR_RECORD
    )
    rows = states.join(F.broadcast(cluster_history(events)), "cluster", "left")
    rows = with_identity(
        rows, topic_incarnations(events), "recreated", "deleted_by_name", "created_once", "deletions", "sightings"
    )
    level = stated_level_at(F.col("clock"))
    rows = with_isr_before_election(rows.withColumn("began_ms", _began_ms()), events)
    rows = rows.withColumn("node", _controller()).withColumns(
        {
            **{f"previous_{name}": F.col(f"before.{name}") for name in STATE},
            "previous_ref": F.col("before.state_ref"),
            "numbered_partition_epoch": F.col("numbered_before.partition_epoch"),
            "numbered_leader_epoch": F.col("numbered_before.leader_epoch"),
            "numbered_ref": F.col("numbered_before.state_ref"),
            "starts_anew": (F.col("scope") != OF_RECORD)
            & (F.col("leader_epoch") == 0)
            & (F.col("partition_epoch") == 0),
            "rolled_back": holds(F.col("rollbacks") > F.col("before.rollbacks")),
            "same_topic_id": _same_topic_id(),
            "another_topic_id": _another_topic_id(),
            "deleted_before": _deleted_before(),
            "maybe_another_topic": _maybe_another_topic(),
            "isr_before": F.coalesce("stated_isr", "before.isr"),
            "isr_before_ref": F.coalesce("stated_ref", "before.isr_ref"),
            "leader_before_ref": F.nullif("before.leader_ref", F.coalesce("stated_ref", "before.isr_ref")),
            "isr_before_stated": F.col("stated_isr").isNotNull(),
            "metadata_level": level["level"],
            "metadata_level_ref": level["ref"],
            "created": _created(),
            "members": F.when(F.col("scope") == OF_RECORD, F.transform("isr", _member)),
            "group_id": F.lit(None).cast("string"),
        }
    )
    rows = with_unclean_setting(with_asked_elections(rows.withColumns(_standing()), events), events)
    return rows.drop(
        *HISTORY_COLUMNS,
        "before",
        "numbered_before",
        "sightings",
        "deletions",
        "created_once",
        "began_ms",
        "stated_isr",
        "stated_ref",
    )


def _created() -> Column:
    """The record creates the partition. A snapshot does not."""
    return (
        (F.col("event_type") == PARTITION_RECORD)
        & ~in_snapshot()
        & (F.col("leader_epoch") == 0)
        & (F.col("partition_epoch") == 0)
    )


def _same_topic_id() -> Column:
    """See `metadata`. Compares times of the controller's own host only."""
    place, before = F.col("state_ref"), F.col("before.state_ref")
    here = F.filter("sightings", lambda s: s["node"] == place["node"])
    covers_both = F.exists(
        here, lambda s: (s["since"] <= before["time_ms"]) & (s["until"] > place["time_ms"] + _HANDLING_MS)
    )
    another_id = F.exists(here, lambda s: s["since"] > before["time_ms"])
    stated = (F.col("scope") == OF_CONTROLLER) & (before["node"] == place["node"])
    return holds(stated & covers_both & ~another_id)


def _another_topic_id() -> Column:
    """See `metadata`."""
    here = F.filter("sightings", lambda s: s["node"] == F.col("node"))
    heard = F.exists(here, lambda s: s["since"] >= F.col("began_ms"))
    return holds((F.col("scope") == OF_CONTROLLER) & F.col("recreated") & heard)


def _maybe_another_topic() -> Column:
    """See `metadata`. Only the log of the controller that created the topic again has its lines, and it may be missing."""
    several_topics = (F.col("scope") == OF_CONTROLLER) & (F.col("recreated") | F.col("deleted_by_name"))
    skips_epoch = F.col("clock") > F.col("previous_clock") + 1
    return several_topics & skips_epoch & ~_same_topic_id()


def _began_ms() -> Column:
    """Time at which the controller wrote the state before, else of its election, by its own clock."""
    before = F.col("before.state_ref")
    elected = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= F.col("time_ms")))
    own = F.when(before["node"] == F.col("node"), before["time_ms"])
    return F.when(F.col("scope") == OF_CONTROLLER, F.coalesce(own, F.array_max(elected["time_ms"])))


def _deleted_before() -> Column:
    """See `metadata`. The controller deletes a topic, or its broker deletes the log of a replica that was in the ISR before."""
    before, own = F.col("before.state_ref"), F.col("node")
    again = F.filter("elections", lambda e: (e["node"] == before["node"]) & (e["time_ms"] > before["time_ms"]))
    until_again = F.coalesce(F.array_min(again["time_ms"]), F.lit(FOREVER))

    def by_this(deletion: Column) -> Column:
        return (
            (deletion["node"] == own)
            & (deletion["until"] >= F.col("began_ms"))
            & (deletion["since"] <= F.col("time_ms"))
        )

    def by_former(deletion: Column) -> Column:
        of_former = (deletion["node"] == before["node"]) & (before["node"] != own)
        return of_former & (deletion["until"] >= before["time_ms"]) & (deletion["since"] < until_again)

    def of_topic(deletion: Column) -> Column:
        return ~deletion["of_log"] | F.array_contains(F.col("before.isr"), deletion["node"])

    found = F.exists("deletions", lambda d: (by_this(d) | holds(by_former(d))) & of_topic(d))
    return (F.col("scope") == OF_CONTROLLER) & holds(found)


def _controller() -> Column:
    """The controller that made the change."""
    return F.when(F.col("scope") == OF_RECORD, raft_leader()).otherwise(
        F.when(F.col("scope") == OF_CONTROLLER, F.col("node")).otherwise(F.col("controller_id"))
    )


def _member(broker_id: Column) -> Column:
    """An ISR member and its standing at the record's place."""
    place = F.col("clock")
    current_states = F.filter(states_of(broker_id), lambda state: (state["since"] <= place) & (state["until"] > place))
    state = F.try_element_at(current_states, F.lit(1))
    return F.struct(
        broker_id.alias("broker_id"),
        standing_of(state).alias("standing"),
        state["ref"].alias("ref"),
        state["since"].alias("since"),
        state["superseded_live"].alias("superseded_live"),
    )


def _standing() -> dict[str, Column]:
    """Columns about the election, the standing of members and leader, and the controller's release."""
    ineligible = F.filter("members", lambda member: member["standing"].isin(*INELIGIBLE))
    leading = F.try_element_at(F.filter("members", lambda m: m["broker_id"] == F.col("leader")), F.lit(1))
    in_batch = leading["since"] >= record_position(F.col("batch_base_offset"))
    unfenced_with_it = holds((leading["standing"] == ACTIVE) & in_batch)
    level, raft_epoch = F.col("metadata_level"), F.when(F.col("scope") == OF_RECORD, F.col("raft_epoch"))
    node_releases = releases_of(F.col("node"), raft_epoch=raft_epoch)
    version = F.array_max(node_releases)
    follows_directly = F.col("leader_epoch") == F.col("previous_leader_epoch") + 1
    decided = (F.col("event_type") == PARTITION_CHANGE_RECORD) | (F.col("event_type") == PARTITION_STATE_CHANGED)
    return {
        "elects": decided & (F.col("leader") >= 0) & (F.col("leader") != F.col("previous_leader")),
        "by_administrator": F.coalesce((F.col("previous_leader") < 0) | ~follows_directly, F.lit(True))
        & ~unfenced_with_it,
        "superseded_live": F.forall(
            ineligible, lambda m: m["superseded_live"] & F.array_contains("previous_isr", m["broker_id"])
        ),
        "takes_out": takes_out_incarnations(F.col("node"), level, raft_epoch),
        "leader_standing": leading["standing"],
        "leader_standing_in_words": in_words(leading["standing"]),
        "leader_ref": leading["ref"],
        "elects_last_known": elects_last_known(),
        "checks_last_known": checks_last_known(F.col("node"), level, raft_epoch),
        "returns": _returns(),
        "bumps_on_shrink": F.when(level.isNotNull(), level < MetadataVersion.IBP_3_6_IV0).when(
            version < _FIRST_KEEPING_EPOCH, F.lit(True)
        ),
        "bumps_or_not": F.when(level.isNotNull(), F.lit(False)).otherwise(version < _FIRST_BUMPING_ALWAYS),
        "standings": F.array_distinct("members.standing"),
        "ineligible_members": F.transform(
            ineligible, lambda m: F.concat_ws(" ", m["broker_id"], in_words(m["standing"]))
        ),
        "ineligible_ref": F.try_element_at(ineligible["ref"], F.lit(1)),
        # the CreateTime of a record is not on the clock of the node's logs
        "checks_eligibility": checks_eligibility(
            F.col("node"),
            F.col("metadata_level"),
            F.when(F.col("scope") == OF_CONTROLLER, F.col("time_ms")),
            raft_epoch,
        ),
    }


def _returns() -> Column:
    until = F.coalesce("next_clock", F.lit(FOREVER))
    return F.exists(
        states_of(F.col("leader")),
        lambda s: (s["standing"] == ACTIVE) & (s["since"] > F.col("clock")) & (s["since"] < until),
    )
