"""SR-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("SR-05", frame="control", kip="KIP-570", severity=LOW, since="0.8")
class StopReplicaAnsweredWithForeignCode(Rule):
    """A StopReplica partition was answered with a code that no Apache Kafka gives there.

    ## What it checks
    A stale leader epoch is refused with 74 (FENCED_LEADER_EPOCH) for the partition. 11 (STALE_CONTROLLER_EPOCH) is only
    valid at the top level of the response, and 74 only in StopReplica 3 and later, which has leader epochs.

    ## Why it matters
    A broker that answers otherwise is patched or not Apache Kafka, and this audit's assumptions about its fences may not
    hold. The rule identifies implementations that follow the text of KIP-570, which names 11.

    ## Evidence needed
    The broker's request log at DEBUG, with the response.

    ## What is allowed
    A request that was refused as a whole has its code at every partition: not judged here. 56 (KAFKA_STORAGE_ERROR) for a
    failed log directory.

    ## What to do
    Find out which build the broker runs: unpatched Apache Kafka does not answer so. No data is at risk by the code
    itself. Take the other verdicts about this broker with care, and ask its vendor how it fences StopReplica.

    ## Example
    A StopReplica 3 for orders-0 at leader epoch 4, below the broker's 5, is answered 11 for the partition.

    ## References
    ReplicaManager.stopReplicas; StopReplicaRequest.json; KIP-570, Proposed Changes.
    """

    evidence = {"the StopReplica request and its answer": "request_ref", "the broker's own line": "line_ref"}
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
        code = col("error_code")
        return first_of(
            unverifiable(
                code.isNull(),
                "the answer for the partition is not in the evidence",
                observed="an answer to StopReplica {api_version} without a recorded code for {topic}-{partition}",
            ),
            violation(
                code == Errors.STALE_CONTROLLER_EPOCH,
                because=(*self.because, "Kafka gives {STALE_CONTROLLER_EPOCH} to a StopReplica only as a whole"),
            ),
            violation(
                (code == Errors.FENCED_LEADER_EPOCH) & (col("api_version") < LEADER_EPOCH_STOP_REPLICA_VERSION),
                because=(
                    *self.because,
                    "StopReplica {api_version} has no leader epoch that {FENCED_LEADER_EPOCH} could refuse",
                ),
            ),
            otherwise=passed(),
        )
