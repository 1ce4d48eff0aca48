"""Frame `replica_logs`: where two replicas' logs of a partition differ.

`log_segments` defines copies of a log.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import EPOCH_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT
from epochaudit.events.views import holds, of_types, ref
from epochaudit.replay.data_plane.lineage import epoch_starts
from epochaudit.replay.state.incarnations import key_of_name, topic_incarnations, with_identity
from epochaudit.replay.state.log_segments import COPY, PARTITION, folder_of, log_segments, no_client, with_checkpoint
from epochaudit.sources.data_log.batch_runs import GRAIN
from epochaudit.spark.memo import as_leaf

UNCLEAN: Final = "unclean"

_SIDES: Final = ("one", "other")
_DIFFERENCE: Final = ("differs_at", "differs_by", "one_epoch", "other_epoch", "one_ref", "other_ref")


def replica_logs(events: DataFrame) -> DataFrame:
    """One row per pair of copies of two nodes with common offsets of a partition. A node's dumps count only without its segments.

    Needs: the events table. Clock: offsets. Copies with different topic ids are no pair. Digests are compared unless one of the logs
    was compacted, which rewrites batches; leader epochs are always compared.
    Columns: the subject columns (node null; leader_epoch: the higher one at the difference), ambiguous_name, and
      one_node, other_node          the nodes, the lower id first
      one_ref, other_ref            the first different batches, else the beginnings of the logs
      first_offset, end_offset      the common offsets, end_offset exclusive
      compacted                     only leader epochs were compared
      differs_at                    the first offset of different batches; null: there are none
      differs_by                    that offset; if digests cover several batches, the last offset of these
      where                         both, in words
      one_epoch, other_epoch        the leader epochs of the batches
      one_high_watermark, other_high_watermark   of replication-offset-checkpoint in the log's directory; of a dump the lowest of the
                                    node's, null if the node has no leader-epoch-checkpoint; one_high_watermark_ref,
                                    other_high_watermark_ref, their lines
      truncated_since               a copy's leader-epoch-checkpoint has a later epoch at the offset or below: the log was truncated
                                    after it was copied, and before the checkpoint was
      unclean                       an election was unclean after which the records of one copy are not those of the other, see
                                    `_with_election`; null: unknown. unclean_ref: the first such election
    """
    logs = _most_direct(log_segments(events))
    copies = as_leaf(_with_bounds(_copies(logs), events))
    topics = F.size(F.collect_set("topic_id").over(Window.partitionBy("cluster", "topic")))
    pairs = _pairs(with_identity(copies.withColumn("topics", topics), topic_incarnations(events)))
    found = _of_epochs(logs).unionByName(_of_digests(logs.join(_as_written(copies), list(COPY), "semi")))
    pair = [*PARTITION, *(f"{side}_{name}" for side in _SIDES for name in ("node", "copy"))]
    first = found.groupBy(*pair).agg(F.min(F.struct(*_DIFFERENCE)).alias("difference"))
    return _with_election(_differing(pairs.join(first, pair, "left")), events)


def _most_direct(logs: DataFrame) -> DataFrame:
    """Each node's segments, or its dumps if it has none."""
    own = Window.partitionBy(*PARTITION, "node")
    return logs.withColumn("has_segments", F.max("is_raw").over(own)).where(F.col("is_raw") | ~F.col("has_segments"))


def _with_bounds(copies: DataFrame, events: DataFrame) -> DataFrame:
    """Adds high_watermark, high_watermark_ref and entries (of the leader-epoch-checkpoint).

    Checkpoints beside a segment were copied with it. The time of a dump is unknown: its high watermark needs the entries, which show
    whether the log was truncated since.
    """
    of_node = [*PARTITION, "node"]
    entry = F.struct("leader_epoch", "start_offset", ref().alias("entry_ref"))
    epochs = of_types(events, EPOCH_CHECKPOINT).where(F.col("name").isNull() & F.col("topic").isNotNull())
    epochs = epochs.groupBy(*of_node).agg(F.array_sort(F.collect_list(entry)).alias("node_entries"))
    marks = of_types(events, HIGH_WATERMARK_CHECKPOINT).groupBy(*of_node).agg(_lowest_mark().alias("lowest_mark"))
    copies = with_checkpoint(copies, events).join(_high_watermarks(events), [*of_node, "log_dir"], "left")
    copies = copies.join(epochs, of_node, "left").join(marks, of_node, "left")
    of_dump = F.when(F.col("node_entries").isNotNull(), F.col("lowest_mark"))
    mark = F.when(F.col("is_raw"), F.col("mark")).otherwise(of_dump)
    return copies.withColumns(
        {
            "high_watermark": mark["high_watermark"],
            "high_watermark_ref": mark["ref"],
            "entries": F.when(F.col("is_raw"), F.col("entries")).otherwise(F.col("node_entries")),
        }
    ).drop("node_entries", "mark", "lowest_mark")


def _high_watermarks(events: DataFrame) -> DataFrame:
    """One row per (partition, node, log directory): mark, the lowest one of its high watermark checkpoints."""
    rows = of_types(events, HIGH_WATERMARK_CHECKPOINT)
    by_directory = rows.groupBy(*PARTITION, "node", folder_of(F.col("file")).alias("log_dir"))
    return by_directory.agg(_lowest_mark().alias("mark"))


def _lowest_mark() -> Column:
    return F.min(F.struct("high_watermark", ref().alias("ref")))


def _copies(logs: DataFrame) -> DataFrame:
    """One row per copy: first offset, end offset, topic_id, leader_epochs (of its batches), compacted, place of its first batches.

    A segment that does not begin where the one before it ends shows compaction, too: the log cleaner removed batches at its boundary.
    """
    first, end = F.min("batch_base_offset"), F.max("batch_last_offset") + 1
    of_file = logs.groupBy(*COPY, "is_raw", "log_dir", "file").agg(
        first.alias("first"),
        end.alias("end"),
        F.max("compacted").alias("compacted"),
        F.min("topic_id").alias("topic_id"),
        F.collect_set("leader_epoch").alias("leader_epochs"),
        F.min(F.struct("batch_base_offset", "own_ref")).alias("begin"),
    )
    return of_file.groupBy(*COPY, "is_raw", "log_dir").agg(
        F.min("first").alias("first"),
        F.max("end").alias("end"),
        (F.max("compacted") | (F.sum(F.col("end") - F.col("first")) < F.max("end") - F.min("first"))).alias(
            "compacted"
        ),
        F.min("topic_id").alias("topic_id"),
        F.array_distinct(F.flatten(F.collect_list("leader_epochs"))).alias("leader_epochs"),
        F.min("begin")["own_ref"].alias("ref"),
    )


def _as_written(copies: DataFrame) -> DataFrame:
    """Copies whose batches are as the leader wrote them."""
    return copies.where(~F.col("compacted"))


def _pairs(copies: DataFrame) -> DataFrame:
    """One row per pair of two nodes' copies of a partition with common offsets, unless their topic ids differ."""
    one, other = (_sided(copies, side) for side in _SIDES)
    same = F.coalesce(F.col("one_topic_id") == F.col("other_topic_id"), F.lit(True))
    pairs = one.join(other, list(PARTITION)).where((F.col("one_node") < F.col("other_node")) & same)
    several = F.col("one_ambiguous_name") | F.col("other_ambiguous_name")
    nameless = F.col("one_topic_id").isNull() | F.col("other_topic_id").isNull()
    return pairs.withColumns(
        {
            "first_offset": F.greatest("one_first", "other_first"),
            "end_offset": F.least("one_end", "other_end"),
            "compacted": F.col("one_compacted") | F.col("other_compacted"),
            "ambiguous_name": several & nameless,
            "topic_id": F.coalesce("one_topic_id", "other_topic_id"),
        }
    ).where(F.col("first_offset") < F.col("end_offset"))


def _sided(rows: DataFrame, side: str, *shared: str) -> DataFrame:
    """The rows as one side of a pair: columns other than those of the partition and `shared` get its name as prefix."""
    own = [name for name in rows.columns if name not in (*PARTITION, *shared)]
    return rows.withColumnsRenamed({name: f"{side}_{name}" for name in own})


def _of_epochs(logs: DataFrame) -> DataFrame:
    """One row per overlap of two nodes' runs of different leader epochs. Columns as of `_of_digests`."""
    runs = logs.where(F.col("leader_epoch").isNotNull()).select(
        *COPY, "leader_epoch", "batch_base_offset", "batch_last_offset", "batch_digests", "own_ref"
    )
    one, other = (_sided(runs, side) for side in _SIDES)
    overlaps = one.join(other, list(PARTITION)).where(
        (F.col("one_node") < F.col("other_node"))
        & (F.col("one_leader_epoch") != F.col("other_leader_epoch"))
        & (F.col("one_batch_base_offset") <= F.col("other_batch_last_offset"))
        & (F.col("other_batch_base_offset") <= F.col("one_batch_last_offset"))
    )
    overlaps = overlaps.withColumn("differs_at", F.greatest("one_batch_base_offset", "other_batch_base_offset"))
    for side in _SIDES:
        entry = F.get(F.filter(f"{side}_batch_digests", lambda d: _covers(d, F.col("differs_at"))), F.lit(0))
        overlaps = overlaps.withColumn(f"{side}_ref", _place_of(F.col(f"{side}_own_ref"), entry["byte_offset"]))
    return overlaps.withColumns(
        {
            "differs_by": F.col("differs_at"),
            "one_epoch": F.col("one_leader_epoch"),
            "other_epoch": F.col("other_leader_epoch"),
        }
    ).select(*PARTITION, "one_node", "one_copy", "other_node", "other_copy", *_DIFFERENCE)


def _covers(entry: Column, offset: Column) -> Column:
    return (entry["base_offset"] <= offset) & (offset <= entry["last_offset"])


def _place_of(run: Column, byte_offset: Column) -> Column:
    """A reference to a batch of a run. Only the first batch has a line."""
    begins = byte_offset.isNull() | (byte_offset == run["byte_offset"])
    line = F.when(begins, run["line_in_split"])
    return F.struct(
        run["node"].alias("node"), run["file"].alias("file"), run["split"].alias("split"),
        F.coalesce(byte_offset, run["byte_offset"]).alias("byte_offset"), line.alias("line_in_split"), run["time_ms"].alias("time_ms"),
    )  # fmt: skip


def _of_digests(logs: DataFrame) -> DataFrame:
    """One row per grain that differs between two nodes: partition, one_node, one_copy, other_node, other_copy, the difference.

    A grain of which one copy lacks a part is compared batch by batch, if both have digests of single batches.
    """
    entries = logs.select(*COPY, "leader_epoch", "own_ref", F.explode("batch_digests").alias("e"))
    entry = F.struct(
        "e.base_offset",
        "e.last_offset",
        "e.digest",
        "leader_epoch",
        _place_of(F.col("own_ref"), F.col("e.byte_offset")).alias("ref"),
    )
    grains = entries.groupBy(*COPY, F.floor(F.col("e.base_offset") / GRAIN).alias("grain")).agg(
        F.min("e.base_offset").alias("first"),
        F.max("e.last_offset").alias("last"),
        F.bit_xor("e.digest").alias("digest"),
        (F.max("e.batches") == 1).alias("single"),
        F.array_sort(F.collect_list(entry)).alias("batches"),
    )
    one, other = (_sided(grains, side, "grain") for side in _SIDES)
    same_part = (F.col("one_first") == F.col("other_first")) & (F.col("one_last") == F.col("other_last"))
    pairs = one.join(other, [*PARTITION, "grain"]).where(
        (F.col("one_node") < F.col("other_node")) & ~(same_part & (F.col("one_digest") == F.col("other_digest")))
    )
    pairs = pairs.withColumns({"lo": F.greatest("one_first", "other_first"), "hi": F.least("one_last", "other_last")})
    single = F.col("one_single") & F.col("other_single")
    of_one, of_other = (_digests_between(F.col(f"{side}_batches")) for side in _SIDES)
    differing = F.concat(F.array_except(of_one, of_other), F.array_except(of_other, of_one))
    first = F.array_min(differing)["base_offset"]
    pairs = pairs.withColumn("differs_at", F.when(single, first).when(same_part, F.col("lo")))
    pairs = pairs.where(F.col("differs_at").isNotNull())
    pairs = pairs.withColumn("differs_by", F.when(single, F.col("differs_at")).otherwise(F.col("hi")))
    for side in _SIDES:
        batches = F.col(f"{side}_batches")
        at = F.coalesce(
            F.get(F.filter(batches, lambda b: _covers(b, F.col("differs_at"))), F.lit(0)), F.get(batches, F.lit(0))
        )
        pairs = pairs.withColumns({f"{side}_ref": at["ref"], f"{side}_epoch": at["leader_epoch"]})
    return pairs.select(*PARTITION, "one_node", "one_copy", "other_node", "other_copy", *_DIFFERENCE)


def _digests_between(batches: Column) -> Column:
    """The batches that begin within the offsets that both copies have, without their places."""
    within = F.filter(batches, lambda b: b["base_offset"].between(F.col("lo"), F.col("hi")))
    names = ("base_offset", "last_offset", "digest")
    return F.transform(within, lambda b: F.struct(*(b[name].alias(name) for name in names)))


def _differing(pairs: DataFrame) -> DataFrame:
    """Adds the columns about the difference, and the subject columns."""
    pairs = pairs.withColumns(
        {name: F.col(f"difference.{name}") for name in ("differs_at", "differs_by", "one_epoch", "other_epoch")}
    )
    refs = {f"{side}_ref": F.coalesce(f"difference.{side}_ref", f"{side}_ref") for side in _SIDES}
    truncated = _has_later_epoch("one") | _has_later_epoch("other")
    return pairs.withColumns(
        {
            **refs,
            "truncated_since": truncated,
            "where": F.when(
                F.col("differs_at") == F.col("differs_by"), F.concat(F.lit("at offset "), "differs_at")
            ).otherwise(F.concat(F.lit("between offsets "), "differs_at", F.lit(" and "), "differs_by")),
            "leader_epoch": F.greatest("one_epoch", "other_epoch"),
            "node": F.lit(None).cast("int"),
            **no_client(),
        }
    ).drop("difference", "one_entries", "other_entries")


def _has_later_epoch(side: str) -> Column:
    """In the copy's checkpoint, an epoch after that of the batch begins at the batch's offset or below."""
    epoch, at = F.col(f"{side}_epoch"), F.col("differs_at")
    later = F.exists(f"{side}_entries", lambda e: (e["leader_epoch"] > epoch) & (e["start_offset"] <= at))
    return holds(later)


def _with_election(pairs: DataFrame, events: DataFrame) -> DataFrame:
    """Adds unclean and unclean_ref: of the elections after the lower of the two leader epochs.

    Of the committed records of two copies, an unclean election gave up one. Either it led to the batch of the higher epoch, or it came
    later and elected the broker of the lower epoch, whose next batches then are of that election's epoch or a later one. If the copy
    has no later batches, any later election may be the one.
    """
    low, high = F.least("one_epoch", "other_epoch"), F.greatest("one_epoch", "other_epoch")
    keyed = _with_epochs(pairs, events)
    of_lower = F.when(F.col("one_epoch") < F.col("other_epoch"), F.col("one_leader_epochs")).otherwise(
        F.col("other_leader_epochs")
    )
    following = F.array_min(F.filter(of_lower, lambda epoch: epoch > low))
    until = F.when(following.isNotNull(), F.greatest(high, following))
    later = F.filter("epochs", lambda e: e["leader_epoch"] > low)
    between = F.filter(later, lambda e: F.coalesce(e["leader_epoch"] <= until, F.lit(True)))
    led = F.filter(between, lambda e: F.coalesce(e["leader"] >= 0, F.lit(True)))
    unclean = F.filter(led, lambda e: e["election"] == UNCLEAN)
    first_unclean = F.array_min(F.transform(unclean, lambda e: F.struct(e["leader_epoch"], e["election_ref"])))
    last = F.greatest(until, high, F.array_max(between["leader_epoch"]))
    clean = (F.size(between) == last - low) & F.forall(led, lambda e: e["election"] == "clean")
    known = F.when(low == high, F.lit(False)).when(first_unclean.isNotNull(), F.lit(True)).when(clean, F.lit(False))
    unclean_ref = F.when(known, first_unclean["election_ref"])
    return keyed.withColumns({"unclean": known, "unclean_ref": unclean_ref}).drop(
        "epochs", *(f"{side}_leader_epochs" for side in _SIDES)
    )


def _with_epochs(pairs: DataFrame, events: DataFrame) -> DataFrame:
    """Adds epochs, those of `epoch_starts`: by the topic id, else by the name if it had one topic only. Grain unchanged.

    partition.metadata may be the only evidence of the id: a ZooKeeper controller's lines about elections have names alone.
    """
    starts = epoch_starts(events)
    of_id = starts.select("cluster", F.col("topic_key").alias("topic_id"), "partition", F.col("epochs").alias("of_id"))
    name = {"named": key_of_name(F.col("topic"))}
    of_name = starts.where(~F.col("ambiguous_name")).select(
        "cluster", F.col("topic_key").alias("named"), "partition", F.col("epochs").alias("of_name")
    )
    keyed = pairs.join(of_id, ["cluster", "topic_id", "partition"], "left").withColumns(name)
    keyed = keyed.join(of_name, ["cluster", "named", "partition"], "left")
    epochs = F.coalesce("of_id", F.when(F.col("one_topics") <= 1, F.col("of_name")))
    return keyed.withColumn("epochs", epochs).drop("of_id", "of_name", "named", "one_topics", "other_topics")
