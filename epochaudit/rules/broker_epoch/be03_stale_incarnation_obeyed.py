"""BE-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import CONTROLLED_SHUTDOWN
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.replay.control_plane.broker_requests import UNDER_EPOCH
from epochaudit.rules.reasons import REFUSAL_UNEXPLAINED
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

_OBEYS = "no error {STALE_BROKER_EPOCH} for the broker epoch under which the controller holds broker {broker_id}"
_BELOW_REGISTERED = "error {STALE_BROKER_EPOCH}: broker {broker_id} had registered under epoch {registered_epoch}"
_UNLESS_HELD = "error {STALE_BROKER_EPOCH} unless the controller held the broker under epoch {broker_epoch}"
_UNCERTAIN = "which registration the controller held at that moment is not certain"
_BECAUSE = (
    "controller {node} can have held broker {broker_id} under broker epochs {held_epochs} (-1: not registered)",
    "{event_type} {correlation_id} of broker {broker_id} came under broker epoch {broker_epoch}",
    "and was answered {request_error_code}",
)


@rule("BE-03", frame="broker_requests", kip="KIP-841", severity=HIGH, since="2.2")
class StaleIncarnationObeyed(Rule):
    """The controller obeyed a request of a broker incarnation that was not the registered one.

    ## What it checks
    AlterPartition, BrokerHeartbeat, AllocateProducerIds, ControlledShutdown and AssignReplicasToDirs state the sender's
    broker epoch. The controller must answer 77 (STALE_BROKER_EPOCH) to the whole request if that is not the epoch under
    which the broker is registered, or if the broker is not registered. ControlledShutdown states its epoch since 2.2,
    AlterPartition since 2.7 (its first release), BrokerHeartbeat since 2.8, AllocateProducerIds since 3.0,
    AssignReplicasToDirs since 3.7. A ZooKeeper controller refuses a ControlledShutdown only if its epoch is smaller, and an
    AllocateProducerIds of a broker that is not alive with 102.

    ## Why it matters
    A broker that its own next incarnation has replaced, or whose session has expired, still believes that it leads. If the
    controller accepts its ISR changes, or if its heartbeats keep the new incarnation alive, nothing fences the old one.

    ## Evidence needed
    The controller's request log. KRaft: the metadata log from its start or from a snapshot; without it, and after its end, a
    registration with a larger epoch that the same controller had answered before. ZooKeeper: controller.log at INFO with the
    lines of live brokers and their epochs. A KRaft controller's request is located between records that it wrote itself:
    others have the clock of another host. Who wrote a record is known from LeaderChange records, which name the leader in raw
    logs and in dumps since 4.1, or from an answer to a request that wrote it. A metadata log without a record of the broker
    shows that it was never registered only if the log begins at offset 0, and before the request.

    ## What is allowed
    A registration during the request makes it unverifiable, unless the request states the new epoch: in KRaft a broker gets
    its epoch from the controller that registered it. A controller that was frozen, and has not noticed that another one
    has replaced it, answers with the registrations that it has. Epochs of -1 are not compared. 0 is a valid epoch. BE-05
    covers requests of an incarnation that was replaced while it was alive.

    ## What to do
    Find the process that still runs under the old broker epoch, and stop it; the `connection` of the request line has
    its address. If it changed an ISR, look at the partition with `epochaudit timeline TOPIC-PARTITION`, and keep its
    leader running until all members of the ISR have caught up (metric `FetcherLagMetrics`, `ConsumerLag`, of their
    brokers). No release is known to obey such a request: report the lines of the finding to the Kafka project, with the
    controller's version.

    ## Example
    Broker 1 registered anew with epoch 84. Its former process sends an AlterPartition with epoch 51 and is answered 0.

    ## References
    ClusterControlManager.checkBrokerEpoch; KafkaController.tryProcessAlterPartition, processAllocateProducerIds,
    doControlledShutdown; KIP-841, AlterPartition RPC; KIP-380; KIP-730.
    """

    evidence = {
        "the request and its answer": "request_ref",
        "the broker's last registration or unregistration, or the controller's line about it": "held_ref",
        "its registration or unregistration before that, or the controller's line": "held_before_ref",
        "the registration that the controller had answered": "registered_ref",
    }
    expected = "error {STALE_BROKER_EPOCH}: the controller held broker {broker_id} under epoch {held_epochs}"
    observed = "error {request_error_code} for broker epoch {broker_epoch}"
    because = _BECAUSE

    def applies(self) -> Column:
        judged = (col("broker_epoch") >= 0) & col("request_error_code").isin(Errors.NONE, Errors.STALE_BROKER_EPOCH)
        obeyed_beside = (col("request_error_code") == Errors.NONE) & col("replaced_live")
        return col("event_type").isin(*UNDER_EPOCH) & judged & ~obeyed_beside

    def verdict(self) -> tuple[Branch, ...]:
        refused, sent = col("request_error_code") == Errors.STALE_BROKER_EPOCH, col("broker_epoch")
        may_be_larger = col("event_type") == CONTROLLED_SHUTDOWN  # which only ZooKeeper controllers get
        right = F.exists("held_epochs", lambda epoch: (epoch == sent) | (may_be_larger & (epoch < sent)))
        wrong = F.exists("held_epochs", lambda epoch: (epoch != sent) & ~(may_be_larger & (epoch < sent)))
        replaced = sent < col("registered_epoch")
        # a metadata log that ends before the answer may lack the registration that replaced it
        recorded = col("covered") | ~holds(replaced)
        epoch_from_controller = ~refused & (sent == col("newest_epoch")) & recorded
        after = (
            "controller {node} had registered broker {broker_id} under broker epoch {registered_epoch}",
            "then {event_type} {correlation_id} of broker {broker_id} came under broker epoch {broker_epoch}",
            "and was answered {request_error_code}",
        )
        return first_of(
            passed(epoch_from_controller, expected=_OBEYS, because=_BECAUSE[1:]),
            fenced(refused & replaced, expected=_BELOW_REGISTERED, because=after),
            violation(replaced, expected=_BELOW_REGISTERED, because=after),
            unverifiable(col("may_hold_others"), _UNCERTAIN, expected=_UNLESS_HELD, because=_BECAUSE[1:]),
            unverifiable(
                col("held_epochs").isNull(),
                "the broker's registration is not in the evidence (metadata log, controller.log)",
                expected=_UNLESS_HELD,
            ),
            fenced(refused & wrong),
            unverifiable(refused, REFUSAL_UNEXPLAINED, expected=_OBEYS),
            unverifiable(
                ~right & ~col("covered"),
                "no record of the controller is later than the answer, or its clocks cannot be related",
            ),
            unverifiable(
                ~right & col("zookeeper") & (sent > F.array_max("held_epochs")),
                "no line of the controller states a registration under that epoch",
            ),
            violation(~right),
            unverifiable(wrong, _UNCERTAIN),
            otherwise=passed(expected=_OBEYS),
        )
