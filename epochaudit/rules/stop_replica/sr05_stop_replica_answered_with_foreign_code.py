"""SR-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import EPOCH_DURING_DELETE
from epochaudit.kafka.releases import release
from epochaudit.rules.reasons import PARTITION_ANSWER_MISSING
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation

FIRST_WITH_ANY_FAILURE = release("2.7")  # Errors.forException where a replica cannot be deleted
FIRST_WITH_REMOTE_LOGS = release("3.6")  # KIP-405: RemoteLogManager.stopPartitions


@rule("SR-05", frame="control", kip="KIP-570", severity=LOW, since="0.8")
class StopReplicaAnsweredWithForeignCode(Rule):
    """A StopReplica partition was answered with a code that no Apache Kafka gives there.

    ## What it checks
    A stale leader epoch is refused with 74 (FENCED_LEADER_EPOCH) for the partition. 11 (STALE_CONTROLLER_EPOCH) is only
    valid at the top level of the response, and 74 only in StopReplica 3 and later, which has leader epochs. No other code
    than these, 0 and those below is ever given to a partition.

    ## Why it matters
    A broker that answers otherwise is patched or not Apache Kafka, and this audit's assumptions about its fences may not
    hold. The rule identifies implementations that follow the text of KIP-570, which names 11.

    ## Evidence needed
    The broker's request log at DEBUG, with the response. For -1 also "Kafka version" in server.log.

    ## What is allowed
    A request that was refused as a whole has its code at every partition: not judged here. 56 (KAFKA_STORAGE_ERROR) for a
    failed log directory. From 2.7 on -1 (UNKNOWN_SERVER_ERROR) for a replica that could not be deleted. From 3.6 on the
    deletion of a topic also deletes its remote log, and the answer has the code of whatever fails there: unverifiable.

    ## What to do
    Find out which build the broker runs: unpatched Apache Kafka does not answer so. No data is at risk by the code
    itself. Take the other verdicts about this broker with care, and ask its vendor how it fences StopReplica.

    ## Example
    A StopReplica 3 for orders-0 at leader epoch 4, below the broker's 5, is answered 11 for the partition.

    ## References
    ReplicaManager.stopReplicas; RemoteLogManager.stopPartitions; StopReplicaRequest.json; KIP-570, Proposed Changes.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "where the broker's Kafka version is stated": "kafka_version_ref",
        "the broker's own line": "line_ref",
    }
    expected = "error {NONE}, {KAFKA_STORAGE_ERROR} or, from StopReplica 3 on, {FENCED_LEADER_EPOCH} for the partition"
    observed = "StopReplica {api_version} was answered {error_code} for {topic}-{partition}"
    because = ("broker {node} did not refuse StopReplica {correlation_id} as a whole",)

    def applies(self) -> Column:
        return (
            (col("event_type") == STOP_REPLICA)
            & col("partition").isNotNull()
            & (F.coalesce(col("request_error_code"), F.lit(Errors.NONE)) == Errors.NONE)
        )

    def verdict(self) -> tuple[Branch, ...]:
        code, deletes = col("error_code"), col("delete_partition")
        epochs_known = col("api_version") >= LEADER_EPOCH_STOP_REPLICA_VERSION
        remote_log = deletes & (col("leader_epoch") == EPOCH_DURING_DELETE)
        failure = "error {UNKNOWN_SERVER_ERROR}, from Kafka 2.7 on, if the replica could not be deleted"
        return first_of(
            unverifiable(
                code.isNull(),
                PARTITION_ANSWER_MISSING,
                observed="an answer to StopReplica {api_version} without a recorded code for {topic}-{partition}",
            ),
            violation(
                code == Errors.STALE_CONTROLLER_EPOCH,
                because=(*self.because, "Kafka gives {STALE_CONTROLLER_EPOCH} to a StopReplica only as a whole"),
            ),
            violation(
                (code == Errors.FENCED_LEADER_EPOCH) & ~epochs_known,
                because=(
                    *self.because,
                    "StopReplica {api_version} has no leader epoch that {FENCED_LEADER_EPOCH} could refuse",
                ),
            ),
            passed(code.isin(Errors.NONE, Errors.KAFKA_STORAGE_ERROR, Errors.FENCED_LEADER_EPOCH)),
            unverifiable(
                (code == Errors.UNKNOWN_SERVER_ERROR) & deletes & col("kafka_version").isNull(),
                "the broker's Kafka version is not in the evidence (server.log)",
                expected=failure,
            ),
            passed(
                (code == Errors.UNKNOWN_SERVER_ERROR) & deletes & (col("kafka_version") >= FIRST_WITH_ANY_FAILURE),
                expected=failure,
            ),
            unverifiable(
                remote_log & F.coalesce(col("kafka_version") >= FIRST_WITH_REMOTE_LOGS, F.lit(True)),
                "the remote log was to be deleted, too, and a failure of that may have any code",
                expected="error {NONE}, {KAFKA_STORAGE_ERROR} or the code of what failed when the remote log was deleted",
            ),
            otherwise=violation(
                because=(
                    *self.because,
                    "broker {node} runs Kafka {kafka_release}",
                    "Kafka does not answer {error_code} for such a partition",
                ),
            ),
        )
