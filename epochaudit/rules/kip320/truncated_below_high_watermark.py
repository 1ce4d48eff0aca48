"""TR-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.truncations import BELOW, TRUNCATING
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TR-07", frame="truncations", kip="KIP-320", severity=HIGH, since="0.11")
class TruncatedBelowHighWatermark(Rule):
    """A follower truncated its log below its own high watermark though no election was unclean.

    ## What it checks
    What lies below a follower's high watermark is committed: each leader that is elected from the ISR has it. A follower that
    truncates as its leader told it must not go below the high watermark with which it began the leader epoch.

    ## Why it matters
    Either the leader has lost committed records and the follower gives up its copy of them, or the follower throws away what
    the leader still has, and while it fetches that again one failure is enough to lose it.

    ## Evidence needed
    The follower's server.log ("Truncating partition", 3.1+) and state-change.log ("Follower ... starts at leader epoch ... with high
    watermark", 2.6+), and of all leader epochs since the one that it had begun before, how their leaders were elected.

    ## What is allowed
    An unclean election in any recorded epoch up to this one loses committed records by definition: TR-06 tells what. Uncommitted
    records above the high watermark go after clean elections: routine with acks=1. A high watermark counts only if the
    follower learned it in the epoch that it had begun before, as its leader, or as a follower whose high watermark grew in
    it; an older one may stem from a history that was lost. The line "Truncating ... below high watermark" of older releases
    names a high watermark of unknown age: it is never more than unverifiable.

    ## Example
    Broker 3 follows in leader epoch 5 of orders-0 with high watermark 120, after broker 2, of the ISR, was elected. It
    truncates to 90.

    ## References
    ReplicaFetcherThread.truncate, Partition.truncateTo; KIP-101, KIP-320; StrongIsr in Kafka's TLA+ model.
    """

    caused_by = ("TR-06", "TR-04", "OE-03", "TR-05", "SR-01", "SR-03", "SR-04", "SR-07")
    evidence = {
        "the line that tells of the truncation": "line_ref",
        "the line with which the follower began the leader epoch": "start_ref",
        "the election": "election_ref",
    }
    expected = "a truncation to {high_watermark} or above"
    observed = "truncated to {offset}"
    because = (
        "broker {node} began to follow in leader epoch {leader_epoch} of {topic}-{partition} with high watermark {high_watermark}",
        "since leader epoch {previous_epoch}, in which it had learned it, all leaders were elected from the ISR",
        "it truncated to {offset}; its leader had said that epoch {diverging_epoch} ends at {diverging_end_offset}",
    )

    def applies(self) -> Column:
        by_epoch = (col("event_type") == TRUNCATING) & (col("reason") == "leader_epoch")
        return by_epoch | (col("event_type") == BELOW)

    def verdict(self) -> tuple[Branch, ...]:
        below = col("offset") < F.least("high_watermark", "start_offset")
        return first_of(
            unverifiable(
                col("several_incarnations") & col("topic_id").isNull(),
                "the topic name had several incarnations and no topic id tells them apart",
            ),
            passed(col("some_unclean")),
            unverifiable(
                col("event_type") == BELOW, "where the follower had its high watermark from is not in the evidence"
            ),
            unverifiable(
                col("high_watermark").isNull(),
                "the high watermark with which the follower began the epoch is not recorded",
            ),
            passed(~below),
            unverifiable(
                ~F.coalesce("learned", F.lit(False)),
                "where the follower had its high watermark from is not in the evidence",
            ),
            unverifiable(
                ~F.coalesce("all_clean", F.lit(False)), "whether all elections since were clean is not in the evidence"
            ),
            otherwise=violation(),
        )
