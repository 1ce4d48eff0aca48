"""FF-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("FF-07", frame="follower_answers", kip="KIP-320", severity=LOW, since="2.1")
class FencedEpochFetchedAgain(Rule):
    """A follower went on in a leader epoch that its leader had refused as old.

    ## What it checks
    A follower whose Fetch or OffsetForLeaderEpoch is answered 74 (FENCED_LEADER_EPOCH) for a partition must stop fetching
    it until it learns a newer leader epoch. Its next request on the connection that lists the partition must not state the
    same epoch.

    ## Why it matters
    The fence holds, so nothing is lost. But the follower keeps asking in vain, and stays out of sync until it is made a
    follower again.

    ## Evidence needed
    The leader's request log. If the refused request left the partition to its fetch session, the epoch is taken from the
    last request on the connection that listed it.

    ## What is allowed
    A newer leader epoch that the follower learned before or after the answer. A new connection, as the follower may have
    restarted. If a name had several topics and no id distinguishes them, the same epoch may be that of another topic:
    unverifiable.

    ## What to do
    Restart the follower if the partition stays under-replicated (`kafka-topics.sh --describe
    --under-replicated-partitions`): it then gets its leader epochs anew. No record is at risk while the ISR has other
    members. If it happens again, report both brokers' versions and the request lines to the Kafka project.

    ## Example
    Broker 3 fetches orders-0 in epoch 6 and is answered 74, because broker 1 leads in epoch 7. Its next Fetch states epoch
    6 again.

    ## References
    AbstractFetcherThread.onPartitionFenced; KIP-320, Replica Handling.
    """

    evidence = {
        "the answer that refuses the epoch": "answer_ref",
        "the follower's request before it that states the leader epoch": "listed_ref",
        "the follower's next request": "next_ref",
    }
    expected = "no request of replica {node} in leader epoch {leader_epoch} after it was answered {FENCED_LEADER_EPOCH}"
    observed = "{next_event_type} in leader epoch {next_leader_epoch}"
    because = (
        "replica {node} asked broker {leader} for {topic}-{partition} in leader epoch {leader_epoch} and was"
        " answered {FENCED_LEADER_EPOCH}",
        "its next request on the connection that lists the partition states leader epoch {next_leader_epoch}",
    )

    def applies(self) -> Column:
        return col("error_code") == Errors.FENCED_LEADER_EPOCH

    def verdict(self) -> tuple[Branch, ...]:
        again = col("next_leader_epoch") == col("leader_epoch")
        return first_of(
            passed(
                col("next_ref").isNull(),
                observed="no later request of the follower for the partition on the connection",
            ),
            unverifiable(
                col("leader_epoch").isNull(),
                "the leader epoch that the fetch session held for the partition is not recorded",
                expected="no request of replica {node} in the leader epoch that was refused",
            ),
            unverifiable(
                again & col("ambiguous_name"),
                AMBIGUOUS_TOPIC,
                expected="no request of replica {node} in leader epoch {leader_epoch} of the same topic",
            ),
            violation(again),
            passed(col("next_leader_epoch").isNull(), observed="{next_event_type} that states no leader epoch"),
            otherwise=passed(),
        )
