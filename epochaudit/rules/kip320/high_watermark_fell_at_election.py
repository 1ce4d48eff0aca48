"""HW-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("HW-03", frame="high_watermarks", kip="KIP-320", severity=INFO, since="0.8")
class HighWatermarkFellAtElection(Rule):
    """Observation: a new leader gave out a lower high watermark than leaders before it.

    ## What it checks
    The lowest high watermark of the first ten seconds of a leader epoch, against the highest that leaders of lower epochs
    gave out. Each leader epoch that begins lower counts as one `pass` here. This rule never gives a violation.

    ## Why it matters
    Until the high watermark has caught up, consumers at the new leader get nothing, or see the end of the log go back
    (LO-03 guards the latest offset against that). After an election that lost data it does not catch up with what was
    there: TR-06 tells.

    ## Evidence needed
    Request logs of both leaders and their "starts at leader epoch" lines.

    ## What is allowed
    All of it: a follower learns the high watermark one fetch later than the leader has it, and no committed record is lost
    as long as the epoch does not start below it. Where a name had several topics and no id tells them apart, nothing is
    claimed.

    ## Example
    Broker 1 gave out 120 in epoch 6. Broker 2 becomes leader in epoch 7 at offset 130 and gives out 118 first.

    ## References
    KIP-207, KIP-320; Partition.makeLeader.
    """

    evidence = {
        "the answer with the lower high watermark": "low_ref",
        "the answer with the higher one before": "earlier_ref",
    }
    expected = "a high watermark of {earlier} or more"
    observed = "high watermark {low} in leader epoch {leader_epoch}"
    because = (
        "high watermark {earlier} of {topic}-{partition} was given out in leader epoch {earlier_epoch}",
        "broker {node} began leader epoch {leader_epoch} with high watermark {low}",
    )

    def applies(self) -> Column:
        return F.coalesce(col("leads") & col("first_of_epoch") & (col("low") < col("earlier")), F.lit(False))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("several_incarnations") & col("topic_id").isNull(),
                "the topic name had several incarnations and no topic id tells them apart",
            ),
            otherwise=passed(),
        )
