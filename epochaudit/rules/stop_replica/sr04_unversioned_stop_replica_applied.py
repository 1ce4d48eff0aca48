"""SR-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("SR-04", frame="control", kip="KIP-570", severity=CRITICAL, since="0.8")
class UnversionedStopReplicaApplied(Rule):
    """A StopReplica without a leader epoch undid a newer LeaderAndIsr.

    ## What it checks
    StopReplica 0 to 2 (inter.broker.protocol.version below 2.6) carries no leader epoch, so a broker applies it in any
    order of arrival. The rule compares it with the controller's other requests to this broker. It is a breach if the last
    accepted LeaderAndIsr made the broker a replica and nothing explains the stop.

    ## Why it matters
    KIP-570 was written for this reordering: the replica stops fetching, or its log is deleted. Without deletePartition the
    severity is high.

    ## Evidence needed
    The broker's request log with LeaderAndIsr, StopReplica and UpdateMetadata, and its state-change.log for their order.
    For a StopReplica without deletePartition also its server.log: a controlled shutdown sends one for each replica, and
    only that log shows the shutdown.

    ## What is allowed
    Deletion of the topic (announced by UpdateMetadata with leader -2), a reassignment or its cancellation (an earlier or
    later UpdateMetadata or LeaderAndIsr lists replicas without this broker), controlled shutdown, and the start-up phase. A
    later LeaderAndIsr or UpdateMetadata that is older than what the broker had accepted proves neither. A StopReplica without
    deletePartition is also allowed if the broker has answered 56 (KAFKA_STORAGE_ERROR) to a LeaderAndIsr since: its log
    directory has failed, and the controller stops the replica.

    ## What to do
    Keep the partition's other replicas running, and restart the broker once another replica leads: the controller then
    has it follow again, and copy what it lacks. StopReplica below version 3 has no leader epoch: run brokers of 2.6 or
    later, and raise inter.broker.protocol.version to 2.6 or later on all (KIP-570, KAFKA-9539). Until then, do not
    reassign a partition away from a broker and back at once.

    ## Example
    A partition is reassigned away from broker 2 and back. The StopReplica of the first reassignment arrives a second time,
    after the LeaderAndIsr of the second one.

    ## References
    ReplicaManager.stopReplicas up to 2.5; KafkaController.processLeaderAndIsrResponseReceived; KIP-570, Motivation (KAFKA-9539).
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the LeaderAndIsr it undid": "accepted_ref",
        "the last UpdateMetadata of the partition before it": "metadata_ref",
        "the broker still a replica afterwards": "alive_ref",
        "the broker's own line": "line_ref",
    }
    expected = (
        "no StopReplica: in leader epoch {accepted_leader_epoch} broker {node} is a replica of {topic}-{partition}"
    )
    observed = "StopReplica {api_version}, which has no leader epoch, with deletePartition {delete_partition} was answered {error_code}"
    because = (
        "broker {node} had accepted a LeaderAndIsr with leader epoch {accepted_leader_epoch} that names it a replica",
        "StopReplica {correlation_id} of controller {controller_id} came after it and was applied",
        "no deletion of the topic, reassignment, shutdown or restart explains it, and StopReplica {api_version} has no fence",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == STOP_REPLICA)
            & (col("api_version") < LEADER_EPOCH_STOP_REPLICA_VERSION)
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") == Errors.NONE)
        )

    def verdict(self) -> tuple[Branch, ...]:
        moved_away = ~F.array_contains(col("metadata_replicas"), col("node")) | ~F.array_contains(
            col("alive_replicas"), col("node")
        )
        asked_to_host = F.array_contains(col("accepted_replicas"), col("node"))

        def unsettled(condition: Column, reason: str) -> Branch:
            expected = "no StopReplica of a replica that broker {node} is to keep"
            return unverifiable(condition, reason, expected=expected, because=self.because[:1])

        moved = "a StopReplica: {topic}-{partition} was moved away from broker {node}"
        return first_of(
            passed(
                col("deletion_announced"),
                expected="a StopReplica: {topic} is being deleted",
                because=(
                    "an UpdateMetadata with leader -2 had announced to broker {node} that {topic} is being deleted",
                ),
            ),
            passed(
                moved_away,
                expected=moved,
                because=("an UpdateMetadata or LeaderAndIsr before or after it names replicas without broker {node}",),
            ),
            passed(
                col("shutting_down"),
                expected="a StopReplica: broker {node} is shutting down",
                because=("broker {node} had logged that it shuts down",),
            ),
            passed(
                ~col("delete_partition") & col("storage_error_ref").isNotNull(),
                expected="a StopReplica: the log directory of {topic}-{partition} at broker {node} has failed",
                because=(
                    "broker {node} had answered {KAFKA_STORAGE_ERROR} to a LeaderAndIsr of {topic}-{partition}, and accepted none since",
                ),
            ),
            passed(
                ~asked_to_host,
                expected=moved,
                because=("the last LeaderAndIsr that broker {node} had accepted does not name it a replica",),
            ),
            unsettled(col("accepted_ref").isNull(), "no accepted LeaderAndIsr of the partition is in the evidence"),
            unsettled(~col("accepted_in_process"), "the broker restarted since the last LeaderAndIsr of the partition"),
            unsettled(
                ~col("process_recorded_before") & ~col("delete_partition"),
                "nothing shows whether the broker was shutting down (server.log)",
            ),
            unsettled(
                col("ordered_by") == "time",
                "the request has no line in state-change.log, so its place among the LeaderAndIsr requests is not certain",
            ),
            unsettled(
                col("metadata_ref").isNull() & col("alive_ref").isNull(),
                "no UpdateMetadata of the partition is in the evidence to tell a reassignment",
            ),
            otherwise=exposed(),
        )

    def severity_of(self) -> Column:
        return F.when(~col("delete_partition"), HIGH)
