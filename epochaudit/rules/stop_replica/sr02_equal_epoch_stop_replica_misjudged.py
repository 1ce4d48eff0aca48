"""SR-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release
from epochaudit.rules.rule import LOW, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

FIRST_ACCEPTING = release("3.4.1")  # KAFKA-13972
FIRST_HOLDING_UNSTATED = release("3.6")  # Partition.makeFollower sets the epoch before it creates the log


@rule("SR-02", frame="control", kip="KIP-570", severity=LOW, since="2.6")
class EqualEpochStopReplicaMisjudged(Rule):
    """A StopReplica at the current leader epoch was answered otherwise than this Kafka version does.

    ## What it checks
    2.6.0 to 3.4.0 refuse a StopReplica whose leader epoch equals the broker's own with 74 (KAFKA-13972). 3.4.1, 3.5.0 and
    later accept it. The answer must match the version of the broker process.

    ## Why it matters
    If it is refused, cancelling a reassignment leaves a stray replica, which fills the disk and later collides with a
    re-created topic of the name. If this version should refuse it and does not, the broker is not the version that it
    claims to be.

    ## Evidence needed
    The request log, state-change.log ("starts at leader epoch"), and "Kafka version" in server.log.

    ## What is allowed
    A controlled shutdown routinely sends StopReplica without deletion at the current epoch, often twice. From 3.6 on a
    follower may hold a newer epoch than its last line states: it takes over the epoch of a LeaderAndIsr, but logs nothing of
    it, if ZooKeeper fails while it creates the log. It then refuses the older epoch rightly: a refusal below an epoch that it
    had accepted is unverifiable.

    ## What to do
    If the request was refused and the broker is none of the partition's replicas (`kafka-topics.sh --describe`), stop
    it, move the stray folder out of the log directory, and start it. 3.4.1 and 3.5.0 accept such requests
    (KAFKA-13972): upgrade brokers of 2.6.0 to 3.4.0. If the answer does not fit the version, check which build runs,
    and that the capture has the right server.log.

    ## Example
    A 3.3.2 broker answers 74 to a StopReplica at its own epoch: the known bug, which counts as fenced. A 3.9.1 broker
    answers 74: a breach.

    ## References
    ReplicaManager.stopReplicas at 3.4.0 and 3.4.1; Partition.makeFollower at 3.6.0; KAFKA-13972; KIP-570 is silent on equal
    epochs.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the leader epoch the broker had installed": "installed_ref",
        "where the broker's Kafka version is stated": "kafka_version_ref",
        "the broker's own line": "line_ref",
    }
    expected = "error {NONE}: from 3.4.1 on a StopReplica at the broker's own leader epoch is accepted"
    observed = "the partition was answered {error_code} at leader epoch {leader_epoch}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition}",
        "StopReplica {correlation_id} of controller {controller_id} carried the same leader epoch",
        "broker {node} runs Kafka {kafka_release}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == STOP_REPLICA)
            & (col("api_version") >= LEADER_EPOCH_STOP_REPLICA_VERSION)
            & (col("request_error_code") == Errors.NONE)
            & (col("leader_epoch") == col("installed_leader_epoch"))
            & col("error_code").isin(Errors.NONE, Errors.FENCED_LEADER_EPOCH)
        )

    def verdict(self) -> tuple[Branch, ...]:
        accepts = col("kafka_version") >= FIRST_ACCEPTING
        refused = "error {FENCED_LEADER_EPOCH}: up to 3.4.0 a StopReplica at the broker's own leader epoch is refused (KAFKA-13972)"
        return first_of(
            unverifiable(
                col("kafka_version").isNull(),
                "the broker's Kafka version is not in the evidence (server.log)",
                expected="error {FENCED_LEADER_EPOCH} up to 3.4.0, {NONE} from 3.4.1 on",
            ),
            passed(accepts & (col("error_code") == Errors.NONE)),
            fenced(~accepts & (col("error_code") == Errors.FENCED_LEADER_EPOCH), expected=refused),
            unverifiable(
                col("ordered_by") == "time",
                "the request has no line in state-change.log, so its place among the LeaderAndIsr requests is not certain",
                expected="error {FENCED_LEADER_EPOCH} up to 3.4.0, {NONE} from 3.4.1 on",
            ),
            unverifiable(
                (col("kafka_version") >= FIRST_HOLDING_UNSTATED)
                & col("accepted_in_process")
                & (col("leader_epoch") < col("accepted_leader_epoch")),
                "refused below an epoch that had been accepted, though its installation is not in the evidence",
                expected="error {FENCED_LEADER_EPOCH} only if broker {node} holds leader epoch {accepted_leader_epoch} of"
                " {topic}-{partition}",
            ),
            violation(accepts),
            otherwise=violation(expected=refused),
        )
