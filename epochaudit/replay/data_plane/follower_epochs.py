"""Frame `follower_epochs`: each follower's first Fetch in a leader epoch, and high watermarks above its fetch offset.

A follower has at most one request in flight to a leader, and the leader takes the offset of a Fetch for the follower's log end
offset. So the high watermark in the answer is not above that offset as long as the follower is in the ISR.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    FETCH,
    ISR_EXPANDING,
    ISR_SHRINKING,
    ISR_UPDATED,
    LEADER_AND_ISR,
    LEADER_STARTS,
    OFFSET_FOR_LEADER_EPOCH,
)
from epochaudit.events.views import PLACE, carried_ref, holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.fetches import sessions_lose_epochs, with_release_of_sessions
from epochaudit.replay.data_plane.follower_answers import TO_FOLLOWERS, follower, position
from epochaudit.replay.state.cluster_history import cluster_history
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.leader_states import leader_states
from epochaudit.replay.state.log_gaps import covered, lines_recorded, request_logs, server_log_gaps
from epochaudit.replay.state.log_starts import log_starts
from epochaudit.replay.state.places import of_first, of_last, then_by_place
from epochaudit.replay.state.utc_nodes import with_utc, zone_margin_ms

_CHANGES: Final = (ISR_UPDATED, ISR_EXPANDING, ISR_SHRINKING)
_STEP: Final = ("cluster", "node", "topic", "topic_id", "partition", "replica_id", "leader_epoch")
# While a Fetch waits, the follower may move the partition to another fetcher thread, which fetches on. A Fetch below the high
# watermark does not wait, as there are records for it.
_WAITED_US: Final = 100_000
_FIRST: Final = (
    "fetch_offset", "last_fetched_epoch", "requester_log_start_offset", "api_version", "correlation_id", "arrival_ms", *PLACE,
)  # fmt: skip
_AHEAD: Final = ("fetch_offset", "last_fetched_epoch", "high_watermark", *PLACE)


def in_an_epoch() -> Column:
    """The events of which the frame is made: requests of followers that state a leader epoch."""
    asked = (
        F.col("event_type").isin(FETCH, OFFSET_FOR_LEADER_EPOCH)
        & F.col("in_request")
        & (F.col("current_leader_epoch") >= 0)
    )
    return holds(asked & (follower() >= 0))


def follower_epochs(events: DataFrame) -> DataFrame:
    """One row per (leader, follower, partition, leader epoch) with a Fetch that was not refused.

    Needs: the events table. Clock: the leader's request log and, for the epoch's start, the leader's host; between leaders the
    leader epoch. Fetches are aggregated where they are read, in buffers of a fixed width.
    A Fetch whose leader may have lost the epoch that it states is left out (KAFKA-9338).
    Columns: the subject columns (node = the leader, correlation_id of the first Fetch), replica_id, ambiguous_name; of the first
    Fetch in the epoch fetch_offset, last_fetched_epoch, log_start_offset (the follower's), api_version, first_ref; and
      log_began        the highest log start offset of the partition in the follower's own lines; null: none. A restart may bring back
                       an older one, but no leader epoch below it
      compared         the follower's log was compared with the leader's: OffsetForLeaderEpoch was answered before in this epoch; or
                       the same broker has led since the epoch of the follower's Fetch before, and the first Fetch of that epoch
                       stated the follower's last epoch or had an empty log
      maybe_compared   as the second case, but of some leader epoch in between no leader is recorded, and of none another one
      epochs_known, known_ref   the highest epoch of its own log that the follower stated in lower leader epochs; null: none
      compares_by_fetch   in a lower leader epoch a Fetch of the follower stated the epoch of its last record
      covered          the leader's request log is recorded from the start of the epoch to the first Fetch
      ahead, ahead_of, ahead_ref   of Fetches that did not wait, the high watermark that was furthest above the fetch offset, and
                       that offset; null: none was above
      ahead_epoch      the last fetched epoch of that Fetch, else the highest epoch that the follower asked about in this epoch
      isrs             all recorded ISRs of the leader epoch; if the metadata log does not have all of them, also those in the
                       leader's lines about the partition, which name no leader epoch
      first_isr_ref, last_isr_ref   the first recorded ISR of the leader epoch, and the last one if it has several
      isr_line_ref     the last of the leader's lines of which `isrs` has the ISRs
      isrs_complete    no other ISR can have existed: the metadata log has them, and is recorded beyond that Fetch; or LeaderAndIsr
                       requests do, and the leader's server.log is recorded from the epoch's start to that Fetch
      start_ref        the line that starts the epoch
    """
    steps = with_identity(_steps(events), topic_incarnations(events))
    replica = Window.partitionBy("cluster", topic_key(), "partition", "replica_id").orderBy("leader_epoch")
    steps = steps.withColumns(
        {
            "known": F.max("stated").over(replica.rowsBetween(Window.unboundedPreceding, -1)),
            "before": F.max(F.when(F.col("first").isNotNull(), F.struct("leader_epoch", "node", "first"))).over(
                replica.rowsBetween(Window.unboundedPreceding, -1)
            ),
            "compares_by_fetch": F.max("states_last").over(replica.rowsBetween(Window.unboundedPreceding, -1)),
        }
    ).where(F.col("first").isNotNull())
    key = ("cluster", "topic_key", "partition")
    rows = steps.withColumn("topic_key", topic_key()).join(F.broadcast(_epochs(events)), [*key, "leader_epoch"], "left")
    rows = rows.join(F.broadcast(_lines(events)), [*key, "node"], "left")
    rows = rows.join(F.broadcast(log_starts(events)), list(key), "left")
    rows = rows.join(F.broadcast(server_log_gaps(events)), ["cluster", "node"], "left")
    rows = rows.join(F.broadcast(request_logs(events)), "cluster", "left")
    history = cluster_history(events).select("cluster", "isr_loggers", "log_complete", "log_whole", "log_end_ms")
    rows = with_utc(rows.join(F.broadcast(history), "cluster", "left"), events)
    start = F.array_min(F.filter("starts", lambda s: s["node"] == F.col("node")))
    of_log = (
        F.col("log_complete")
        & F.col("log_whole")
        & (F.col("furthest.ref.time_ms") + zone_margin_ms() <= F.col("log_end_ms"))
    )
    recorded = F.col("recorded") & of_log
    request = F.array_min(F.filter("requests", lambda s: s["node"] == F.col("node")))
    begun_ms, until_ms = F.least(F.col("start.time_ms"), request["time_ms"]), F.col("furthest.ref.time_ms")
    of_lines = F.array_contains("isr_loggers", F.col("node")) & lines_recorded(begun_ms, until_ms)
    requested = (F.size("requests") > 0) & (begun_ms <= until_ms) & of_lines
    none, no_isrs = F.lit(None), F.array().cast("array<array<int>>")
    own_log_starts = F.filter("log_starts", lambda s: s["node"] == F.col("replica_id"))["offset"]
    in_log, line_isrs = holds(recorded), F.coalesce("recorded_isrs", no_isrs)
    return rows.withColumn("start", start).select(
        *_STEP, "ambiguous_name", none.cast("string").alias("client_id"), none.cast("string").alias("group_id"),
        F.col("first.correlation_id").alias("correlation_id"), F.col("first.fetch_offset").alias("fetch_offset"),
        F.col("first.last_fetched_epoch").alias("last_fetched_epoch"),
        F.col("first.requester_log_start_offset").alias("log_start_offset"), F.col("first.api_version").alias("api_version"),
        F.col("first.ref").alias("first_ref"), F.col("known.stated").alias("epochs_known"), F.col("known.ref").alias("known_ref"),
        F.array_max(own_log_starts).alias("log_began"),
        holds((F.col("asked_at") < F.col("first.position")) | (_compared_before() & _led_since())).alias("compared"),
        (_compared_before() & ~_another_led_since()).alias("maybe_compared"),
        holds(F.col("compares_by_fetch")).alias("compares_by_fetch"),
        covered(F.col("node"), F.col("start.time_ms"), F.col("first.arrival_ms")).alias("covered"),
        F.col("furthest.high_watermark").alias("ahead"), F.col("furthest.fetch_offset").alias("ahead_of"),
        F.col("furthest.ref").alias("ahead_ref"),
        F.coalesce("furthest.last_fetched_epoch", "asked_epoch").alias("ahead_epoch"),
        F.concat(F.coalesce("isrs", no_isrs), F.when(~in_log, line_isrs).otherwise(no_isrs)).alias("isrs"),
        "first_isr_ref", F.when(F.size("isrs") > 1, F.col("last_isr_ref")).alias("last_isr_ref"),
        F.when(~in_log, F.col("isr_line_ref")).alias("isr_line_ref"),
        holds(recorded | requested).alias("isrs_complete"),
        F.col("start.own_ref").alias("start_ref"),
    )  # fmt: skip


def _compared_before() -> Column:
    """In the epoch of the follower's Fetch before, the same broker led, and the follower compared its log, or copied it from the start.

    A follower drops its last fetched epoch if an empty answer of that epoch arrives after the new epoch, up to 3.6 (KAFKA-15510). Below
    metadata.version 3.6 each shrink of the ISR begins an epoch, so that the follower may learn of several at once.
    """
    before = F.col("before")
    first = before["first"]
    empty = (first["fetch_offset"] <= 0) | (first["fetch_offset"] == first["requester_log_start_offset"])
    compared = holds((first["last_fetched_epoch"] >= 0) | empty)
    return holds((before["node"] == F.col("node")) & compared)


def _led_since() -> Column:
    """The leader led all epochs since the one of the follower's Fetch before. Needs: before, and the leaders of `_epochs`."""
    before = F.col("before.leader_epoch")
    none_missing = F.coalesce(F.col("unknown_leader_epoch") <= before, F.lit(True))
    led = (F.col("stated_leader") == F.col("node")) & none_missing & ~_another_led_since()
    return (before == F.col("leader_epoch") - 1) | led


def _another_led_since() -> Column:
    """Another broker led since the epoch of the follower's Fetch before. Needs: before, and the leaders of `_epochs`."""
    another = (F.col("other_leader_epoch") > F.col("before.leader_epoch")) | (F.col("stated_leader") != F.col("node"))
    return holds(another)


def _steps(events: DataFrame) -> DataFrame:
    """One row per (leader, follower, partition, leader epoch): first Fetch, first comparison, highest excess of a high watermark."""
    rows = of_types(events, *TO_FOLLOWERS).where(in_an_epoch() & F.col("partition").isNotNull() & is_user_topic())
    by_fetch, code = F.col("event_type") == FETCH, F.coalesce("error_code", F.lit(Errors.NONE))
    rows = with_release_of_sessions(rows, events).where(~sessions_lose_epochs())
    asked = F.when(~by_fetch, F.col("leader_epoch"))
    stated = F.greatest(asked, F.col("last_fetched_epoch"))
    stated = F.when(stated >= 0, stated)
    rows = rows.withColumns(
        {
            "asked": asked,
            "stated": stated,
            "by_stated": then_by_place(stated),
            "position": position(),
            "replica_id": follower(),
        }
    ).drop("leader_epoch")
    rows = rows.withColumnRenamed("current_leader_epoch", "leader_epoch")
    at = F.when(by_fetch & (code == Errors.NONE), F.col("position"))
    answered = by_fetch & (F.col("error_code") == Errors.NONE) & (F.coalesce("total_time_us", F.lit(0)) < _WAITED_US)
    excess = F.when(answered, F.col("high_watermark") - F.col("fetch_offset"))
    excess = F.when(excess > 0, excess)
    per_file = rows.groupBy(*_STEP, "file").agg(
        F.min(at).alias("position"),
        F.min(F.when(~by_fetch & (code == Errors.NONE), F.col("position"))).alias("asked_at"),
        F.max(F.col("asked")).alias("asked_epoch"),
        F.max("stated").alias("stated"),
        F.max(holds(by_fetch & (F.col("last_fetched_epoch") >= 0))).alias("states_last"),
        F.max(excess).alias("excess"),
        *of_first(_FIRST, at, "first_"),
        *of_last(_AHEAD, then_by_place(excess), "ahead_"),
        *of_last(PLACE, "by_stated", "stated_"),
    )
    first = F.struct("position", *(F.col(f"first_{name}").alias(name) for name in _FIRST if name not in PLACE),
                     carried_ref("first").alias("ref"))  # fmt: skip
    ahead = F.struct("excess", *(F.col(f"ahead_{name}").alias(name) for name in _AHEAD if name not in PLACE),
                     carried_ref("ahead").alias("ref"))  # fmt: skip
    stated = F.struct("stated", carried_ref("stated").alias("ref"))
    return per_file.groupBy(*_STEP).agg(
        F.min(F.when(F.col("position").isNotNull(), first)).alias("first"),
        F.min("asked_at").alias("asked_at"),
        F.max(F.when(F.col("asked_epoch") >= 0, F.col("asked_epoch"))).alias("asked_epoch"),
        F.max("states_last").alias("states_last"),
        F.max(F.when(F.col("stated").isNotNull(), stated)).alias("stated"),
        F.max(F.when(F.col("excess").isNotNull(), ahead)).alias("furthest"),
    )


def _epochs(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition, leader epoch): its ISRs, first and last, the lines that start it, and the requests.

    And its leader: stated_leader (-1: several are recorded; null: none is), and, of the epochs before that have rows or are missing
    between them, the highest without a stated leader (unknown_leader_epoch) and with another one (other_leader_epoch).
    """
    event_type = F.col("event_type")
    start = F.struct("node", F.col("own_ref.time_ms").alias("time_ms"), "own_ref")
    no_order = F.col("partition_epoch").isNull().alias("no_order")  # lines of leaders may have none
    first = F.struct(no_order, "partition_epoch", F.col("own_ref.time_ms").alias("time_ms"), "own_ref")
    last = F.struct("partition_epoch", (-F.col("own_ref.time_ms")).alias("earliest"), "own_ref")
    states = leader_states(events).withColumn("topic_key", topic_key())
    led = F.when(F.col("leader") >= 0, F.col("leader"))
    by_epoch = states.groupBy("cluster", "topic_key", "partition", "leader_epoch").agg(
        F.when(F.min(led) == F.max(led), F.min(led)).when(F.min(led).isNotNull(), -1).alias("stated_leader"),
        F.collect_set("isr").alias("isrs"),
        F.min(F.when(F.col("isr").isNotNull(), first))["own_ref"].alias("first_isr_ref"),
        F.max(F.when(F.col("isr").isNotNull(), last))["own_ref"].alias("last_isr_ref"),
        F.collect_set(F.when(event_type == LEADER_STARTS, start)).alias("starts"),
        F.max(event_type.endswith("_RECORD")).alias("recorded"),
        F.collect_set(F.when(event_type == LEADER_AND_ISR, start)).alias("requests"),
    )
    in_order = Window.partitionBy("cluster", "topic_key", "partition").orderBy("leader_epoch")
    up_to_here, before = (in_order.rowsBetween(Window.unboundedPreceding, end) for end in (Window.currentRow, -1))
    known = F.struct("leader_epoch", "stated_leader")
    known = F.last(F.when(F.col("stated_leader").isNotNull(), known), ignorenulls=True).over(before)
    by_epoch = by_epoch.withColumn("former", known)
    former, leader_epoch = F.col("former"), F.col("leader_epoch")
    unknown = F.when(former["leader_epoch"] < leader_epoch - 1, leader_epoch - 1)
    other = F.when(former["stated_leader"] != F.col("stated_leader"), former["leader_epoch"])
    highest = {"unknown_leader_epoch": unknown, "other_leader_epoch": other}
    return by_epoch.withColumns({name: F.max(value).over(up_to_here) for name, value in highest.items()}).drop("former")


def _lines(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, topic_key, partition): the ISRs in the node's lines about the partition, and the last line."""
    changes = with_identity(of_types(events, *_CHANGES), topic_incarnations(events)).withColumn(
        "topic_key", topic_key()
    )
    last = F.max(F.when(F.col("isr").isNotNull(), F.struct("time_ms", "file_order", "byte_offset", ref().alias("ref"))))
    return changes.groupBy("cluster", "node", "topic_key", "partition").agg(
        F.collect_set("isr").alias("recorded_isrs"), last["ref"].alias("isr_line_ref")
    )
