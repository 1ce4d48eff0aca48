"""Frame `lineage`: the start offset and election of each leader epoch, and the high watermark exposed before it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import ALTER_PARTITION, FETCH, FOLLOWER_STARTS, LEADER_STARTS, UNCLEAN_ELECTION
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, no_ref
from epochaudit.kafka.field_values import NO_LEADER, RECOVERING
from epochaudit.replay.data_plane.acknowledged_writes import answered_epochs, with_acknowledged
from epochaudit.replay.data_plane.given_out import given_out
from epochaudit.replay.data_plane.stated_epochs import with_stated_epochs
from epochaudit.replay.state.asked_elections import with_asked_elections
from epochaudit.replay.state.checkpointed_ends import checkpointed_ends
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.filtered_logs import answering_nodes, is_filtering
from epochaudit.replay.state.held_epochs import replica_starts
from epochaudit.replay.state.incarnations import topic_key
from epochaudit.replay.state.leader_states import leader_states
from epochaudit.replay.state.log_gaps import covered, files_missing, request_logs
from epochaudit.replay.state.log_starts import log_starts
from epochaudit.replay.state.min_insync_replicas import with_min_insync_replica
from epochaudit.replay.state.replica_ends import replica_ends
from epochaudit.spark.memo import as_leaf, checkpointed

GIVEN_OUT: Final = 5
GIVEN_OUT_FROM: Final = 4
STATED_BY_LEADER: Final = 3
STATED_BY_REPLICA: Final = 2
WHOLE_ISR: Final = 1
CHECKPOINTED: Final = 0

LOADED: Final = -1
"""Kind of a bound (`_bounds`): the loaded high watermark of a replica that logs no line when it begins to follow."""

# statements that have an ISR, but neither the eligible leader replicas nor what a reassignment removes
_OF_BROKERS: Final = (LEADER_STARTS, ALTER_PARTITION)
_NO_END: Final = 2**31 - 1  # above every leader epoch

_KEY: Final = ("cluster", "topic_key", "partition")


def lineage(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic incarnation, partition, leader epoch).

    Needs: the events table. Clock: leader epoch, then partition epoch. An epoch is left out if it is known only by a topic name that
    several topics had.
    Columns: the subject columns (node = the leader), ambiguous_name, leader (-1: none), start_offset with start_ref (the leader's
    line), restart_offset with restart_ref (a later line of the same epoch that states a shorter log); election, election_ref,
    known_election, previous_isr, previous_elr, previous_isr_ref, candidates_before, isr_without_leader, previous_leader_epoch,
    led_just_before, never_begun, see `with_elections`; asked_by, asked_of, asked_ref, see `with_asked_elections`; the columns of
    `with_acknowledged`; alone_before (the leader was the whole ISR just before); isr_before_ref (previous_isr_ref; null unless
    candidates_before is of that state); and
      exposed_high_watermark  the highest offset up to which the partition is known to have been committed before the epoch, less
                       what epochs in between removed; exposed_leader_epoch, exposed_ref; and its source, exactly one not null:
        given_out_in   the leader epoch of the Fetch answer that gave it out
        given_out_from   or the lowest leader epoch in which that answer can have come, if it may also have come in a later one
        leader_knew    the broker that began to lead with it
        replica_knew   the broker whose own high watermark it was before the broker learned of the epoch
        whole_isr      the broker that was the whole ISR, and whose log ended there; whole_isr_ref, the statement of that ISR;
                       alone_ref, the line by which the broker learned of it; min_insync_replicas (1) and min_insync_replica_ref, the
                       setting and its line, where the broker's release does not decide
        checkpointed_by  the broker that had it in its replication-offset-checkpoint, see `checkpointed_ends`; checkpointed_epoch_ref,
                       the line of the last leader epoch in which that broker is known to have been
      truncated_by, truncated_to, truncated_ref   the replica that truncated the records above
      begun_unknown_between   an epoch in between may have removed the records: where it began is not recorded, and no later epoch is
                       known to have had records at the start of this one or above
      proved_by        a broker whose log ended at or before the start of the epoch, though it was a member of the ISR, or was
                       elected from it, and had not stopped since: nothing above was committed
      bounded_by, bound, bound_ref   such a broker whose log ended above the start of the epoch, that log end, and its line: nothing
                       above it was committed
      recovered_by, recovered_ref   the leader, if its process recovered its log after an unclean stop
      created_by, created_ref   the leader, if its process created its log anew (see `replica_ends`)
      answers_recorded the evidence has Fetch answers, of any partition, of the node that led the last epoch before, and its request log
                       lacks nothing from the last answer of this partition on, or from the beginning of that epoch, to its end
      writes_missing   files of that request log are missing after its last acknowledgement of a write in that epoch, or after the beginning
                       of that epoch, and before its end
      writes_recorded  that request log has all answers of that time, as far as the numbers of its files show
    """
    acknowledged = acknowledged_epochs(events)
    known = _with_known_answers(epochs_of(events), acknowledged, events)
    nameless = F.col("topic_id").isNull() & F.col("ambiguous_name") & F.col("start_ref").isNull()
    just_before = F.col("candidates_before").isNotNull()
    alone_before = holds(just_before & (F.col("previous_isr") == F.array("node")))
    rows = with_acknowledged(_with_exposed(known), acknowledged).where(~nameless)
    rows = rows.join(F.broadcast(answering_nodes(events)), "cluster", "left")
    rows = rows.join(F.broadcast(request_logs(events)), "cluster", "left")
    rows = rows.withColumns(
        {
            **_recorded(),
            **_exposure_of(F.col("exposed")),
            **_proof(),
            "alone_before": alone_before,
            "isr_before_ref": F.when(just_before, F.col("previous_isr_ref")),
            "recovered_by": F.when(F.col("own.recovered_ref").isNotNull(), F.col("node")),
            "recovered_ref": F.col("own.recovered_ref"),
            "created_by": F.when(F.col("own.created_ref").isNotNull(), F.col("node")),
            "created_ref": F.col("own.created_ref"),
            "client_id": F.lit(None).cast("string"),
            "group_id": F.lit(None).cast("string"),
            "correlation_id": F.lit(None).cast("int"),
        }
    ).drop("exposed", "exposure", "answered", "before", "named", "answering", "filtering", "request_logs", "led_before", "led_epoch", "own",
           "members", "topic_key", "begun_after", "may_have_begun",
           "open_before", "first_partition_epoch", "isr_position", "election_position",
           "led_from_ms", "led_until_ms",
           "answers_from_ms", "wrote_ms", "writes_from_ms", "last_led")  # fmt: skip
    return with_asked_elections(rows, events)


def _with_known_answers(states: DataFrame, acknowledged: DataFrame, events: DataFrame) -> DataFrame:
    """Adds the exposure of each leader epoch, from when its answers and acknowledged writes are known, and who led before."""
    kind = F.when(F.col("known_epoch") == F.col("leader_epoch"), GIVEN_OUT).otherwise(GIVEN_OUT_FROM)
    exposure = _exposure(F.col("high_watermark"), F.col("known_epoch"), kind, F.col("node"), F.col("own_ref"))
    answers = given_out(events).withColumns({"known_epoch": F.col("leader_epoch"), "last_ms": F.col("own_ref.time_ms")})
    answers = with_stated_epochs(answers, F.col("high_watermark") - 1, F.col("by_leader"), events, states)
    answered = answers.groupBy(*_KEY, "leader_epoch").agg(F.max(exposure).alias("answered"))
    known = _with_ends(states.join(answered, [*_KEY, "leader_epoch"], "left"), events)
    known = known.withColumns(
        {
            "exposure": F.greatest("exposure", "answered"),
            # the high watermark only rises within an epoch, and idle partitions are left out of later answers
            "answers_from_ms": F.coalesce("answered.own_ref.time_ms", "led_from_ms"),
        }
    )
    wrote = acknowledged.groupBy(*_KEY, "leader_epoch").agg(F.max("own_ref.time_ms").alias("wrote_ms"))
    known = known.join(F.broadcast(wrote), [*_KEY, "leader_epoch"], "left")
    return _with_led_before(known.withColumn("writes_from_ms", F.coalesce("wrote_ms", "led_from_ms")))


def _recorded() -> dict[str, Column]:
    """Whether the request log of the leader before has what `lineage` needs of it."""
    led = F.col("last_led")
    log_covers = covered(F.col("led_before"), led["answers_from_ms"], led["led_until_ms"])
    # without a line of that leader it is not known until when it led, nor whether it became the whole ISR
    log_covers &= led["led_until_ms"].isNotNull()
    return {
        "writes_missing": files_missing(F.col("led_before"), led["writes_from_ms"], led["led_until_ms"]),
        "writes_recorded": covered(F.col("led_before"), led["writes_from_ms"], led["led_until_ms"])
        & ~is_filtering(F.col("led_before")),
        "answers_recorded": holds(F.array_contains("answering", F.col("led_before")) & log_covers),
    }


def _exposure_of(exposed: Column) -> dict[str, Column]:
    """The columns of `lineage` about the highest offset that had been committed before."""
    return {
        "exposed_high_watermark": exposed["high_watermark"],
        "exposed_leader_epoch": exposed["leader_epoch"],
        "exposed_ref": exposed["own_ref"],
        "given_out_in": F.when(exposed["kind"] == GIVEN_OUT, exposed["leader_epoch"]),
        "given_out_from": F.when(exposed["kind"] == GIVEN_OUT_FROM, exposed["leader_epoch"]),
        "leader_knew": F.when(exposed["kind"] == STATED_BY_LEADER, exposed["node"]),
        "replica_knew": F.when(exposed["kind"] == STATED_BY_REPLICA, exposed["node"]),
        "whole_isr": F.when(exposed["kind"] == WHOLE_ISR, exposed["node"]),
        "whole_isr_ref": exposed["isr_ref"],
        "alone_ref": exposed["alone_ref"],
        "min_insync_replica_ref": exposed["setting_ref"],
        "min_insync_replicas": F.when(exposed["setting_ref"].isNotNull(), F.lit(1)),
        "checkpointed_by": F.when(exposed["kind"] == CHECKPOINTED, exposed["node"]),
        "checkpointed_epoch_ref": F.when(exposed["kind"] == CHECKPOINTED, exposed["since_ref"]),
        "truncated_by": F.when(exposed["truncated_to"].isNotNull(), exposed["node"]),
        "truncated_to": exposed["truncated_to"],
        "truncated_ref": exposed["truncated_ref"],
    }


def proved_ends(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per leader epoch of these topics whose start a broker proves to be the end of the committed records.

    Columns: cluster, topic, topic_id, partition, leader_epoch, start_offset, proved_by; see `lineage`.
    """
    known = _with_exposed(_with_ends(epochs_of(events).where(F.col("topic").isin(*topics)), events))
    proved = known.withColumns(_proof()).where(F.col("proved_by").isNotNull())
    return proved.select("cluster", "topic", "topic_id", "partition", "leader_epoch", "start_offset", "proved_by")


def own_high_watermarks(events: DataFrame, topics: Collection[str]) -> DataFrame:
    """One row per leader epoch of these topics: what its leader committed at most.

    Columns: cluster, topic, topic_id, partition, leader_epoch, nobody (the epoch had no leader), and high_watermark: with this one
    its leader began the next epoch, in the process in which it had led. Null if the leader's lines do not show it. Only the leader
    raises the high watermark in its epoch, and only a truncation, which comes after that line, lowers it.
    """
    ends = replica_ends(events).where(F.col("topic").isin(*topics)).withColumn("topic_key", topic_key())
    of_leader = [*_KEY, "node", "leader_epoch"]
    # a leader that restarts within its epoch prints the line again, and may have loaded a lower high watermark
    led_once = ends.where("is_leader").groupBy(*of_leader).count().where(F.col("count") == 1).drop("count")
    # a process that started in between wrote no line of the epoch; it loads its log before its first one, with an older high watermark
    led_by_it = F.col("same_process") & (F.col("process_epoch") <= F.col("epoch_before"))
    after = ends.where(led_by_it).select(*_KEY, "node", F.col("epoch_before").alias("leader_epoch"), "high_watermark")
    known = led_once.join(after, of_leader).groupBy(*of_leader).agg(F.max("high_watermark").alias("high_watermark"))
    nobody = holds((F.col("leader") == NO_LEADER) | F.col("never_begun"))
    epochs = epochs_of(events).where(F.col("topic").isin(*topics)).withColumn("nobody", nobody)
    return epochs.join(known, of_leader, "left").select(
        "cluster", "topic", "topic_id", "partition", "leader_epoch", "nobody", "high_watermark"
    )


@checkpointed
def epochs_of(events: DataFrame) -> DataFrame:
    """One row per recorded leader epoch: `with_elections` of `by_epoch`, with topic_key."""
    states = leader_states(events)
    for others in (_passing_over(events), _stated_by_requests(events)):
        states = states.unionByName(others, allowMissingColumns=True)
    history = cluster_history(events).select("cluster", "zookeeper", "kraft_controllers")
    epochs = by_epoch(states).join(F.broadcast(history), "cluster", "left")
    return with_elections(epochs).withColumn("topic_key", topic_key())


def _passing_over(events: DataFrame) -> DataFrame:
    """The lines, which name no leader, of followers that skipped leader epochs (2.6 to 3.2).

    Such a line says nothing about the epoch that it begins; it proves that its broker did not begin the skipped ones.
    """
    lines = replica_starts(events).where(F.col("proven") & ~F.col("is_leader") & F.col("leader").isNull())
    passes = (F.col("previous_epoch") >= 0) & (F.col("previous_epoch") < F.col("leader_epoch") - 1)
    return lines.where(passes).select(
        "cluster", "node", F.lit(FOLLOWER_STARTS).alias("event_type"), "topic", "topic_id", "ambiguous_name", "partition",
        "leader_epoch", "previous_epoch", "own_ref",
    )  # fmt: skip


def _stated_by_requests(events: DataFrame) -> DataFrame:
    """Leader epochs in which a broker served Fetches before the first line that its log has of the replica. Null leader: not known."""
    rows = given_out(events).where("by_request").withColumn("leader", F.when(F.col("by_leader"), F.col("node")))
    return rows.select(
        "cluster", "node", F.lit(FETCH).alias("event_type"), "topic", "topic_id", F.lit(False).alias("ambiguous_name"), "partition",
        "leader_epoch", "leader", "own_ref",
    )  # fmt: skip


@checkpointed
def acknowledged_epochs(events: DataFrame) -> DataFrame:
    """One row per (node, partition, acks, leader epoch, followed epoch): `answered_epochs`, with the leader epochs of `epochs_of`."""
    return answered_epochs(events, epochs_of(events))


def _with_ends(epochs: DataFrame, events: DataFrame) -> DataFrame:
    """Adds own, members, led_from_ms, led_until_ms and before to the recorded leader epochs (`epochs_of`); grain unchanged.

    own: struct of columns of `replica_ends`, for the line with which the leader began the epoch; null without one.
    members: array of such structs, for the lines of its followers; null without any.
    led_from_ms, led_until_ms: when the leader began the epoch, and until when it may have led in it; null without a line of it.
    before: what a replica knew to be committed above the epoch's start, see `_bounds`; null if nothing is known.
    """
    ends = replica_ends(events).withColumn("topic_key", topic_key())
    end = F.struct(
        "node", "start_offset", "high_watermark", "own_ref", "epoch_before", "known_since", "same_process", "process_epoch",
        "loaded", "loaded_ref", "partition_epoch",
        "truncated_to", "truncated_ref", "recovered_ref", "created_ref", "alone_ref", "commits_alone", "printed_one_ref",
    )  # fmt: skip
    by_line = ends.where(F.col("leader_epoch").isNotNull()).groupBy(*_KEY, "leader_epoch").agg(
        F.min(F.when(F.col("is_leader"), end)).alias("own"), F.collect_list(F.when(~F.col("is_leader"), end)).alias("members"),
        F.min(F.when(F.col("is_leader"), F.col("own_ref.time_ms"))).alias("led_from_ms"),
        F.max(F.when(F.col("is_leader"), F.coalesce("until_ms", F.lit(FOREVER)))).alias("led_until_ms"),
    )  # fmt: skip
    epochs = as_leaf(epochs.join(by_line, [*_KEY, "leader_epoch"], "left"))
    of_epochs = epochs.select(
        *_KEY, F.col("leader_epoch").alias("until"), F.col("start_offset").alias("began_at"),
        F.explode(F.filter("members", _may_have_lost)).alias("end"),
    )  # fmt: skip
    stated_by = F.when(F.col("end.high_watermark").isNull(), F.col("end.loaded_ref")).otherwise(F.col("end.own_ref"))
    stated = of_epochs.select(
        *_KEY, "until", F.col("end.node").alias("of"), F.col("end.known_since").alias("since"), F.lit(STATED_BY_REPLICA).alias("kind"),
        F.coalesce("end.high_watermark", "end.loaded").alias("knew"), F.col("end.start_offset").alias("ended"),
        F.col("end.truncated_to").alias("truncated_to"), stated_by.alias("by"),
        F.col("end.truncated_ref").alias("truncated_ref"), F.col("end.alone_ref").alias("alone_ref"),
        F.col("end.commits_alone").alias("commits_alone"), F.col("end.printed_one_ref").alias("printed_one_ref"),
        F.col("end.epoch_before").alias("before"), no_ref().alias("since_ref"),
    )  # fmt: skip
    named = F.col("topic_id").isNotNull() | ~F.col("ambiguous_name")
    loaded = ends.where(named & F.col("is_leader") & (F.col("truncated_to") < F.col("loaded"))).select(
        *_KEY, F.lit(_NO_END).alias("until"), F.col("node").alias("of"), F.col("leader_epoch").alias("since"),
        F.lit(LOADED).alias("kind"), F.col("loaded").alias("knew"), F.lit(None).cast("bigint").alias("ended"),
        "truncated_to", F.col("loaded_ref").alias("by"), "truncated_ref",
        F.lit(None).cast("int").alias("before"), no_ref().alias("since_ref"),
    )  # fmt: skip
    nowhere = F.lit(None).cast("bigint")
    checkpointed = checkpointed_ends(events).select(
        *_KEY, F.lit(_NO_END).alias("until"), F.col("node").alias("of"), F.col("leader_epoch").alias("since"),
        F.lit(CHECKPOINTED).alias("kind"), F.col("high_watermark").alias("knew"), nowhere.alias("ended"), nowhere.alias("truncated_to"),
        F.col("own_ref").alias("by"), no_ref().alias("truncated_ref"),
        F.lit(None).cast("int").alias("before"), F.col("leader_epoch_ref").alias("since_ref"),
    )  # fmt: skip
    known = stated.unionByName(loaded.unionByName(checkpointed), allowMissingColumns=True)
    bounds = _bounds(epochs, _with_lowest_start(known, events), events)
    return epochs.join(bounds, [*_KEY, "leader_epoch"], "left")


def _with_lowest_start(known: DataFrame, events: DataFrame) -> DataFrame:
    """Adds lowest_start: an epoch that removed the records starts there or above.

    That is where the replica truncated its log, unless the leader's log began there: then it has no epoch from before, and answers the
    start of its log (LeaderEpochFileCache.endOffsetFor).
    """
    known = known.join(F.broadcast(log_starts(events)), list(_KEY), "left")
    at_start = holds(F.array_contains(F.col("log_starts")["offset"], F.col("truncated_to")))
    lowest = F.when(at_start, F.lit(0)).otherwise(F.coalesce("truncated_to", F.lit(0)))
    return known.withColumn("lowest_start", lowest).drop("log_starts")


def _may_have_lost(end: Column) -> Column:
    """The follower's high watermark was above the start of the epoch, or it truncated below its high watermark or log end.

    A line of a later state of the epoch may be a repetition, after a restart: the high watermark may be of the epoch itself.
    """
    repeats = holds(end["partition_epoch"] > F.col("first_partition_epoch"))
    more = end["same_process"] & ~repeats & (end["high_watermark"] > F.col("start_offset"))
    fewer = end["truncated_to"] < F.greatest(end["high_watermark"], end["loaded"], end["start_offset"])
    came_later = end["epoch_before"] < F.col("leader_epoch")
    return holds(came_later & (more | fewer))


def _bounds(epochs: DataFrame, known: DataFrame, events: DataFrame) -> DataFrame:
    """One row per leader epoch that begins below an offset that a replica knew to be committed before. Adds before, an `_exposure`.

    Any epoch after the one of the replica's statement (since), up to the one in which it followed (until), may have removed the
    records. If the replica truncated, the epoch starts at lowest_start or above. The epoch with the lowest start is where the
    histories diverge. It must be the only candidate if the replica logs no line when it begins to follow (LOADED), or did not come
    back (CHECKPOINTED). For the latter the start of every epoch since must be known, too: the replica may have followed one of them,
    and truncated its log in the next.
    known: one row per statement of a replica, with the key columns and
      of, by, kind     the replica, its line (a ref), and what states the offset: STATED_BY_REPLICA, LOADED or CHECKPOINTED
      since, until     the leader epochs after which and up to which the records may have been removed
      since_ref        CHECKPOINTED: the line that states since
      knew, ended      the replica's high watermark, and where its log ended; null if not stated
      alone_ref, commits_alone, printed_one_ref   see `replica_ends`; null if it is not STATED_BY_REPLICA
      before           the leader epoch in which it was before its line
      truncated_to, truncated_ref, lowest_start   where it truncated, that line, and `_with_lowest_start`
    """
    began = epochs.select(
        *_KEY, "topic", "leader_epoch", "start_offset", "previous_isr", "previous_elr", "previous_isr_ref", "candidates_before",
        "isr_position", "election_position", F.col("may_have_begun").alias("open"),
    )  # fmt: skip
    candidates = began.join(F.broadcast(known), list(_KEY)).where(
        (F.col("leader_epoch") > F.col("since")) & (F.col("leader_epoch") <= F.col("until"))
    )
    candidates = with_min_insync_replica(candidates, events)
    # with eligible leader replicas (KIP-966) the last member leaves the ISR, too, and becomes eligible
    last_members = F.when(F.size("previous_isr") == 0, F.col("previous_elr")).otherwise(F.col("previous_isr"))
    alone = F.col("alone_ref").isNotNull() & (last_members == F.array("of")) & F.col("candidates_before").isNotNull()
    # in an epoch before the line, the replica may have appended what it had by then
    alone &= F.col("leader_epoch") > F.col("before")
    alone &= F.col("commits_alone") | F.col("min_insync_replica_ref").isNotNull()
    ended = F.when(holds(alone), F.col("ended"))
    reach = F.greatest("knew", ended)
    of_line = Window.partitionBy(*_KEY, "of", "by")
    lost = candidates.withColumns({"reach": reach, "some_open": F.max("open").over(of_line)}).where(
        (F.col("start_offset") < F.col("reach")) & (F.col("start_offset") >= F.col("lowest_start"))
    )
    first = of_line.orderBy("start_offset", "leader_epoch", "kind", "since", "until", "reach")
    lost = lost.withColumns({"rank": F.row_number().over(first), "possible": F.count("*").over(of_line)})
    stated, checkpointed = F.col("kind") == STATED_BY_REPLICA, F.col("kind") == CHECKPOINTED
    lost = lost.where((F.col("rank") == 1) & (stated | (F.col("possible") == 1)) & ~(checkpointed & F.col("some_open")))
    kind = F.when(F.col("reach") > F.coalesce("knew", F.lit(-1)), WHOLE_ISR).when(checkpointed, CHECKPOINTED)
    kind = kind.otherwise(STATED_BY_REPLICA)
    bound = _exposure(
        F.col("reach"), F.col("since"), kind, F.col("of"), F.col("by"), F.col("truncated_to"), F.col("truncated_ref"),
        F.when(kind == WHOLE_ISR, F.col("previous_isr_ref")), F.col("since_ref"),
        F.when(kind == WHOLE_ISR, F.col("alone_ref")),
        F.when((kind == WHOLE_ISR) & ~F.col("commits_alone"), F.col("min_insync_replica_ref")),
    )  # fmt: skip
    return lost.groupBy(*_KEY, "leader_epoch").agg(F.max(bound).alias("before"))


def _exposure(
    high_watermark: Column,
    leader_epoch: Column,
    kind: Column,
    node: Column,
    own_ref: Column,
    truncated_to: Column | None = None,
    truncated_ref: Column | None = None,
    isr_ref: Column | None = None,
    since_ref: Column | None = None,
    alone_ref: Column | None = None,
    setting_ref: Column | None = None,
) -> Column:
    """Up to which offset a partition was committed, and how that is known. Of equal offsets the greatest kind counts."""
    nowhere = F.lit(None).cast("bigint")
    return F.struct(
        high_watermark.cast("bigint").alias("high_watermark"),
        kind.cast("int").alias("kind"),
        leader_epoch.cast("int").alias("leader_epoch"),
        node.cast("int").alias("node"),
        own_ref.alias("own_ref"),
        (nowhere if truncated_to is None else truncated_to).alias("truncated_to"),
        (no_ref() if truncated_ref is None else truncated_ref).alias("truncated_ref"),
        (no_ref() if isr_ref is None else isr_ref).alias("isr_ref"),
        (no_ref() if since_ref is None else since_ref).alias("since_ref"),
        (no_ref() if alone_ref is None else alone_ref).alias("alone_ref"),
        (no_ref() if setting_ref is None else setting_ref).alias("setting_ref"),
    )


def _proof() -> dict[str, Column]:
    """proved_by, bounded_by, bound and bound_ref: a member of the ISR has all committed records, as long as its process has not stopped.

    Needs: own, members, begun_after, previous_isr, candidates_before, led_before, led_epoch (the last epoch before that had a leader).
    A leader that also led that epoch has its own log. The lowest log end of all members is no lower bound of the committed records: the
    leader learns of a follower's records by its next Fetch. Only the first line of an epoch counts: by a later one, the log may have been
    truncated.
    """
    own, start = F.col("own"), F.col("start_offset")
    held = F.col("begun_after")  # of the process: -1 after a restart, or for a new log
    same_process = held.between(0, F.col("led_epoch")) | (
        own["same_process"] & (own["process_epoch"] <= F.col("led_epoch"))
    )
    elected = (F.col("election") == "clean") | ((F.col("led_before") == F.col("node")) & (held == F.col("led_epoch")))
    has_old_log = own["created_ref"].isNull()  # a StopReplica deletes it while the process goes on
    by_leader = F.when(holds(same_process & elected & has_old_log), F.col("node"))
    proves = F.filter(
        "members",
        lambda end: (
            F.array_contains("previous_isr", end["node"])
            & end["same_process"]
            & (end["process_epoch"] <= F.col("led_epoch"))
            & (end["epoch_before"] < F.col("leader_epoch"))
            & end["start_offset"].isNotNull()
            & end["created_ref"].isNull()
        ),
    )
    ends = F.transform(
        proves,
        lambda end: F.struct(end["start_offset"].alias("at"), end["node"].alias("node"), end["own_ref"].alias("ref")),
    )
    # an older ISR may have shrunk since: replicas that left it do not have all committed records
    least = F.when(F.col("candidates_before").isNotNull(), F.array_min(ends))
    proved_by = F.coalesce(by_leader, F.when(least["at"] <= start, least["node"]))
    beyond = start.isNotNull() & by_leader.isNull() & (least["at"] > start)
    return {
        "proved_by": F.when(start.isNotNull(), proved_by),
        "bounded_by": F.when(beyond, least["node"]),
        "bound": F.when(beyond, least["at"]),
        "bound_ref": F.when(beyond, least["ref"]),
    }


def _with_exposed(epochs: DataFrame) -> DataFrame:
    """Adds exposed (`_exposure`: up to where the partition was committed before the epoch, null if unknown), led_before, led_epoch,
    and begun_unknown_between.

    Records that an epoch removed cannot be lost again later. The epochs of a partition are folded one by one only if one of them
    removed committed records, which is rare.
    """
    lower = _of_partition().rowsBetween(Window.unboundedPreceding, -1)
    whole = Window.partitionBy("cluster", "named", "topic_id", "partition")
    led = _led_by()
    led_epoch = F.when(led.isNotNull(), F.col("leader_epoch"))
    start = F.least("start_offset", "restart_offset")
    since_open = Window.partitionBy("cluster", "named", "topic_id", "partition", "open_before").orderBy("leader_epoch")
    epochs = epochs.withColumns(
        {
            "lower": F.max("exposure").over(lower),
            "since_open": F.max("exposure.high_watermark").over(since_open.rowsBetween(Window.unboundedPreceding, -1)),
            "led_before": F.last(led, ignorenulls=True).over(lower),
            "led_epoch": F.last(led_epoch, ignorenulls=True).over(lower),
            "began_at": start,
        }
    ).withColumn("highest", F.greatest("lower", "before"))
    loses = F.max(F.col("began_at") < F.col("highest.high_watermark")).over(whole)
    epochs = epochs.withColumn("loses", holds(loses))
    earlier = F.collect_list(F.when(F.col("loses"), F.struct("began_at", "exposure", "before"))).over(lower)

    def after_epoch(exposed: Column, epoch: Column) -> Column:
        before = F.greatest(exposed, epoch["before"])
        left = before.withField("high_watermark", F.least(before["high_watermark"], epoch["began_at"]))
        return F.greatest(F.when(before.isNotNull(), left), epoch["exposure"])

    nothing = F.when(F.lit(False), F.col("exposure"))
    folded = F.greatest(F.aggregate(earlier, nothing, after_epoch), "before")
    epochs = epochs.withColumn("exposed", F.when(F.col("loses"), folded).otherwise(F.col("highest")))
    known_later = holds(F.col("since_open") > F.col("began_at"))
    between = (F.col("open_before") > F.col("exposed.leader_epoch")) & ~known_later
    return epochs.withColumn("begun_unknown_between", holds(between)).drop(
        "lower", "since_open", "highest", "loses", "began_at"
    )


def _led_by() -> Column:
    """The node that led in the epoch; null: nobody, or its leader never began it."""
    return F.when(~F.col("never_begun"), F.coalesce(F.when(F.col("leader") >= 0, F.col("leader")), F.col("node")))


def _with_led_before(epochs: DataFrame) -> DataFrame:
    """Adds last_led: answers_from_ms, writes_from_ms and led_until_ms of the last epoch before that had a leader. Grain unchanged."""
    times = F.when(_led_by().isNotNull(), F.struct("answers_from_ms", "writes_from_ms", "led_until_ms"))
    lower = _of_partition().rowsBetween(Window.unboundedPreceding, -1)
    return epochs.withColumn("last_led", F.last(times, ignorenulls=True).over(lower))


def by_epoch(states: DataFrame) -> DataFrame:
    """One row per (cluster, topic, partition, leader epoch): the rows of `leader_states` merged, with first and last state.

    exposure: the high watermark with which the leader began the epoch. first_whole, last_whole: the first and the last state of which
    more is recorded than brokers know: a record, or a statement of a ZooKeeper controller. Structs of partition_epoch and, of the
    first such record, position; in last_whole negative, with isr_since.
    """
    starts = F.col("event_type") == LEADER_STARTS
    has_state = F.col("isr").isNotNull() & F.col("partition_epoch").isNotNull()
    recovery = "leader_recovery_state"
    # rows of one partition epoch have equal states: the first one written is the election, others repeat it
    first_state = F.struct(
        "partition_epoch", F.col("own_ref.time_ms").alias("time_ms"), "isr", "elr", recovery, "own_ref"
    )
    earliest = (-F.col("own_ref.time_ms")).alias("earliest")
    last_state = F.struct("partition_epoch", "elr", recovery, "isr", earliest, "own_ref")
    is_whole = has_state & ~F.col("event_type").isin(*_OF_BROKERS)
    last_whole = F.struct("partition_epoch", (-F.col("position")).alias("position"), "isr_since")
    from_batch = F.when(F.array_contains("elr_in_batch", F.col("leader")), F.struct("partition_epoch", "elr_in_batch"))
    recovers = F.col("leader_recovery_state") == RECOVERING
    in_time = F.struct(F.col("own_ref.time_ms").alias("time_ms"), "own_ref")
    line = F.struct("file_order", "byte_offset", "start_offset", "node", "own_ref", "previous_epoch")
    exposure = _exposure(
        F.col("high_watermark"), F.col("leader_epoch"), F.lit(STATED_BY_LEADER), F.col("node"), F.col("own_ref")
    )
    skips = (F.col("event_type") == FOLLOWER_STARTS) & (F.col("previous_epoch") < F.col("leader_epoch") - 1)
    merged = states.withColumn("named", F.when(F.col("topic_id").isNull(), F.col("topic")))
    merged = merged.groupBy("cluster", "named", "topic_id", "partition", "leader_epoch").agg(
        F.max("topic").alias("topic"),
        F.max("ambiguous_name").alias("ambiguous_name"),
        F.max("leader").alias("leader"),
        F.min(F.when(starts, line)).alias("line"),
        F.min(F.when(starts, F.struct("start_offset", "own_ref"))).alias("lowest"),
        F.min(F.when(has_state, first_state)).alias("first_state"),
        F.max(F.when(has_state, last_state)).alias("last_state"),
        F.min(F.when(is_whole, F.struct("partition_epoch", "position"))).alias("first_whole"),
        F.max(F.when(is_whole, last_whole)).alias("last_whole"),
        F.min(F.when(F.col("completes_reassignment"), F.col("partition_epoch"))).alias("completed_at"),
        F.min(from_batch).alias("from_batch"),
        F.min(F.when(recovers, in_time))["own_ref"].alias("recovering_ref"),
        F.min(F.when(F.col("event_type") == UNCLEAN_ELECTION, in_time))["own_ref"].alias("unclean_ref"),
        F.max(F.when(F.col("high_watermark") >= 0, exposure)).alias("exposure"),
        F.collect_set(F.when(skips, F.struct("node", F.col("previous_epoch").alias("after")))).alias("skipped"),
    )
    return merged.withColumns(
        {
            "node": F.coalesce("line.node", F.when(F.col("leader") >= 0, F.col("leader"))),
            "start_offset": F.col("line.start_offset"),
            "start_ref": F.col("line.own_ref"),
            "begun_after": F.col("line.previous_epoch"),
            **{
                name: F.when(F.col("lowest.start_offset") < F.col("line.start_offset"), F.col(f"lowest.{field}"))
                for name, field in (("restart_offset", "start_offset"), ("restart_ref", "own_ref"))
            },
        }
    ).drop("line", "lowest")


@checkpointed
def epoch_starts(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition), small enough to broadcast. Columns: epochs, ambiguous_name.

    epochs: array of struct(leader_epoch, start_offset, leader, election, start_ref, election_ref, never_begun). start_offset and
    start_ref are null if no line of the leader states them.
    """
    entry = F.struct("leader_epoch", "start_offset", "leader", "election", "start_ref", "election_ref", "never_begun")
    return (
        epochs_of(events)
        .groupBy(*_KEY)
        .agg(F.collect_list(entry).alias("epochs"), F.max("ambiguous_name").alias("ambiguous_name"))
    )


def _of_partition() -> WindowSpec:
    return Window.partitionBy("cluster", "named", "topic_id", "partition").orderBy("leader_epoch")


def with_elections(epochs: DataFrame) -> DataFrame:
    """Adds election, election_ref, previous_isr, previous_elr, previous_isr_ref, candidates_before, previous_leader_epoch, led_just_before.

    And first_partition_epoch, that of the first recorded state of the leader epoch; election_position, of the record that states it;
    isr_position, of the record since which the ISR of the last state before has stood, or that of the one before if it is empty (isr_since
    of `partition_states`); null without such a record;
    and the columns of `_with_begun`.

    election is one of
      clean     the leader was a member of the ISR one partition epoch before the epoch's first state, or of the ELR (KIP-966) if the
                election left no member of that ISR, or of the ISR that the record writes as it completes a reassignment
      unclean   the leader was in none of these, or the state marks it as recovering from an unclean election
                (leaderRecoveryState, KIP-704). The mark stays until the leader changes the ISR, in later epochs, too: only the
                first epoch with the mark counts
      unknown   the state one partition epoch before is not recorded: the ISR may have shrunk in between. Or brokers alone state it, or
                the epoch's first state, outside ZooKeeper mode, and the leader was not in that ISR: the metadata log alone has the ELR, and
                whether the election completes a reassignment
      first     the lowest recorded epoch
    known_election is election if that is clean or unclean, else null. previous_isr is the last recorded ISR before, previous_isr_ref the
    first statement of that state, previous_elr the eligible leader replicas of it; candidates_before has that ISR and the eligible
    leader replicas as text, null unless the state is that of one partition epoch before; isr_without_leader has that ISR as text if the
    election is unknown nevertheless. An ELR that the batch of the election has emptied counts as that of the state before.
    led_just_before is the leader epoch directly before, if the election is unknown as no state just before is recorded, and the leader led
    that epoch, too. It then was in the ISR, whatever else was: a leader never removes itself (Partition.getOutOfSyncReplicas), and
    a controller that removes it begins an epoch without it (ReplicaStateMachine.doRemoveReplicasFromIsr, PartitionChangeBuilder).
    Needs: the columns of `by_epoch`; zookeeper and kraft_controllers of `cluster_history`.
    """
    epochs = epochs.withColumn("whole_earlier", F.lag("last_whole").over(_of_partition()))
    previous = F.lag(F.struct("last_state.*", "last_whole", "whole_earlier", "leader", "leader_epoch")).over(
        _of_partition()
    )
    before, first = F.col("previous"), F.col("first_state")
    in_zookeeper = F.col("zookeeper") & (F.size("kraft_controllers") == 0)
    elected_whole = F.col("first_whole.partition_epoch") == first["partition_epoch"]
    whole_before = before["last_whole"]["partition_epoch"] == before["partition_epoch"]
    # the record that empties the ISR begins a leader epoch without a leader
    adjoins = before["whole_earlier"]["partition_epoch"] == before["partition_epoch"] - 1
    isr_made = F.when(F.size(before["isr"]) > 0, before["last_whole"]).when(adjoins, before["whole_earlier"])
    elr_in_batch = F.when(
        F.col("from_batch.partition_epoch") == first["partition_epoch"], F.col("from_batch.elr_in_batch")
    )
    elr = F.coalesce(elr_in_batch, before["elr"])
    adjacent = first["partition_epoch"] == before["partition_epoch"] + 1
    goes_on = (F.col("leader") >= 0) & (before["leader"] == F.col("leader"))
    directly = before["leader_epoch"] == F.col("leader_epoch") - 1
    marked_before = holds(before["leader_recovery_state"] == RECOVERING)
    unclean_ref = F.coalesce("unclean_ref", F.when(~marked_before, F.col("recovering_ref")))
    rows = (
        epochs.withColumns({"previous": previous, "previous_leader_epoch": F.lag("leader_epoch").over(_of_partition())})
        .withColumns(
            {
                "election": F.when(unclean_ref.isNotNull(), "unclean")
                .when(F.col("previous_leader_epoch").isNull(), "first")
                .when(~holds(adjacent), "unknown")
                .when(_eligible(before["isr"], elr, first, F.col("leader")), "clean")
                .when(holds(in_zookeeper) | holds(elected_whole & whole_before), "unclean")
                .otherwise("unknown"),
                "election_ref": F.coalesce(unclean_ref, "first_state.own_ref"),
                "first_partition_epoch": first["partition_epoch"],
                "election_position": F.when(elected_whole, F.col("first_whole.position")),
                "isr_position": F.when(whole_before, isr_made["isr_since"]),
                "previous_isr": before["isr"],
                "previous_elr": elr,
                "previous_isr_ref": before["own_ref"],
                "candidates_before": F.when(holds(adjacent), _isr_text(before["isr"], elr)),
                "led_just_before": F.when(
                    goes_on & directly & ~holds(adjacent) & unclean_ref.isNull(), before["leader_epoch"]
                ),
            }
        )
        .drop("first_state", "last_state", "first_whole", "last_whole", "whole_earlier", "completed_at", "from_batch", "previous",
              "unclean_ref", "recovering_ref", "zookeeper", "kraft_controllers")
    )  # fmt: skip
    known = F.col("election").isin("clean", "unclean")
    without_leader = F.when(~known & F.col("candidates_before").isNotNull(), F.col("previous_isr").cast("string"))
    return _with_begun(
        rows.withColumns({"known_election": F.when(known, F.col("election")), "isr_without_leader": without_leader})
    )


def _with_begun(epochs: DataFrame) -> DataFrame:
    """Adds whether the leader began each epoch.

    never_begun: the leader's line that begins a later epoch, as leader or follower, states an epoch below this one as the one
    before: no record is of this epoch. That no line is recorded does not show it: logs may lack lines.
    may_have_begun: the epoch has a leader, or an unknown one, that may have begun it at any offset: it has no line of the leader.
    open_before: the highest earlier epoch that may have begun at any offset, or of which nothing at all is recorded.
    """
    later = _of_partition().rowsBetween(1, Window.unboundedFollowing)
    lower = _of_partition().rowsBetween(Window.unboundedPreceding, -1)
    unlogged = F.col("start_ref").isNull()
    passes = ~unlogged & (F.col("begun_after") < F.col("leader_epoch") - 1)  # few lines do
    line = F.when(passes, F.struct("node", F.col("begun_after").alias("after")))
    skipped = F.flatten(F.collect_list(F.when(F.size("skipped") > 0, F.col("skipped"))).over(later))
    epochs = epochs.withColumns({"begun_later": F.collect_list(line).over(later), "skipped_later": skipped})

    def any_passed_over(lines: str) -> Column:
        return F.exists(lines, lambda line: holds(_passed_over(line)))

    passed_over = any_passed_over("begun_later") | any_passed_over("skipped_later")
    epochs = epochs.withColumn("never_begun", unlogged & passed_over).drop("begun_later", "skipped", "skipped_later")
    may_lead = F.coalesce(F.col("leader") >= 0, F.lit(True))
    epochs = epochs.withColumn("may_have_begun", unlogged & may_lead & ~F.col("never_begun"))
    gap = F.col("leader_epoch") - F.col("previous_leader_epoch") > 1
    unknown = F.max(F.when(F.col("may_have_begun"), F.col("leader_epoch"))).over(lower)
    unrecorded = F.max(F.when(gap, F.col("leader_epoch") - 1)).over(_of_partition())
    return epochs.withColumn("open_before", F.greatest(unknown, unrecorded))


def _isr_text(isr: Column, elr: Column) -> Column:
    """The ISR of a state, and its eligible leader replicas if it has any, as text."""
    eligible = F.concat(F.lit(", the eligible leader replicas "), elr.cast("string"))
    return F.concat(F.lit("the ISR "), isr.cast("string"), F.coalesce(F.when(F.size(elr) > 0, eligible), F.lit("")))


def _passed_over(later: Column) -> Column:
    """The leader began the later epoch directly after one below this epoch; -1 is that of a new process."""
    return (later["node"] == F.col("leader")) & (later["after"] >= 0) & (later["after"] < F.col("leader_epoch"))


def _eligible(isr: Column, elr: Column, first: Column, leader: Column) -> Column:
    """Whether the leader was in the ISR, in the ELR if the ISR became empty, or in the ISR that completes a reassignment.

    The controller checks the ISR after the change: its last member may be the broker that it fences.
    """
    emptied = (F.size(isr) <= 1) & (first["isr"] == F.array(leader))
    by_elr = emptied & F.array_contains(elr, leader)
    # AlterPartition adds the last new replicas to the ISR, and the same record removes the old ones and elects
    # (PartitionChangeBuilder.completeReassignmentIfNeeded)
    by_reassignment = (F.col("completed_at") == first["partition_epoch"]) & F.array_contains(first["isr"], leader)
    return F.array_contains(isr, leader) | holds(by_elr) | holds(by_reassignment)
