"""SR-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation

STALE_CONTROLLER_EPOCH = 11
FENCED_LEADER_EPOCH = 74


@rule("SR-05", frame="control", kip="KIP-570", severity=LOW, since="0.8")
class StopReplicaAnsweredWithForeignCode(Rule):
    """A StopReplica partition was answered with a code that no Apache Kafka gives there.

    ## What it checks
    A stale leader epoch is refused with 74 (FENCED_LEADER_EPOCH) for the partition. 11 (STALE_CONTROLLER_EPOCH) stands only
    at the top level of the answer, and 74 can only answer StopReplica 3 and later, which has leader epochs.

    ## Why it matters
    A broker that answers otherwise is patched or not Apache Kafka: what this audit knows of its fencing may not hold. An
    implementation made from the text of KIP-570, which names 11, is told from Kafka by this.

    ## Evidence needed
    The broker's request log at DEBUG, with the answer.

    ## What is allowed
    A request refused as a whole lists its code for every partition: not judged here. 56 (KAFKA_STORAGE_ERROR) for a failed
    log directory.

    ## Example
    A StopReplica 3 for orders-0 at leader epoch 4, below the broker's 5, is answered 11 for the partition.

    ## References
    ReplicaManager.stopReplicas; StopReplicaRequest.json; KIP-570, Proposed Changes.
    """

    evidence = {"the StopReplica request and its answer": "request_ref", "the broker's own line": "line_ref"}
    expected = "0, 56, or from version 3 on 74 (FENCED_LEADER_EPOCH) for the partition"
    observed = "partition error {error_code} in the answer to StopReplica version {api_version}"
    because = (
        "broker {node} answered StopReplica {correlation_id} version {api_version} with 0 as a whole",
        "and with {error_code} for {topic}-{partition}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & col("partition").isNotNull()
            & (F.coalesce(col("request_error_code"), F.lit(0)) == 0)
        )

    def verdict(self) -> tuple[Branch, ...]:
        code = col("error_code")
        return first_of(
            unverifiable(code.isNull(), "the answer for the partition is not in the evidence"),
            violation(code == STALE_CONTROLLER_EPOCH),
            violation((code == FENCED_LEADER_EPOCH) & (col("api_version") <= 2)),
            otherwise=passed(),
        )
