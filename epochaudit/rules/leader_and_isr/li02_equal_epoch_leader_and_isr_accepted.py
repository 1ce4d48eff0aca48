"""LI-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.rules.leader_and_isr.follower_lines import refused_at_the_accepted_epoch
from epochaudit.rules.reasons import CONTROL_REQUESTS_MISSING
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("LI-02", frame="control", kip="KIP-570", severity=LOW, since="0.8")
class EqualEpochLeaderAndIsrAccepted(Rule):
    """A LeaderAndIsr at the leader epoch already installed was applied again.

    ## What it checks
    The broker must answer 11 for the partition to a LeaderAndIsr with the leader epoch that it has installed.

    ## Why it matters
    Applying it twice restarts fetchers and can truncate again. More often it shows that the broker lost its state.

    ## Evidence needed
    The request log, and state-change.log for the installed epoch. Up to 2.5 a follower has no line there: a refusal at the
    epoch that the process had accepted before passes.

    ## What is allowed
    11 is routine: every new controller sends all partitions again and gets this answer. 0 is right if a KRaft controller
    sends the request during a migration, if it brings a topic id that the log lacks, and if it lacks a topic id that the
    log has (KAFKA-13394). Where a number of the controller's requests is missing, a request is, which may have deleted the replica:
    then 0 is unverifiable.

    ## What to do
    Check in `epochaudit timeline TOPIC-PARTITION` that leader, ISR and log end are as before; then nothing needs
    repair. If the replica lost its state or its log, look for a restart, a StopReplica or a disk error just before.
    Restart the broker if its replica does not follow.

    ## Example
    A new controller sends orders-0 again at epoch 6, which the broker installed an hour ago, and is answered 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower; KIP-570.
    """

    caused_by = ("CE-01", "BE-01", "TI-01")
    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the same leader epoch installed before": "installed_ref",
        "the broker's own line": "line_ref",
    }
    expected = (
        "error {STALE_CONTROLLER_EPOCH}: broker {node} has leader epoch {leader_epoch} of {topic}-{partition} already"
    )
    observed = "the partition was answered {error_code}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition} in the same process",
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch} again",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == LEADER_AND_ISR)
            & (col("request_error_code") == Errors.NONE)
            & col("error_code").isin(Errors.NONE, Errors.STALE_CONTROLLER_EPOCH)
            & (holds(col("leader_epoch") == col("installed_leader_epoch")) | refused_at_the_accepted_epoch())
        )

    def verdict(self) -> tuple[Branch, ...]:
        id_changes = F.col("topic_id").isNotNull() != col("held_topic_id").isNotNull()
        return first_of(
            passed(
                (col("error_code") == Errors.STALE_CONTROLLER_EPOCH) & col("installed_leader_epoch").isNull(),
                because=(
                    "broker {node} had accepted leader epoch {accepted_leader_epoch} for {topic}-{partition} in the same process",
                    self.because[1],
                ),
            ),
            passed(col("error_code") == Errors.STALE_CONTROLLER_EPOCH),
            passed(
                holds(col("is_kraft_controller")),
                expected="error {NONE}: a KRaft controller sends a leader epoch again while it takes over from ZooKeeper",
            ),
            passed(
                id_changes,
                expected="error {NONE}: one of the LeaderAndIsr and the one before has a topic id, the other none",
            ),
            unverifiable(col("requests_missing_since_installed"), CONTROL_REQUESTS_MISSING),
            unverifiable(
                col("ordered_by") == "time",
                "the request has no line in state-change.log, so its place among the others is not certain",
            ),
            otherwise=violation(),
        )
