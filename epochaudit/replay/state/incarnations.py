"""Resolves topic names and topic ids: one name may stand for several topics, one after the other.

A topic's identity is its id. Fetch 13+ has topic ids only; older APIs and most log lines have names only. Requests of the control
plane, Metadata 10+ and the metadata log state both.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    DELETE_TOPICS,
    LEADER_AND_ISR,
    LEADER_AND_ISR_SKIPPED,
    LEADER_STARTS,
    LOG_DELETION_SCHEDULED,
    METADATA,
    PARTITION_CREATED,
    PARTITION_STATE_CHANGED,
    REMOVE_TOPIC_RECORD,
    STOP_REPLICA,
    TOPIC_DELETION_COMPLETED,
    TOPIC_RECORD,
    UPDATE_METADATA,
)
from epochaudit.events.views import holds, no_ref, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import LEADER_DURING_DELETE, METADATA_TOPIC_ID, METADATA_TOPICS
from epochaudit.replay.state.metadata_log import metadata_log
from epochaudit.spark.memo import checkpointed

NAMING: Final = (
    LEADER_AND_ISR, UPDATE_METADATA, DELETE_TOPICS, METADATA, PARTITION_CREATED, LEADER_STARTS, LEADER_AND_ISR_SKIPPED,
    PARTITION_STATE_CHANGED, TOPIC_DELETION_COMPLETED, LOG_DELETION_SCHEDULED,
)  # fmt: skip
RECORDS: Final = (TOPIC_RECORD, REMOVE_TOPIC_RECORD)
_OF_NAME: Final = "name/"
_CONTROL: Final = (LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA, DELETE_TOPICS)
_STATED: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "time_ms",
)  # fmt: skip
_SIGHTING: Final = ("topic_id", "node", "since", "until", "deleted", "controlled", "ref", "last_ref")
_ID_REFS: Final = ("removed", "created", "first_name", "last_name")
_IDENTITY: Final = ("known_topic", "known_topic_id")
_FLAGS: Final = ("ambiguous_name", "recreated", "deleted_by_name", "created_once")


@checkpointed
def topic_incarnations(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key). topic_key is a topic id, or `key_of_name` of a topic name.

    Needs: the events table. Clock: none between nodes; each node's own clock in sightings and deletions.
    Columns:
      known_topic        the name; null for an id without a recorded name
      known_topic_id     (row of a name) null for a name without an id, and for an ambiguous one
      recreated          the name had several ids
      ambiguous_name     (row of a name) the name does not identify a topic: it had several ids; its topic was created twice (a
                         controller wrote leader epoch 0 with partition epoch 0 again); it has no id, and was deleted; or it has one,
                         and an earlier topic had the name: see `_had_topic_before`
      deleted_by_name    a topic of the name was deleted, by an event without a topic id
      created_once       controllers wrote the first state of each partition of the name exactly once
      topic_removed_ms   (row of an id) CreateTime of its first RemoveTopicRecord; null while the topic exists
      sightings          of all ids of the name: array of struct(topic_id, node, since, until, deleted, controlled, ref, last_ref).
                         since, until: first and last time at which the node stated the id or received a statement of it.
                         deleted: when it first received the topic's deletion; null: never. controlled: the control requests that
                         it received are recorded. ref: the first statement. last_ref: that of until or of deleted, whichever is
                         later. node is null for the metadata log, whose times are values of `position`
      deletions          of the name: array of struct(node, since, until, of_log, by_name), on the node's own clock from a request to its
                         answer, or at a line. of_log: the node deletes its own replica; the topic need not be deleted.
                         by_name: no topic id is stated
      names              (row of an id) the distinct names that it was stated with
      id_refs            (row of an id) struct(removed, created, first_name, last_name): its first RemoveTopicRecord, its last
                         TopicRecord, and statements of it with the first and the last of its names
    """
    by_key = Window.partitionBy("cluster", "stated_key")  # a RemoveTopicRecord has no name, most lines have no id
    names = F.array_sort(F.array_distinct(F.flatten(F.collect_list("names").over(by_key))))
    of_key = {
        "topic": F.min("first_name").over(by_key)["topic"],
        "names": names,
        "first_name": F.min("first_name").over(by_key),
        "last_name": F.max("last_name").over(by_key),
    }
    named = _sightings(events).withColumns(of_key)
    sighting = F.struct(*_SIGHTING, "in_first_epoch", "removed", "created", "names", "first_name", "last_name")
    by_name = named.groupBy(
        "cluster", "topic", F.when(F.col("topic").isNull(), F.col("topic_id")).alias("unnamed")
    ).agg(
        F.array_sort(F.collect_list(F.when(F.col("topic_id").isNotNull(), sighting))).alias("seen"),
        F.max(F.col("deleted").isNotNull() & F.col("topic_id").isNull()).alias("deleted_by_name"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("creations")))).alias("creations"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("deletions")))).alias("deletions"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("partitions")))).alias("partitions"),
    )
    return _by_key(by_name)


def _sightings(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key of the event, node): first and last statement, creations and deletions."""
    log = F.col("event_type") == LOG_DELETION_SCHEDULED
    name = F.when(F.col("topic").isNotNull(), F.struct("topic", "clock", "own_ref"))
    record = F.struct("clock", "time_ms", "own_ref")
    by_name = F.col("topic_id").isNull().alias("by_name")
    deletion = F.struct("node", "since", F.col("time_ms").alias("until"), log.alias("of_log"), by_name)
    statement = F.struct("clock", "own_ref")
    last = F.greatest(F.max(F.when(~F.col("deletes"), statement)), F.min(F.when(F.col("deletes"), statement)))
    return (
        _facts(events)
        .groupBy("cluster", topic_key().alias("stated_key"), "node")
        .agg(
            F.min(name).alias("first_name"),
            F.max(name).alias("last_name"),
            F.min("topic_id").alias("topic_id"),
            F.collect_set("topic").alias("names"),
            F.min("clock").alias("since"),
            F.max((F.col("leader_epoch") == 0) & ~F.col("deletes")).alias("in_first_epoch"),
            F.max(F.when(~F.col("deletes"), F.col("clock"))).alias("until"),
            F.min(F.when(F.col("deletes"), F.col("clock"))).alias("deleted"),
            F.min(F.when(F.col("event_type") == REMOVE_TOPIC_RECORD, record)).alias("removed"),
            F.max(F.when(F.col("event_type") == TOPIC_RECORD, record)).alias("created"),
            F.max(F.col("event_type").isin(LEADER_AND_ISR, UPDATE_METADATA)).alias("controlled"),
            F.min(statement)["own_ref"].alias("ref"),
            last["own_ref"].alias("last_ref"),
            F.collect_set(F.when(F.col("creates"), F.struct("partition", "time_ms"))).alias("creations"),
            F.collect_set(F.when(F.col("node").isNotNull() & (F.col("deletes") | log), deletion)).alias("deletions"),
            F.collect_set(F.when(F.col("creates"), F.col("partition"))).alias("partitions"),
        )
    )


def _facts(events: DataFrame) -> DataFrame:
    """One row per statement about a topic. Clock: `clock`, the node's time, or the position of a metadata record.

    Adds deletes and creates: the statement is of a deletion, or of a new partition.
    """
    event_type = F.col("event_type")
    statements = of_types(events, *NAMING).where(F.col("topic").isNotNull() & ~refused())
    since = F.coalesce("arrival_ms", "time_ms").alias("since")
    statements = statements.select(*_STATED, since, F.col("time_ms").alias("clock"), ref().alias("own_ref"))
    records = of_types(metadata_log(events), *RECORDS).withColumns(
        {"clock": F.col("position"), "since": F.col("position"), "own_ref": ref(), "node": F.lit(None).cast("int")}
    )
    deletes = deletes_topic() | (event_type == REMOVE_TOPIC_RECORD)
    creates = (event_type == PARTITION_STATE_CHANGED) & (F.col("leader_epoch") == 0) & (F.col("partition_epoch") == 0)
    facts = statements.unionByName(records.select(*_STATED, "since", "clock", "own_ref"))
    return facts.withColumns({name: holds(fact) for name, fact in
                              (("deletes", deletes), ("creates", creates))})  # fmt: skip


def deletes_topic() -> Column:
    """The event states that a topic is deleted. A deleted replica does not: it may have been moved, or be a stray."""
    announced = (F.col("event_type") == UPDATE_METADATA) & F.col("leader").eqNullSafe(LEADER_DURING_DELETE)
    return announced | F.col("event_type").isin(DELETE_TOPICS, TOPIC_DELETION_COMPLETED)


def deletes_replica() -> Column:
    """The event is a StopReplica by which the broker deleted its replica: it was answered 0."""
    accepted = (F.col("request_error_code") == Errors.NONE) & (F.col("error_code") == Errors.NONE)
    return (F.col("event_type") == STOP_REPLICA) & accepted & F.col("delete_partition")


def refused() -> Column:
    """The event is a refused request of the control plane, which states nothing about the topic."""
    of_partition, of_request = (F.coalesce(name, F.lit(0)) != 0 for name in ("error_code", "request_error_code"))
    return F.col("event_type").isin(*_CONTROL) & (of_partition | of_request)


def _by_key(by_name: DataFrame) -> DataFrame:
    """One row per name and one row per id of it, from one row per name."""
    several = F.size("ids") > 1
    created_twice = F.size("creations") > F.size("partitions")
    deleted = (F.size("ids") == 0) & F.col("deleted_by_name")
    ambiguous = several | created_twice | deleted | _had_topic_before()
    id_columns = {
        "topic_removed_ms": F.lit(None).cast("bigint"),
        "names": F.array().cast("array<string>"),
        "id_refs": F.struct(*(no_ref().alias(name) for name in _ID_REFS)),
    }
    name = F.struct(
        key_of_name(F.col("topic")).alias("topic_key"),
        F.when(~ambiguous, F.get("ids", F.lit(0))).alias("known_topic_id"),
        ambiguous.alias("ambiguous_name"),
        *(value.alias(column) for column, value in id_columns.items()),
    )

    def of_id(id: Column) -> Column:
        own = F.filter("seen", lambda s: s["topic_id"] == id)
        removed, any_of_it = F.array_min(own["removed"]), F.get(own, F.lit(0))
        stated = (removed, F.array_max(own["created"]), any_of_it["first_name"], any_of_it["last_name"])
        return F.struct(
            id.alias("topic_key"),
            id.alias("known_topic_id"),
            F.lit(False).alias("ambiguous_name"),
            removed["time_ms"].alias("topic_removed_ms"),
            any_of_it["names"].alias("names"),
            F.struct(*(of["own_ref"].alias(name) for name, of in zip(_ID_REFS, stated, strict=True))).alias("id_refs"),
        )

    created_once = (F.size("creations") > 0) & ~created_twice
    rows = by_name.withColumns({"ids": F.array_distinct("seen.topic_id"), "created_once": created_once})
    rows = rows.withColumn("identity", F.explode(F.concat(F.array(name), F.transform("ids", of_id))))
    sightings = F.transform("seen", lambda s: F.struct(*(s[n].alias(n) for n in _SIGHTING)))
    return rows.select(
        "cluster", "identity.*", F.col("topic").alias("known_topic"), several.alias("recreated"), "deleted_by_name",
        "created_once", "deletions", sightings.alias("sightings"),
    ).where(F.col("topic_key").isNotNull())  # fmt: skip


def _had_topic_before() -> Column:
    """A node recorded the deletion of a topic of the name before its first statement of the name's only id. Needs: seen, deletions.

    The replica that it deleted may also have been moved away, and come back since: but not in leader epoch 0, as moves begin an epoch.
    """

    def precedes(deletion: Column) -> Column:
        return F.exists(
            "seen",
            lambda s: (
                (s["node"] == deletion["node"])
                & (s["since"] > deletion["until"])
                & (~deletion["of_log"] | s["in_first_epoch"])
            ),
        )

    return holds(F.exists("deletions", precedes))


def earlier_ids(topic_id: Column) -> Column:
    """Ids of the name that preceded this one at every node that has both. Needs: sightings."""
    return F.array_except(_ids_on_one_side(topic_id, earlier=True), _ids_on_one_side(topic_id, earlier=False))


def later_ids(topic_id: Column) -> Column:
    """Ids of the name that followed this one at every node that has both. Needs: sightings."""
    return F.array_except(_ids_on_one_side(topic_id, earlier=False), _ids_on_one_side(topic_id, earlier=True))


def _ids_on_one_side(topic_id: Column, *, earlier: bool) -> Column:
    own = F.filter("sightings", lambda s: s["topic_id"] == topic_id)

    def on_that_side(other: Column) -> Column:
        at_the_same = F.filter(own, lambda s: s["node"].eqNullSafe(other["node"]))
        apart = F.exists(at_the_same, lambda s: other["since"] < s["since"] if earlier else other["since"] > s["since"])
        return (other["topic_id"] != topic_id) & apart

    return F.array_distinct(F.filter("sightings", on_that_side)["topic_id"])


def key_of_name(name: Column) -> Column:
    """Key of a topic name; null for a null name. It is no topic id: neither names nor ids have a `/`."""
    return F.concat(F.lit(_OF_NAME), name)


def stated_topic(key: str) -> str:
    """The topic id or topic name of a key."""
    return key.removeprefix(_OF_NAME)


def topic_key() -> Column:
    """Key by which a row identifies its topic: the id, else the name. Needs: topic, topic_id."""
    return F.coalesce("topic_id", key_of_name(F.col("topic")))


def topic_keys() -> Column:
    """All keys of a row's topic: its id, its name, or both. Needs: topic, topic_id."""
    return F.array_compact(F.array("topic_id", key_of_name(F.col("topic"))))


def with_identity(rows: DataFrame, identities: DataFrame, *more: str) -> DataFrame:
    """Completes topic and topic_id of rows that have only one of them. Grain unchanged.

    Needs: cluster, topic, topic_id. `identities` is the result of `topic_incarnations`. Adds ambiguous_name, and `more` of its
    columns. topic_id stays null if the name alone does not identify the topic.
    """
    key = {"cluster": F.col("cluster"), "topic_key": topic_key()}
    added = identities.select(*(F.col(name).alias(f"identity_{name}") for name in key), *_IDENTITY, *_added(more))
    same = [value == F.col(f"identity_{name}") for name, value in key.items()]
    joined = rows.join(F.broadcast(added), same, "left")
    return joined.withColumns(
        {
            "topic": F.coalesce("topic", "known_topic"),
            "topic_id": F.coalesce("topic_id", "known_topic_id"),
            **{name: holds(F.col(name)) for name in _added(more) if name in _FLAGS},
        }
    ).drop(*(f"identity_{name}" for name in key), *{*_IDENTITY}.difference(more))


def _added(more: tuple[str, ...]) -> list[str]:
    return ["ambiguous_name", *(name for name in more if name not in _IDENTITY)]


def is_user_topic() -> Column:
    """The topic is not that of the metadata log: Raft fetches have epochs of the quorum, not leader epochs of a partition."""
    of_log = F.coalesce("topic", F.lit("")).isin(*METADATA_TOPICS)
    return (F.coalesce("topic_id", F.lit("")) != METADATA_TOPIC_ID) & ~of_log
