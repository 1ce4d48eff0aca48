"""SR-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("SR-08", frame="control", kip="KIP-570", severity=INFO, since="2.6")
class StopReplicaAheadOfCluster(Rule):
    """Observation: a StopReplica was accepted at a leader epoch that the partition never had.

    ## What it checks
    The fence of KIP-570 looks backwards: a StopReplica at a leader epoch above the broker's own is accepted, however far
    above. It is held against every leader epoch that accepted LeaderAndIsr and UpdateMetadata requests and "starts at
    leader epoch" lines of the broker name for the partition, before it and after. Each accepted one above all of them
    counts as one `pass` here. This rule never gives a violation.

    ## Why it matters
    No controller sends an epoch that it has not written. With deletePartition such a request deletes a living replica, and
    no epoch stops it.

    ## Evidence needed
    The broker's request log, with an UpdateMetadata or LeaderAndIsr for the partition after the StopReplica: only that
    tells which leader epoch the cluster was in.

    ## What is allowed
    All of it: accepting an epoch above its own is what the broker has to do. The controller may have raised the epoch
    already. Sentinels are judged by SR-03, lower epochs by SR-01.

    ## Example
    orders-0 is in leader epoch 4 all the time; a StopReplica at leader epoch 9 is answered 0.

    ## References
    ReplicaManager.stopReplicas; KIP-570, Proposed Changes.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the leader epoch the broker had installed": "installed_ref",
        "the partition's state afterwards": "alive_ref",
        "the broker's own line": "line_ref",
    }
    expected = "a leader epoch up to {highest_leader_epoch}, the highest of {topic}-{partition}"
    observed = "leader epoch {leader_epoch}, deletePartition {delete_partition}, answered {error_code}"
    because = (
        "the highest leader epoch of {topic}-{partition} that broker {node} was ever told is {highest_leader_epoch}",
        "StopReplica {correlation_id} of controller {controller_id} carried leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & (col("api_version") >= 3)
            & (col("leader_epoch") > col("highest_leader_epoch"))
            & (col("request_error_code") == 0)
            & (col("error_code") == 0)
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("alive_ref").isNull(), "no later request tells which leader epoch the partition was in"),
            otherwise=passed(),
        )
