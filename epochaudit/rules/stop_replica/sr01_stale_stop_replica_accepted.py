"""SR-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.events.views import holds
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.replay.control_plane.refusal_lines import BY_LEADER_EPOCH
from epochaudit.rules.reasons import NO_STATE_CHANGE_LOG
from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("SR-01", frame="control", kip="KIP-570", severity=CRITICAL, since="2.6")
class StaleStopReplicaAccepted(Rule):
    """A StopReplica with an older leader epoch stopped a replica.

    ## What it checks
    StopReplica 3+ carries the leader epoch in which it was decided. A broker that holds a newer epoch for the partition
    must answer 74 (FENCED_LEADER_EPOCH) for it.

    ## Why it matters
    A StopReplica that was delayed behind a newer LeaderAndIsr stops the fetcher of a replica that should follow, or deletes
    its log (deletePartition). The replica drops out of the ISR, or data is lost. Without deletePartition the severity is
    high.

    ## Evidence needed
    The broker's request log for the code, and its state-change.log for the epoch. Only a "starts at leader epoch" line
    proves that an epoch was installed: a LeaderAndIsr may be answered 0 without that, if the new leader is not alive. Without the
    request, the broker's line about its refusal ("smaller than the current leader epoch") states both epochs; no line at
    INFO states an acceptance.

    ## What is allowed
    A replica that the broker does not hold is stopped at any epoch. -2 (topic deletion) and -1 (no epoch) pass the fence by
    design: SR-03 and SR-07 judge them. SR-02 covers equal epochs. A failed log directory answers 56.

    ## What to do
    Keep the partition's other replicas running, and restart the broker once another replica leads: the controller then
    has it follow again, and copy what it lacks. If the log of the leader or of the only replica was deleted, first save
    the partition's folder on every broker that has one. Brokers since 2.6 refuse such a request: report the lines with
    the broker's version.

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
        "the broker's line about its refusal": "refusal_ref",
    }
    expected = (
        "error {FENCED_LEADER_EPOCH}: leader epoch {leader_epoch} is below {installed_leader_epoch}, which broker {node}"
        " holds for {topic}-{partition}"
    )
    observed = "the partition was answered {error_code}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition}",
        "StopReplica {correlation_id} of controller {controller_id} carried leader epoch {leader_epoch},"
        " deletePartition {delete_partition}",
    )

    def applies(self) -> Column:
        by_line = (col("refused_api") == STOP_REPLICA) & (col("refused_for") == BY_LEADER_EPOCH)
        return by_line | (
            (col("event_type") == STOP_REPLICA)
            & (col("api_version") >= LEADER_EPOCH_STOP_REPLICA_VERSION)
            & (col("leader_epoch") >= 0)
            & (col("request_error_code") == Errors.NONE)
            & col("error_code").isNotNull()
            & ~holds(col("leader_epoch") == col("installed_leader_epoch"))
        )

    def verdict(self) -> tuple[Branch, ...]:
        code, epoch, installed = col("error_code"), col("leader_epoch"), col("installed_leader_epoch")
        newer = (
            "error {NONE}: leader epoch {leader_epoch} is above {installed_leader_epoch}, which broker {node} holds for"
            " {topic}-{partition}"
        )
        depends = "error {FENCED_LEADER_EPOCH} if broker {node} holds a leader epoch above {leader_epoch}, else {NONE}"
        return first_of(
            fenced(
                col("refused_for") == BY_LEADER_EPOCH,
                expected="error {FENCED_LEADER_EPOCH} for a leader epoch below {current_leader_epoch}, which broker {node} holds for"
                " {topic}-{partition}",
                observed="broker {node} refused leader epoch {leader_epoch}",
                because=(
                    "the line of broker {node} states that it held leader epoch {current_leader_epoch} of {topic}-{partition}",
                    self.because[1],
                ),
            ),
            passed(
                code == Errors.KAFKA_STORAGE_ERROR,
                expected="error {KAFKA_STORAGE_ERROR} for a failed log directory, at any leader epoch",
            ),
            unverifiable(~col("state_change_recorded"), NO_STATE_CHANGE_LOG, expected=depends),
            fenced((epoch < installed) & (code == Errors.FENCED_LEADER_EPOCH)),
            unverifiable(
                (epoch < installed) & (code == Errors.NONE) & (col("ordered_by") == "time"),
                "the request has no line in state-change.log, so its place among the LeaderAndIsr requests is not certain",
            ),
            violation(epoch < installed),
            passed((epoch > installed) & (code == Errors.NONE), expected=newer),
            violation(
                (epoch > installed)
                & (code == Errors.FENCED_LEADER_EPOCH)
                & (epoch > F.coalesce(col("accepted_leader_epoch"), installed)),
                expected=newer,
            ),
            passed(
                (code == Errors.NONE) & col("deleted_since_installed"),
                expected="error {NONE} at any leader epoch: broker {node} has no replica of {topic}-{partition}",
                because=(
                    "a StopReplica had deleted the replica of {topic}-{partition} at broker {node}, and none has started since",
                    "StopReplica {correlation_id} of controller {controller_id} carried leader epoch {leader_epoch}",
                ),
            ),
            otherwise=unverifiable(
                None, "the leader epoch that the broker held is not in the evidence", expected=depends
            ),
        )

    def severity_of(self) -> Column:
        return F.when(~col("delete_partition"), HIGH)
