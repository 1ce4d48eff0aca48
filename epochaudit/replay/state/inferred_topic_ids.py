"""Inferred topic ids for versions without ids (up to 2.7): the successive topics of a name, in each node's own order.

If a broker receives leader epoch 0 and partition epoch 0 for a name, after it received the topic's deletion, the name stands for
another topic. Two nodes' topics are matched by ordinal, if both had as many topics as controllers created. A node that missed
one has no ordinals.
An inferred id stands where versions with topic ids have one: in control requests, Metadata answers, and lines of brokers and
controllers. Other requests keep the name alone, as in any version.
Clock: one node's host. Topics of different nodes are counted, not ordered by time.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    DELETE_TOPICS,
    LEADER_AND_ISR,
    METADATA,
    PARTITION_STATE_CHANGED,
    UPDATE_METADATA,
)
from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import holds, of_types
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.replay.state.incarnations import NAMING, RECORDS, deletes_topic, refused

_REQUESTS: Final = (LEADER_AND_ISR, UPDATE_METADATA)
_LOGS: Final = ("server_log", "state_change_log")
_REPLICA_STATES: Final = (*_REQUESTS, *STARTS)
_NODE: Final = ("cluster", "node", "topic")
_SEPARATOR: Final = "#"  # in no topic name and in no topic id


def is_inferred(topic_id: Column) -> Column:
    """The id is inferred, and no request carries it; null for a null id."""
    return topic_id.contains(_SEPARATOR)


def topic_in_words(topic_id: Column) -> Column:
    """The id as words of a sentence: which topic of its name it is; null for a null id."""
    number = F.regexp_extract(topic_id, _SEPARATOR + r"(\d+)$", 1)
    created = F.concat(F.lit("the topic of recorded creation "), number)
    former = F.lit("the topic of before the first recorded creation")
    of_name = F.when(number == "0", former).otherwise(created)
    return F.when(is_inferred(topic_id), of_name).otherwise(F.concat(F.lit("the topic with id "), topic_id))


def deletes_topic_without_id() -> Column:
    """A topic without id is deleted. Ids are inferred only if some event does so. Needs: the columns of `deletes_topic`."""
    return holds(deletes_topic() & F.col("topic").isNotNull() & F.col("topic_id").isNull())


def with_inferred_topic_ids(events: DataFrame) -> DataFrame:
    """Completes topic_id of events with an inferred id, if the node's own order determines it. Grain and columns unchanged.

    The id is the name, a # and the ordinal of the recorded creation that the topic began with; 0 is the topic from before the
    first recorded creation. Clock: the node's host. Runs a Spark job: the inferred ids are collected on the driver.
    """
    inferred = inferred_topic_ids(events).toArrow()
    if not inferred.num_rows:
        return events
    rows, other = events.alias("rows"), events.sparkSession.createDataFrame(inferred).alias("other")
    has_inferred = F.col("rows.source").isin(*_LOGS) | F.col("rows.event_type").isin(*_REQUESTS, METADATA)
    same = reduce(and_, (F.col(f"rows.{name}") == F.col(f"other.{name}") for name in _NODE))
    since, until = F.coalesce("arrival_ms", "time_ms"), F.col("time_ms")
    answer = F.col("event_type") == METADATA  # not ordered with the control requests
    inferred_id = _topic_id_at(F.when(answer, since - REQUEST_LINE_LAG_MS).otherwise(since))
    inferred_id = F.when(~answer | (inferred_id == _topic_id_at(until)), inferred_id)
    joined = rows.join(F.broadcast(other), same & has_inferred, "left")
    topic_id = F.coalesce("rows.topic_id", inferred_id).alias("topic_id")
    return joined.select(*(topic_id if name == "topic_id" else f"rows.{name}" for name in events.columns))


def _topic_id_at(time_ms: Column) -> Column:
    begun = F.filter("inferred_ids", lambda topic: topic["from_ms"] <= time_ms)
    return F.try_element_at(begun, F.lit(-1))["topic_id"]  # a line may be dated before 1970


def inferred_topic_ids(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic) of a name without ids, of which a deletion is recorded.

    Only nodes whose topics could be numbered. A name is omitted if these nodes had one topic and another node may have had a
    different one.
    Needs: the events table. Clock: the node's own. Column inferred_ids: array of struct(from_ms, topic_id) by time. from_ms of the
    first is 0: it stands for all that the node recorded of the name before the topic was created again.
    """
    whole = Window.partitionBy("cluster", "topic")
    nodes = _node_histories(events).withColumns(
        {
            "recreations": F.size("recreated_at_ms"),
            "creations": F.sum("created").over(whole),
            "stated": F.max("created").over(Window.partitionBy("cluster")) > 0,
            "named_by_id": F.max("has_id").over(whole),
            "ended": F.max("deleted").over(whole),
        }
    )
    nodes = nodes.where(F.col("has_facts") & F.col("ended") & ~F.col("named_by_id")).withColumns(
        {
            "only_node": F.count("*").over(whole) == 1,
            "most": F.max("recreations").over(whole),
            "fewest": F.min("recreations").over(whole),
            "all_begun": F.min("begun").over(whole),
            "any_begun": F.max("begun").over(whole),
            "all_closed": F.min("ends_deleted").over(whole),
        }
    )
    nodes = nodes.withColumn("first", F.when(~F.col("creation_missing"), _first_ordinal()))
    last = F.col("first") + F.col("recreations")
    only_one = F.max(last).over(whole) == F.min("first").over(whole)
    unnumbered = F.max(F.col("first").isNull()).over(whole)
    known = nodes.withColumn("ambiguous", only_one & unnumbered).where(F.col("first").isNotNull() & ~F.col("ambiguous"))
    begins = F.concat(F.array(F.lit(0).cast("bigint")), "recreated_at_ms")
    inferred_ids = F.transform(
        begins,
        lambda at, nth: F.struct(
            at.alias("from_ms"), F.concat("topic", F.lit(_SEPARATOR), F.col("first") + nth).alias("topic_id")
        ),
    )
    return known.select(*_NODE, inferred_ids.alias("inferred_ids"))


def _first_ordinal() -> Column:
    """Ordinal of the first topic of the name that the node had; null if it is not known.

    The node with the most topics had all of them, if controllers created as many, or one less and the first was there before.
    Controllers up to 1.0 don't log creations. Then all nodes must have had equally many topics, and each node must have recorded
    the creation of its first one (`begun`: its first fact is a creation, or repeats one), or, for a name that was never created
    again, the deletion.
    """
    recreations, most, creations, begun = (F.col(name) for name in ("recreations", "most", "creations", "begun"))
    agree = (F.col("fewest") == most) & ((most > 0) | F.col("all_closed"))
    older = (most == 0) & F.col("all_closed") & (F.col("stated") | ~F.col("any_begun"))
    unstated = F.when(F.col("only_node") | (agree & F.col("all_begun")), begun.cast("int")).when(older, 0)
    counted = (recreations == most) & ((most == creations) | (begun & (most == creations - 1)))
    return F.when(creations == 0, unstated).when(counted, creations - recreations)


def _node_histories(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic): the history of the name in the node's own order.

    Columns:
      recreated_at_ms   times at which the name was created again, in order
      begun             the node's first fact of the name is a creation
      ends_deleted      the node received no state of an existing topic after the last deletion
      creation_missing  a topic existed after a deletion, and its creation is not recorded
      created           number of creations that the node logged as controller
      deleted           a deletion is recorded
      has_id            a topic id was stated for the name
      has_facts         the node has facts about the name other than Metadata answers
    """
    before = Window.partitionBy(*_NODE).orderBy("at").rangeBetween(Window.unboundedPreceding, -1)
    deleted, existed = F.col("deletes"), F.col("received") | F.col("stated")
    rows = _facts(events).withColumns(
        {
            "deleted": F.max(F.when(deleted, F.col("at"))).over(before),
            "deleted_ms": F.max(F.when(deleted, F.col("time_ms"))).over(before),
            "existed": F.max(F.when(existed, F.col("at"))).over(before),
        }
    )
    again = F.col("deleted") > F.coalesce("existed", F.lit(0))
    of_former = F.col("answers") & (F.col("arrival_ms") - REQUEST_LINE_LAG_MS <= F.col("deleted_ms"))
    creation_missing = again & ((F.col("received") & ~F.col("creates")) | (F.col("answers") & ~of_former))
    begun = F.min(F.when(F.col("creates"), F.col("at"))) == F.min(F.when(existed | deleted, F.col("at")))
    ends_deleted = F.max(F.when(deleted, F.col("at"))) > F.max(F.when(F.col("received"), F.col("at")))
    created = F.col("stated") & F.col("creates") & (F.col("partition") == 0)
    facts = {
        "begun": begun,
        "ends_deleted": ends_deleted,
        "creation_missing": F.max(creation_missing),
        "deleted": F.max("deletes"),
    }
    return rows.groupBy(*_NODE).agg(
        F.array_sort(F.collect_set(F.when(F.col("creates") & again, F.col("at")))).alias("recreated_at_ms"),
        *(holds(fact).alias(name) for name, fact in facts.items()),
        F.count_distinct(F.when(created, F.col("at"))).alias("created"),
        F.max(F.col("topic_id").isNotNull()).alias("has_id"),
        (F.col("node").isNotNull() & F.max(existed | deleted)).alias("has_facts"),
    )


def _facts(events: DataFrame) -> DataFrame:
    """One row per fact about a topic name; `at` is its time on the node's clock, of a Metadata answer the latest possible.

    deletes: a deletion. received: a broker received or logged a state of an existing topic. stated: a controller logged a state, even
    while it deletes the topic. creates: that state is of a new topic. answers: a Metadata answer about an existing topic. A row
    without any of these states a topic id.
    """
    event_type = F.col("event_type")
    rows = of_types(events, *_REPLICA_STATES, *NAMING, *RECORDS)
    rows = rows.where(F.col("topic").isNotNull() & ~refused())
    received, stated = event_type.isin(*_REPLICA_STATES) & ~deletes_topic(), event_type == PARTITION_STATE_CHANGED
    at_zero = (F.col("leader_epoch") == 0) & (F.coalesce("partition_epoch", F.lit(0)) == 0)
    facts = {
        "deletes": deletes_topic(),
        "received": received,
        "stated": stated,
        "creates": (received | stated) & at_zero & (F.coalesce("start_offset", F.lit(0)) == 0),
        "answers": (event_type == METADATA) & (F.col("error_code") == Errors.NONE) & F.col("partition").isNotNull(),
    }
    # a DeleteTopics request is answered once the topic is deleted
    timed_at_answer = event_type.isin(DELETE_TOPICS, METADATA)
    at = F.coalesce(F.when(~timed_at_answer, F.col("arrival_ms")), "time_ms").alias("at")
    each = (holds(fact).alias(name) for name, fact in facts.items())
    return rows.select(*_NODE, "partition", "topic_id", "time_ms", "arrival_ms", at, *each)
