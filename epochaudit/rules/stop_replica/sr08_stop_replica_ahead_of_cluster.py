"""SR-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("SR-08", frame="control", kip="KIP-570", severity=INFO, since="2.6")
class StopReplicaAheadOfCluster(Rule):
    """Observation: a StopReplica was accepted at a leader epoch that the partition never had.

    ## What it checks
    The fence of KIP-570 refuses older epochs only: a broker accepts a StopReplica at any leader epoch above its own. The
    rule compares it with every leader epoch of the partition in accepted LeaderAndIsr and UpdateMetadata requests and
    "starts at leader epoch" lines of the broker, earlier and later. Each accepted StopReplica above all of them counts as
    one `pass`. This rule never gives a violation.

    ## Why it matters
    No controller sends an epoch that it has not written. With deletePartition such a request deletes the replica of an
    existing topic, and no epoch fences it.

    ## Evidence needed
    The broker's request log, with an UpdateMetadata or LeaderAndIsr for the partition after the StopReplica, as only that
    shows the cluster's leader epoch.

    ## What is allowed
    Every such request is allowed: the broker must accept an epoch above its own, because the controller may have raised the
    epoch already. SR-03 judges sentinels, SR-01 lower epochs.

    ## What to do
    Check that the replica is still there and follows (`kafka-topics.sh --describe`); restart its broker if it does not.
    Find the sender by the principal and `connection` of the request line, because a controller sends no such epoch, and
    allow `ClusterAction` to brokers only. Otherwise nothing needs repair.

    ## Example
    orders-0 stays in leader epoch 4. A StopReplica at leader epoch 9 is answered 0.

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
    observed = "leader epoch {leader_epoch} with deletePartition {delete_partition} was answered {error_code}"
    because = (
        "no request or line of broker {node} names a leader epoch of {topic}-{partition} above {highest_leader_epoch}",
        "StopReplica {correlation_id} of controller {controller_id} carried leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == STOP_REPLICA)
            & (col("api_version") >= LEADER_EPOCH_STOP_REPLICA_VERSION)
            & (col("leader_epoch") > col("highest_leader_epoch"))
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") == Errors.NONE)
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("alive_ref").isNull(), "no later request shows which leader epoch the partition was in"),
            otherwise=passed(),
        )
