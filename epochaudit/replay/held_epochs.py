"""Which leader epoch a broker held for a partition, and from when to when.

A broker states each change by a "starts at leader epoch" line in its own log. The line is written before the epoch takes
effect (Partition.makeLeader, makeFollower hold leaderIsrUpdateLock from there on), so a change is an interval: from
the line to the end of the handler. Inside it the old epoch and the new one may both judge a request.

Clock: one host. Times of the lines are compared only with times of requests of the same node.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.incarnations import topic_incarnations, topic_key, topic_keys, with_identity
from epochaudit.replay.kept import kept
from epochaudit.replay.partition_states import LEADER_AND_ISR, RECORD, partition_states
from epochaudit.replay.releases import FOREVER, releases, releases_at

STARTS: Final = ("LEADER_STARTS", "FOLLOWER_STARTS")

# Codes after which the broker holds the topic id that a LeaderAndIsr named: applied, or known already at that epoch.
_TOPIC_ID_AGREED: Final = (0, 11)

# Two clocks of one host, both printed to the millisecond, and a response logged after it was sent.
GRAIN_MS: Final = 2
LATE_MS: Final = (
    500  # how late a request\'s line may be written: its arrival is reckoned back from that (110 were seen)
)
# A KRaft delta writes no closing line after the last leader it starts; flushing the epoch cache takes tens of ms.
_DELTA_MS: Final = 250
_HANDLER_MS: Final = 60_000
_CALM_MS: Final = 1_000  # a shorter spell serves too few requests
_GIVEN: Final = ("cluster", "topic", "topic_id", "partition", "leader_epoch")


@kept
def replica_starts(events: DataFrame) -> DataFrame:
    """One row per "starts at leader epoch" line of a replica.

    Before 2.6 followers write no such line: while a node has lines of leaders only, up to the process that writes the first
    of a follower, the LeaderAndIsr requests it accepted as a follower stand in (proven = false: one may be answered 0
    without being installed).
    Columns: cluster, node, topic, topic_id, several_incarnations, partition, leader_epoch, is_leader, leader, start_offset,
    high_watermark, partition_epoch, isr, previous_epoch, file_order, byte_offset, own_ref, proven, from_ms (the line),
    settled_ms (the epoch has surely taken effect; null if not proven), until_ms (no longer held after that: a later change
    has settled, or the process started anew; null: held to the end), successor (the next line, if it is of another
    topic of the name: struct(ms, topic_id, ref)) and epoch_before (that of the line before, if it is in the same file and of
    the same topic). A topic id that the line lacks is the one the node last named for the
    partition.
    Clock: the node's own log order, and its host's time.
    """
    event_type = F.col("event_type")
    nodes = (
        of_types(events, "PROCESS_STARTING", *STARTS)
        .groupBy("cluster", "node")
        .agg(
            F.collect_set(F.when(event_type == "PROCESS_STARTING", F.col("time_ms"))).alias("process_starts"),
            F.max(event_type == "LEADER_STARTS").alias("leads"),
            F.min(F.when(event_type == "FOLLOWER_STARTS", F.col("time_ms"))).alias("follows_ms"),
        )
        .withColumn("leaders_only_to", F.when(F.col("leads"), _process_of(F.col("follows_ms"))))
        .drop("leads", "follows_ms")
    )
    lines = with_identity(_named(_with_handler_end(events)), topic_incarnations(events))
    lines = lines.join(F.broadcast(nodes), ["cluster", "node"], "left").where(
        event_type.isin(*STARTS) | ((F.col("from_ms") < F.col("leaders_only_to")) & F.col("followed"))
    )
    backwards = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(
        F.desc("from_ms"), F.desc("file_order"), F.desc("byte_offset")
    )
    following = backwards.rowsBetween(Window.unboundedPreceding, -1)
    before = F.lead(F.struct("leader_epoch", "topic_id", F.col("own_ref.file").alias("file"))).over(backwards)
    in_one_file = (before["file"] == F.col("own_ref.file")) & before["topic_id"].eqNullSafe(F.col("topic_id"))
    next_start = F.last(F.struct(F.col("settled_ms").alias("ms"), "topic_id", F.col("own_ref").alias("ref"))).over(
        following
    )
    restarted = F.array_min(F.filter("process_starts", lambda at: at >= F.col("from_ms")))
    return lines.withColumns(
        {
            "is_leader": event_type == "LEADER_STARTS",
            "leader": F.when(event_type == "LEADER_STARTS", F.col("node")).otherwise(F.col("leader")),
            "proven": event_type.isin(*STARTS),
            "until_ms": F.least(F.last("settled_ms", ignorenulls=True).over(following), restarted),
            "successor": F.when(next_start["topic_id"] != F.col("topic_id"), next_start),
            "epoch_before": F.when(in_one_file, before["leader_epoch"]),
        }
    ).drop("process_starts", "leaders_only_to", "followed", "handler_end_ms", "event_type")


def _process_of(time_ms: Column) -> Column:
    """When the process that wrote at that time started: FOREVER if none did, 0 if the start is not recorded."""
    started = F.array_max(F.filter("process_starts", lambda at: at <= time_ms))
    return F.when(time_ms.isNull(), F.lit(FOREVER)).otherwise(F.coalesce(started, F.lit(0)))


def _with_handler_end(events: DataFrame) -> DataFrame:
    """Lines of the replica state machine and accepted LeaderAndIsr rows, each line with the end of its handler."""
    rows = of_types(
        events, *STARTS, "PARTITION_CREATED", "LEADER_AND_ISR", "LEADER_AND_ISR_FINISHED", "METADATA_DELTA"
    ).where(F.col("node").isNotNull())
    rows = rows.select(
        "cluster", "node", "source", "event_type", "topic", "topic_id", "partition", "leader_epoch", "leader", "start_offset",
        "high_watermark", "partition_epoch", "isr", "previous_epoch", "file_order", "byte_offset", "time_ms", "arrival_ms",
        "request_error_code", "error_code", ref().alias("own_ref"),
    )  # fmt: skip
    later = (
        Window.partitionBy("cluster", "node", "source")
        .orderBy(F.desc("file_order"), F.desc("byte_offset"))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    finished = F.last(F.when(F.col("event_type") == "LEADER_AND_ISR_FINISHED", F.col("time_ms")), ignorenulls=True)
    delta = F.last(F.when(F.col("event_type") == "METADATA_DELTA", F.col("time_ms")), ignorenulls=True)
    rows = rows.withColumns({"finished_ms": finished.over(later), "next_delta_ms": delta.over(later)})
    return rows.withColumn(
        "handler_end_ms",
        F.when(F.col("finished_ms").isNotNull(), F.least("finished_ms", F.col("time_ms") + _HANDLER_MS)).otherwise(
            F.least("next_delta_ms", F.col("time_ms") + _DELTA_MS)  # least passes over a null
        ),
    ).drop("finished_ms", "next_delta_ms")


def _named(rows: DataFrame) -> DataFrame:
    """Gives lines without a topic id the id that the node last named for the partition: lines, and LeaderAndIsr it accepted."""
    is_request = F.col("event_type") == "LEADER_AND_ISR"
    names = ~is_request | ((F.col("request_error_code") == 0) & F.col("error_code").isin(*_TOPIC_ID_AGREED))
    by_partition = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(
        "from_ms", F.col("source") != "request_log", "file_order", "byte_offset"
    )
    placed = rows.where(F.col("topic").isNotNull() & names).withColumn(
        "from_ms", F.when(is_request, F.col("arrival_ms") - GRAIN_MS).otherwise(F.col("time_ms"))
    )
    return placed.withColumns(
        {
            "topic_id": F.coalesce("topic_id", F.last("topic_id", ignorenulls=True).over(by_partition)),
            "settled_ms": F.when(~is_request, F.greatest("handler_end_ms", "from_ms")),
            "followed": is_request
            & (F.col("error_code") == 0)
            & (F.col("leader") >= 0)
            & (F.col("leader") != F.col("node")),
        }
    ).drop("source", "time_ms", "arrival_ms", "request_error_code", "error_code")


@kept
def held_epochs(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition): all the leader epochs the replica held, to be broadcast.

    topic_key is that of the topic id and, once more, of the name (then with the epochs of all its incarnations).
    Columns: held = array of struct(leader_epoch, is_leader, topic, topic_id, from_ms, settled_ms, until_ms, successor, ref,
    outdated: a later epoch, of which the node's log does not tell, is recorded elsewhere); successor, the last of them; releases
    of the node, see there.
    """
    keyed = replica_starts(events).withColumn("following", _following())
    keyed = keyed.withColumn("topic_key", F.explode(topic_keys()))
    keyed = keyed.join(_told_epochs(events), ["cluster", "topic_key", "partition", "leader_epoch"], "left")
    entry = F.struct(
        "leader_epoch",
        "is_leader",
        "topic",
        "topic_id",
        "from_ms",
        "settled_ms",
        "until_ms",
        "successor",
        F.col("own_ref").alias("ref"),
        _outdated().alias("outdated"),
    )
    held = (
        keyed.groupBy("cluster", "node", "topic_key", "partition")
        .agg(F.collect_list(entry).alias("held"))
        .withColumn("successor", F.array_max(F.col("held")["successor"]))
    )
    return held.join(F.broadcast(releases(events)), ["cluster", "node"], "left")


def _following() -> Column:
    """The first line of the node, of the same topic, with the next higher epoch that it has a line of."""
    higher = Window.partitionBy("cluster", "node", "topic", "topic_id", "partition").orderBy("leader_epoch")
    line = F.struct("leader_epoch", "from_ms", "previous_epoch")
    return F.min(line).over(higher.rangeBetween(1, Window.unboundedFollowing))


def _told_epochs(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition, leader_epoch) that any node, request or record tells of, with next_told."""
    given = partition_states(events, RECORD, LEADER_AND_ISR).where(F.col("leader_epoch").isNotNull())
    named = with_identity(given.select(*_GIVEN), topic_incarnations(events)).select(*_GIVEN)
    told = named.unionByName(replica_starts(events).select(*_GIVEN)).withColumn("topic_key", F.explode(topic_keys()))
    told = told.select("cluster", "topic_key", "partition", "leader_epoch").distinct()
    in_order = Window.partitionBy("cluster", "topic_key", "partition").orderBy("leader_epoch")
    return told.withColumn("next_told", F.lead("leader_epoch").over(in_order))


def _outdated() -> Column:
    """The log has a hole after this epoch: the line of a later one is missing, before the next that it has, if it has one.

    A line that states this epoch as the one before proves that there is none; one that another process wrote tells nothing of
    when the epoch began. Needs: following, next_told.
    """
    following, told = F.col("following"), F.col("next_told")
    same_process = ~F.coalesce(F.col("until_ms") < following["from_ms"], F.lit(False))
    begun = F.when(same_process, following["leader_epoch"]).otherwise(following["leader_epoch"] + 1)
    adjoins = following["previous_epoch"] == F.col("leader_epoch")
    return F.coalesce(told < begun, told.isNotNull()) & ~F.coalesce(adjoins, F.lit(False))


@kept
def _calm_spells(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition) and spell in which the replica held one epoch and nothing changed.

    Columns: calm_from_ms, calm_to_ms (both within), calm (of the epoch: struct(leader_epoch, is_leader, topic, topic_id, ref,
    outdated, successor), and version and later, the kafka_version and held_later of with_held_epochs). Nearly all requests come and
    are answered in one of few spells, which spares them the search and the list to search in.
    """
    edges = F.flatten(
        F.transform(
            "held",
            lambda e: F.array(
                e["from_ms"] - GRAIN_MS, e["settled_ms"], e["until_ms"] + GRAIN_MS, e["until_ms"] + LATE_MS
            ),
        )
    )
    versions = F.flatten(F.transform("releases", lambda r: F.array(r["since_ms"], r["until_ms"])))
    moments = F.array_sort(F.array_distinct(F.array_compact(F.concat(edges, F.coalesce(versions, F.array())))))
    spell = F.transform(
        "moments",
        lambda at, i: F.struct(
            (at + 1).alias("calm_from_ms"),
            (F.coalesce(F.get("moments", i + 1), F.lit(FOREVER)) - 1).alias("calm_to_ms"),
        ),
    )
    spells = held_epochs(events).withColumn("moments", moments).select("*", F.inline(spell))
    within = F.col("calm_from_ms")
    spells = spells.where(F.col("calm_to_ms") - within >= _CALM_MS)
    nth = F.array_compact(F.transform("held", lambda e, i: F.when(_meets(e, within, within, LATE_MS), i)))
    own = F.col("own")
    calm = F.struct(
        *(own[name].alias(name) for name in ("leader_epoch", "is_leader", "topic", "topic_id", "ref", "outdated")), "successor",
        _version(within).alias("version"), _later(within).alias("later"),
    )  # fmt: skip
    return (
        spells.withColumn("possible", nth)
        .where(F.size("possible") == 1)
        .withColumn("own", F.get("held", F.get("possible", F.lit(0))))
        .where(own["settled_ms"] <= within)
        .select("cluster", "node", "topic_key", "partition", within, "calm_to_ms", calm.alias("calm"))
    )


def _meets(e: Column, arrival_ms: Column, time_ms: Column, early_ms: int) -> Column:
    """A held epoch may have judged a request that came and was answered at these times, or came a little earlier."""
    ended = e["until_ms"] < arrival_ms - early_ms
    return (e["from_ms"] <= time_ms + GRAIN_MS) & ~F.coalesce(ended, F.lit(False))


def _version(time_ms: Column) -> Column:
    return F.array_min(releases_at(at_ms=time_ms)["version"])


def _later(time_ms: Column) -> Column:
    return F.exists("held", lambda e: e["from_ms"] > time_ms + GRAIN_MS)


def with_held_epochs(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds what the serving node held while it worked on the request. Grain unchanged, rows are not shuffled.

    Needs: cluster, node, topic, topic_id, partition, arrival_ms, time_ms. Clock: the host of the node.
    Adds: held_min and held_max, the lowest and highest leader epoch that may have judged the request (null: none
    known); held_just_before: the lowest that it held within LATE_MS before, which may have judged it all the same, as a
    request's line may be written late; led_just_before: it led by then, or within LATE_MS before; held_complete: the epoch at
    arrival is known, so that no other epoch is possible; held_outdated: a later epoch, which others tell of, is missing in the
    node's log, so that it may have held that; held_leader: only as leader; held_ref: the line that started
    held_max; kafka_version of the process that answered, as major*1,000,000 + minor*1,000 + patch; successor: the line by which
    the replica of the topic id gave way to another topic of the name, whenever; held_later: it starts the replica only after the
    request. Completes topic and topic_id from the replica that was hosted.
    """
    calm = F.col("calm")
    within = (F.col("arrival_ms") >= F.col("calm_from_ms")) & (F.col("time_ms") <= F.col("calm_to_ms"))
    keyed = rows.withColumn("topic_key", topic_key()).alias("rows")
    calmed = keyed.join(F.broadcast(_calm_spells(events)).alias("other"), _same_replica() & within, "left")
    calmed = calmed.select("rows.*", "calm").alias("rows")
    # the list of all that was held goes only with the rows that have to search it
    searched = calmed.join(F.broadcast(held_epochs(events)).alias("other"), _same_replica() & calm.isNull(), "left")
    searched = searched.select("rows.*", "held", "successor", "releases")
    return (
        searched.withColumn("possible", F.when(calm.isNull(), _possible(GRAIN_MS)))
        .withColumns(_met(calm))
        .drop("topic_key", "held", "possible", "releases", "calm")
    )


def _same_replica() -> Column:
    key = ("cluster", "node", "topic_key", "partition")
    return reduce(and_, (F.col(f"rows.{name}") == F.col(f"other.{name}") for name in key))


def _possible(early_ms: int) -> Column:
    return F.filter("held", lambda e: _meets(e, F.col("arrival_ms"), F.col("time_ms"), early_ms))


def _met(own: Column) -> dict[str, Column]:
    """The columns of with_held_epochs: of the one epoch held in a calm spell, else by search."""
    highest = F.array_max(F.transform("possible", lambda e: F.struct(e["leader_epoch"], e["ref"])))
    just_before = F.array_min(F.transform(_possible(LATE_MS), lambda e: e["leader_epoch"]))
    lowest = F.array_min(F.transform("possible", lambda e: e["leader_epoch"]))
    settled = F.array_min(F.transform("possible", lambda e: e["settled_ms"])) <= F.col("arrival_ms")
    first = F.get("possible", F.lit(0))["topic"]

    def when_calm(known: Column, searched: Column) -> Column:
        return F.when(own.isNotNull(), known).otherwise(searched)

    return {
        "held_just_before": when_calm(own["leader_epoch"], just_before),
        "held_min": when_calm(own["leader_epoch"], lowest),
        "held_max": when_calm(own["leader_epoch"], highest["leader_epoch"]),
        "held_ref": when_calm(own["ref"], highest["ref"]),
        "held_outdated": F.coalesce(
            when_calm(own["outdated"], F.exists("possible", lambda e: e["outdated"])), F.lit(False)
        ),
        "held_complete": own.isNotNull() | F.coalesce(settled, F.lit(False)),
        "kafka_version": when_calm(own["version"], _version(F.col("time_ms"))),
        "held_later": when_calm(own["later"], _later(F.col("time_ms"))),
        "held_leader": when_calm(own["is_leader"], F.forall("possible", lambda e: e["is_leader"])),
        "led_just_before": when_calm(own["is_leader"], F.exists(_possible(LATE_MS), lambda e: e["is_leader"])),
        "topic": F.coalesce("topic", when_calm(own["topic"], first), F.get("held", F.lit(0))["topic"]),
        "topic_id": F.coalesce("topic_id", when_calm(own["topic_id"], _only_topic_id())),
        "successor": when_calm(own["successor"], F.col("successor")),
    }


def _only_topic_id() -> Column:
    ids = F.array_distinct(F.transform("possible", lambda e: e["topic_id"]))
    return F.when(F.size(ids) == 1, F.get(ids, F.lit(0)))
