"""CO-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("CO-03", frame="commits", kip="KIP-320", severity=HIGH, since="2.1")
class CommitsOfTwoHistories(Rule):
    """A group committed a higher offset in an older leader epoch than it had committed before.

    ## What it checks
    In one history of a partition, leader epochs rise with the offsets. After a group has committed an offset in a leader
    epoch, no higher offset can belong to an older one. The subject is all commits of one client for a group, a partition
    and a leader epoch. They are compared with all commits that their coordinator had accepted before.

    ## Why it matters
    The group consumed from two histories: a member read from a replaced leader, and its records are not in the partition's
    log. The next member resumes at an offset that belongs to neither history.

    ## Evidence needed
    The coordinator's request log (OffsetCommit 6, TxnOffsetCommit 2) and the start of the newer epoch: the leader's "starts at
    leader epoch" line.

    ## What is allowed
    A lower offset with any epoch (a seek, a reset, a detected truncation), and a higher one in the same or a newer epoch. A
    commit without an epoch is not compared. Two commits whose requests may overlap have no order. It is exposed instead of
    a violation if an election since the older epoch was unclean, or may have been, because such an election can restore the
    older history.

    ## What to do
    Stop the group, reset it to the start of the newer leader epoch with `kafka-consumer-groups.sh --reset-offsets
    --to-offset`, and process from there again. What the member read beyond that start is not in the partition any more.
    `epochaudit timeline TOPIC-PARTITION` names the leader that served it: restart it if it still takes itself for one.
    Exposed points to an unclean election: set `unclean.leader.election.enable=false`.

    ## Example
    Group g committed 40 in leader epoch 5, which starts at 35. A member that still reads from the leader of epoch 4 then
    commits 60 in epoch 4.

    ## References
    KIP-320, OffsetCommit; GroupMetadataManager, OffsetMetadataManager (generation and member epoch fence only the group).
    """

    caused_by = ("LD-05", "TR-01", "CO-04")
    evidence = {
        "the commit in the older leader epoch": "commit_ref",
        "the commit in the newer one before": "newer_ref",
        "the leader's line that starts the newer epoch": "newer_start_ref",
    }
    expected = "no commit above {newer_offset} with a leader epoch below {newer_epoch}"
    observed = "{client_id} committed {committed_offset} with leader epoch {leader_epoch} for group {group_id}"
    because = (
        "group {group_id} had committed {newer_offset} of {topic}-{partition} with leader epoch {newer_epoch}",
        "leader epoch {newer_epoch} starts at offset {newer_start}: the record before {committed_offset} is of it or a newer one",
    )

    def applies(self) -> Column:
        return ~col("returned") & (col("leader_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("newer_epoch").isNull(),
                expected="no lower offset that the group had committed before with a newer leader epoch",
                because=("no such commit is recorded at broker {node} before",),
            ),
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC),
            unverifiable(col("newer_start").isNull(), "the start of the newer leader epoch is not recorded"),
            unverifiable(
                col("newer_start") >= col("newer_offset"),
                "the newer leader epoch starts above the offset committed in it",
            ),
            exposed(
                col("election_uncertain"), "an unclean or unknown election may have brought the older history back"
            ),
            otherwise=violation(),
        )
