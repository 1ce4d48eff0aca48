"""Frame `isr_expansions`: every replica that a leader took into the ISR, with what it had fetched by then.

The leader's own log tells when it took the replica in, its request log what the replica had fetched, its "starts at"
line where the leader epoch begins: three logs of one host and one clock. A request is logged after its answer, so that
the arrival reckoned from it may be late by as much.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.fetch_sessions import SESSION, broken_sessions
from epochaudit.replay.incarnations import is_user_topic, topic_incarnations, topic_key, topic_keys, with_identity
from epochaudit.replay.kept import kept
from epochaudit.replay.releases import releases, releases_at

NOT_LEADER_OR_FOLLOWER: Final = 6

_SLACK_MS: Final = 1000
_SOON_MS: Final = 30_000  # a broker that comes back may fetch before its leader hears of it
_SKIPPED: Final = "ISR_UPDATE_SKIPPED"
_LINES: Final = ("LEADER_STARTS", "ISR_UPDATED", "ISR_EXPANDING", "ISR_SHRINKING", _SKIPPED)
_REQUEST: Final = "LEADER_AND_ISR"
_KEY: Final = ("cluster", "node", "file", "byte_offset", "replica_id")


def isr_expansions(events: DataFrame) -> DataFrame:
    """One row per (line of a leader about its new ISR, member that was not in the one before). Clock: the leader's host.

    Columns: the subject columns (node = the leader, leader_epoch by its last "starts at" line), event_type of the line,
    replica_id (the new member), isr, partition_epoch, line_ref, start_offset of the leader epoch with start_ref, and
      fetched          how many of the replica's fetches of this leader epoch, not refused, had arrived by then
      fetched_offset   the highest fetch offset of these, with fetch_ref
      stated_epoch     the broker epoch that the accepted AlterPartition states for the member, with request_ref;
                       null or -1: none
      epochs_fetched   the distinct replica epochs of those that arrived in the leader epoch, -1 for none: an earlier one may
                       come from the process before
      stated_offset    the highest fetch offset of those with the stated epoch
      refused_offset, epochs_refused  the same of those that were refused: a fetch that waits is accepted on arrival, and
                       refused if the leader changes before it is answered
      session_broken   some request of the sessions of these fetches is not recorded
      stale_refused    a fetch with an older replica epoch than stated was answered 6
      version          Kafka version of the leader, as 2000001 for 2.0.1; null: not in the evidence
      skipped          ZooKeeper refused the leader's new ISR, by its next line
      live_told        which brokers the leader had last been told to be live (UpdateMetadata), with live_ref
      live_soon        it was told that the replica is live within half a minute after, or told of live_told only in the second
                       before; live_told_until: when it was last told, as far as is recorded
    """
    rows = _joins(events).join(F.broadcast(_fetched(events)), list(_KEY), "left")
    rows = rows.join(F.broadcast(releases(events)), ["cluster", "node"], "left")
    return (
        _with_live_brokers(rows, events)
        .withColumns(
            {
                "version": F.array_min(releases_at(at_ms=F.col("time_ms"))["version"]),
                "fetched": F.coalesce("fetched", F.lit(0)),
                "client_id": F.lit(None).cast("string"),
                "group_id": F.lit(None).cast("string"),
            }
        )
        .drop("releases")
    )


@kept
def _joins(events: DataFrame) -> DataFrame:
    """One row per line and new member; the fetches are looked up for it and joined to it."""
    return _stated(_new_members(events), events)


def _new_members(events: DataFrame) -> DataFrame:
    """The members that were not in the ISR of the line before, with the leader epoch that the leader had begun."""
    event_type = F.col("event_type")
    made_leader = (F.col("leader") == F.col("node")) & (F.col("request_error_code") == 0) & (F.col("error_code") == 0)
    lines = of_types(events, *_LINES, _REQUEST).where((event_type != _REQUEST) | made_leader)
    # a request comes before the start that it brings about, though its line is written after
    time_ms = F.when(event_type == _REQUEST, F.col("arrival_ms") - _SLACK_MS).otherwise(F.col("time_ms"))
    lines = lines.select(
        "cluster", "node", "event_type", "file", "file_order", "byte_offset", time_ms.alias("time_ms"), "topic", "topic_id",
        "partition", "isr", "leader_epoch", "partition_epoch", "start_offset", ref().alias("line_ref"),
    )  # fmt: skip
    lines = with_identity(lines, topic_incarnations(events))
    by_partition = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(
        "time_ms", event_type != "LEADER_STARTS", "file_order", "byte_offset"
    )
    before = by_partition.rowsBetween(Window.unboundedPreceding, -1)
    start = F.struct(
        "leader_epoch", "start_offset", "topic_id", F.col("time_ms").alias("ms"), F.col("line_ref").alias("ref")
    )
    told = F.last(F.when(event_type == _REQUEST, F.struct("leader_epoch", "isr")), ignorenulls=True).over(before)
    lines = lines.withColumn("told", told).where(event_type != _REQUEST)
    # up to 2.5 the line of a start has no ISR
    brought = F.when(F.col("told.leader_epoch") == F.col("leader_epoch"), F.col("told.isr"))
    lines = lines.withColumn(
        "isr", F.when(event_type == "LEADER_STARTS", F.coalesce("isr", brought)).otherwise(F.col("isr"))
    )
    settled = F.when(~event_type.isin("ISR_EXPANDING", _SKIPPED), F.struct("isr"))
    announced = F.lag(F.when(event_type == "ISR_EXPANDING", F.col("isr"))).over(by_partition)
    lines = lines.withColumns(
        {
            "start": F.last(F.when(event_type == "LEADER_STARTS", start), ignorenulls=True).over(before),
            "settled": F.last(settled, ignorenulls=True).over(before),
            "announced": announced,
            "skipped": F.lead(event_type == _SKIPPED).over(by_partition),
        }
    )
    new = event_type.isin("ISR_UPDATED", "ISR_EXPANDING") & ~F.coalesce(
        F.col("announced") == F.col("isr"), F.lit(False)
    )
    added = F.array_except("isr", "settled.isr")
    return lines.where(new & F.col("start").isNotNull()).select(
        "cluster", "node", "event_type", "file", "byte_offset", "time_ms", "topic",
        F.coalesce("topic_id", "start.topic_id").alias("topic_id"),  # lines about the ISR name no id
        "partition", "isr", "partition_epoch", "skipped", "line_ref", F.col("start.leader_epoch").alias("leader_epoch"),
        F.col("start.start_offset").alias("start_offset"), F.col("start.ms").alias("start_ms"),
        F.col("start.ref").alias("start_ref"), F.explode(added).alias("replica_id"),
    )  # fmt: skip


def _stated(joined: DataFrame, events: DataFrame) -> DataFrame:
    """Adds the broker epoch under which the controller accepted the member (AlterPartition 3+)."""
    accepted = of_types(events, "ALTER_PARTITION").where(
        (F.col("error_code") == 0) & (F.col("response_partition_epoch") > F.col("partition_epoch"))
    )
    members = F.arrays_zip(F.col("isr").alias("id"), F.col("isr_broker_epochs").alias("epoch"))
    stated = accepted.where(F.col("isr_broker_epochs").isNotNull()).select(
        "cluster", "topic_id", "partition", F.col("response_partition_epoch").alias("partition_epoch"), "correlation_id",
        ref().alias("request_ref"), F.explode(members).alias("member"),
    )  # fmt: skip
    one = stated.groupBy("cluster", "topic_id", "partition", "partition_epoch", F.col("member.id").alias("replica_id"))
    told = one.agg(F.min(F.struct(F.col("member.epoch").alias("epoch"), "correlation_id", "request_ref")).alias("told"))
    rows = joined.join(F.broadcast(told), ["cluster", "topic_id", "partition", "partition_epoch", "replica_id"], "left")
    return rows.withColumns(
        {
            "stated_epoch": F.col("told.epoch"),
            "correlation_id": F.col("told.correlation_id"),
            "request_ref": F.col("told.request_ref"),
        }
    ).drop("told")


def _with_live_brokers(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds live_told, live_ref, live_soon, live_told_until. What is joined are the changes of the set alone."""
    told = of_types(events, "UPDATE_METADATA").where((F.col("partition_row") == 0) & (F.col("request_error_code") == 0))
    live = F.array_sort("live_brokers")
    in_order = Window.partitionBy("cluster", "node").orderBy("file_order", "byte_offset")
    told = told.withColumn("changes", ~live.eqNullSafe(F.lag(live).over(in_order)))
    entry = F.struct("time_ms", "live_brokers", ref().alias("ref"))
    per_node = told.groupBy("cluster", "node").agg(
        F.array_sort(F.collect_list(F.when(F.col("changes"), entry))).alias("live_changes"),
        F.max("time_ms").alias("live_told_until"),
    )
    line_ms = F.col("line_ref.time_ms")
    before = F.filter("live_changes", lambda t: t["time_ms"] <= line_ms)
    after = F.filter("live_changes", lambda t: (t["time_ms"] > line_ms) & (t["time_ms"] <= line_ms + _SOON_MS))
    joined = rows.join(F.broadcast(per_node), ["cluster", "node"], "left").withColumn(
        "last_told", F.try_element_at(before, F.lit(-1))
    )
    soon = F.exists(after, lambda t: F.array_contains(t["live_brokers"], F.col("replica_id")))
    just = F.col("last_told.time_ms") > line_ms - _SLACK_MS
    return joined.withColumns(
        {"live_told": F.col("last_told.live_brokers"), "live_ref": F.col("last_told.ref"), "live_soon": soon | just}
    ).drop("live_changes", "last_told")


def _fetched(events: DataFrame) -> DataFrame:
    """What the new members had fetched from their leader in its epoch; the joins are few and travel, the fetches stay."""
    wanted = _joins(events).select(
        *_KEY, "partition", "leader_epoch", "start_ms", "stated_epoch", F.col("time_ms").alias("line_ms"),
        F.explode(topic_keys()).alias("topic_key"),
    ).withColumnsRenamed({"file": "line_file", "byte_offset": "line_offset"})  # fmt: skip
    rows = of_types(events, "FETCH").where(
        F.col("in_request")
        & (F.col("replica_id") >= 0)
        & (F.coalesce("request_error_code", F.lit(0)) == 0)
        & is_user_topic()
    )
    rows = rows.select(
        "cluster", "node", topic_key().alias("topic_key"), "partition", "replica_id", "replica_epoch", "error_code",
        "current_leader_epoch", "fetch_offset", "arrival_ms", "time_ms", "session_id", ref().alias("fetch_ref"),
    )  # fmt: skip
    given = F.coalesce("current_leader_epoch", F.lit(-1))
    in_epoch = (given == -1) | (given == F.col("leader_epoch"))
    # a fetch that names the epoch may wait in the queue until the leader begins it
    since = F.when(given == -1, F.col("arrival_ms")).otherwise(F.col("time_ms"))
    in_time = (since >= F.col("start_ms")) & (F.col("arrival_ms") <= F.col("line_ms") + _SLACK_MS)
    met = rows.join(F.broadcast(wanted), ["cluster", "node", "topic_key", "partition", "replica_id"]).where(
        in_epoch & in_time
    )
    met = met.join(F.broadcast(broken_sessions(events)), list(SESSION), "left")
    served = F.coalesce("error_code", F.lit(0)) == 0  # an answer without news leaves the partition out
    fenced, epoch = F.col("error_code") == NOT_LEADER_OR_FOLLOWER, F.coalesce("replica_epoch", F.lit(-1))
    return (
        met.groupBy("cluster", "node", "line_file", "line_offset", "replica_id")
        .agg(
            F.count(F.when(served, 1)).alias("fetched"),
            F.max(F.when(served, F.struct("fetch_offset", "fetch_ref"))).alias("furthest"),
            F.collect_set(F.when(served & (F.col("arrival_ms") >= F.col("start_ms")), epoch)).alias("epochs_fetched"),
            F.max(F.when(served & (epoch == F.col("stated_epoch")), F.col("fetch_offset"))).alias("stated_offset"),
            F.max(F.when(~served, F.col("fetch_offset"))).alias("refused_offset"),
            F.collect_set(F.when(~served, epoch)).alias("epochs_refused"),
            F.max(fenced & epoch.between(0, F.col("stated_epoch") - 1)).alias("stale_refused"),
            F.coalesce(F.max("session_broken"), F.lit(False)).alias("session_broken"),
        )
        .select(
            "cluster", "node", F.col("line_file").alias("file"), F.col("line_offset").alias("byte_offset"), "replica_id",
            "fetched", "epochs_fetched", "stated_offset", "refused_offset", "epochs_refused", "stale_refused",
            "session_broken", F.col("furthest.fetch_offset").alias("fetched_offset"), F.col("furthest.fetch_ref").alias("fetch_ref"),
        )
    )  # fmt: skip


def without_epoch() -> Column:
    """None of the replica's fetches tells its broker epoch."""
    return ~F.exists("epochs_fetched", lambda epoch: epoch >= 0)
