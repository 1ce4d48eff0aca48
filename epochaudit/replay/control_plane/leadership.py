"""Frame `leadership`: the leaders recorded for each leader epoch of a partition, and for each controller epoch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    CONTROLLER_ELECTED,
    FOLLOWER_STARTS,
    METADATA,
    PARTITION_STATE_CHANGED,
    STOP_REPLICA_SENDING,
    UNCLEAN_ELECTION,
)
from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import PLACE, carried_ref, of_types, ref
from epochaudit.kafka.api_versions import RELIABLE_METADATA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.replay.control_plane.control import REQUESTS
from epochaudit.replay.state.held_epochs import replica_starts
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, with_identity
from epochaudit.replay.state.inferred_topic_ids import is_inferred
from epochaudit.replay.state.leader_states import leader_states
from epochaudit.replay.state.places import at, of_first

BY_NAME: Final = (FOLLOWER_STARTS, PARTITION_STATE_CHANGED, UNCLEAN_ELECTION)  # lines without topic ids
CONTROLLER_LINES: Final = (CONTROLLER_ELECTED, PARTITION_STATE_CHANGED, STOP_REPLICA_SENDING)


def leadership(events: DataFrame) -> DataFrame:
    """One row per recorded (cluster, topic, partition, leader epoch), and (cluster, controller epoch) of ZooKeeper mode.

    The topic is its id, or its name if no id is known. The leader of a controller epoch is the controller.
    Needs: the events table. Clock: none; an epoch has one leader, whichever node states it, at any time.
    Columns: the subject columns (node is null: a statement of the whole cluster), and
      statements        their number
      lowest_leader, highest_leader   equal if all statements agree; -1: none
      lowest_leader_stated_by, highest_leader_stated_by   event types; lowest_leader_ref, highest_leader_ref the events
      ambiguous_name    as in `topic_incarnations`
      leaders_by_id     leaders in statements with topic ids, for this epoch of the name
      differ_by_id      statements that state the topic id themselves disagree
      may_be_of_two_topics   the name may have had another topic, whose id is not recorded: leader epoch 0, with which each topic
                        begins, or a broker began an epoch of the name again without an earlier one
      controller_epoch  null for a leader epoch
      stated_by_several more than one node states the leader
    """
    facts = leader_states(events).select(
        "cluster",
        "topic",
        "topic_id",
        "ambiguous_name",
        "partition",
        "leader_epoch",
        "leader",
        "event_type",
        "own_ref",
    )
    facts = (
        facts.transform(_with_topic_of_the_time, events)
        .unionByName(_metadata_answers(events))
        .withColumns(
            {
                "named": F.when(F.col("topic_id").isNull(), F.col("topic")),
                "controller_epoch": F.lit(None).cast("int"),
            }
        )
    )
    facts = facts.unionByName(_controllers(events), allowMissingColumns=True)
    fact = F.struct("leader", "event_type", "own_ref")
    own_id = F.col("topic_id").isNotNull() & ~is_inferred(F.col("topic_id"))
    by_id = own_id & ~F.col("event_type").isin(*BY_NAME)
    epoch = ("cluster", "named", "topic_id", "partition", "leader_epoch", "controller_epoch")
    by_epoch = facts.groupBy(*epoch).agg(
        F.max("topic").alias("topic"),
        F.max("ambiguous_name").alias("ambiguous_name"),
        F.count("leader").alias("statements"),
        F.min(fact).alias("lowest"),
        F.max(fact).alias("highest"),
        (F.min("own_ref.node") != F.max("own_ref.node")).alias("stated_by_several"),
        (F.size(F.collect_set(F.when(by_id, F.col("leader")))) > 1).alias("differ_by_id"),
    )
    by_epoch = by_epoch.join(F.broadcast(_begun_anew(events)), ["cluster", "topic"], "left")
    of_name = Window.partitionBy("cluster", "topic", "partition", "leader_epoch", "controller_epoch")
    leaders_by_id = F.collect_set(F.when(F.col("topic_id").isNotNull(), F.col("lowest.leader"))).over(of_name)
    return by_epoch.withColumns(
        {
            "leaders_by_id": F.array_sort(leaders_by_id),
            "may_be_of_two_topics": (F.col("leader_epoch") == 0) | F.col("begun_anew").isNotNull(),
            "node": F.lit(None).cast("int"),
            "client_id": F.lit(None).cast("string"),
            "group_id": F.lit(None).cast("string"),
            "correlation_id": F.lit(None).cast("int"),
            "lowest_leader": F.col("lowest.leader"),
            "lowest_leader_stated_by": F.col("lowest.event_type"),
            "lowest_leader_ref": F.col("lowest.own_ref"),
            "highest_leader": F.col("highest.leader"),
            "highest_leader_stated_by": F.col("highest.event_type"),
            "highest_leader_ref": F.col("highest.own_ref"),
        }
    ).drop("lowest", "highest", "named", "begun_anew")


def _begun_anew(events: DataFrame) -> DataFrame:
    """One row per topic name of which a process began a leader epoch that is not higher, as if it had none before: begun_anew.

    It had deleted its replica. Followers of 3.6 to 4.1 do not state the epoch before; from 3.3 on no line is written unless the epoch
    is higher (Partition.makeLeader, makeFollower).
    """
    in_order = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(
        "from_ms", "file_order", "byte_offset"
    )
    lines = replica_starts(events).where("proven")
    before = F.lag(F.struct("leader_epoch", "until_ms")).over(in_order)
    lines = lines.withColumn("before", before)
    same_process = F.coalesce(F.col("before.until_ms") >= F.col("from_ms"), F.lit(True))
    from_none = F.coalesce(F.col("previous_epoch") == NO_EPOCH, ~F.col("is_leader"))
    anew = lines.where((F.col("leader_epoch") <= F.col("before.leader_epoch")) & same_process & from_none)
    return anew.select("cluster", "topic").distinct().withColumn("begun_anew", F.lit(True))


def _with_topic_of_the_time(facts: DataFrame, events: DataFrame) -> DataFrame:
    """Completes topic_id of controller lines about a name of several topics, from the node's own log. Grain unchanged.

    A line is about the last topic id that the node had stated or received before it, if the node's log states that id again
    after the line, or if the line is between the first statement of its deletion and the next deletion that a controller
    completes. A name has one topic at a time, and a deleted topic does not come back.
    Needs: cluster, topic, topic_id, event_type, own_ref. Clock: the node's host.
    """
    names = topic_incarnations(events).where(F.col("ambiguous_name"))
    names = names.select("cluster", F.col("known_topic").alias("topic"), "sightings", "deletions")
    node, time_ms = F.col("own_ref.node"), F.col("own_ref.time_ms")
    own_sightings = F.filter("sightings", lambda s: (s["node"] == node) & (s["since"] < time_ms))
    last = F.array_max(
        F.transform(
            own_sightings, lambda s: F.struct(s["since"], s["topic_id"], s["until"], s["deleted"], s["controlled"])
        )
    )
    completed_deletions = F.filter(
        "deletions", lambda d: (d["node"] == node) & ~d["of_log"] & (d["since"] > F.col("last.deleted"))
    )
    later_sightings = F.filter("sightings", lambda s: (s["node"] == node) & (s["since"] > F.col("last.since")))
    next_ms, done_ms = F.array_min(later_sightings["since"]), F.array_min(completed_deletions["since"])
    known_ms = F.greatest(
        F.col("last.until") - REQUEST_LINE_LAG_MS,
        F.col("last.deleted"),
        F.when(F.col("last.controlled") & (next_ms.isNull() | (done_ms < next_ms)), done_ms),
    )
    line = (F.col("event_type") == PARTITION_STATE_CHANGED) & F.col("topic_id").isNull()
    joined = facts.join(F.broadcast(names), ["cluster", "topic"], "left").withColumn("last", last)
    inferred_id = F.when(line & (time_ms <= known_ms), F.col("last.topic_id"))
    return joined.withColumn("topic_id", F.coalesce("topic_id", inferred_id)).drop("sightings", "deletions", "last")


def _metadata_answers(events: DataFrame) -> DataFrame:
    """One row per leader and epoch in the Metadata answers of a file.

    An answer of -1 states nothing: the leader may only be unreachable.
    """
    rows = of_types(events, METADATA).where(
        (F.col("api_version") >= RELIABLE_METADATA_VERSION) & (F.col("response_leader") >= 0) & is_user_topic()
    )
    fact = ("topic", "topic_id", "partition", "response_leader", "response_leader_epoch")
    answers = rows.where(F.col("response_leader_epoch") >= 0).groupBy("cluster", "node", "file", "event_type", *fact)
    first = answers.agg(*of_first(PLACE, at(), "first_"))
    return with_identity(first, topic_incarnations(events)).select(
        "cluster", "topic", "topic_id", "ambiguous_name", "partition", F.col("response_leader_epoch").alias("leader_epoch"),
        F.col("response_leader").alias("leader"), "event_type", carried_ref("first").alias("own_ref"),
    )  # fmt: skip


def _controllers(events: DataFrame) -> DataFrame:
    """One row per accepted control request, and per line of a controller about itself.

    During a migration a KRaft controller sends these requests. It continues the controller epochs of ZooKeeper.
    """
    accepted = (F.col("partition_row") == 0) & (F.col("request_error_code") == Errors.NONE)
    is_line = F.col("event_type").isin(*CONTROLLER_LINES)
    rows = of_types(events, *REQUESTS, *CONTROLLER_LINES).where(is_line | accepted)
    rows = rows.where(F.col("controller_id").isNotNull() & F.col("controller_epoch").isNotNull())
    return rows.select(
        "cluster", "controller_epoch", F.col("controller_id").alias("leader"), "event_type", ref().alias("own_ref")
    )
