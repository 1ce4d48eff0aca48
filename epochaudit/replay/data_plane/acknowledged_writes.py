"""Writes that leaders acknowledged to producers, by leader epoch, and the leader epochs that began without them.

An answer with base offset b proves that the record at b was in the leader's log, and with acks=all that all members of the ISR had it.
How many records a batch has is not recorded, so that nothing above b counts. A new leader's log ends where its epoch starts: with a
start at b or below, the record is lost. Retention, DeleteRecords and compaction never lower the end of a log.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import PRODUCE
from epochaudit.events.views import PLACE, carried_ref, client_host, holds, of_types, ref
from epochaudit.kafka.field_values import ALL_REPLICAS
from epochaudit.replay.data_plane.stated_epochs import with_stated_epochs
from epochaudit.replay.state.held_epochs import replica_starts, with_held_epochs
from epochaudit.replay.state.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.places import of_last, then_by_place

_KEY: Final = ("cluster", "topic_key", "partition")


def answered_epochs(events: DataFrame, epochs: DataFrame) -> DataFrame:
    """One row per (node, partition, acks, leader epoch, followed epoch) in which a broker acknowledged writes.

    Needs: the events table; `epochs` as `lineage.epochs_of`. Clock: the host of the node.
    Columns: cluster, topic_key, partition, node, acks, shown_epoch (the leader epoch that its lines show; null: none), known_epoch (that
    one, or the lowest that Fetches state which it served before its first line of the replica; null: none), leader_epoch (the
    highest in which it can have answered: known_epoch, or a later one that it may have begun without a recorded line), base_offset
    (the highest that was acknowledged), own_ref (its answer), writes (array<struct<base_offset, own_ref>>: of the offsets between one
    start of a leader epoch and the next higher one, the highest that was acknowledged),
    log_start_offset (the highest that an answer stated); topic and topic_id as stated, led (the node led in some epoch that it can
    have held), followed_epoch (it held this one as a follower all the time, and half a second before; null: it led, or that is not
    known).
    """
    rows = of_types(events, PRODUCE).select(
        "cluster", "node", "topic", "topic_id", "partition", "arrival_ms", "time_ms", "acks", "log_start_offset",
        "base_offsets", "file", "file_order", "split", "byte_offset", "line_in_split",
    )  # fmt: skip
    placed = with_identity(with_held_epochs(rows, events), topic_incarnations(events)).withColumns(
        {
            "topic_key": topic_key(),
            "leader_epoch": _leader_epoch(),
            "led": F.col("led_max").isNotNull(),
            "followed_epoch": F.when(_follows(), F.col("held_max")),
        }
    )
    grain = ("node", *_KEY, "topic", "topic_id", "acks", "leader_epoch", "led", "followed_epoch")
    # by file first: the name of a file would not fit into a buffer of a fixed width
    by_file = _by_stretch(placed, epochs).groupBy(*grain, "file", "stretch").agg(
        F.max("base_offset").alias("base_offset"), F.max("log_start_offset").alias("log_start_offset"),
        F.max("time_ms").alias("last_ms"),
        *of_last(PLACE, then_by_place(F.col("base_offset")), "own_"),
    )  # fmt: skip
    by_stretch = by_file.groupBy(*grain, "stretch").agg(
        F.max(F.struct("base_offset", "last_ms", carried_ref("own").alias("own_ref"))).alias("write"),
        F.max("log_start_offset").alias("log_start_offset"), F.max("last_ms").alias("last_ms"),
    )  # fmt: skip
    found = by_stretch.groupBy(*grain).agg(
        F.collect_list(F.struct("write.base_offset", "write.own_ref")).alias("writes"),
        F.max("log_start_offset").alias("log_start_offset"), F.max("last_ms").alias("last_ms"),
    )  # fmt: skip
    found = found.withColumn("highest", F.array_max("writes")).select("*", "highest.*").drop("highest")
    found = found.join(F.broadcast(_unlogged(events, epochs)), list(_KEY), "left")
    later = F.filter(
        "unlogged",
        lambda e: (
            (e["leader_epoch"] > F.col("leader_epoch"))
            & F.coalesce(e["leader"] == F.col("node"), F.lit(True))
            & ~F.exists(
                "own_lines",
                lambda line: (
                    (line["node"] == F.col("node"))
                    & (line["leader_epoch"] < e["leader_epoch"])
                    & (line["from_ms"] >= F.col("last_ms"))
                ),
            )
        ),
    )
    highest = F.coalesce(F.array_max(F.transform(later, lambda e: e["leader_epoch"])), "leader_epoch")
    shown = F.col("leader_epoch")
    found = found.withColumns({"shown_epoch": shown, "known_epoch": shown, "leader_epoch": highest})
    return with_stated_epochs(found, F.col("base_offset"), F.lit(True), events, epochs).drop(
        "unlogged", "own_lines", "last_ms"
    )


def _by_stretch(rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Adds base_offset and stretch: how many starts of leader epochs are at that offset or below.

    One row per row of Produce; of a run of answers with a start among their offsets, one per answer.
    """
    starts = (
        epochs.where(F.col("start_offset").isNotNull())
        .groupBy(*_KEY)
        .agg(F.collect_set(F.least("start_offset", "restart_offset")).alias("starts"))
    )
    first, last = F.element_at("base_offsets", 1), F.element_at("base_offsets", -1)
    within = F.exists("starts", lambda start: (start > first) & (start <= last))
    offsets = F.when(holds(within), F.col("base_offsets")).otherwise(F.array(last))
    rows = rows.join(F.broadcast(starts), list(_KEY), "left").withColumn("base_offset", F.explode(offsets))
    return rows.withColumn("stretch", F.size(F.filter("starts", lambda start: start <= F.col("base_offset"))))


def _unlogged(events: DataFrame, epochs: DataFrame) -> DataFrame:
    """One row per partition with a leader epoch that has no line of its leader: unlogged, and own_lines of its replicas.

    A node that led, or may have led, in such an epoch may have given an answer in it, unless it wrote a line of a lower epoch after the
    answer: the epochs of a replica only rise.
    """
    unlogged = (
        epochs.where("may_have_begun")
        .groupBy(*_KEY)
        .agg(F.collect_list(F.struct("leader_epoch", "leader")).alias("unlogged"))
    )
    lines = replica_starts(events).where("proven").withColumn("topic_key", topic_key())
    own_lines = (
        lines.join(F.broadcast(unlogged.select(*_KEY)), list(_KEY), "left_semi")
        .groupBy(*_KEY)
        .agg(F.collect_list(F.struct("node", "leader_epoch", "from_ms")).alias("own_lines"))
    )
    none = F.array().cast("array<struct<node:int,leader_epoch:int,from_ms:bigint>>")
    return unlogged.join(F.broadcast(own_lines), list(_KEY), "left").withColumn(
        "own_lines", F.coalesce("own_lines", none)
    )


def _leader_epoch() -> Column:
    """The highest leader epoch in which the node can have answered: only a leader appends what is acknowledged."""
    return F.when(F.col("held_complete"), F.col("led_max"))


def _follows() -> Column:
    """The node certainly did not lead: it held one epoch as a follower, and each later one that is recorded has a line in its log."""
    one = (
        F.col("held_complete")
        & (F.col("held_min") == F.col("held_max"))
        & (F.col("held_just_before") == F.col("held_min"))
    )
    return holds(one & F.col("led_max").isNull() & ~F.col("led_just_before") & ~F.col("epoch_line_missing"))


def with_acknowledged(epochs: DataFrame, answered: DataFrame) -> DataFrame:
    """Adds what had been acknowledged before each leader epoch. Grain unchanged, one row per partition and leader epoch.

    Needs: the columns of `lineage.with_elections`, topic_key; `answered` as by `answered_epochs`. Clock: leader epoch. Adds:
      acknowledged_offset   the highest base offset that a leader of an earlier epoch acknowledged with acks=all, and that no epoch in
                       between removed; acknowledged_in (that epoch; null: not certain), acknowledged_from (then the lowest in which the
                       answer can have come), acknowledged_by (that leader), acknowledged_ref
      answered_before  a leader of an earlier epoch acknowledged writes, with any acks
      unplaced_answer  the highest base offset that was acknowledged in a leader epoch that is not known, or in one of which it is not known
                       whether it is an earlier one
      doubtful_answer  the highest base offset that was acknowledged with acks=all, either in an earlier leader epoch, or in this or a
                       later one
      start_unknown_between   a leader epoch since then may have removed the write: where it started is not recorded
      shortened_in     that epoch, or the first leader epoch since, whose leader went on with a shorter log: that may have removed the
                       write, too; null: none. shortened_to, the end of that log, and shortened_ref, the leader's line
    """
    rows = _with_answers(epochs, answered)
    partition = Window.partitionBy("cluster", "named", "topic_id", "partition")
    lower = partition.orderBy("leader_epoch").rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumns(
        {"highest": F.max(F.array_max("writes")).over(lower), "least_start": F.least("start_offset", "restart_offset")}
    )
    removes = holds(F.max(F.col("least_start") <= F.col("highest.base_offset")).over(partition))
    epoch = F.struct("leader_epoch", "least_start", "restart_offset", "restart_ref", "writes")
    rows = rows.withColumn("removes", removes)  # rare: only these partitions list their epochs
    rows = rows.withColumn("earlier", F.collect_list(F.when(F.col("removes"), epoch)).over(lower))

    def after_epoch(writes: Column, epoch: Column) -> Column:
        left = F.filter(writes, lambda one: ~holds(epoch["least_start"] <= one["base_offset"]))
        return F.concat(left, F.coalesce(epoch["writes"], none))

    none = F.array_compact(F.array(F.when(F.lit(False), F.array_max("writes"))))
    left = F.array_max(F.aggregate("earlier", none, after_epoch))
    rows = rows.withColumn("acknowledged", F.when(F.col("removes"), left).otherwise(F.col("highest")))
    possible = F.filter(
        "doubtful",
        lambda one: (one["known_epoch"] < F.col("leader_epoch")) & (F.col("leader_epoch") <= one["leader_epoch"]),
    )
    of_all = F.filter(possible, lambda one: one["acks"] == ALL_REPLICAS)
    acknowledged = F.col("acknowledged")
    since = F.col("acknowledged.leader_epoch")
    shortened = F.filter("earlier", lambda e: e["restart_offset"].isNotNull() & (e["leader_epoch"] >= since))
    first = F.col("shortened")
    return (
        rows.withColumn("shortened", F.get(F.array_sort(shortened), F.lit(0)))
        .withColumns(
            {
                "acknowledged_offset": acknowledged["base_offset"],
                "acknowledged_in": F.when(since == acknowledged["latest"], since),
                "acknowledged_from": F.when(since < acknowledged["latest"], since),
                "acknowledged_by": acknowledged["node"],
                "acknowledged_ref": acknowledged["own_ref"],
                "answered_before": holds(F.col("answered_from") < F.col("leader_epoch")),
                "unplaced_answer": F.greatest("unplaced", _highest(possible)),
                "doubtful_answer": _highest(of_all),
                "start_unknown_between": holds(F.col("open_before") > since),
                "shortened_in": first["leader_epoch"],
                "shortened_to": first["restart_offset"],
                "shortened_ref": first["restart_ref"],
            }
        )
        .drop("writes", "highest", "least_start", "removes", "earlier", "acknowledged", "answered_from", "unplaced", "doubtful",
              "shortened")
    )  # fmt: skip


def _with_answers(epochs: DataFrame, answered: DataFrame) -> DataFrame:
    """Adds writes (those that lasted, with acks=all), and of the partition answered_from, unplaced and doubtful. Grain unchanged."""
    writes = F.transform(
        "writes",
        lambda write: F.struct(
            write["base_offset"],
            F.col("known_epoch").alias("leader_epoch"),
            F.col("leader_epoch").alias("latest"),
            "node",
            write["own_ref"],
        ),
    )
    by_epoch = answered.where(F.col("leader_epoch").isNotNull()).groupBy(*_KEY, "leader_epoch").agg(
        F.flatten(F.collect_list(F.when(F.col("acks") == ALL_REPLICAS, writes))).alias("writes"),
        F.coalesce(F.max("log_start_offset"), F.lit(0)).alias("deleted_below"),  # whatever acks that answer is for
    )  # fmt: skip
    lasting = F.filter("writes", lambda write: write["base_offset"] >= F.col("deleted_below"))
    by_epoch = by_epoch.withColumn("writes", lasting).drop("deleted_below")
    doubtful = F.col("known_epoch") < F.col("leader_epoch")
    between = F.struct("known_epoch", "leader_epoch", "base_offset", "acks")
    of_partition = answered.groupBy(*_KEY).agg(
        F.min("leader_epoch").alias("answered_from"),
        F.max(F.when(F.col("leader_epoch").isNull(), F.col("base_offset"))).alias("unplaced"),
        F.collect_list(F.when(doubtful, between)).alias("doubtful"),
    )
    rows = epochs.join(F.broadcast(by_epoch), [*_KEY, "leader_epoch"], "left")
    return rows.join(F.broadcast(of_partition), list(_KEY), "left")


def _highest(answers: Column) -> Column:
    return F.array_max(F.transform(answers, lambda one: one["base_offset"]))


def removed_epochs(epochs: DataFrame, answered: DataFrame) -> DataFrame:
    """One row per known leader epoch in which a node acknowledged writes, with any acks, and later one that began without some.

    Needs: as `with_acknowledged`. Clock: leader epoch. Columns: cluster, topic_key, topic, topic_id, partition, node, leader_epoch
    (known_epoch of the answers), shown_epoch, log_start_offset, removed_in (the later leader epoch), start_offset, start_ref, election
    and candidates_before (of that), until (null, or the offset from which on another epoch in between had removed the records).
    """
    by_epoch = answered.groupBy(*_KEY, "node", "shown_epoch", F.col("known_epoch").alias("leader_epoch")).agg(
        F.max("base_offset").alias("base_offset"), F.max("log_start_offset").alias("log_start_offset"),
        F.max("leader_epoch").alias("highest_epoch"),
    )  # fmt: skip
    named = F.col("topic_id").isNotNull() | ~F.col("ambiguous_name")
    starts = epochs.where(named & F.col("start_offset").isNotNull()).select(
        *_KEY, "topic", "topic_id", F.col("leader_epoch").alias("removed_in"), "start_offset", "start_ref",
        "election", "candidates_before",
    )  # fmt: skip
    removed = starts.join(F.broadcast(by_epoch), list(_KEY)).where(
        (F.col("removed_in") > F.col("highest_epoch")) & (F.col("start_offset") <= F.col("base_offset"))
    )
    before = Window.partitionBy(*_KEY, "node", "shown_epoch", "leader_epoch").orderBy("removed_in")
    until = F.min("start_offset").over(before.rowsBetween(Window.unboundedPreceding, -1))
    removed = removed.withColumn("until", until).drop("base_offset", "highest_epoch")
    return removed.where(F.col("until").isNull() | (F.col("until") > F.col("start_offset")))


REMOVED: Final = (
    "cluster string, topic_key string, partition int, node int, shown_epoch int, start_offset bigint, until bigint, "
    "log_start_offset bigint, number int"
)


def removed_writes(
    events: DataFrame, removed: DataFrame, topics: Collection[str], topic_ids: Collection[str]
) -> DataFrame:
    """One row per number, acks and producer.

    Needs: the events table; `removed` with the columns REMOVED: rows of `removed_epochs`, and a number of the epoch that began without
    the writes. In `topics` and `topic_ids` all its topics. Clock: as `answered_epochs`.
    Columns: number, acks, client_id, client_host, transactional_id, batches (how many acknowledged batches are missing), first_offset and
    last_offset (the lowest and highest of their base offsets), own_ref (the last answer of the run that acknowledged the highest).
    """
    named = F.col("topic").isin(*topics) | F.col("topic_id").isin(*topic_ids)
    rows = of_types(events, PRODUCE).where(named)
    rows = rows.select(
        "cluster", "node", "topic", "topic_id", "partition", "arrival_ms", "time_ms", "acks", "base_offsets", "client_id",
        client_host().alias("client_host"), "transactional_id", ref().alias("own_ref"),
    )  # fmt: skip
    placed = with_identity(with_held_epochs(rows, events), topic_incarnations(events)).withColumns(
        {"topic_key": topic_key(), "shown_epoch": _leader_epoch()}
    )
    producer = ("acks", "client_id", "client_host", "transactional_id")
    each = placed.select(
        *_KEY, "node", "shown_epoch", *producer, "own_ref", F.explode("base_offsets").alias("base_offset")
    ).alias("each")
    offset, of_epoch = F.col("base_offset"), F.broadcast(removed).alias("removed")
    same = [F.col(f"each.{name}").eqNullSafe(F.col(f"removed.{name}")) for name in (*_KEY, "node", "shown_epoch")]
    missing = (
        each.join(of_epoch, same)
        .select("each.*", "number", "start_offset", "log_start_offset", "until")
        .where(
            (offset >= F.greatest("start_offset", "log_start_offset"))
            & F.coalesce(offset < F.col("until"), F.lit(True))
        )
    )
    return missing.groupBy("number", *producer).agg(
        F.count("*").alias("batches"),
        F.min("base_offset").alias("first_offset"),
        F.max("base_offset").alias("last_offset"),
        F.max(F.struct("base_offset", "own_ref"))["own_ref"].alias("own_ref"),
    )
