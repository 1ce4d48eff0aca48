"""SR-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("SR-06", frame="fetches", kip="KIP-570", severity=HIGH, since="0.8")
class DeletedReplicaServed(Rule):
    """A broker served a replica that a StopReplica had deleted.

    ## What it checks
    After a StopReplica with deletePartition is answered 0, the broker has no replica of the partition until it accepts a
    LeaderAndIsr for it. A Fetch that arrives and is answered in between must be refused for the partition.

    ## Why it matters
    The broker confirmed to the controller that the replica is deleted. If it still serves the replica, clients read a log
    that is not replicated, and the replica collides with the next one of the name.

    ## Evidence needed
    The broker's request log at DEBUG, and its "starts at leader epoch" lines: a LeaderAndIsr whose request line is lost
    also creates the replica, and only these lines show it.

    ## What is allowed
    deletePartition=false only stops fetchers, and the leader still serves. A Fetch that arrived before the deletion's
    response was logged, and may have waited. Request lines may be written late, so half a second is tolerated on either
    side. ListOffsets and Produce are not judged.

    ## What to do
    Restart the broker: it then loads only what is in its log directories, and the controller then states what it has to serve.
    Reset consumers that read the deleted replica, because its records may be in no other log. If the partition belongs
    to the broker after all, it copies the log from the leader. Report the lines if the broker is an unpatched Kafka.

    ## Example
    Broker 1 answers 0 to a StopReplica that deletes orders-0. Ten seconds later a consumer still gets records of it there.

    ## References
    ReplicaManager.stopReplicas, stopPartitions and getPartitionOrException; KIP-570, Proposed Changes.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the StopReplica that deleted the replica": "deleted_ref",
        "the last start of the replica": "started_ref",
    }
    expected = "an error: the replica of {topic}-{partition} at broker {node} was deleted"
    observed = "a Fetch of {client_id} was answered {error_code}"
    because = (
        "broker {node} had answered {NONE} to a StopReplica that deletes {topic}-{partition}",
        "the Fetch arrived later, and no LeaderAndIsr or start of the replica is recorded in between",
    )

    def applies(self) -> Column:
        return col("deleted_ref").isNotNull() & col("error_code").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("error_code") != Errors.NONE),
            unverifiable(
                col("started_ref").isNull(),
                "no line of this broker shows when the replica starts, so it may have been created again",
            ),
            otherwise=violation(),
        )
