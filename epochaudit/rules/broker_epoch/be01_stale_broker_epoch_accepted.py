"""BE-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.replay.control_plane.refusal_lines import BY_BROKER_EPOCH
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

REGISTRATION_LAG_MS = 2_000  # the line stands before the new epoch counts; the request log is written after the answer


@rule("BE-01", frame="control", kip="KIP-570", severity=HIGH, since="2.2")
class StaleBrokerEpochAccepted(Rule):
    """A control request meant for a broker's previous incarnation was accepted.

    ## What it checks
    LeaderAndIsr 2+, StopReplica 1+ and UpdateMetadata 5+ state the broker epoch that they are meant for. A broker must
    answer 77 (STALE_BROKER_EPOCH) to a request with a smaller epoch than its own. During a migration from ZooKeeper a
    broker has two epochs. It compares a ZooKeeper controller's request with the czxid of its znode, and a KRaft
    controller's request with the epoch that this controller assigned.

    ## Why it matters
    A restarted broker has forgotten all leader epochs. A delayed LeaderAndIsr or StopReplica from before the restart
    therefore passes every other fence. It can make the broker lead with an old ISR or delete a replica.

    ## Evidence needed
    The broker's request log, and its server.log with the line "Registered broker N … czxid (broker epoch): E". For a KRaft
    controller's requests: "Successfully registered broker N with broker epoch E". Without the request, the broker's line about its
    refusal ("smaller than the current broker epoch") states both epochs; no line states an acceptance.

    ## What is allowed
    A request without a broker epoch, or with -1, skips the check. Since 2.5.1 a broker accepts a larger epoch, because the
    controller may know of the registration before the broker does. A broker whose ZooKeeper session expired registers again
    without a restart. It may still accept the request that it was working on.

    ## What to do
    See in `epochaudit timeline TOPIC-PARTITION` what the request changed, then restart the broker: the controller sends
    it the present state of all its partitions. If a replica was deleted, restart only once another replica leads, and
    keep the others running until the log is copied again. Every release since 2.2 compares the broker epoch: check that
    the broker runs an unpatched Kafka, and that `capture.toml` assigns the logs to the right broker.

    ## Example
    Broker 2 registers with epoch 126; a LeaderAndIsr sent to its incarnation 61 is answered 0.

    ## References
    KafkaApis.isBrokerEpochStale (KIP-380), used by the requests of KIP-570 and KIP-516; ZkBrokerEpochManager (3.4 on).
    """

    per_request = True
    evidence = {
        "the request and its answer": "request_ref",
        "the broker's registration": "own_broker_epoch_ref",
        "the broker's own line": "line_ref",
        "the broker's line about its refusal": "refusal_ref",
    }
    expected = "error {STALE_BROKER_EPOCH} for a broker epoch below {own_broker_epoch}"
    observed = "error {request_error_code} for broker epoch {broker_epoch}"
    because = (
        "broker {node} had registered under broker epoch {own_broker_epoch}",
        "{event_type} {correlation_id} of controller {controller_id} was meant for broker epoch {broker_epoch}",
        "and was answered {request_error_code}",
    )

    def applies(self) -> Column:
        answered = (col("partition_row") == 0) & col("request_error_code").isNotNull() & (col("broker_epoch") >= 0)
        return answered | (col("refused_for") == BY_BROKER_EPOCH)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == Errors.STALE_BROKER_EPOCH
        stale = col("broker_epoch") < col("own_broker_epoch")
        registered_ms = col("own_broker_epoch_ref.time_ms")
        in_process = col("former_broker_epoch") < col("own_broker_epoch")
        in_work = in_process & (col("started_ms") <= registered_ms + REGISTRATION_LAG_MS)
        return first_of(
            fenced(
                col("refused_for") == BY_BROKER_EPOCH,
                expected="error {STALE_BROKER_EPOCH} for a broker epoch below {current_broker_epoch}",
                observed="broker {node} refused broker epoch {broker_epoch}",
                because=(
                    "the line of broker {node} states its own broker epoch, {current_broker_epoch}, and that of the {refused_api},"
                    " {broker_epoch}",
                    "the request came from controller {controller_id} with controller epoch {controller_epoch}",
                ),
            ),
            unverifiable(
                col("own_broker_epoch").isNull(),
                "the broker's own epoch is not in the evidence (server.log)",
                expected="error {STALE_BROKER_EPOCH} for a broker epoch below the broker's own",
            ),
            fenced(stale & refused, observed="error {STALE_BROKER_EPOCH} for broker epoch {broker_epoch}"),
            unverifiable(stale & in_work, "the broker registered anew while it worked on the request"),
            violation(stale),
            violation(
                refused,
                expected="no error {STALE_BROKER_EPOCH} for broker epoch {broker_epoch}, which is not below the broker's own",
                observed="error {STALE_BROKER_EPOCH}",
            ),
            otherwise=passed(expected="no error {STALE_BROKER_EPOCH} for broker epoch {own_broker_epoch} or above"),
        )
