"""SR-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("SR-06", frame="fetches", kip="KIP-570", severity=HIGH, since="0.8")
class DeletedReplicaServed(Rule):
    """A broker served a replica that a StopReplica had deleted.

    ## What it checks
    Once a StopReplica with deletePartition is answered 0, the broker has no replica of the partition until it accepts a
    LeaderAndIsr for it. A Fetch that arrives and is answered in between must be refused for the partition.

    ## Why it matters
    The broker told the controller that the replica is gone. If it goes on serving it, clients read a log that nobody
    replicates, and the replica collides with the next one of the name.

    ## Evidence needed
    The broker's request log at DEBUG, and its "starts at leader epoch" lines: a LeaderAndIsr whose line is lost creates
    the replica as well, and only these lines tell of it.

    ## What is allowed
    deletePartition=false stops fetchers only: the leader goes on serving. A Fetch that came before the deletion's answer was
    logged, and may have waited. Half a second is left on either side for lines of the request log that are written late.
    ListOffsets and Produce are not judged.

    ## Example
    Broker 1 answers 0 to a StopReplica that deletes orders-0. Ten seconds later a consumer still gets records of it there.

    ## References
    ReplicaManager.stopReplicas, stopPartitions and getPartitionOrException; KIP-570, Proposed Changes.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the StopReplica that deleted the replica": "deleted_ref",
        "the last start of the replica": "held_ref",
    }
    expected = "an error for {topic}-{partition}: its replica at broker {node} was deleted"
    observed = "error {error_code}"
    because = (
        "broker {node} had answered 0 to a StopReplica that deletes {topic}-{partition}",
        "no LeaderAndIsr and no start of the replica came after it",
        "a Fetch of {client_id} that arrived later was answered {error_code}",
    )

    def applies(self) -> Column:
        return col("deleted_ref").isNotNull() & col("error_code").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("error_code") != 0),
            unverifiable(
                col("held_min").isNull(),
                "no line of this broker tells when the replica starts, so it may have been created again",
            ),
            otherwise=violation(),
        )
