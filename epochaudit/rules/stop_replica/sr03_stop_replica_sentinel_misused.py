"""SR-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import EPOCH_DURING_DELETE
from epochaudit.rules.rule import (
    CRITICAL,
    MEDIUM,
    Branch,
    Rule,
    exposed,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)
from epochaudit.rules.stop_replica.new_incarnation import hits_new_incarnation, meets_new_incarnation


@rule("SR-03", frame="control", kip="KIP-570", severity=MEDIUM, since="2.6")
class StopReplicaSentinelMisused(Rule):
    """A StopReplica without a real leader epoch stopped a replica of a living topic.

    ## What it checks
    Two values pass the leader epoch fence: -2 (the topic is being deleted) and -1 (the controller knows no epoch). -2 is
    only valid for a topic that is being deleted, which the controller announces before, by an UpdateMetadata with leader
    -2. -1 is invalid from a controller that has sent a LeaderAndIsr or an UpdateMetadata for the partition, because it knew
    the epoch.

    ## Why it matters
    No check on the broker refuses such a request. With deletePartition it deletes the replica's log, even the leader's. The
    severity is critical with deletePartition.

    ## Evidence needed
    The broker's request log. A later LeaderAndIsr or UpdateMetadata at the broker, or the absence of any announcement of
    its deletion in the cluster, shows that the topic still exists.

    ## What is allowed
    A deletion sends each partition twice: -2 without deletePartition, then -2 with it. SR-07 covers a late duplicate of the
    second one that hits a re-created topic of the name. A late duplicate of the first one stops the fetcher of such a replica:
    that is exposed here, as the request names no topic id. StopReplica below version 3 has no epoch: SR-04.

    ## What to do
    Keep the partition's other replicas running, save their folders if the leader's log was deleted, and restart the
    broker once another replica leads. The controller then has it copy the log again. Find the sender by the principal
    and `connection` of the request line: a controller does not send this for a living topic. Allow `ClusterAction` to
    brokers only; no release with ZooKeeper checks these values.

    ## Example
    orders-0 is led in epoch 4. A StopReplica with leader epoch -2 and deletePartition is answered 0, and orders is never
    deleted.

    ## References
    ReplicaManager.stopReplicas, LeaderAndIsr.EpochDuringDelete (-2) and NoEpoch (-1). KIP-570 gives -1 as the
    sentinel of deletion; Kafka uses -2.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the last LeaderAndIsr of the topic": "accepted_ref",
        "where the topic id of a former topic of the name was stated": "former_topic_id_ref",
        "the announced deletion of a former topic of the name": "former_deletion_ref",
        "the topic treated as living afterwards": "alive_ref",
        "the UpdateMetadata with a leader epoch before it": "update_metadata_ref",
        "the broker's own line": "line_ref",
    }
    expected = "a real leader epoch: {topic} is not being deleted"
    observed = "leader epoch {leader_epoch} with deletePartition {delete_partition} was answered {error_code}"
    because = (
        "broker {node} had accepted leader epoch {accepted_leader_epoch} for {topic}-{partition}",
        "StopReplica {correlation_id} of controller {controller_id} carried {leader_epoch}, which no broker compares",
        "no UpdateMetadata had announced a deletion of {topic}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == STOP_REPLICA)
            & (col("api_version") >= LEADER_EPOCH_STOP_REPLICA_VERSION)
            & (col("leader_epoch") < 0)
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") == Errors.NONE)
            & ~hits_new_incarnation()
        )

    def verdict(self) -> tuple[Branch, ...]:
        deleting = col("leader_epoch") == EPOCH_DURING_DELETE
        carried = self.because[1]
        knew = "a real leader epoch: controller {controller_id} knew that of {topic}-{partition}"
        topic_exists = col("alive_ref").isNotNull() & F.coalesce(
            col("alive_topic_id") == col("held_topic_id"), F.lit(True)
        )
        lives_on = col("accepted_ref").isNotNull() & (topic_exists | ~col("topic_deletion_seen"))
        return first_of(
            passed(
                deleting & col("deletion_announced"),
                expected="leader epoch -2, as {topic} is being deleted",
                because=(
                    "an UpdateMetadata with leader -2 had announced to broker {node} that {topic} is being deleted",
                    carried,
                ),
            ),
            exposed(
                meets_new_incarnation() & lives_on,
                expected="no StopReplica: nobody had announced that {held_topic} of the name {topic} is being deleted",
                because=(
                    "{topic} was deleted and created again: broker {node} had accepted a LeaderAndIsr of {held_topic}",
                    "StopReplica {correlation_id} of controller {controller_id} names no topic id, and no leader epoch stops -2",
                ),
            ),
            violation(deleting & lives_on),
            unverifiable(
                deleting,
                "whether the topic was being deleted is not in the evidence",
                expected="leader epoch -2 only if {topic} is being deleted",
                because=(carried,),
            ),
            violation(
                col("accepted_controller_epoch") == col("controller_epoch"),
                expected=knew,
                because=(
                    "controller {controller_id} (epoch {controller_epoch}) had sent broker {node} leader epoch"
                    " {accepted_leader_epoch} of {topic}-{partition} in a LeaderAndIsr",
                    carried,
                ),
            ),
            violation(
                col("last_update_metadata_controller_epoch") == col("controller_epoch"),
                expected=knew,
                because=(
                    "controller {controller_id} (epoch {controller_epoch}) had sent broker {node} leader epoch"
                    " {metadata_leader_epoch} of {topic}-{partition} in an UpdateMetadata",
                    carried,
                ),
            ),
            otherwise=unverifiable(
                None,
                "whether this controller knew the leader epoch is not in the evidence",
                expected="leader epoch -1 only from a controller that does not know the leader epoch of {topic}-{partition}",
                because=(carried,),
            ),
        )

    def severity_of(self) -> Column:
        return F.when(col("delete_partition"), CRITICAL)
