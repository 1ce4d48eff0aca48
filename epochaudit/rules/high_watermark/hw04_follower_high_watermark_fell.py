"""HW-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import HIGH_WATERMARK_LOWERED
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("HW-04", frame="truncations", kip="KIP-320", severity=INFO, since="2.7.1")
class FollowerHighWatermarkFell(Rule):
    """Observation: a replica's own high watermark went back.

    ## What it checks
    The lines "Non-monotonic update of high watermark" in a replica's log. Each counts as one `pass`. This rule never gives
    a violation.

    ## Why it matters
    Consumers may read from followers up to the follower's high watermark. Records between the new and the old one were
    shown as committed although they are not, or not yet. In 2.7 to 3.4.0 a follower applies its leader's high watermark
    before it has truncated, and so exposes records that it is about to truncate (KAFKA-14704).

    ## Evidence needed
    The replica's server.log.

    ## What is allowed
    Every such line is allowed: a new leader may have an older high watermark than its predecessor, and its followers adopt
    it. After an unclean election the high watermark falls with the log. TR-06 and TR-07 report whether committed records
    were lost.

    ## What to do
    Nothing needs repair: the replica adopts its leader's high watermark. If consumers read from followers
    (`client.rack`) and the broker is of 2.7 to 3.4.0, upgrade to 3.4.1 or 3.5.0 (KAFKA-14704). Until then such
    consumers can be made to read from leaders by removing `client.rack`.

    ## Example
    Broker 2 has high watermark 94 of orders-0. Broker 3 becomes leader with 93, and broker 2 goes back to 93.

    ## References
    UnifiedLog.maybeUpdateHighWatermark; KIP-392; KAFKA-14704.
    """

    evidence = {
        "the line that states the high watermark": "line_ref",
        "the line with which the replica began the leader epoch": "start_ref",
    }
    expected = "the high watermark of its leader, which may be behind (TR-06 and TR-07 judge whether records were lost)"
    observed = "broker {node} went back from high watermark {previous_high_watermark} to {offset}"
    because = ("broker {node} held leader epoch {leader_epoch} of {topic}-{partition} by then",)

    def applies(self) -> Column:
        return col("event_type") == HIGH_WATERMARK_LOWERED

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("leader_epoch").isNull(), "the leader epoch that the replica had begun is not in the evidence"
            ),
            otherwise=passed(),
        )
