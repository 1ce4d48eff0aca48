"""TR-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.client_epochs import OUT_OF_RANGE, TRUNCATED
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable

GIVEN_TO_THE_APPLICATION = "no_reset_policy"


@rule("TR-08", frame="client_epochs", kip="KIP-320", severity=INFO, since="all")
class PositionResetAfterTruncation(Rule):
    """Observation: a consumer's position was reset because its log had been truncated.

    ## What it checks
    Lines of a consumer's log by which it gives up its position and goes where its reset policy, or the comparison with the
    leader, sends it. One `pass` for each that a truncation was the cause of.

    ## Why it matters
    Nothing was fenced wrongly: the consumer noticed. But the application is not told. With the policy `earliest` it gets records
    again, with `latest` it misses what was written between the truncation and the end of the log.

    ## Evidence needed
    The consumer's log. That a position out of range was truncated is told by the lineage: "starts at leader epoch" lines, and the
    leader epoch of the position, which the line names from 2.3 on.

    ## What is allowed
    All of it. A consumer without a reset policy gives the truncation to its application (LogTruncationException): no subject. A
    position out of range may also lie below the beginning of the log: nothing is said then.

    ## Example
    A consumer at 30, read in leader epoch 1, finds that epoch 3 starts at 10: "Truncation detected ..., resetting offset".

    ## References
    KIP-320, Consumer Handling; SubscriptionState.maybeCompleteValidation, FetchCollector.handleOffsetOutOfRange.
    """

    evidence = {
        "the consumer's line": "own_ref",
        "the leader's line that starts the newer epoch": "diverged_ref",
    }
    expected = "nothing else: the position {position} of {topic}-{partition} is no longer in the log"
    observed = "{client_id} gave up position {position}, leader epoch {leader_epoch}; went to {new_offset}"
    because = ("leader epoch {diverged_epoch} starts at offset {diverged_start}",)

    def applies(self) -> Column:
        by_itself = col("reason").isNull() | (col("reason") != GIVEN_TO_THE_APPLICATION)
        return col("kind").isin(TRUNCATED, OUT_OF_RANGE) & by_itself

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed((col("kind") == TRUNCATED) | col("diverged_epoch").isNotNull()),
            otherwise=unverifiable(
                None, "whether the log was truncated, or its beginning deleted, is not in the evidence"
            ),
        )
