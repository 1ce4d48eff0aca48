"""HW-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("HW-01", frame="high_watermarks", kip="KIP-320", severity=HIGH, since="0.8")
class HighWatermarkFell(Rule):
    """A leader's high watermark fell within one leader epoch.

    ## What it checks
    The high watermarks that a leader gives out in Fetch answers, as long as its process and its leader epoch last: a
    request that arrived after a higher one had been given out must not be answered with a lower one. The subject is ten
    seconds of answers of one partition.

    ## Why it matters
    What is below the high watermark is committed and may have been consumed. If it falls within an epoch, the leader's
    log was deleted or truncated below it.

    ## Evidence needed
    The leader's request log and its "starts at leader epoch" lines.

    ## What is allowed
    A new leader, and a restarted one, may know less (HW-03). Answers that overlap may be logged in any order; half a second
    is granted, as a request's line may be written late. A fall that is made good within the same ten seconds may be missed.
    Where a name had several topics and no id tells them apart, nothing is claimed.

    ## Example
    Broker 1 leads orders-0 in epoch 3 and gave out 120. A late StopReplica deletes its log; ten seconds later it leads
    again in epoch 3 and gives out 0.

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
        return col("leader_epoch").isNull() | col("leads")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("leader_epoch").isNull(), "the leader epoch that the broker held is not certain"),
            unverifiable(
                col("fallen_from").isNotNull() & col("several_incarnations") & col("topic_id").isNull(),
                "the topic name had several incarnations and no topic id tells them apart",
            ),
            violation(col("fallen_from").isNotNull()),
            otherwise=passed(),
        )
