"""CO-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.kip320.validation import topic_unknown
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("CO-01", frame="commits", kip="KIP-320", severity=MEDIUM, since="2.1")
class CommittedEpochFromTheFuture(Rule):
    """A client committed an offset with a leader epoch that the partition never had.

    ## What it checks
    The leader epoch that a client commits beside an offset is that of the record before it. It can't be newer than the
    partition's leader epoch. Judged are the commits of one client for a group, a partition and a leader epoch at one
    coordinator.

    ## Why it matters
    The coordinator stores it unchecked. Whoever resumes from the offset takes the epoch for known: it waits for metadata that
    never comes, or is answered 75, or takes its position for newer than a truncation that it should notice.

    ## Evidence needed
    The coordinator's request log (OffsetCommit 6, TxnOffsetCommit 2), and what tells the partition's leader epochs: "starts at
    leader epoch" lines, control requests, the metadata log, Metadata answers. A breach is claimed if no epoch so high is
    recorded anywhere, the coordinator itself told clients a lower one half a minute after the commit or later, and the leader
    of that one is recorded.

    ## What is allowed
    Any older epoch: a position keeps the epoch of the last record that was consumed. -1 names none (CO-05). A topic that was
    created again counts anew; where nothing tells the topics of a name apart, nothing is claimed.

    ## Example
    A migration tool writes offsets with leader epoch 57 for a partition whose leader epoch is 3.

    ## References
    KIP-320, OffsetCommit; OffsetCommitRequest.json, OffsetMetadataManager.
    """

    evidence = {
        "the commit": "commit_ref",
        "the coordinator's later answer about the partition": "told_ref",
    }
    expected = "a leader epoch of {topic}-{partition} that existed: {highest_epoch} or lower"
    observed = "{client_id} committed {committed_offset} with leader epoch {leader_epoch} for group {group_id}"
    because = (
        "the highest leader epoch recorded of {topic}-{partition} is {highest_epoch}",
        "half a minute later or more, broker {node} still told clients leader epoch {told_epoch}",
    )

    def applies(self) -> Column:
        return ~col("told") & (col("leader_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(topic_unknown(), "the topic name had several incarnations and no topic id tells them apart"),
            unverifiable(col("highest_epoch").isNull(), "no leader epoch of the partition is recorded"),
            passed(col("leader_epoch") <= col("highest_epoch")),
            violation((col("told_epoch") < col("leader_epoch")) & col("told_started")),
            otherwise=unverifiable(
                None, "no leader epoch of the partition is recorded that is surely later than the commit"
            ),
        )
