"""TR-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("TR-06", frame="lineage", kip="KIP-320", severity=CRITICAL, since="0.11")
class ExposedDataLostByElection(Rule):
    """A leader epoch starts below a high watermark that was exposed before it.

    ## What it checks
    The end of a new leader's log, where its epoch starts, must not be below the highest high watermark that an earlier
    epoch's leader gave out: all members of the ISR hold everything below it, and a leader is elected from the ISR.

    ## Why it matters
    Records that were acknowledged and may have been consumed are gone from the new history; followers truncate theirs.

    ## Evidence needed
    The leaders' "starts at leader epoch" lines, Fetch answers for the high watermark, and for the manner of the election the
    ISR that stood just before: controller lines, LeaderAndIsr, AlterPartition answers or metadata records.

    ## What is allowed
    Epochs and offsets of a topic that was created anew start at 0 again: another topic id is another partition. Where a
    name had several topics and no id tells them apart, nothing is claimed. An unclean election loses data by definition: it
    is reported as exposed, like an election whose ISR is not in the evidence; without the request log of the leader before
    it cannot be said to have lost nothing. An epoch that its leader passed over, as the
    next one came first, has no start: it passes.

    ## Example
    The high watermark of orders-0 was 120 in epoch 6. Broker 3, a member of the ISR, becomes leader in epoch 7 at offset 90.

    ## References
    Partition.makeLeader; StrongIsr in Kafka's TLA+ model; KIP-320.
    """

    evidence = {
        "the leader's line that starts the epoch": "start_ref",
        "the answer or line that gave out the high watermark": "exposed_ref",
        "the election": "election_ref",
    }
    expected = "leader epoch {leader_epoch} of {topic}-{partition} starts at {exposed_high_watermark} or above"
    observed = "it starts at {start_offset}"
    because = (
        "high watermark {exposed_high_watermark} of {topic}-{partition} was given out in leader epoch {exposed_leader_epoch}",
        "broker {node} started leader epoch {leader_epoch} at offset {start_offset}",
        "the election was {election}: the ISR before it was {previous_isr}",
    )

    def lost(self) -> tuple[Column, Column]:
        return col("start_offset"), col("exposed_high_watermark") - 1

    def applies(self) -> Column:
        return (col("leader") >= 0) & col("previous_leader_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        lost = col("start_offset") < col("exposed_high_watermark")
        return first_of(
            unverifiable(
                col("several_incarnations") & col("topic_id").isNull(),
                "the topic name had several incarnations and no topic id tells them apart",
            ),
            passed(col("never_begun")),
            unverifiable(col("start_offset").isNull(), "no 'starts at leader epoch' line of the leader"),
            unverifiable(col("exposed_high_watermark").isNull(), "no high watermark of an earlier epoch is recorded"),
            violation(lost & (col("election") == "clean")),
            exposed(
                lost & (col("election") == "unclean"), "an unclean election may begin without what had been given out"
            ),
            exposed(lost, "whether the election was clean is not in the evidence"),
            unverifiable(
                (col("election") == "unclean") & ~col("answers_recorded"),
                "what the leader before gave out is not in the evidence (request log)",
            ),
            otherwise=passed(),
        )
