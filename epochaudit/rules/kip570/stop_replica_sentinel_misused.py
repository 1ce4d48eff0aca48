"""SR-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.control import EPOCH_DURING_DELETE
from epochaudit.rules.kip570.delayed_delete_hit_recreated_topic import hits_new_incarnation
from epochaudit.rules.rule import CRITICAL, MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("SR-03", frame="control", kip="KIP-570", severity=MEDIUM, since="2.6")
class StopReplicaSentinelMisused(Rule):
    """A StopReplica without a real leader epoch stopped a replica of a living topic.

    ## What it checks
    Two values pass the leader epoch fence: -2 (the topic is being deleted) and -1 (the controller knows no epoch). -2 may
    be used only for a topic that is being deleted, which the controller announces first, by an UpdateMetadata with leader -2.
    -1 may not be used by a controller that has sent a LeaderAndIsr or an UpdateMetadata for the partition: it knew the epoch.

    ## Why it matters
    Nothing on the broker can stop such a request. With deletePartition the replica's log is deleted, even the leader's.

    ## Evidence needed
    Request log of the broker. That the topic lives on may be shown by any later LeaderAndIsr or UpdateMetadata at the
    broker, or by the absence of any announcement of its deletion in the cluster.

    ## What is allowed
    A deletion sends each partition twice: -2 without deletePartition, then -2 with it. A late duplicate that meets a
    re-created topic of the name is SR-07's. StopReplica below version 3 has no epoch: SR-04.

    ## Example
    orders-0 is led in epoch 4; a StopReplica with leader epoch -2 and deletePartition is answered 0; orders is never deleted.

    ## References
    ReplicaManager.stopReplicas, LeaderAndIsr.EpochDuringDelete (-2) and NoEpoch (-1). KIP-570 gives -1 as the
    sentinel of deletion; Kafka uses -2.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the LeaderAndIsr in force": "accepted_ref",
        "the topic treated as living afterwards": "alive_ref",
        "the UpdateMetadata with a leader epoch before it": "told_ref",
        "the broker's own line": "line_ref",
    }
    expected = "a real leader epoch: {topic} is not being deleted"
    observed = "leader epoch {leader_epoch}, deletePartition {delete_partition}, answered {error_code}"
    because = (
        "broker {node} had accepted leader epoch {accepted_leader_epoch} for {topic}-{partition} (topic id {held_topic_id})",
        "StopReplica {correlation_id} of controller {controller_id} carried the sentinel {leader_epoch}, which no fence stops",
        "no UpdateMetadata had announced a deletion of the topic",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & (col("api_version") >= 3)
            & (col("leader_epoch") < 0)
            & (col("request_error_code") == 0)
            & (col("error_code") == 0)
            & ~hits_new_incarnation()
        )

    def verdict(self) -> tuple[Branch, ...]:
        deleting = col("leader_epoch") == EPOCH_DURING_DELETE
        lives_on = col("alive_ref").isNotNull() & F.coalesce(col("alive_topic_id") == col("held_topic_id"), F.lit(True))
        return first_of(
            passed(deleting & col("deletion_announced")),
            violation(deleting & col("accepted_ref").isNotNull() & (lives_on | ~col("topic_deletion_seen"))),
            unverifiable(deleting, "whether the topic was being deleted is not in the evidence"),
            violation(col("accepted_controller_epoch") == col("controller_epoch")),
            violation(col("told_controller_epoch") == col("controller_epoch")),
            otherwise=unverifiable(None, "whether this controller knew the leader epoch is not in the evidence"),
        )

    def severity_of(self) -> Column:
        return F.when(col("delete_partition"), CRITICAL)
