"""TR-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import FOLLOWER_TRUNCATING, TRUNCATION_BELOW_HIGH_WATERMARK
from epochaudit.events.views import holds
from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import (
    HIGH,
    Branch,
    OwnSentences,
    Rule,
    exposed,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

_BEGAN = (
    "it had begun to follow in leader epoch {leader_epoch} of {topic}-{partition} with high watermark {high_watermark}"
)
_ANSWERED = "its leader had answered that epoch {diverging_epoch} ends at {diverging_end_offset}"


@rule("TR-07", frame="truncations", kip="KIP-320", severity=HIGH, since="0.11")
class TruncatedBelowHighWatermark(Rule):
    """A follower truncated its log below its own high watermark though no election was unclean.

    ## What it checks
    Records below a follower's high watermark are committed: each leader that is elected from the ISR has them. A follower
    that truncates by its leader's answer must not go below the high watermark with which it began the leader epoch.

    ## Why it matters
    Either the leader has lost committed records and the follower discards its copy. Or the follower discards records that
    the leader still has, and until it has fetched them again one failure is enough to lose them.

    ## Evidence needed
    The follower's server.log ("Truncating partition", 3.1+, or "Truncating ... below high watermark", 2.0 to 2.3 and 4.2+:
    releases between lower the high watermark before they compare) and state-change.log ("Follower ... starts at leader epoch
    ... with high watermark", 2.6+). How the leaders were elected of all leader epochs since the previous one that the
    follower had begun.

    ## What is allowed
    An unclean election since the previous epoch that the follower had begun loses committed records by definition. TR-06
    judges it if its leader's line states the start. If that line is missing, the truncation is exposed here. Uncommitted
    records above the high watermark are truncated after clean elections, which is routine with acks=1. A high watermark
    counts only if the follower learned it in the previous epoch that it had begun, as its leader, or as a follower whose
    high watermark grew in it. An older one may come from a lost history. Where lines of the follower may be missing
    between the start of the epoch and the truncation, it may have begun another epoch. The line "Truncating ... below high
    watermark" does not say where the follower had its high watermark from: it is unverifiable if the follower has no line
    about the leader epoch. From 4.2 on it repeats "Truncating partition ... due to leader epoch", and is judged only where that
    line is missing.

    ## What to do
    Keep the other members of the ISR running until the follower has caught up (metric `FetcherLagMetrics`,
    `ConsumerLag`, of its broker). Check that the leader has the records: TR-06 reports if it has not, and then copy the
    folder of every replica that did not truncate yet. OE-03 and TR-04 tell whether the leader answered wrongly. Exposed
    means an unclean election: set `unclean.leader.election.enable=false`.

    ## Example
    Broker 2, a member of the ISR, was elected. Broker 3 follows in leader epoch 5 of orders-0 with high watermark 120, and
    truncates to 90.

    ## References
    ReplicaFetcherThread.truncate, Partition.truncateTo; KIP-101, KIP-320; StrongIsr in Kafka's TLA+ model.
    """

    caused_by = ("TR-06", "TR-04", "OE-03", "TR-05", "SR-01", "SR-03", "SR-04", "SR-07")
    evidence = {
        "the line about the truncation": "line_ref",
        "the line with which the follower began the leader epoch": "start_ref",
        "the line with which it began the leader epoch before": "previous_start_ref",
        "the election": "election_ref",
    }
    expected = "a truncation to high watermark {high_watermark} or above"
    observed = "broker {node} truncated to {offset}"
    because = (
        _BEGAN,
        "it had learned that high watermark in leader epoch {previous_epoch}, and all leaders since were elected from the ISR",
        _ANSWERED,
    )

    def applies(self) -> Column:
        by_epoch = (col("event_type") == FOLLOWER_TRUNCATING) & (col("reason") == "leader_epoch")
        return by_epoch | (col("event_type") == TRUNCATION_BELOW_HIGH_WATERMARK)

    def verdict(self) -> tuple[Branch, ...]:
        below = col("offset") < F.least("high_watermark", "start_offset")
        learned = holds(F.col("learned"))
        if_committed = OwnSentences(
            expected="a truncation to high watermark {high_watermark} or above, if that is one of the leader's history",
            because=(_BEGAN, _ANSWERED),
        )
        return first_of(
            unverifiable(
                col("ambiguous_name") & col("topic_id").isNull(),
                AMBIGUOUS_TOPIC,
                expected="a truncation to the high watermark of the same topic, or above",
                because=(_ANSWERED,),
            ),
            unverifiable(
                col("high_watermark").isNull() & (col("event_type") == TRUNCATION_BELOW_HIGH_WATERMARK),
                "where the follower had its high watermark from is not in the evidence",
                expected="a truncation to high watermark {previous_high_watermark} or above, if that is one of the leader's history",
                because=(),
            ),
            unverifiable(
                col("high_watermark").isNull(),
                "the high watermark with which the follower began the epoch is not recorded",
                expected="a truncation to the follower's high watermark, or above",
                because=(_ANSWERED,),
            ),
            passed(~below, because=(_BEGAN, _ANSWERED)),
            passed(
                col("unclean_start").isNotNull(),
                expected="a truncation to high watermark {high_watermark} or above, but for an unclean election, which TR-06 judges",
                observed="broker {node} truncated to {offset}; an epoch since starts at {unclean_start}, by an unclean election",
                because=(_BEGAN, _ANSWERED),
            ),
            unverifiable(
                col("begun_since"),
                "the follower's lines between the start of the epoch and the truncation may be missing",
                **if_committed,
            ),
            unverifiable(
                ~learned, "where the follower had its high watermark from is not in the evidence", **if_committed
            ),
            exposed(
                col("some_unclean"),
                "an unclean election may begin without what had been committed",
                because=(
                    _BEGAN,
                    "since leader epoch {previous_epoch}, in which it had learned that, an election was unclean",
                    _ANSWERED,
                ),
            ),
            unverifiable(
                ~holds(F.col("all_clean")),
                "whether all elections since were clean is not in the evidence",
                **if_committed,
            ),
            otherwise=violation(),
        )
