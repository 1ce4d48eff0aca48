"""FF-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.follower_answers import FENCED_LEADER_EPOCH
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("FF-07", frame="follower_answers", kip="KIP-320", severity=LOW, since="2.1")
class FencedEpochFetchedAgain(Rule):
    """A follower went on in a leader epoch that its leader had refused as old.

    ## What it checks
    A follower whose Fetch or OffsetForLeaderEpoch is answered 74 (FENCED_LEADER_EPOCH) for a partition must leave the
    partition alone until it is told a newer leader epoch. Its next request on the connection that lists the partition must
    not state the same epoch.

    ## Why it matters
    Nothing is lost, as the fence holds. But the follower has not understood that it is behind: it asks in vain, and is not
    in sync until somebody makes it a follower anew.

    ## Evidence needed
    The leader's request log. Where the request left the partition to its fetch session, the epoch is that of the last request
    on the connection that listed it.

    ## What is allowed
    A newer leader epoch, known to the follower before the answer came or after. A new connection: the follower may have been
    started anew.

    ## Example
    Broker 3 fetches orders-0 in epoch 6 and is answered 74, as broker 1 leads in epoch 7. Its next Fetch states epoch 6 again.

    ## References
    AbstractFetcherThread.onPartitionFenced; KIP-320, Replica Handling.
    """

    evidence = {"the answer that refuses the epoch": "answer_ref", "the follower's next request": "next_ref"}
    expected = "no request of replica {node} in leader epoch {leader_epoch} after it was answered 74"
    observed = "{next_event_type} in leader epoch {next_leader_epoch}"
    because = (
        "replica {node} asked broker {leader} for {topic}-{partition} in leader epoch {leader_epoch} and was answered 74",
        "its next request on the connection that lists the partition states leader epoch {next_leader_epoch}",
    )

    def applies(self) -> Column:
        return col("error_code") == FENCED_LEADER_EPOCH

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("next_ref").isNull()),
            unverifiable(
                col("leader_epoch").isNull(),
                "the leader epoch that the fetch session held for the partition is not recorded",
            ),
            violation(col("next_leader_epoch") == col("leader_epoch")),
            otherwise=passed(),
        )
