"""Frame `commits`: the offsets that consumer groups committed with a leader epoch, and that coordinators returned to them.

A committed leader epoch is that of the record before the offset. The coordinator stores both as they come (KIP-320).
Clock: the coordinator's request log and its host's time; partitions by leader epoch.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import METADATA, OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT
from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import PLACE, carried_ref, holds, of_types, ref
from epochaudit.kafka.api_versions import RELIABLE_METADATA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_LEADER
from epochaudit.replay.data_plane.coordinator_logs import CONSUMER_OFFSETS, returned_between, with_returns
from epochaudit.replay.data_plane.lineage import epoch_starts
from epochaudit.replay.state.incarnations import is_user_topic, topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.inferred_topic_ids import topic_in_words
from epochaudit.replay.state.log_gaps import gap_between, request_log_gaps
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, then_by_place, with_refs

COMMITS: Final = (OFFSET_COMMIT, TXN_OFFSET_COMMIT)

_OF_GROUP: Final = ("cluster", "node", "group_id", "topic", "topic_id", "partition")
_LAST: Final = (*PLACE_OF_NODE, "arrival_ms", "offset", "correlation_id", "api_version")
_BY_NAME: Final = ""  # in place of the topic id that a commit does not state
_SETTLED_MS: Final = 30_000  # by then every broker knows a leader epoch in which a client has read records


def commits(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, partition, client id, committed leader epoch): its first and last commit.

    And one per offset that a coordinator returned to a group for a name that had several topics, with returned true: see `_returned`.
    Needs: the events table. Commits are aggregated where they are read. Refused commits, and those of versions without a leader
    epoch, are left out.
    Columns: the subject columns (node = the coordinator; leader_epoch = the committed one, -1 for none; client_id and
    correlation_id of the last commit), returned (false), api_version, committed_offset and commit_ref of the last commit,
    ambiguous_name, and
      highest_epoch           the highest leader epoch recorded of the partition; null: none
      answered_epoch          the last leader epoch of the partition that the coordinator's Metadata answers have, 30 s or more after
                              the commit; null: none; offset_fetch_ref: that answer
      answered_epoch_start_recorded   the leader's line that starts answered_epoch is recorded
      newer_epoch, newer_offset, newer_ref   an earlier commit at the same coordinator, of a lower offset in a newer leader epoch;
                              null: none; newer_start, newer_start_ref: the start of that epoch
      election_uncertain      an election after the committed leader epoch is unclean or unknown: one after newer_epoch can restore the
                              older history, too
    """
    # one client may name the topic in one commit, and state its id in another
    named = with_identity(_by_epoch(events), topic_incarnations(events))
    entries = F.array_sort(F.collect_list(F.struct(*_ENTRY, "last_at", "first", "last")))
    rows = named.groupBy(*_OF_GROUP, "ambiguous_name").agg(entries.alias("entries"))
    rows = rows.withColumn("topic_key", topic_key())
    partition = ["cluster", "topic_key", "partition"]
    rows = rows.join(F.broadcast(epoch_starts(events).drop("ambiguous_name")), partition, "left")
    rows = rows.join(F.broadcast(_metadata(events)), partition, "left")
    rows = rows.withColumn("entry", F.explode(F.filter("entries", _last_of_client)))
    return _committed(rows).unionByName(_returned(events), allowMissingColumns=True)


def _ok(*event_types: str) -> Column:
    """Accepted requests of these types with an offset of a partition."""
    return (
        F.col("event_type").isin(*event_types)
        & (F.col("error_code") == Errors.NONE)
        & (F.col("offset") >= 0)
        & F.col("group_id").isNotNull()
        & F.col("partition").isNotNull()
    )


_ENTRY: Final = ("committed_leader_epoch", "client_id")


def _last_of_client(entry: Column, index: Column) -> Column:
    """No later entry is of the same client and leader epoch. Needs: entries, in the order of client and leader epoch, then of the log."""
    following = F.get("entries", index + 1)
    return ~F.struct(*(entry[name] for name in _ENTRY)).eqNullSafe(F.struct(*(following[name] for name in _ENTRY)))


def _by_epoch(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, stated topic, partition, client id, committed leader epoch), over all files of the coordinator.

    Buffers have a fixed width, so that the aggregation of all commits stays a hash aggregation.
    """
    rows = events.where(_ok(*COMMITS) & F.col("committed_leader_epoch").isNotNull())
    rows = rows.withColumn("at", at())
    found = rows.groupBy(*_OF_GROUP, *_ENTRY).agg(
        *of_first((*PLACE_OF_NODE, "offset"), "at", "first_"),
        *of_last(_LAST, "at", "last_"),
        F.max("at").alias("last_at"),
    )
    last = (F.col(f"last_{name}").alias(name) for name in ("offset", "arrival_ms", "correlation_id", "api_version"))
    return with_refs(found, events, "first", "last").select(
        *_OF_GROUP,
        *_ENTRY,
        "last_at",
        F.struct(F.col("first_offset").alias("offset"), F.col("first_ref").alias("ref")).alias("first"),
        F.struct(*last, F.col("last_ref").alias("ref")).alias("last"),
    )


def _metadata(events: DataFrame) -> DataFrame:
    """One row per (cluster, topic_key, partition): the highest leader epoch of Metadata answers, and the last of each node.

    Columns: highest_stated_epoch; answers: array of struct(arrival_ms, node, leader_epoch, ref).
    """
    rows = of_types(events, METADATA).where(
        F.col("partition").isNotNull()
        & (F.col("response_leader_epoch") >= 0)
        & (F.col("api_version") >= RELIABLE_METADATA_VERSION)
        & is_user_topic()
    )
    last = ("response_leader_epoch", "arrival_ms", *PLACE_OF_NODE)
    by_node = rows.groupBy("cluster", "node", "topic", "topic_id", "partition").agg(
        F.max("response_leader_epoch").alias("highest"),
        *of_last(last, then_by_place(F.col("arrival_ms")), "last_"),
    )
    by_node = with_refs(by_node, events, "last")
    answer = F.struct(
        F.col("last_arrival_ms").alias("arrival_ms"),
        "node",
        F.col("last_response_leader_epoch").alias("leader_epoch"),
        F.col("last_ref").alias("ref"),
    )
    named = with_identity(by_node, topic_incarnations(events)).withColumn("topic_key", topic_key())
    return named.groupBy("cluster", "topic_key", "partition").agg(
        F.max("highest").alias("highest_stated_epoch"), F.collect_list(answer).alias("answers")
    )


def _committed(rows: DataFrame) -> DataFrame:
    """The rows of commits. Needs: entry, entries, epochs, answers, highest_stated_epoch."""
    entry, last = F.col("entry"), F.col("entry.last")
    epoch = entry["committed_leader_epoch"]
    later = F.filter(
        "answers", lambda a: (a["node"] == F.col("node")) & (a["arrival_ms"] > last["ref"]["time_ms"] + _SETTLED_MS)
    )
    before = F.filter(
        "entries",
        lambda e: (
            (e["committed_leader_epoch"] > epoch)
            & (e["first"]["offset"] < last["offset"])
            & (e["first"]["ref"]["time_ms"] + REQUEST_LINE_LAG_MS < last["arrival_ms"])
        ),
    )
    newer = F.array_max(F.transform(before, lambda e: F.struct(e["committed_leader_epoch"].alias("epoch"), e["first"])))
    rows = rows.withColumns({"later": F.array_max(later), "newer": newer})

    doubtful = F.exists(
        "epochs",
        lambda e: (e["leader_epoch"] > epoch) & (e["leader"] != NO_LEADER) & e["election"].isin("unclean", "unknown"),
    )
    highest = F.array_max(F.col("epochs")["leader_epoch"])
    doubtful |= F.col("highest_stated_epoch") > highest  # nothing is recorded of how that one was elected
    started = _of_epoch(F.col("newer.epoch"))
    return rows.select(
        F.lit(False).alias("returned"), "cluster", "node", "topic", "topic_id", "partition", epoch.alias("leader_epoch"),
        entry["client_id"].alias("client_id"), "group_id", last["correlation_id"].alias("correlation_id"),
        last["api_version"].alias("api_version"), last["offset"].alias("committed_offset"), last["ref"].alias("commit_ref"),
        "ambiguous_name", F.greatest(highest, "highest_stated_epoch").alias("highest_epoch"),
        F.col("later.leader_epoch").alias("answered_epoch"), F.col("later.ref").alias("offset_fetch_ref"),
        _of_epoch(F.col("later.leader_epoch"))["start_ref"].isNotNull().alias("answered_epoch_start_recorded"),
        F.col("newer.epoch").alias("newer_epoch"), F.col("newer.first.offset").alias("newer_offset"),
        F.col("newer.first.ref").alias("newer_ref"), started["start_offset"].alias("newer_start"),
        started["start_ref"].alias("newer_start_ref"), holds(doubtful).alias("election_uncertain"),
    )  # fmt: skip


def _of_epoch(leader_epoch: Column) -> Column:
    """The entry of that leader epoch in epochs, null if there is none."""
    return F.get(F.filter("epochs", lambda e: e["leader_epoch"] == leader_epoch), F.lit(0))


def _returned(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, partition, offset, commit before) that OffsetFetch returned for a name that had several topics.

    Requests that state a topic id, as OffsetFetch 10 does, have a row of their own.
    Columns: the subject columns (topic_id: the requested topic, or by name the newest one that the coordinator knew; leader_epoch =
    the committed one; client_id null), and
      returned             true
      topic_now            the topic in words
      committed_offset     the returned offset; offset_fetch_ref: the last answer with it
      created_ref          the coordinator's first event with that topic id; created_before: it had stated another topic before
      commit_ref           the last commit of the offset at this coordinator before the answer
      fetched_topic_id     the topic id that the request states; null: it names the topic
      committed_topic_id   the same of that commit
      before_deletion      that commit states the id of an earlier topic, or none and is no later than the coordinator's last statement
                           of an earlier topic; last_stated_ref
      after_creation       that commit states the id of topic_now, or none and is later than the coordinator's first statement of topic_now
      of_another_topic     the request states a topic id, each commit of the offset at this coordinator before states the same other one,
                           and none that is logged later had arrived
      coordinated_throughout   the coordinator is known to lead a partition of __consumer_offsets, and no other broker may have led one
                           between that commit and the answer, see `with_returns`
      committed_elsewhere  the offset was committed at another coordinator, too
      commits_missing      files of the coordinator's request log are missing between that commit and the answer
    """
    rows = events.where(_ok(OFFSET_FETCH, *COMMITS)).withColumn("stated_id", F.col("topic_id"))
    is_offset_fetch = F.col("event_type") == OFFSET_FETCH
    named = with_identity(rows, topic_incarnations(events), "recreated", "sightings")
    named = named.where(F.col("recreated") | F.col("ambiguous_name")).withColumn("at", at())
    group_offset = ("cluster", "group_id", "topic", "partition", "offset")
    commit = F.struct(
        F.col("time_ms").alias("last_time_ms"), "node", F.col("stated_id").alias("topic_id"), ref().alias("ref")
    )
    committed_id = F.when(~is_offset_fetch, F.coalesce("stated_id", F.lit(_BY_NAME)))
    of_offset = Window.partitionBy("node", *group_offset)
    before = of_offset.orderBy("at").rowsBetween(Window.unboundedPreceding, -1)
    after = of_offset.orderBy(F.desc("at")).rowsBetween(Window.unboundedPreceding, -1)
    rows = named.withColumns(
        {
            "commit": F.last(F.when(~is_offset_fetch, commit), ignorenulls=True).over(before),
            "committed_ids": F.struct(
                F.min(committed_id).over(before).alias("lowest"), F.max(committed_id).over(before).alias("highest")
            ),
            "next_commit_ms": F.min(F.when(~is_offset_fetch, F.col("arrival_ms"))).over(after),
            "committers": F.collect_set(F.when(~is_offset_fetch, F.col("node"))).over(
                Window.partitionBy(*group_offset)
            ),
        }
    ).where(is_offset_fetch)
    answers = rows.groupBy(
        "node", *group_offset, "stated_id", "sightings", "commit", "committed_ids", "committers"
    ).agg(
        *of_last(
            (*PLACE, "file", "arrival_ms", "response_leader_epoch", "correlation_id", "next_commit_ms"), "at", "last_"
        ),
    )
    answer = F.struct(
        "node", "last_arrival_ms", "last_response_leader_epoch", "last_correlation_id", "last_next_commit_ms",
        carried_ref("last").alias("ref"),
    )  # fmt: skip
    answers = answers.join(
        F.broadcast(request_log_gaps(events).drop("first_ms", "last_ms")), ["cluster", "node"], "left"
    )
    answers = with_returns(answers, events, CONSUMER_OFFSETS)
    return _answered(answers.withColumn("file", F.col("last_file")).withColumn("answer", answer))


def _answered(rows: DataFrame) -> DataFrame:
    """The rows of `_returned`. Needs: answer, stated_id, commit, committed_ids, committers, gaps, returns, sightings."""
    answer, commit, stated_id = F.col("answer"), F.col("commit"), F.col("stated_id")
    own_sightings = F.filter("sightings", lambda s: s["node"] == answer["node"])
    known = F.filter(
        "own_sightings",
        lambda s: (
            (s["since"] < answer["last_arrival_ms"] - REQUEST_LINE_LAG_MS)
            & F.coalesce(s["topic_id"] == stated_id, F.lit(True))
        ),
    )
    newest = F.array_max(F.transform(known, lambda s: F.struct(s["since"], s["topic_id"], s["ref"])))
    earlier = F.filter("own_sightings", lambda s: s["since"] < F.col("newest.since"))
    last_stated = F.array_max(
        F.transform(
            earlier, lambda s: F.struct(F.greatest(s["until"], s["deleted"]).alias("at"), s["last_ref"].alias("ref"))
        )
    )
    rows = rows.withColumn("own_sightings", own_sightings).withColumn("newest", newest)
    rows = rows.withColumns({"last_stated": last_stated, "earlier_ids": earlier["topic_id"]})
    none = F.lit(None)
    committed_ms, created_ms = commit["last_time_ms"], F.col("newest.since")
    of_earlier = F.array_contains("earlier_ids", commit["topic_id"])
    lowest, highest = F.col("committed_ids.lowest"), F.col("committed_ids.highest")
    of_another = (lowest == highest) & (lowest != _BY_NAME) & (lowest != stated_id)
    of_another &= F.coalesce(answer["last_next_commit_ms"] > answer["ref"]["time_ms"], F.lit(True))
    throughout = F.col("returns").isNotNull() & ~returned_between(commit["ref"], answer["ref"])
    return rows.select(
        F.lit(True).alias("returned"), "cluster", answer["node"].alias("node"), "topic",
        F.coalesce(stated_id, F.col("newest.topic_id")).alias("topic_id"),
        "partition", answer["last_response_leader_epoch"].alias("leader_epoch"), none.cast("string").alias("client_id"),
        "group_id", answer["last_correlation_id"].alias("correlation_id"), F.col("offset").alias("committed_offset"),
        answer["ref"].alias("offset_fetch_ref"), commit["ref"].alias("commit_ref"),
        stated_id.alias("fetched_topic_id"), commit["topic_id"].alias("committed_topic_id"),
        F.coalesce(of_earlier, committed_ms <= F.least("last_stated.at", created_ms)).alias("before_deletion"),
        F.coalesce(
            commit["topic_id"] == F.col("newest.topic_id"), committed_ms > created_ms + REQUEST_LINE_LAG_MS
        ).alias("after_creation"),
        holds(of_another).alias("of_another_topic"), throughout.alias("coordinated_throughout"),
        F.exists("committers", lambda node: node != answer["node"]).alias("committed_elsewhere"),
        gap_between(committed_ms, answer["last_arrival_ms"]).alias("commits_missing"),
        topic_in_words(F.col("newest.topic_id")).alias("topic_now"),
        F.col("newest.ref").alias("created_ref"), F.col("last_stated.at").isNotNull().alias("created_before"),
        F.col("last_stated.ref").alias("last_stated_ref"),
    )  # fmt: skip
