"""LD-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("LD-05", frame="fetches", kip="KIP-320", severity=INFO, since="2.1")
class SupersededLeaderServes(Rule):
    """Observation: a leader served fetches although a newer leader epoch had begun.

    ## What it checks
    A leader that was cut off or paused goes on serving in its own leader epoch until it hears of the next one. That the next
    one had begun is proven by a request that came to the same broker with a newer leader epoch and was answered 75. Each
    Fetch that the broker then still answered 0 in its old epoch counts as one `pass` here. This rule never gives a violation.

    ## Why it matters
    Such a read may be stale, and with an older client or a follower in the same position it is the moment at which logs
    diverge. Many sightings tell of a broker that hears late of elections.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines.

    ## What is allowed
    All of it: KIP-320 fences the requester, not the leader. What was really lost is found by TR-01 and TR-06. The times of two
    hosts are never compared, so a superseded leader to which nobody came with the newer epoch is not seen.

    ## Example
    Broker 1 wakes from a pause. A consumer that has met the new leader asks it in epoch 1 and is answered 75; another one asks
    in epoch 0 and gets records.

    ## References
    KIP-320, Leader Fetch Handling; Partition.getLocalLog; KAFKA-14296.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the request with a newer leader epoch": "newer_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "no fetches served in leader epoch {held_max} once leader epoch {newer_epoch} is known"
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = (
        "a request in leader epoch {newer_epoch} of {topic}-{partition} had come to broker {node} and was answered 75",
        "broker {node} still held leader epoch {held_max} and answered {client_id} with {error_code}",
    )

    def applies(self) -> Column:
        return F.coalesce((col("error_code") == 0) & (col("newer_epoch") > col("held_max")), F.lit(False))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("leader_epoch").isNull(), "the leader epoch that the broker held is not certain"),
            otherwise=passed(),
        )
