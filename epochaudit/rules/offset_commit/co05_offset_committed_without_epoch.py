"""CO-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("CO-05", frame="commits", kip="KIP-320", severity=INFO, since="2.1")
class OffsetCommittedWithoutEpoch(Rule):
    """Observation: a client committed an offset without a leader epoch.

    ## What it checks
    Commits by OffsetCommit 6 or TxnOffsetCommit 2 and above without a leader epoch (-1). One `pass` for each client, group,
    partition and coordinator with such commits.

    ## Why it matters
    A consumer that resumes from such an offset can't validate it: if the record before it was truncated meanwhile, the
    consumer does not detect it (CO-04, TR-01). Frameworks that commit offsets themselves, and applications that construct
    OffsetAndMetadata, often omit the epoch.

    ## Evidence needed
    The coordinator's request log.

    ## What is allowed
    Every such commit is allowed: the epoch is optional, and a position without a record before it has none.

    ## What to do
    Nothing needs repair now. After an unclean election, compare this group's offsets with the truncation that the audit
    reports, and reset them by hand. Let the application commit the leader epoch of the record (`OffsetAndMetadata` with
    `leaderEpoch`), or let the consumer commit its own position.

    ## Example
    A stream processor commits its checkpoints as plain offsets.

    ## References
    KIP-320, OffsetCommit; KAFKA-19902, KAFKA-20507.
    """

    evidence = {"the last such commit": "commit_ref"}
    expected = "the leader epoch of the record before {committed_offset}, where the client knows it"
    observed = (
        "{client_id} committed {committed_offset} of {topic}-{partition} for group {group_id} without a leader epoch"
    )
    because = ("a consumer that resumes at {committed_offset} cannot tell whether the record before it was truncated",)

    def applies(self) -> Column:
        return ~col("returned") & (col("leader_epoch") < 0)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC), otherwise=passed())
