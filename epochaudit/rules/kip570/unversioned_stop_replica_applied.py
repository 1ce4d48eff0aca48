"""SR-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("SR-04", frame="control", kip="KIP-570", severity=CRITICAL, since="0.8")
class UnversionedStopReplicaApplied(Rule):
    """A StopReplica without a leader epoch undid a newer LeaderAndIsr.

    ## What it checks
    StopReplica 0 to 2 (inter.broker.protocol.version below 2.6) carries no leader epoch, so a broker applies it in whatever
    order it comes. It is held against what the controller asked of this broker: the last accepted LeaderAndIsr makes it a
    replica, and nothing explains the stop.

    ## Why it matters
    This is the reordering that KIP-570 was written for: the replica stops fetching, or its log is deleted.

    ## Evidence needed
    The broker's request log with LeaderAndIsr, StopReplica and UpdateMetadata, its state-change.log for their order and
    its server.log for shutdown and start-up.

    ## What is allowed
    Deletion of the topic (announced by UpdateMetadata with leader -2), a reassignment or its cancellation (an UpdateMetadata
    or LeaderAndIsr before or after names replicas without this broker), controlled shutdown, the start-up phase.

    ## Example
    A reassignment away from broker 2 and back; its StopReplica arrives a second time, after the LeaderAndIsr of the way back.

    ## References
    ReplicaManager.stopReplicas up to 2.5; KIP-570, Motivation (KAFKA-9539).
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the LeaderAndIsr it undid": "accepted_ref",
        "the broker still a replica afterwards": "alive_ref",
    }
    expected = (
        "the replica of {topic}-{partition} keeps running: leader epoch {accepted_leader_epoch} names broker {node}"
    )
    observed = (
        "StopReplica version {api_version} without epoch, deletePartition {delete_partition}, answered {error_code}"
    )
    because = (
        "broker {node} had accepted a LeaderAndIsr with leader epoch {accepted_leader_epoch} that names it a replica",
        "StopReplica {correlation_id} of controller {controller_id} came after it and was applied",
        "no deletion, reassignment, shutdown or start-up explains it, and this version has no fence",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & (col("api_version") <= 2)
            & (col("request_error_code") == 0)
            & (col("error_code") == 0)
        )

    def verdict(self) -> tuple[Branch, ...]:
        moved_away = ~F.array_contains(col("metadata_replicas"), col("node")) | ~F.array_contains(
            col("alive_replicas"), col("node")
        )
        asked_to_host = F.array_contains(col("accepted_replicas"), col("node"))
        return first_of(
            passed(col("deletion_announced") | moved_away | col("shutting_down")),
            passed(~asked_to_host),
            unverifiable(col("accepted_ref").isNull(), "no accepted LeaderAndIsr of the partition is in the evidence"),
            unverifiable(
                ~col("accepted_in_process"), "the broker restarted since the last LeaderAndIsr of the partition"
            ),
            unverifiable(
                col("ordered_by") == "time",
                "the request has no line in state-change.log, so its place among the LeaderAndIsr requests is not certain",
            ),
            unverifiable(
                col("metadata_ref").isNull() & col("alive_ref").isNull(),
                "no UpdateMetadata of the partition is in the evidence to tell a reassignment",
            ),
            otherwise=exposed(),
        )

    def severity_of(self) -> Column:
        return F.when(~col("delete_partition"), HIGH)
