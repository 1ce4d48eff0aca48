"""LI-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip570.stale_leader_and_isr_accepted import refused_at_the_accepted_epoch
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("LI-02", frame="control", kip="KIP-570", severity=LOW, since="0.8")
class EqualEpochLeaderAndIsrAccepted(Rule):
    """A LeaderAndIsr at the leader epoch already installed was applied again.

    ## What it checks
    A LeaderAndIsr with the leader epoch that the broker has installed must be answered 11 for the partition.

    ## Why it matters
    Applying it twice restarts fetchers and can truncate again; more often it shows a broker that lost its state.

    ## Evidence needed
    Request log, and state-change.log for the installed epoch. Up to 2.5 a follower has no line there: a refusal at the epoch
    that the process had accepted before passes.

    ## What is allowed
    11 here is no error of the cluster: every controller fail-over re-sends all partitions and is answered so. 0 is right
    when a KRaft controller sends it during migration, when it brings a topic id that the log lacks, and when it lacks a
    topic id that the log has (KAFKA-13394).

    ## Example
    A new controller re-sends orders-0 at epoch 6, which the broker installed an hour ago, and is answered 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower; KIP-570.
    """

    caused_by = ("CE-01", "BE-01", "TI-01")
    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the same leader epoch installed before": "installed_ref",
        "the broker's own line": "line_ref",
    }
    expected = "partition error 11 at the leader epoch already installed ({installed_leader_epoch})"
    observed = "partition error {error_code}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition} in the same process",
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought the same epoch and was answered {error_code}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "LEADER_AND_ISR")
            & (col("request_error_code") == 0)
            & col("error_code").isin(0, 11)
            & (
                F.coalesce(col("leader_epoch") == col("installed_leader_epoch"), F.lit(False))
                | refused_at_the_accepted_epoch()
            )
        )

    def verdict(self) -> tuple[Branch, ...]:
        id_changes = F.col("topic_id").isNotNull() != col("held_topic_id").isNotNull()
        return first_of(
            passed(col("error_code") == 11),
            passed(F.coalesce(col("is_kraft_controller"), F.lit(False)) | id_changes),
            unverifiable(
                col("ordered_by") == "time",
                "the request has no line in state-change.log, so its place among the others is not certain",
            ),
            otherwise=violation(),
        )
