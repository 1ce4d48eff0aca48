"""Lives of topic names without ids (up to 2.7): the topics that had a name one after the other, by each node's own order.

What a broker is told of a name at leader epoch 0 and partition epoch 0, after it was told that the topic is deleted, is of
another topic: another life of the name. Lives of two nodes are the same if both nodes had as many as controllers created;
a node that missed one does not tell which ones it had.
A life is to the frames what a topic id is, where versions with ids carry it: in control requests, Metadata answers and the
lines of brokers and controllers. Other requests name the topic as they do in any version.
Clock: one node's host. Lives of different nodes are counted, not timed.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types
from epochaudit.replay.held_epochs import LATE_MS, STARTS
from epochaudit.replay.incarnations import NAMING, RECORDS, deletes_topic, refused

_REQUESTS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA")
_METADATA: Final = "METADATA"
_LOGS: Final = ("server_log", "state_change_log")
_STATED: Final = "PARTITION_STATE_CHANGED"
_TOLD: Final = (*_REQUESTS, *STARTS)
_NODE: Final = ("cluster", "node", "topic")
_NUMBER: Final = "#"  # in no topic name and in no topic id


def is_life(topic_id: Column) -> Column:
    """It stands for a life of a name without ids, and no request carries it; null for a null id."""
    return topic_id.contains(_NUMBER)


def deletes_nameless() -> Column:
    """Without any such event there are no lives to tell."""
    return F.coalesce(deletes_topic() & F.col("topic").isNotNull() & F.col("topic_id").isNull(), F.lit(False))


def with_lives(events: DataFrame) -> DataFrame:
    """The events, with the life of a name for a topic id where the node's own order tells it. Grain and columns unchanged.

    The id of a life is the name and, behind a #, which of the creations that controllers recorded it began with; 0 is the one
    that was there before.
    """
    told = lives(events).toArrow()
    if not told.num_rows:
        return events
    rows, other = events.alias("rows"), events.sparkSession.createDataFrame(told).alias("other")
    stands = F.col("rows.source").isin(*_LOGS) | F.col("rows.event_type").isin(*_REQUESTS, _METADATA)
    same = reduce(and_, (F.col(f"rows.{name}") == F.col(f"other.{name}") for name in _NODE))
    since, until = F.coalesce("arrival_ms", "time_ms"), F.col("time_ms")
    answer = F.col("event_type") == _METADATA  # in no order with the control requests
    life = _life_at(F.when(answer, since - LATE_MS).otherwise(since))
    life = F.when(~answer | (life == _life_at(until)), life)
    joined = rows.join(F.broadcast(other), same & stands, "left")
    topic_id = F.coalesce("rows.topic_id", life).alias("topic_id")
    return joined.select(*(topic_id if name == "topic_id" else f"rows.{name}" for name in events.columns))


def _life_at(time_ms: Column) -> Column:
    begun = F.filter("lives", lambda life: life["from_ms"] <= time_ms)
    return F.element_at(begun, -1)["topic_id"]


def lives(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic) of a name without ids, of which a deletion is recorded.

    Of nodes of which it is known which of the name's lives they had; none of the name if these had but one, and others may have
    had another.
    Needs: the events table. Clock: the node's own. Column lives: array of struct(from_ms, topic_id) by time; from_ms of the
    first is 0: all that the node recorded of the name before it was created again.
    """
    whole = Window.partitionBy("cluster", "topic")
    nodes = _told(events).withColumns(
        {
            "again": F.size("births"),
            "creations": F.sum("created").over(whole),
            "stated": F.max("created").over(Window.partitionBy("cluster")) > 0,
            "named_by_id": F.max("has_id").over(whole),
            "ended": F.max("deleted").over(whole),
        }
    )
    nodes = nodes.where(F.col("tells") & F.col("ended") & ~F.col("named_by_id")).withColumns(
        {
            "alone": F.count("*").over(whole) == 1,
            "most": F.max("again").over(whole),
            "fewest": F.min("again").over(whole),
            "all_begun": F.min("begun").over(whole),
            "any_begun": F.max("begun").over(whole),
            "all_closed": F.min("closed").over(whole),
        }
    )
    nodes = nodes.withColumn("first", F.when(~F.col("unclear"), _first_life()))
    last = F.col("first") + F.col("again")
    only_one = F.max(last).over(whole) == F.min("first").over(whole)
    untold = F.max(F.col("first").isNull()).over(whole)
    known = nodes.withColumn("unsure", only_one & untold).where(F.col("first").isNotNull() & ~F.col("unsure"))
    begins = F.concat(F.array(F.lit(0).cast("bigint")), "births")
    numbered = F.transform(
        begins,
        lambda at, nth: F.struct(
            at.alias("from_ms"), F.concat("topic", F.lit(_NUMBER), F.col("first") + nth).alias("topic_id")
        ),
    )
    return known.select(*_NODE, numbered.alias("lives"))


def _first_life() -> Column:
    """Number of the first life that the node had, null where it is not known.

    The node that had the most had all, if they are as many as controllers created, and one more if that was there before. No
    controller up to 1.0 writes its creations down: then all nodes must have had as many, and each its first from the beginning
    (`begun`: the first fact is a creation, or repeats it) or, of a name that was never created again, its end.
    """
    again, most, creations, begun = (F.col(name) for name in ("again", "most", "creations", "begun"))
    agree = (F.col("fewest") == most) & ((most > 0) | F.col("all_closed"))
    older = (most == 0) & F.col("all_closed") & (F.col("stated") | ~F.col("any_begun"))
    unstated = F.when(F.col("alone") | (agree & F.col("all_begun")), begun.cast("int")).when(older, 0)
    counted = (again == most) & ((most == creations) | (begun & (most == creations - 1)))
    return F.when(creations == 0, unstated).when(counted, creations - again)


def _told(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic), with what its own order tells of the name.

    births: when it was created again, in order; begun: its first fact is a creation; closed: nothing tells that it lives after it
    was deleted last; unclear: it lived after a deletion, and nothing tells since when; created: how many creations of the
    topic the node's controller wrote down; deleted: a deletion is recorded; has_id: a topic id was stated for the name; tells:
    there is more than that.
    """
    before = Window.partitionBy(*_NODE).orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    deleted, lived = F.col("deletes"), F.col("told") | F.col("stated")
    rows = _facts(events).withColumns(
        {
            "deleted": F.max(F.when(deleted, F.col("at"))).over(before),
            "gone": F.max(F.when(deleted, F.col("time_ms"))).over(before),
            "lived": F.max(F.when(lived, F.col("at"))).over(before),
        }
    )
    again = F.col("deleted") > F.coalesce("lived", F.lit(0))
    of_former = F.col("answers") & (F.col("arrival_ms") - LATE_MS <= F.col("gone"))
    unclear = again & ((F.col("told") & ~F.col("creates")) | (F.col("answers") & ~of_former))
    begun = F.min(F.when(F.col("creates"), F.col("at"))) == F.min(F.when(lived | deleted, F.col("at")))
    closed = F.max(F.when(deleted, F.col("at"))) > F.max(F.when(F.col("told"), F.col("at")))
    created = F.col("stated") & F.col("creates") & (F.col("partition") == 0)
    facts = {"begun": begun, "closed": closed, "unclear": F.max(unclear), "deleted": F.max("deletes")}
    return rows.groupBy(*_NODE).agg(
        F.array_sort(F.collect_set(F.when(F.col("creates") & again, F.col("at")))).alias("births"),
        *(F.coalesce(fact, F.lit(False)).alias(name) for name, fact in facts.items()),
        F.count_distinct(F.when(created, F.col("at"))).alias("created"),
        F.max(F.col("topic_id").isNotNull()).alias("has_id"),
        (F.col("node").isNotNull() & F.max(lived | deleted)).alias("tells"),
    )


def _facts(events: DataFrame) -> DataFrame:
    """What is told of topics by name, each of one kind, `at` by the node's clock.

    deletes; told: what a broker is told of a living topic; stated: what a controller states of one, even while it deletes it;
    creates: either is of a new topic; answers: a Metadata answer about one, at its latest. The others have an id.
    """
    event_type = F.col("event_type")
    rows = of_types(events, *_TOLD, *NAMING, *RECORDS)
    rows = rows.where(F.col("topic").isNotNull() & ~refused())
    told, stated = event_type.isin(*_TOLD) & ~deletes_topic(), event_type == _STATED
    at_zero = (F.col("leader_epoch") == 0) & (F.coalesce("partition_epoch", F.lit(0)) == 0)
    facts = {
        "deletes": deletes_topic(),
        "told": told,
        "stated": stated,
        "creates": (told | stated) & at_zero & (F.coalesce("start_offset", F.lit(0)) == 0),
        "answers": (event_type == _METADATA) & (F.col("error_code") == 0) & F.col("partition").isNotNull(),
    }
    # DeleteTopics is answered when the topic is gone
    done = event_type.isin("DELETE_TOPICS", _METADATA)
    at = F.coalesce(F.when(~done, F.col("arrival_ms")), "time_ms").alias("at")
    each = (F.coalesce(fact, F.lit(False)).alias(name) for name, fact in facts.items())
    return rows.select(*_NODE, "partition", "topic_id", "time_ms", "arrival_ms", at, *each)
