"""SR-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("SR-01", frame="control", kip="KIP-570", severity=CRITICAL, since="2.6")
class StaleStopReplicaAccepted(Rule):
    """A StopReplica with an older leader epoch stopped a replica.

    ## What it checks
    StopReplica 3+ carries the leader epoch it was decided in. A broker that holds a newer epoch for the partition must
    answer 74 (FENCED_LEADER_EPOCH) for it.

    ## Why it matters
    A StopReplica that was delayed behind a newer LeaderAndIsr stops the fetcher of a replica that should be following, or
    with deletePartition deletes its log. The replica drops out of the ISR, or data is gone.

    ## Evidence needed
    The broker's request log for the code, and its state-change.log for the epoch: only a "starts at leader epoch" line
    proves that an epoch was installed. A LeaderAndIsr may be answered 0 without that, when the new leader is not alive.

    ## What is allowed
    A replica the broker does not hold is stopped whatever the epoch. -2 (topic deletion) and -1 (no epoch) pass the fence
    by design: SR-03 and SR-07 judge them. Equal epochs are SR-02's. A failed log directory answers 56.

    ## Example
    Broker 2 follows orders-0 in leader epoch 7. A StopReplica of epoch 5 arrives late and is answered 0.

    ## References
    ReplicaManager.stopReplicas; KIP-570, Proposed Changes. The KIP names 11 as the code; Kafka answers 74.
    """

    caused_by = ("CE-01", "BE-01")
    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the leader epoch the broker had installed": "installed_ref",
        "the broker's own line": "line_ref",
    }
    expected = (
        "partition error 74 (FENCED_LEADER_EPOCH) for leader epoch {leader_epoch}, below {installed_leader_epoch}"
    )
    observed = "partition error {error_code}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition}",
        "StopReplica {correlation_id} of controller {controller_id} carried leader epoch {leader_epoch}",
        "and was answered {error_code} for the partition",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & (col("api_version") >= 3)
            & (col("leader_epoch") >= 0)
            & (col("request_error_code") == 0)
            & col("error_code").isNotNull()
            & ~F.coalesce(col("leader_epoch") == col("installed_leader_epoch"), F.lit(False))
        )

    def verdict(self) -> tuple[Branch, ...]:
        code, epoch, installed = col("error_code"), col("leader_epoch"), col("installed_leader_epoch")
        return first_of(
            passed(code == 56),
            unverifiable(~col("state_change_recorded"), "no state-change.log of this broker"),
            fenced((epoch < installed) & (code == 74)),
            unverifiable(
                (epoch < installed) & (code == 0) & (col("ordered_by") == "time"),
                "the request has no line in state-change.log, so its place among the LeaderAndIsr requests is not certain",
            ),
            violation(epoch < installed),
            passed((epoch > installed) & (code == 0)),
            violation(
                (epoch > installed) & (code == 74) & (epoch > F.coalesce(col("accepted_leader_epoch"), installed))
            ),
            passed((code == 0) & col("deleted_since_installed")),
            otherwise=unverifiable(None, "the leader epoch that the broker held is not in the evidence"),
        )

    def severity_of(self) -> Column:
        return F.when(~col("delete_partition"), HIGH)
