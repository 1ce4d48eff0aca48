"""CO-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("CO-01", frame="commits", kip="KIP-320", severity=MEDIUM, since="2.1")
class CommittedEpochFromTheFuture(Rule):
    """A client committed an offset with a leader epoch that the partition never had.

    ## What it checks
    The leader epoch of a committed offset is that of the record before it. It can't be newer than the partition's leader
    epoch. The subject is all commits of one client for a group, a partition and a leader epoch at one coordinator.

    ## Why it matters
    The coordinator stores the epoch unchecked. A consumer that resumes from the offset waits for metadata that never comes,
    is answered 75, or misses a truncation because its position seems newer.

    ## Evidence needed
    The coordinator's request log (OffsetCommit 6, TxnOffsetCommit 2), and the partition's leader epochs from "starts at
    leader epoch" lines, control requests, the metadata log or Metadata responses. A breach needs three facts: no epoch this
    high is recorded anywhere, the coordinator itself returned a lower one to clients at least half a minute after the
    commit, and the leader of that one is recorded.

    ## What is allowed
    Any older epoch, as a position keeps the epoch of the last consumed record. 0 is the first epoch of every topic, and -1
    means none (CO-05). A re-created topic starts again at 0. If nothing distinguishes the topics of a name, the rule claims
    nothing.

    ## What to do
    Stop the group, and write the offset again without a leader epoch: `kafka-consumer-groups.sh --reset-offsets
    --to-current --execute`. Find the tool that commits such epochs by client id and connection in the evidence. It
    should commit what the consumer got with the record, or no epoch. If the topic was restored from another cluster,
    its offsets do not apply here.

    ## Example
    A migration tool writes offsets with leader epoch 57 for a partition whose leader epoch is 3.

    ## References
    KIP-320, OffsetCommit; OffsetCommitRequest.json, OffsetMetadataManager.
    """

    evidence = {"the commit": "commit_ref", "the coordinator's later answer about the partition": "offset_fetch_ref"}
    expected = "a leader epoch of {topic}-{partition} that existed: {highest_epoch} or lower"
    observed = "{client_id} committed {committed_offset} with leader epoch {leader_epoch} for group {group_id}"
    because = (
        "the highest leader epoch recorded of {topic}-{partition} is {highest_epoch}",
        "half a minute later or more, broker {node} returned leader epoch {answered_epoch} to clients",
    )

    def applies(self) -> Column:
        return ~col("returned") & (col("leader_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        existed = "a leader epoch that {topic}-{partition} had when the offset was committed"
        recorded = self.because[:1]
        return first_of(
            passed(col("leader_epoch") == 0, expected=existed, because=("leader epoch 0 is the first of every topic",)),
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC, expected=existed),
            unverifiable(
                col("highest_epoch").isNull(), "no leader epoch of the partition is recorded", expected=existed
            ),
            passed(col("leader_epoch") <= col("highest_epoch"), because=recorded),
            violation((col("answered_epoch") < col("leader_epoch")) & col("answered_epoch_start_recorded")),
            otherwise=unverifiable(
                None,
                "no leader epoch of the partition is recorded that is surely later than the commit",
                expected=existed,
                because=recorded,
            ),
        )
