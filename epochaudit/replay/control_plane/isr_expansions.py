"""Frame `isr_expansions`: every replica that a leader added to the ISR, with what it had fetched by then.

The metadata log has each new ISR. Without a metadata log, the leader's lines have it: "ISR updated" for a change that it requested,
"Skipped the become-leader state change" for one that reaches it by the metadata log. Only its lines show when it had the new ISR,
its request log what the replica had fetched, and its "starts at" line where the leader epoch begins. These three logs have one
host and one clock. A request is logged after its answer, so the computed arrival may be late by that delay.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALTER_PARTITION,
    CONFIG_VALUE,
    FETCH,
    ISR_EXPANDING,
    ISR_SHRINKING,
    ISR_UPDATE_SKIPPED,
    ISR_UPDATED,
    LEADER_AND_ISR,
    LEADER_AND_ISR_SKIPPED,
    LEADER_STARTS,
    LOG_DELETION_SCHEDULED,
    PARTITION_CHANGE_RECORD,
    UPDATE_METADATA,
)
from epochaudit.events.times import FOREVER, SLACK_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_BROKER_EPOCH, NO_EPOCH
from epochaudit.kafka.releases import LAST_STEP, MAJOR, MINOR, PROTOCOL, protocol
from epochaudit.replay.state.broken_sessions import SESSION, broken_sessions
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, topic_keys, with_identity
from epochaudit.replay.state.log_gaps import gap_between, request_log_gaps
from epochaudit.replay.state.partition_states import OF_RECORD, partition_states
from epochaudit.replay.state.releases import releases, releases_at
from epochaudit.spark.memo import checkpointed

_SOON_MS: Final = 30_000  # a broker that returns may fetch before its leader receives the UpdateMetadata
_LINES: Final = (LEADER_STARTS, ISR_UPDATED, ISR_EXPANDING, ISR_SHRINKING, ISR_UPDATE_SKIPPED, LEADER_AND_ISR_SKIPPED)
JOINS: Final = (ISR_UPDATED, ISR_EXPANDING, LEADER_AND_ISR_SKIPPED)
_KEY: Final = ("cluster", "node", "place", "replica_id")
_PROCESS: Final = ("cluster", "node", "replica_id", "stated_epoch")
_START: Final = ("leader_epoch", "start_offset", "topic_id", "ms", "ref")
_IBP: Final = "inter.broker.protocol.version"
_FIRST_WITH_ALTER_ISR: Final = protocol("2.7-IV2")


def isr_expansions(events: DataFrame) -> DataFrame:
    """One row per (new ISR of a leader, member that was not in the one before). Clock: the leader's host.

    Needs: the events table. Columns: the subject columns (node is the leader that requested the ISR, leader_epoch the one that it
    led in), event_type, line_ref and time_ms of its first line about the ISR (null if none is recorded), replica_id (the new
    member), isr, partition_epoch, record_ref (the metadata record of the ISR), start_offset of the leader epoch with start_ref, and
      timed            a line of the leader, or the end of its leader epoch, bounds the time at which the replica had joined
      fetched          number of the replica's fetches of this leader epoch that were accepted and had arrived by then: answered 0
                       without a diverging epoch, or they waited, and were refused when the leader changed
      fetched_offset   the highest fetch offset of these, with fetch_ref
      stated_epoch     the member's broker epoch in the accepted AlterPartition, with request_ref; null or -1: none
      requested_isr    the ISR in that request: the end of a reassignment takes members from it
      epochs_fetched   the distinct replica epochs of those that arrived in the leader epoch, -1 for none: an earlier one may come
                       from the process before
      stated_offset    the highest fetch offset of those with the stated epoch, with stated_ref
      refused_offset, epochs_refused  the same of those that were refused without a recorded wait: they may have been accepted on
                       arrival, too
      diverged_offset  the highest fetch offset of those that were answered with a diverging epoch, with diverged_ref
      session_broken   some request of the sessions of these fetches is not recorded
      requests_missing some request of the member's process with the stated epoch need not be recorded: files of the leader's
                       request log are missing while it led, it ends before the join, or the begin of a fetch session of the
                       process is missing. Of a leader that the change replaces, the join is before it deletes its replica; true
                       if no line shows when
      stale_refused    a fetch with an older replica epoch than stated was answered 6
      version          Kafka version of the leader, as 2000001 for 2.0.1; null: not in the evidence
      skipped          ZooKeeper refused the leader's new ISR, by its next line
      writes_zookeeper the leader writes ISRs to ZooKeeper itself, as its inter.broker.protocol.version is below 2.7-IV2; null:
                       not in the evidence
      known_live_brokers        live brokers in the last UpdateMetadata that the leader had received, with live_ref
      live_soon        an UpdateMetadata within half a minute afterwards has the replica as live, or it was one of the live
                       brokers within the second before, or no earlier ones are recorded
      known_live_brokers_until  time of the last recorded UpdateMetadata at the leader
    """
    rows = _joins(events).join(F.broadcast(_fetched(events)), list(_KEY), "left")
    rows = rows.join(F.broadcast(releases(events)), ["cluster", "node"], "left")
    return (
        rows.transform(_with_missing_requests, events)
        .transform(_with_live_brokers, events)
        .transform(_with_protocol, events)
        .withColumns(
            {
                "version": F.array_min(releases_at(at_ms=F.col("time_ms"))["version"]),
                "fetched": F.coalesce("fetched", F.lit(0)),
                "client_id": F.lit(None).cast("string"),
                "group_id": F.lit(None).cast("string"),
            }
        )
        .withColumn("timed", F.col("until_ms").isNotNull())
        .drop("releases", "place", "until_ms")
    )


@checkpointed
def _joins(events: DataFrame) -> DataFrame:
    """One row per new ISR and new member, with the member's stated broker epoch."""
    return _stated(_new_members(events), events)


def _new_members(events: DataFrame) -> DataFrame:
    """One row per new ISR and member that was not in the ISR before, by the record of the change, else by the leader's lines."""
    of_change = ["cluster", "node", "topic_id", "partition", "partition_epoch"]
    rows = _settled(events).join(_changes(events), of_change, "full")
    recorded, start = F.col("record_ref").isNotNull(), F.col("start")
    by_lines = F.when(F.col("joins"), F.array_except("isr", "settled"))
    epoch = F.coalesce("recorded_leader_epoch", start["leader_epoch"])
    members = F.when(recorded, F.col("added")).otherwise(F.when(start.isNotNull(), by_lines))
    # a leader that the change replaces logs no line about it: all that it served in its epoch was before the change
    until_ms = F.coalesce("time_ms", F.when(F.col("replaced"), F.lit(FOREVER)))
    rows = rows.select(
        "cluster", "node", "event_type", F.coalesce("line_ref", "record_ref").alias("place"), "time_ms", "topic", "topic_id",
        "partition", F.coalesce("recorded_isr", "isr").alias("isr"), "partition_epoch", "skipped", "line_ref", "record_ref",
        until_ms.alias("until_ms"), epoch.alias("leader_epoch"), F.when(start["leader_epoch"] == epoch, start).alias("start"),
        F.explode(members).alias("replica_id"),
    )  # fmt: skip
    rows = with_identity(rows, topic_incarnations(events))
    rows = rows.join(F.broadcast(_starts(events)), ["cluster", "node", "topic_id", "partition", "leader_epoch"], "left")
    start = F.coalesce("start", "of_epoch")
    fields = {"start_offset": "start_offset", "start_ms": "ms", "start_ref": "ref"}
    return rows.withColumns({name: start[field] for name, field in fields.items()}).drop("start", "of_epoch")


def _starts(events: DataFrame) -> DataFrame:
    """One row per (leader, topic id, partition, leader epoch): of_epoch, the first line about its start."""
    lines = of_types(events, LEADER_STARTS).where((F.col("leader") == F.col("node")) | F.col("leader").isNull())
    lines = with_identity(lines, topic_incarnations(events)).where(F.col("topic_id").isNotNull())
    first = F.struct(F.col("time_ms").alias("ms"), "start_offset", "leader_epoch", "topic_id", ref().alias("ref"))
    by_epoch = lines.groupBy("cluster", "node", "topic_id", "partition", "leader_epoch").agg(
        F.min(first).alias("first")
    )
    start = F.struct(*(F.col(f"first.{name}").alias(name) for name in _START))
    return by_epoch.select("cluster", "node", "topic_id", "partition", "leader_epoch", start.alias("of_epoch"))


def _changes(events: DataFrame) -> DataFrame:
    """One row per change of a partition in the metadata log: added, the members that its leader requested to add to the ISR.

    node is the leader before, which requested the change. A replica that is elected from outside the ISR did not join it. Only
    the completion of a reassignment changes the leader together with a requested ISR.
    """
    before = F.col("before")
    requested = (before["leader"] >= 0) & ((F.col("leader") == before["leader"]) | F.col("completes_reassignment"))
    changes = partition_states(events, OF_RECORD).where(
        (F.col("event_type") == PARTITION_CHANGE_RECORD) & before["isr"].isNotNull()
    )
    return changes.select(
        "cluster", before["leader"].alias("node"), "topic_id", "partition", "partition_epoch",
        F.when(requested, F.array_except("isr", before["isr"])).alias("added"), F.col("isr").alias("recorded_isr"),
        (F.col("leader") != before["leader"]).alias("replaced"),
        before["leader_epoch"].alias("recorded_leader_epoch"), F.col("state_ref").alias("record_ref"),
    )  # fmt: skip


def _recorded_epochs(events: DataFrame) -> DataFrame:
    """One row per (topic id, partition, leader epoch, sorted ISR) of the metadata log: recorded_epoch, its partition epoch."""
    states = partition_states(events, OF_RECORD).where(F.col("isr").isNotNull())
    members = F.array_sort("isr").alias("members")
    by_isr = states.groupBy("cluster", "topic_id", "partition", "leader_epoch", members)
    return by_isr.agg(F.min("partition_epoch").alias("recorded_epoch"))


def _settled(events: DataFrame) -> DataFrame:
    """One row per line of a leader about a newer state of its ISR, with the leader epoch that it had begun.

    Columns: settled, the ISR before; joins, the line may add members; skipped, ZooKeeper refused the ISR by the next line; start,
    the leader epoch's start. Lines that repeat a partition epoch, or come late because another class logs them, are left out.
    """
    lines = events.transform(_isr_lines).transform(_with_start).transform(_with_partition_epoch, events)
    event_type = F.col("event_type")
    by_start = Window.partitionBy("cluster", "node", "topic", "partition", "start.ref").orderBy(*_line_order())
    before = by_start.rowsBetween(Window.unboundedPreceding, -1)
    newest = F.max("partition_epoch").over(before)
    newer = newest.isNull() | F.col("partition_epoch").isNull() | (F.col("partition_epoch") > newest)
    lines = lines.withColumn("newer", newer | (event_type == ISR_UPDATE_SKIPPED)).where("newer")
    announced = F.lag(F.when(event_type == ISR_EXPANDING, F.col("isr"))).over(by_start)
    repeated = (event_type == LEADER_STARTS) & ~F.col("starts") & F.col("partition_epoch").isNotNull()
    lines = lines.withColumn("skipped", F.lead(event_type == ISR_UPDATE_SKIPPED).over(by_start))
    proposed = (event_type == ISR_SHRINKING) & holds(F.col("skipped"))  # ZooKeeper refused it
    settled = F.when(~event_type.isin(ISR_EXPANDING, ISR_UPDATE_SKIPPED) & ~proposed, F.struct("isr"))
    return lines.select(
        "cluster", "node", "event_type", "time_ms", "topic", "topic_id", "partition", "isr", "partition_epoch", "line_ref", "start",
        F.last(settled, ignorenulls=True).over(before)["isr"].alias("settled"),
        "skipped",
        ((event_type.isin(*JOINS) | repeated) & ~holds(announced == F.col("isr"))).alias("joins"),
    )  # fmt: skip


def _line_order() -> list[Column]:
    """Order of a leader's lines: of lines with one time, the start of the leader epoch is first."""
    return [F.col("time_ms"), F.col("event_type") != LEADER_STARTS, F.col("file_order"), F.col("byte_offset")]


def _isr_lines(events: DataFrame) -> DataFrame:
    """One row per line of a leader about its ISR, and per accepted LeaderAndIsr that makes the node leader."""
    event_type = F.col("event_type")
    own = F.col("leader") == F.col("node")
    made_leader = own & (F.col("request_error_code") == Errors.NONE) & (F.col("error_code") == Errors.NONE)
    by_metadata = own & F.col("isr").isNotNull() & F.col("partition_epoch").isNotNull()
    lines = of_types(events, *_LINES, LEADER_AND_ISR).where(
        ~event_type.isin(LEADER_AND_ISR, LEADER_AND_ISR_SKIPPED)
        | ((event_type == LEADER_AND_ISR) & made_leader)
        | ((event_type == LEADER_AND_ISR_SKIPPED) & by_metadata)
    )
    # a request precedes the start that it causes, though its line is written after that
    time_ms = F.when(event_type == LEADER_AND_ISR, F.col("arrival_ms") - SLACK_MS).otherwise(F.col("time_ms"))
    lines = lines.select(
        "cluster", "node", "event_type", "file", "file_order", "byte_offset", time_ms.alias("time_ms"), "topic", "topic_id",
        "partition", "isr", "leader_epoch", "partition_epoch", "start_offset", ref().alias("line_ref"),
    )  # fmt: skip
    return with_identity(lines, topic_incarnations(events))


def _with_start(lines: DataFrame) -> DataFrame:
    """Adds starts, the line begins a leader epoch, and start, the last such line. Completes isr. Drops the requests."""
    event_type = F.col("event_type")
    by_partition = Window.partitionBy("cluster", "node", "topic", "partition").orderBy(*_line_order())
    before = by_partition.rowsBetween(Window.unboundedPreceding, -1)
    requested = F.last(F.when(event_type == LEADER_AND_ISR, F.struct("leader_epoch", "isr")), ignorenulls=True).over(
        before
    )
    named = {"ms": F.col("time_ms"), "ref": F.col("line_ref")}
    start = F.struct(*(named.get(name, F.col(name)).alias(name) for name in _START))
    last_start = F.last(F.when(event_type == LEADER_STARTS, start), ignorenulls=True).over(before)
    lines = lines.withColumns({"requested": requested, "last_start": last_start}).where(event_type != LEADER_AND_ISR)
    # up to 2.5 the line of a start has no ISR
    requested_isr = F.when(F.col("requested.leader_epoch") == F.col("leader_epoch"), F.col("requested.isr"))
    # KRaft up to 3.2 repeats the line for each partition epoch, which it does not state
    repeated = (F.col("last_start.leader_epoch") == F.col("leader_epoch")) & F.col("last_start.topic_id").eqNullSafe(
        F.col("topic_id")
    )
    starts = (event_type == LEADER_STARTS) & ~holds(repeated)
    up_to_it = by_partition.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return lines.withColumns(
        {
            "isr": F.when(event_type == LEADER_STARTS, F.coalesce("isr", requested_isr)).otherwise(F.col("isr")),
            "starts": starts,
            "start": F.last(F.when(starts, start), ignorenulls=True).over(up_to_it),
        }
    )


def _with_partition_epoch(lines: DataFrame, events: DataFrame) -> DataFrame:
    """Completes topic_id from the start, and partition_epoch of a repeated start from the metadata log."""
    repeated_start = (F.col("event_type") == LEADER_STARTS) & ~F.col("starts")
    lines = lines.withColumns(
        {
            "topic_id": F.coalesce("topic_id", "start.topic_id"),  # lines about the ISR have no id
            "members": F.when(repeated_start, F.array_sort("isr")),
        }
    )
    of_state = ["cluster", "topic_id", "partition", "leader_epoch", "members"]
    lines = lines.join(F.broadcast(_recorded_epochs(events)), of_state, "left").drop("members")
    return lines.withColumn("partition_epoch", F.coalesce("partition_epoch", "recorded_epoch"))


def _stated(joined: DataFrame, events: DataFrame) -> DataFrame:
    """Adds stated_epoch, the broker epoch with which the controller accepted the member (AlterPartition 3+), and requested_isr.

    A change that ends a reassignment and elects another leader is answered NEW_LEADER_ELECTED, without its partition epoch:
    ReplicationControlManager.alterPartition. Each change raises it by one.
    """
    elected = F.col("error_code") == Errors.NEW_LEADER_ELECTED
    changed = (F.col("error_code") == Errors.NONE) & (F.col("response_partition_epoch") > F.col("partition_epoch"))
    new_epoch = F.when(elected, F.col("partition_epoch") + 1).otherwise(F.col("response_partition_epoch"))
    accepted = of_types(events, ALTER_PARTITION).where(changed | elected)
    members = F.arrays_zip(F.col("isr").alias("id"), F.col("isr_broker_epochs").alias("epoch"))
    stated = accepted.where(F.col("isr_broker_epochs").isNotNull()).select(
        "cluster", "topic_id", "partition", new_epoch.alias("partition_epoch"), "correlation_id", "isr",
        ref().alias("request_ref"), F.explode(members).alias("member"),
    )  # fmt: skip
    by_member = stated.groupBy(
        "cluster", "topic_id", "partition", "partition_epoch", F.col("member.id").alias("replica_id")
    )
    first = F.min(F.struct(F.col("member.epoch").alias("epoch"), "correlation_id", "request_ref", "isr"))
    rows = joined.join(
        F.broadcast(by_member.agg(first.alias("stated"))),
        ["cluster", "topic_id", "partition", "partition_epoch", "replica_id"],
        "left",
    )
    return rows.withColumns(
        {
            "stated_epoch": F.col("stated.epoch"),
            "correlation_id": F.col("stated.correlation_id"),
            "request_ref": F.col("stated.request_ref"),
            "requested_isr": F.col("stated.isr"),
        }
    ).drop("stated")


def _with_protocol(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds writes_zookeeper, by the settings that the leader's process logged at its start."""
    part = [F.regexp_extract("value", PROTOCOL, i).try_cast("int") for i in (1, 2, 3)]
    below = part[0] * MAJOR + part[1] * MINOR + F.coalesce(part[2], F.lit(LAST_STEP)) < _FIRST_WITH_ALTER_ISR
    printed = of_types(events, CONFIG_VALUE).where((F.col("name") == _IBP) & F.col("time_ms").isNotNull())
    per_node = printed.groupBy("cluster", "node").agg(
        F.array_sort(F.collect_set(F.struct("time_ms", below.alias("below")))).alias("protocols")
    )
    before = F.filter("protocols", lambda p: p["time_ms"] <= F.col("time_ms"))
    joined = rows.join(F.broadcast(per_node), ["cluster", "node"], "left")
    return joined.withColumn("writes_zookeeper", F.try_element_at(before, F.lit(-1))["below"]).drop("protocols")


def _with_live_brokers(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds known_live_brokers, live_ref, live_soon, known_live_brokers_until. Joins only the changes of the set."""
    requests = of_types(events, UPDATE_METADATA).where(
        (F.col("partition_row") == 0) & (F.col("request_error_code") == Errors.NONE)
    )
    live = F.array_sort("live_brokers")
    in_order = Window.partitionBy("cluster", "node").orderBy("file_order", "byte_offset")
    requests = requests.withColumn("changes", ~live.eqNullSafe(F.lag(live).over(in_order)))
    entry = F.struct("time_ms", "live_brokers", ref().alias("ref"))
    per_node = requests.groupBy("cluster", "node").agg(
        F.array_sort(F.collect_list(F.when(F.col("changes"), entry))).alias("live_changes"),
        F.max("time_ms").alias("known_live_brokers_until"),
    )
    line_ms = F.col("line_ref.time_ms")
    before = F.filter("live_changes", lambda t: t["time_ms"] <= line_ms)
    after = F.filter("live_changes", lambda t: (t["time_ms"] > line_ms) & (t["time_ms"] <= line_ms + _SOON_MS))
    joined = rows.join(F.broadcast(per_node), ["cluster", "node"], "left").withColumn(
        "last_change", F.try_element_at(before, F.lit(-1))
    )
    soon = F.exists(after, lambda t: F.array_contains(t["live_brokers"], F.col("replica_id")))
    recent = F.filter(before, lambda t: t["time_ms"] > line_ms - SLACK_MS)
    earlier = F.try_element_at(F.filter(before, lambda t: t["time_ms"] <= line_ms - SLACK_MS), F.lit(-1))
    listed = F.exists(recent, lambda t: F.array_contains(t["live_brokers"], F.col("replica_id")))
    was_live = F.coalesce(F.array_contains(earlier["live_brokers"], F.col("replica_id")), F.lit(True))
    just = (F.size(recent) > 0) & (listed | was_live)
    return joined.withColumns(
        {
            "known_live_brokers": F.col("last_change.live_brokers"),
            "live_ref": F.col("last_change.ref"),
            "live_soon": soon | just,
        }
    ).drop("live_changes", "last_change")


def join_times(events: DataFrame) -> DataFrame:
    """One row per new ISR, new member and topic key: between start_ms and until_ms the frame counts the member's fetches."""
    timed = _joins(events).where(F.col("until_ms").isNotNull())
    return timed.select("cluster", F.explode(topic_keys()).alias("topic_key"), "partition", "start_ms", "until_ms")


def _fetches_in_epoch(events: DataFrame) -> DataFrame:
    """One row per new ISR, new member and fetch of the member's partition from its leader in the epoch.

    The few joins are broadcast; the fetches are not shuffled before the aggregation.
    """
    joins = _joins(events).where(F.col("until_ms").isNotNull())
    joins = joins.select(
        *_KEY,
        "partition",
        "leader_epoch",
        "start_ms",
        "stated_epoch",
        "until_ms",
        F.explode(topic_keys()).alias("topic_key"),
    )
    rows = of_types(events, FETCH).where(
        F.col("in_request")
        & (F.col("replica_id") >= 0)
        & (F.coalesce("request_error_code", F.lit(Errors.NONE)) == Errors.NONE)
        & is_user_topic()
    )
    rows = rows.select(
        "cluster", "node", topic_key().alias("topic_key"), "partition", "replica_id", "replica_epoch", "error_code",
        "current_leader_epoch", "fetch_offset", "diverging_epoch", "arrival_ms", "time_ms", "remote_time_us", "session_id",
        ref().alias("fetch_ref"),
    )  # fmt: skip
    leader_epoch = F.coalesce("current_leader_epoch", F.lit(NO_EPOCH))
    in_epoch = (leader_epoch == NO_EPOCH) & (F.col("until_ms") < FOREVER) | (leader_epoch == F.col("leader_epoch"))
    # a fetch that states the epoch may wait in the queue until the leader begins it
    since = F.when(leader_epoch == NO_EPOCH, F.col("arrival_ms")).otherwise(F.col("time_ms"))
    in_time = (since >= _start_ms()) & (F.col("arrival_ms") <= F.col("until_ms") + SLACK_MS)
    fetches = rows.join(F.broadcast(joins), ["cluster", "node", "topic_key", "partition", "replica_id"])
    fetches = fetches.where(in_epoch & in_time).join(F.broadcast(broken_sessions(events)), list(SESSION), "left")
    return fetches.join(F.broadcast(_registered_meanwhile(events)), list(SESSION), "left")


def _start_ms() -> Column:
    return F.coalesce("start_ms", F.lit(0))


def _fetched(events: DataFrame) -> DataFrame:
    """One row per new ISR and new member: what it had fetched from its leader in the epoch."""
    # an answer leaves out partitions without new data: a null error code
    served = F.coalesce("error_code", F.lit(Errors.NONE)) == Errors.NONE
    # ReplicaManager.fetchMessages answers an error or a diverging epoch at once: a fetch that waited had been read, and its offset noted
    waited = holds(F.col("remote_time_us") > 0)
    diverged = holds(F.col("diverging_epoch") >= 0) & ~waited  # its offset is not noted: KAFKA-13141
    accepted = (served & ~diverged) | waited
    refused = ~served & ~waited
    fenced, stated = F.col("error_code") == Errors.NOT_LEADER_OR_FOLLOWER, F.col("stated_epoch")
    replica_epoch = F.coalesce("replica_epoch", F.lit(NO_BROKER_EPOCH))
    registered = F.coalesce("registered_epoch", replica_epoch)
    epoch = F.when(replica_epoch == NO_BROKER_EPOCH, registered).otherwise(replica_epoch)
    certain = accepted & (F.col("arrival_ms") >= _start_ms())
    return (
        _fetches_in_epoch(events)
        .groupBy(*_KEY)
        .agg(
            F.count(F.when(accepted, 1)).alias("fetched"),
            F.max(F.when(accepted, F.struct("fetch_offset", "fetch_ref"))).alias("furthest"),
            F.array_sort(F.collect_set(F.when(certain, epoch))).alias("epochs_fetched"),
            F.max(F.when(accepted & (epoch == stated), F.struct("fetch_offset", "fetch_ref"))).alias("of_stated"),
            F.max(F.when(diverged, F.struct("fetch_offset", "fetch_ref"))).alias("furthest_diverged"),
            F.max(F.when(refused, F.col("fetch_offset"))).alias("refused_offset"),
            F.collect_set(F.when(refused, epoch)).alias("epochs_refused"),
            F.max(fenced & epoch.between(0, stated - 1)).alias("stale_refused"),
            holds(F.max("session_broken")).alias("session_broken"),
        )
        .withColumns(
            {
                "fetched_offset": F.col("furthest.fetch_offset"),
                "fetch_ref": F.col("furthest.fetch_ref"),
                "stated_offset": F.col("of_stated.fetch_offset"),
                "stated_ref": F.col("of_stated.fetch_ref"),
                "diverged_offset": F.col("furthest_diverged.fetch_offset"),
                "diverged_ref": F.col("furthest_diverged.fetch_ref"),
            }
        )
        .drop("furthest", "of_stated", "furthest_diverged")
    )


def _with_missing_requests(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds requests_missing."""
    requests = of_types(events, FETCH).where(
        (F.col("partition_row") == 0) & (F.col("session_id") > 0) & (F.col("replica_epoch") >= 0)
    )
    sessions = requests.groupBy(*SESSION, "replica_id").agg(
        F.min("session_epoch").alias("first"), F.max("replica_epoch").alias("stated_epoch")
    )
    not_begun = sessions.where(F.col("first") > 0).select(*_PROCESS, F.lit(True).alias("session_not_begun")).distinct()
    joined = rows.join(F.broadcast(not_begun), list(_PROCESS), "left")
    joined = joined.join(F.broadcast(request_log_gaps(events)), ["cluster", "node"], "left")
    # the end of a reassignment replaces a leader that is no replica any more; an earlier line may be of a future replica
    deletions = of_types(events, LOG_DELETION_SCHEDULED).groupBy("cluster", "node", "topic", "partition")
    last = deletions.agg(F.max("time_ms").alias("deleted_ms"))
    joined = joined.join(F.broadcast(last), ["cluster", "node", "topic", "partition"], "left")
    end_ms = F.coalesce("time_ms", F.when(F.col("deleted_ms") > _start_ms(), F.col("deleted_ms")))
    missing = holds(F.col("session_not_begun")) | end_ms.isNull() | gap_between(_start_ms(), end_ms)
    return joined.withColumn("requests_missing", missing).drop(
        "session_not_begun", "gaps", "first_ms", "last_ms", "deleted_ms"
    )


def _registered_meanwhile(events: DataFrame) -> DataFrame:
    """One row per fetch session in which a broker began to state its broker epoch: registered_epoch.

    A broker fetches before it receives the answer to its registration. All requests of a session come from one process, and each
    is a fetch of every partition of the session, including those that it leaves out.
    """
    requests = of_types(events, FETCH).where(
        (F.col("partition_row") == 0) & (F.col("session_id") > 0) & (F.col("replica_id") >= 0)
    )
    stated = requests.groupBy(*SESSION).agg(
        F.min("replica_epoch").alias("lowest"), F.max("replica_epoch").alias("registered_epoch")
    )
    return stated.where((F.col("lowest") < 0) & (F.col("registered_epoch") >= 0)).drop("lowest")


def without_epoch() -> Column:
    """None of the replica's fetches states a broker epoch. Needs: epochs_fetched."""
    return ~F.exists("epochs_fetched", lambda epoch: epoch >= 0)
