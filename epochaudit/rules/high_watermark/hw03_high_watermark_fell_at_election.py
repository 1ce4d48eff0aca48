"""HW-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("HW-03", frame="high_watermarks", kip="KIP-320", severity=INFO, since="0.8")
class HighWatermarkFellAtElection(Rule):
    """Observation: a new leader gave out a lower high watermark than leaders before it.

    ## What it checks
    The lowest high watermark of the first ten seconds of a leader epoch, compared with the highest that leaders of lower
    epochs returned. Each leader epoch that begins lower counts as one `pass`. This rule never gives a violation.

    ## Why it matters
    Until the high watermark has caught up, consumers get nothing from the new leader, or see the log end go back (LO-03
    covers the latest offset). After an election that lost data it never reaches the lost records: TR-06 reports them.

    ## Evidence needed
    Request logs of both leaders and their "starts at leader epoch" lines.

    ## What is allowed
    Every such epoch is allowed: a follower learns the high watermark one fetch after the leader, and no committed record is
    lost unless the epoch starts below it. If a name had several topics and no id distinguishes them, the rule claims
    nothing.

    ## What to do
    Nothing needs repair: the high watermark catches up when the followers have fetched. If it stays behind for longer
    than `replica.lag.time.max.ms`, look for a follower in the ISR that does not fetch. Lag monitors should ignore the
    dip.

    ## Example
    Broker 1 returned 120 in epoch 6. Broker 2 becomes leader in epoch 7 at offset 130 and first returns 118.

    ## References
    KIP-207, KIP-320; Partition.makeLeader.
    """

    evidence = {
        "the answer with the lower high watermark": "low_ref",
        "the answer with the higher one before": "earlier_ref",
    }
    expected = "a start of the epoch that loses nothing; its high watermark may be behind (TR-06 judges the start)"
    observed = "leader epoch {leader_epoch} began with high watermark {low}, below {earlier}"
    because = (
        "high watermark {earlier} of {topic}-{partition} was given out in leader epoch {earlier_epoch}",
        "broker {node} began leader epoch {leader_epoch} with high watermark {low}",
    )

    def applies(self) -> Column:
        return col("leads") & col("first_of_epoch") & (col("low") < col("earlier"))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC), otherwise=passed())
