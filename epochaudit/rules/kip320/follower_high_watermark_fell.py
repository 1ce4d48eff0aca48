"""HW-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.truncations import LOWERED
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("HW-04", frame="truncations", kip="KIP-320", severity=INFO, since="2.7.1")
class FollowerHighWatermarkFell(Rule):
    """Observation: a replica's own high watermark went back.

    ## What it checks
    The lines "Non-monotonic update of high watermark" of a replica's log. Each counts as one `pass` here. This rule never
    gives a violation.

    ## Why it matters
    Consumers may read from followers, up to the follower's high watermark. What it had above the new one was shown as committed
    and is not, or not yet. In 2.7 to 3.4.0 a follower takes its leader's high watermark before it has truncated, and so
    exposes records that are about to go (KAFKA-14704).

    ## Evidence needed
    The replica's server.log.

    ## What is allowed
    All of it: a new leader knows an older high watermark than the one before, and its followers take it over. After an unclean
    election the high watermark falls with the log. Whether committed records were lost is told by TR-06 and TR-07.

    ## Example
    Broker 2 had high watermark 94 of orders-0. Broker 3 becomes leader and knows 93: broker 2 goes back to 93.

    ## References
    UnifiedLog.maybeUpdateHighWatermark; KIP-392; KAFKA-14704.
    """

    evidence = {
        "the line that tells of the high watermark": "line_ref",
        "the line with which the replica began the leader epoch": "start_ref",
    }
    expected = "a high watermark of {told_high_watermark} or more"
    observed = "high watermark {offset}"
    because = (
        "broker {node} had high watermark {told_high_watermark} of {topic}-{partition}",
        "in leader epoch {leader_epoch} it went back to {offset}",
    )

    def applies(self) -> Column:
        return col("event_type") == LOWERED

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("leader_epoch").isNull(), "the leader epoch that the replica had begun is not in the evidence"
            ),
            otherwise=passed(),
        )
