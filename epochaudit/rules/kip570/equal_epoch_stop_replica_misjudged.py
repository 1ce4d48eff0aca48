"""SR-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import LOW, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("SR-02", frame="control", kip="KIP-570", severity=LOW, since="2.6")
class EqualEpochStopReplicaMisjudged(Rule):
    """A StopReplica at the current leader epoch was answered otherwise than this Kafka version does.

    ## What it checks
    2.6.0 to 3.4.0 refuse a StopReplica whose leader epoch equals the broker's own, with 74 (KAFKA-13972). 3.4.1, 3.5.0 and
    later accept it. The answer is held against the version of the broker process.

    ## Why it matters
    Where it is refused, cancelling a reassignment leaves a stray replica behind, which fills the disk and later collides
    with a re-created topic of the name. Where it should be refused and is not, the broker is not the version it claims.

    ## Evidence needed
    Request log, state-change.log ("starts at leader epoch"), and "Kafka version" in server.log.

    ## What is allowed
    Controlled shutdown sends StopReplica without deletion at the current epoch, often twice: routine.

    ## Example
    A 3.3.2 broker answers 74 to a StopReplica at its own epoch: the known bug, refused. A 3.9.1 broker answering 74: breach.

    ## References
    ReplicaManager.stopReplicas at 3.4.0 and 3.4.1; KAFKA-13972; KIP-570 is silent on equal epochs.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the leader epoch the broker had installed": "installed_ref",
        "the broker's own line": "line_ref",
    }
    expected = "0 from 3.4.1 on, 74 (FENCED_LEADER_EPOCH) from 2.6.0 to 3.4.0"
    observed = "partition error {error_code} at the equal leader epoch {leader_epoch}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition}",
        "StopReplica {correlation_id} carried the same leader epoch",
        "the broker runs version {kafka_version} (major, minor and patch in three digits each) and answered {error_code}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & (col("api_version") >= 3)
            & (col("request_error_code") == 0)
            & (col("leader_epoch") == col("installed_leader_epoch"))
            & col("error_code").isin(0, 74)
        )

    def verdict(self) -> tuple[Branch, ...]:
        accepts = col("kafka_version") >= 3_004_001
        return first_of(
            unverifiable(
                col("kafka_version").isNull(), "the broker's Kafka version is not in the evidence (server.log)"
            ),
            passed(accepts & (col("error_code") == 0)),
            fenced(~accepts & (col("error_code") == 74)),
            unverifiable(
                col("ordered_by") == "time",
                "the request has no line in state-change.log, so its place among the LeaderAndIsr requests is not certain",
            ),
            otherwise=violation(),
        )
