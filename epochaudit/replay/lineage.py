"""Frame `lineage`: where each leader epoch of a partition starts, how its leader was elected, what was exposed before it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.views import PLACE, of_types, ref
from epochaudit.replay.held_epochs import with_held_epochs
from epochaudit.replay.incarnations import is_user_topic, topic_key
from epochaudit.replay.kept import kept
from epochaudit.replay.leader_states import RECOVERING, leader_states


def lineage(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic incarnation, partition, leader epoch).

    Needs: the events table. Clock: leader epoch, then partition epoch. Epochs of which nothing is known but a statement
    by a name that stood for several topics are left out.
    Columns: the subject columns (node = the leader), several_incarnations, leader (-1 none), start_offset with start_ref (the
    leader's line), election (clean, unclean, unknown, or first for the lowest epoch recorded), election_ref, previous_isr,
    previous_leader_epoch, exposed_high_watermark (highest one that any lower epoch's leader gave out, less what epochs in
    between had lost already) with exposed_ref and exposed_leader_epoch; never_begun, see `with_elections`; answers_recorded:
    Fetch answers of the node that led last before are in the evidence, of whatever partition.
    """
    stated = leader_states(events)
    exposures = _exposed_high_watermarks(events)
    rows = stated.unionByName(exposures, allowMissingColumns=True)
    answering = (
        of_types(events, "FETCH").select("cluster", "node").distinct()
    )  # all Fetches pass: in a hash aggregation
    answering = answering.groupBy("cluster").agg(F.collect_list("node").alias("answering"))
    nameless = F.col("topic_id").isNull() & F.col("several_incarnations") & F.col("start_ref").isNull()
    return (
        _with_exposed(with_elections(by_epoch(rows)))
        .where(~nameless)
        .join(F.broadcast(answering), "cluster", "left")
        .withColumns(
            {
                "answers_recorded": F.coalesce(F.array_contains("answering", F.col("led_before")), F.lit(False)),
                "exposed_high_watermark": F.col("exposed.high_watermark"),
                "exposed_leader_epoch": F.col("exposed.leader_epoch"),
                "exposed_ref": F.col("exposed.own_ref"),
                "client_id": F.lit(None).cast("string"),
                "group_id": F.lit(None).cast("string"),
                "correlation_id": F.lit(None).cast("int"),
            }
        )
        .drop("exposed", "exposure", "named", "answering", "led_before")
    )


def _with_exposed(epochs: DataFrame) -> DataFrame:
    """Adds exposed: the highest high watermark that stood before the epoch, null if none is recorded; led_before.

    What an epoch lost when it started, later ones can't lose again. The epochs of a partition are gone through one by one
    only where something was lost, which is rare.
    """
    lower = _of_partition().rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy("cluster", "named", "topic_id", "partition")
    led = F.coalesce(F.when(F.col("leader") >= 0, F.col("leader")), F.col("node"))
    led_before = F.last(led, ignorenulls=True).over(lower)
    epochs = epochs.withColumns({"highest": F.max("exposure").over(lower), "led_before": led_before})
    loses = F.max(F.col("start_offset") < F.col("highest.high_watermark")).over(whole)
    epochs = epochs.withColumn("loses", F.coalesce(loses, F.lit(False)))
    before = F.collect_list(F.when(F.col("loses"), F.struct("start_offset", "exposure"))).over(lower)

    def started(standing: Column, epoch: Column) -> Column:
        left = F.struct(
            F.least(standing["high_watermark"], epoch["start_offset"]).alias("high_watermark"),
            standing["leader_epoch"].alias("leader_epoch"),
            standing["own_ref"].alias("own_ref"),
        )
        return F.greatest(F.when(standing.isNotNull(), left), epoch["exposure"])

    nothing = F.when(F.lit(False), F.col("exposure"))
    stood = F.aggregate(before, nothing, started)
    return epochs.withColumn("exposed", F.when(F.col("loses"), stood).otherwise(F.col("highest"))).drop(
        "highest", "loses"
    )


def by_epoch(states: DataFrame) -> DataFrame:
    """Statements (`leader_states`, and exposures) merged: one row per leader epoch, with its first and its last state."""
    starts = F.col("event_type") == "LEADER_STARTS"
    has_state = F.col("isr").isNotNull() & F.col("partition_epoch").isNotNull()
    state = F.struct("partition_epoch", "isr", "elr", "own_ref")
    line = F.struct("file_order", "byte_offset", "start_offset", "node", "own_ref", "previous_epoch")
    exposure = F.struct("high_watermark", "leader_epoch", "own_ref")
    # from 3.7 on a follower's line tells its own epoch for the one before
    skips = (F.col("event_type") == "FOLLOWER_STARTS") & (F.col("previous_epoch") < F.col("leader_epoch") - 1)
    merged = states.withColumn("named", F.when(F.col("topic_id").isNull(), F.col("topic")))
    merged = merged.groupBy("cluster", "named", "topic_id", "partition", "leader_epoch").agg(
        F.max("topic").alias("topic"),
        F.max("several_incarnations").alias("several_incarnations"),
        F.max("leader").alias("leader"),
        F.min(F.when(starts, line)).alias("line"),
        F.min(F.when(has_state, state)).alias("first_state"),
        F.max(F.when(has_state, state)).alias("last_state"),
        F.max(F.when(F.col("leader_recovery_state") == RECOVERING, F.col("own_ref"))).alias("unclean_ref"),
        F.max(F.when(F.col("high_watermark") >= 0, exposure)).alias("exposure"),
        F.collect_set(F.when(skips, F.struct("node", F.col("previous_epoch").alias("after")))).alias("skipped"),
    )
    return merged.withColumns(
        {
            "node": F.coalesce("line.node", F.when(F.col("leader") >= 0, F.col("leader"))),
            "start_offset": F.col("line.start_offset"),
            "start_ref": F.col("line.own_ref"),
            "begun_after": F.col("line.previous_epoch"),
        }
    ).drop("line")


@kept
def epoch_starts(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition): its epochs as an array, to be broadcast; several_incarnations of the name.

    epochs = array of struct(leader_epoch, start_offset, leader, election, start_ref, election_ref, never_begun);
    start_offset and start_ref are null where no line of the leader tells them.
    """
    states = leader_states(events)
    entry = F.struct("leader_epoch", "start_offset", "leader", "election", "start_ref", "election_ref", "never_begun")
    return (
        with_elections(by_epoch(states))
        .groupBy("cluster", topic_key().alias("topic_key"), "partition")
        .agg(F.collect_list(entry).alias("epochs"), F.max("several_incarnations").alias("several_incarnations"))
    )


def _of_partition() -> WindowSpec:
    return Window.partitionBy("cluster", "named", "topic_id", "partition").orderBy("leader_epoch")


def with_elections(epochs: DataFrame) -> DataFrame:
    """Adds election, election_ref, previous_isr, previous_leader_epoch, never_begun.

    Clean: the leader was a member of the ISR that stood one partition epoch before the epoch's first state (or of the ELR,
    when that ISR was empty). A leader that recovers from an unclean election says so (leaderRecoveryState). Without the
    state immediately before, the election is unknown: the ISR may have shrunk in between. An epoch was never begun if its
    leader, in the line that begins a later one, names an earlier one as the one before, or began to follow in a later one by
    the line that comes after that of an earlier one: no record is of it.
    """
    previous = F.lag("last_state").over(_of_partition())
    later = _of_partition().rowsBetween(1, Window.unboundedFollowing)
    begun = F.first(
        F.when(F.col("start_ref").isNotNull(), F.struct("node", F.col("begun_after").alias("after"))), ignorenulls=True
    ).over(later)
    skipped = F.flatten(F.collect_list(F.when(F.size("skipped") > 0, F.col("skipped"))).over(later))
    before, first = F.col("previous_state"), F.col("first_state")
    adjacent = first["partition_epoch"] == before["partition_epoch"] + 1
    leader = F.coalesce("leader", "node")
    return (
        epochs.withColumns(
            {
                "previous_state": previous,
                "previous_leader_epoch": F.lag("leader_epoch").over(_of_partition()),
                "begun_later": begun,
                "skipped_later": skipped,
            }
        )
        .withColumns(
            {
                "election": F.when(F.col("unclean_ref").isNotNull(), "unclean")
                .when(F.col("previous_leader_epoch").isNull(), "first")
                .when(~F.coalesce(adjacent, F.lit(False)), "unknown")
                .when(_eligible(before, leader), "clean")
                .otherwise("unclean"),
                "election_ref": F.coalesce("unclean_ref", "first_state.own_ref"),
                "previous_isr": before["isr"],
                "never_begun": F.col("start_ref").isNull()
                & (
                    F.coalesce(_passed_over(F.col("begun_later")), F.lit(False))
                    | F.exists("skipped_later", lambda line: F.coalesce(_passed_over(line), F.lit(False)))
                ),
            }
        )
        .drop(
            "first_state",
            "last_state",
            "previous_state",
            "unclean_ref",
            "begun_after",
            "begun_later",
            "skipped",
            "skipped_later",
        )
    )


def _passed_over(later: Column) -> Column:
    """The leader began the later epoch straight after one below this; -1 would be that of a new process."""
    return (later["node"] == F.col("leader")) & (later["after"] >= 0) & (later["after"] < F.col("leader_epoch"))


def _eligible(before: Column, leader: Column) -> Column:
    by_elr = (F.size(before["isr"]) == 0) & F.coalesce(F.array_contains(before["elr"], leader), F.lit(False))
    return F.array_contains(before["isr"], leader) | by_elr


def _exposed_high_watermarks(events: DataFrame) -> DataFrame:
    """One row per (serving node, file, partition, leader epoch): the highest high watermark it gave out as leader.

    Rows of Fetch are not shuffled before they are aggregated. All buffers have a fixed width, so that the aggregation
    stays a hash aggregation; `max_by` picks the same row for each field of the reference.
    """
    rows = of_types(events, "FETCH").where(
        (F.col("error_code") == 0) & (F.col("high_watermark") >= 0) & is_user_topic()
    )
    rows = rows.select(
        "cluster", "node", "topic", "topic_id", "partition", "arrival_ms", "time_ms", "high_watermark", "file", "split",
        "byte_offset", "line_in_split",
    )  # fmt: skip
    served = with_held_epochs(rows, events).where(
        F.col("held_complete") & F.col("held_leader") & (F.col("held_min") == F.col("held_max"))
    )
    place = (F.max_by(name, "high_watermark").alias(name) for name in PLACE)
    exposed = served.groupBy(
        "cluster", "node", "file", "topic", "topic_id", "partition", F.col("held_max").alias("leader_epoch")
    ).agg(F.max("high_watermark").alias("high_watermark"), *place)
    return exposed.select(
        "cluster", "topic", "topic_id", "partition", "leader_epoch", "high_watermark", ref().alias("own_ref")
    )
