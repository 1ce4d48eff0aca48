"""TR-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import CLIENT_TRUNCATION_DETECTED, CONSUMER_OUT_OF_RANGE
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable

GIVEN_TO_THE_APPLICATION = "no_reset_policy"


@rule("TR-08", frame="client_epochs", kip="KIP-320", severity=INFO, since="all")
class PositionResetAfterTruncation(Rule):
    """Observation: a consumer's position was reset because the log no longer had it.

    ## What it checks
    Lines of a consumer's log in which it discards its position and continues where its reset policy, or the comparison with
    the leader, sends it. One `pass` for each whose cause is in the evidence: the log was truncated, it ended before the
    position, or its beginning was deleted (retention, DeleteRecords).

    ## Why it matters
    No fence failed: the consumer detected the change. But the application does not learn of it. With the policy `earliest`
    it gets records again. With `latest` it misses the records between the truncation and the end of the log.

    ## Evidence needed
    The consumer's log. That a position out of range was truncated is shown by the lineage: "starts at leader epoch" lines,
    and the leader epoch of the position, which the line states since 2.3. Otherwise the new position shows the cause. If it
    is below the old position, the log ended before that. If it is above, and a broker's server.log names it as a new start of the
    log, the beginning was deleted.

    ## What is allowed
    Every such reset is allowed. A consumer without a reset policy passes the truncation to its application
    (LogTruncationException) and is no subject.

    ## What to do
    The fence worked, so Kafka needs no repair. With the policy `latest`, process the records between the truncation and
    the new position: reset the group with `kafka-consumer-groups.sh --reset-offsets --to-offset`. With `earliest`,
    expect duplicates. `auto.offset.reset=none` lets the application decide.

    ## Example
    A consumer at 30, read in leader epoch 1, finds that epoch 3 starts at 10: "Truncation detected ..., resetting offset".

    ## References
    KIP-320, Consumer Handling; SubscriptionState.maybeCompleteValidation, FetchCollector.handleOffsetOutOfRange.
    """

    evidence = {
        "the consumer's line": "own_ref",
        "where it went": "new_offset_ref",
        "the leader's line that starts the newer epoch": "diverged_ref",
        "the broker's line by which the log began there": "log_start_ref",
    }
    expected = "a new position: the log of {topic}-{partition} no longer has the one that {client} had"
    observed = "{client} gave up position {position_read}; {went_to}"
    because = ("leader epoch {diverged_epoch} starts at offset {diverged_start}, below the position",)

    def applies(self) -> Column:
        by_itself = col("reason").isNull() | (col("reason") != GIVEN_TO_THE_APPLICATION)
        return col("kind").isin(CLIENT_TRUNCATION_DETECTED, CONSUMER_OUT_OF_RANGE) & by_itself

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("kind") == CLIENT_TRUNCATION_DETECTED,
                because=("its line states that the log was truncated", *self.because),
            ),
            passed(col("diverged_epoch").isNotNull()),
            passed(
                col("new_offset") < col("position"),
                because=("the position lay beyond the end of the log: the reset went back to {new_offset}",),
            ),
            passed(
                col("log_start_ref").isNotNull(),
                because=("the beginning of the log had been deleted: it starts at offset {new_offset}",),
            ),
            otherwise=unverifiable(
                None, "whether the log was truncated, or its beginning deleted, is not in the evidence"
            ),
        )
