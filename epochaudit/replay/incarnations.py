"""Which topic a name or an id means: a name may stand for several topics one after the other.

A topic's identity is its id. Fetch 13+ names topics by id only, older APIs and most log lines by name only; requests of
the control plane, Metadata 10+ and the metadata log tell which name had which ids.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.kept import kept
from epochaudit.replay.metadata_log import metadata_log
from epochaudit.replay.partition_states import LEADER_DURING_DELETE

METADATA_TOPIC: Final = "__cluster_metadata"
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"

LOG_DELETION: Final = "LOG_DELETION_SCHEDULED"
NAMING: Final = (
    "LEADER_AND_ISR", "UPDATE_METADATA", "DELETE_TOPICS", "METADATA", "PARTITION_CREATED", "LEADER_STARTS", "LEADER_AND_ISR_SKIPPED",
    "PARTITION_STATE_CHANGED", "TOPIC_DELETION_COMPLETED", LOG_DELETION,
)  # fmt: skip
RECORDS: Final = ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD")
_CONTROL: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA", "DELETE_TOPICS")
_STATED: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "time_ms",
)  # fmt: skip
_SIGHTING: Final = ("topic_id", "node", "since", "until", "deleted", "controlled", "ref")
_IDENTITY: Final = ("known_topic", "known_topic_id")
_FLAGS: Final = ("several_incarnations", "recreated", "deleted_by_name", "created_once")


@kept
def topic_incarnations(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key), the key being a topic id or `key_of_name` of a topic name.

    Needs: the events table. Clock: none between nodes; a node's own clock in the sightings.
    Columns:
      known_topic           the name, null for an id that nothing names
      known_topic_id        null for a name without an id and for a name with several
      recreated             the name had several ids
      several_incarnations  of a name only: it had several ids, or has none and was deleted or created twice (a controller
                            wrote the state of leader epoch 0 and partition epoch 0 again), so that the name tells no topic
      deleted_by_name       a topic of the name was deleted, by a fact that states no id
      created_once          of the name: controllers wrote the first state of each of its partitions, once
      topic_removed_ms      of an id: CreateTime of its RemoveTopicRecord, null while it lives
      sightings             of all the ids of the name: array of struct(topic_id, node, since, until, deleted, controlled, ref):
                            first and last time at which the node stated the id or took a statement of it, when it first
                            took that the topic is deleted (null: never), whether the control requests that it took are
                            recorded, and the place of the first; node null: the metadata log, by `position`
      deletions             of the name: array of struct(node, since, until, of_log): a node's own clock from the request to its
                            answer, or at its line; of_log, the node deletes its own replica, which alone need not mean the topic
      names                 of an id: the distinct names that it was stated with
    """
    one = Window.partitionBy("cluster", "stated_key")  # RemoveTopicRecords have no name, most lines no id
    names = F.array_distinct(F.flatten(F.collect_list("names").over(one)))
    named = _sightings(events).withColumns({"topic": F.min("topic").over(one), "names": names})
    sighting = F.struct("topic_id", "node", "since", "until", "deleted", "controlled", "ref", "removed_ms", "names")
    by_name = named.groupBy(
        "cluster", "topic", F.when(F.col("topic").isNull(), F.col("topic_id")).alias("unnamed")
    ).agg(
        F.collect_list(F.when(F.col("topic_id").isNotNull(), sighting)).alias("seen"),
        F.max(F.col("deleted").isNotNull() & F.col("topic_id").isNull()).alias("deleted_by_name"),
        F.array_distinct(F.flatten(F.collect_list("creations"))).alias("creations"),
        F.array_distinct(F.flatten(F.collect_list("deletions"))).alias("deletions"),
        F.array_distinct(F.flatten(F.collect_list("partitions"))).alias("partitions"),
    )
    return _by_key(by_name)


def _sightings(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic id or name that has none, node)."""
    log = F.col("event_type") == LOG_DELETION
    deletion = F.struct("node", "since", F.col("time_ms").alias("until"), log.alias("of_log"))
    return (
        _facts(events)
        .groupBy("cluster", topic_key().alias("stated_key"), "node")
        .agg(
            F.min("topic").alias("topic"),
            F.min("topic_id").alias("topic_id"),
            F.collect_set("topic").alias("names"),
            F.min("clock").alias("since"),
            F.max(F.when(~F.col("deletes"), F.col("clock"))).alias("until"),
            F.min(F.when(F.col("deletes"), F.col("clock"))).alias("deleted"),
            F.min(F.when(F.col("event_type") == "REMOVE_TOPIC_RECORD", F.col("time_ms"))).alias("removed_ms"),
            F.max(F.col("event_type").isin("LEADER_AND_ISR", "UPDATE_METADATA")).alias("controlled"),
            F.min(F.struct("clock", "own_ref"))["own_ref"].alias("ref"),
            F.collect_set(F.when(F.col("creates"), F.struct("partition", "time_ms"))).alias("creations"),
            F.collect_set(F.when(F.col("node").isNotNull() & (F.col("deletes") | log), deletion)).alias("deletions"),
            F.collect_set(F.when(F.col("creates"), F.col("partition"))).alias("partitions"),
        )
    )


def _facts(events: DataFrame) -> DataFrame:
    """Statements about topics: deletes, creates say what of; clock is the node's time, of records the position."""
    event_type = F.col("event_type")
    others = of_types(events, *NAMING).where(F.col("topic").isNotNull() & ~refused())
    since = F.coalesce("arrival_ms", "time_ms").alias("since")
    others = others.select(*_STATED, since, F.col("time_ms").alias("clock"), ref().alias("own_ref"))
    records = of_types(metadata_log(events), *RECORDS).withColumns(
        {"clock": F.col("position"), "since": F.col("position"), "own_ref": ref(), "node": F.lit(None).cast("int")}
    )
    deletes = deletes_topic() | (event_type == "REMOVE_TOPIC_RECORD")
    creates = (event_type == "PARTITION_STATE_CHANGED") & (F.col("leader_epoch") == 0) & (F.col("partition_epoch") == 0)
    facts = others.unionByName(records.select(*_STATED, "since", "clock", "own_ref"))
    return facts.withColumns({name: F.coalesce(fact, F.lit(False)) for name, fact in
                              (("deletes", deletes), ("creates", creates))})  # fmt: skip


def deletes_topic() -> Column:
    """Tells that a topic is deleted. A replica that is deleted says nothing: it was moved, or a stray StopReplica met it."""
    announced = (F.col("event_type") == "UPDATE_METADATA") & F.col("leader").eqNullSafe(LEADER_DURING_DELETE)
    return announced | F.col("event_type").isin("DELETE_TOPICS", "TOPIC_DELETION_COMPLETED")


def refused() -> Column:
    """A request of the control plane that was refused: it says nothing about the topic."""
    of_partition, of_request = (F.coalesce(name, F.lit(0)) != 0 for name in ("error_code", "request_error_code"))
    return F.col("event_type").isin(*_CONTROL) & (of_partition | of_request)


def _by_key(by_name: DataFrame) -> DataFrame:
    """One row per name and one per id of a row per name."""
    several = F.size("ids") > 1
    created_twice = F.size("creations") > F.size("partitions")
    nameless = (F.size("ids") == 0) & (F.col("deleted_by_name") | created_twice)
    nothing = {"topic_removed_ms": F.lit(None).cast("bigint"), "names": F.array().cast("array<string>")}
    name = F.struct(
        key_of_name(F.col("topic")).alias("topic_key"),
        F.when(~several, F.get("ids", F.lit(0))).alias("known_topic_id"),
        (several | nameless).alias("several_incarnations"),
        *(value.alias(column) for column, value in nothing.items()),
    )

    def of_id(id: Column) -> Column:
        own = F.filter("seen", lambda s: s["topic_id"] == id)
        return F.struct(
            id.alias("topic_key"),
            id.alias("known_topic_id"),
            F.lit(False).alias("several_incarnations"),
            F.array_min(own["removed_ms"]).alias("topic_removed_ms"),
            F.get(own, F.lit(0))["names"].alias("names"),
        )

    once = (F.size("creations") > 0) & ~created_twice
    rows = by_name.withColumns({"ids": F.array_distinct("seen.topic_id"), "created_once": once})
    rows = rows.withColumn("identity", F.explode(F.concat(F.array(name), F.transform("ids", of_id))))
    sightings = F.transform("seen", lambda s: F.struct(*(s[n].alias(n) for n in _SIGHTING)))
    return rows.select(
        "cluster", "identity.*", F.col("topic").alias("known_topic"), several.alias("recreated"), "deleted_by_name",
        "created_once", "deletions", sightings.alias("sightings"),
    ).where(F.col("topic_key").isNotNull())  # fmt: skip


def earlier_ids(topic_id: Column) -> Column:
    """Ids of the name that came before this one, by every node that knew both. Needs: sightings."""
    return F.array_except(_ids_on_one_side(topic_id, earlier=True), _ids_on_one_side(topic_id, earlier=False))


def later_ids(topic_id: Column) -> Column:
    """Ids of the name that came after this one, by every node that knew both. Needs: sightings."""
    return F.array_except(_ids_on_one_side(topic_id, earlier=False), _ids_on_one_side(topic_id, earlier=True))


def _ids_on_one_side(topic_id: Column, *, earlier: bool) -> Column:
    own = F.filter("sightings", lambda s: s["topic_id"] == topic_id)

    def on_that_side(other: Column) -> Column:
        at_the_same = F.filter(own, lambda s: s["node"].eqNullSafe(other["node"]))
        apart = F.exists(at_the_same, lambda s: other["since"] < s["since"] if earlier else other["since"] > s["since"])
        return (other["topic_id"] != topic_id) & apart

    return F.array_distinct(F.filter("sightings", on_that_side)["topic_id"])


def key_of_name(name: Column) -> Column:
    """Key of a topic name, distinct from every topic id (a `/` is in neither); null for a null name."""
    return F.concat(F.lit("name/"), name)


def topic_key() -> Column:
    """What a row names its topic by: the id, else the name."""
    return F.coalesce("topic_id", key_of_name(F.col("topic")))


def topic_keys() -> Column:
    """All the keys by which a row can be found that names its topic by id, by name or by both."""
    return F.array_compact(F.array("topic_id", key_of_name(F.col("topic"))))


def with_identity(rows: DataFrame, identities: DataFrame, *more: str) -> DataFrame:
    """Completes topic and topic_id of rows that have only one of them. Grain unchanged.

    `identities` is the result of `topic_incarnations`; several_incarnations and `more` of its columns are added. A topic_id
    stays null where the name alone cannot tell the topic.
    """
    added = identities.select("cluster", "topic_key", "known_topic", "known_topic_id", *_added(more))
    joined = rows.withColumn("topic_key", topic_key()).join(F.broadcast(added), ["cluster", "topic_key"], "left")
    return joined.withColumns(
        {
            "topic": F.coalesce("topic", "known_topic"),
            "topic_id": F.coalesce("topic_id", "known_topic_id"),
            **{name: F.coalesce(name, F.lit(False)) for name in _added(more) if name in _FLAGS},
        }
    ).drop(*{"topic_key", "known_topic", "known_topic_id"}.difference(more))


def _added(more: tuple[str, ...]) -> list[str]:
    return ["several_incarnations", *(name for name in more if name not in _IDENTITY)]


def is_user_topic() -> Column:
    """Not the metadata log: Raft fetches carry epochs of the quorum, not leader epochs of a partition."""
    return (F.coalesce("topic_id", F.lit("")) != METADATA_TOPIC_ID) & (F.coalesce("topic", F.lit("")) != METADATA_TOPIC)
