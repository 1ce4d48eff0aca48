"""HW-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC, HELD_EPOCH_UNCERTAIN
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("HW-01", frame="high_watermarks", kip="KIP-320", severity=HIGH, since="0.8")
class HighWatermarkFell(Rule):
    """A leader's high watermark fell within one leader epoch.

    ## What it checks
    The high watermarks in the Fetch responses of one leader process in one leader epoch. A request that arrives after a
    higher one was returned must not be answered with a lower one. The subject is ten seconds of responses for one
    partition.

    ## Why it matters
    Records below the high watermark are committed and may have been consumed. If it falls within an epoch, the leader's log
    was deleted or truncated below it.

    ## Evidence needed
    The leader's request log and its "starts at leader epoch" lines.

    ## What is allowed
    A new or restarted leader may have a lower high watermark (HW-03). Responses that overlap may be logged in any order,
    and request lines may be written late, so half a second is tolerated. A fall that ends within the same ten seconds may
    be missed. Responses with an uncertain leader epoch are subjects only if the broker returned a higher one before. If a
    name had several topics and no id distinguishes them, the rule claims nothing.

    ## What to do
    If another member of the ISR still has the records, stop this leader at once: its followers truncate their logs to
    its own. Save their folders before that. See in the leader's server.log what happened to its log between the two
    answers: a deletion (SR-01, SR-03, SR-07), a truncation, or a disk error. A consumer beyond the fallen high
    watermark may have been reset: once a complete replica leads, give its group the former offset back.

    ## Example
    Broker 1 leads orders-0 in epoch 3 and has returned 120. A late StopReplica deletes its log. Ten seconds later it leads
    again in epoch 3 and returns 0.

    ## References
    Partition.maybeIncrementLeaderHW; KIP-101; KIP-320.
    """

    caused_by = ("SR-01", "SR-03", "SR-04", "SR-07", "TR-06", "LI-01")
    evidence = {
        "the answer with the lower high watermark": "low_ref",
        "the answer with the higher one before": "fallen_ref",
    }
    expected = "a high watermark of {fallen_from} or more"
    observed = "high watermark {low}"
    because = (
        "broker {node} gave out high watermark {fallen_from} of {topic}-{partition} in leader epoch {leader_epoch}",
        "a request that arrived later, in the same process and epoch, was answered with {low}",
    )

    def applies(self) -> Column:
        may_have_fallen = col("low") < col("ever")
        return col("leads") | (col("leader_epoch").isNull() & may_have_fallen)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("fallen_from").isNull(),
                expected="no high watermark below one that was given out before",
                observed="none of broker {node} in these ten seconds is lower; the lowest is {low}",
                because=(),
            ),
            unverifiable(
                col("leader_epoch").isNull(),
                HELD_EPOCH_UNCERTAIN,
                expected="a high watermark of {fallen_from} or more, if the leader epoch is the same",
                because=("broker {node} gave out high watermark {fallen_from} of {topic}-{partition}",),
            ),
            unverifiable(
                col("ambiguous_name"),
                AMBIGUOUS_TOPIC,
                expected="a high watermark of {fallen_from} or more, if it is the same topic",
            ),
            otherwise=violation(),
        )
