"""BE-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.broker_requests import UNDER_EPOCH
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

STALE_BROKER_EPOCH = 77


@rule("BE-03", frame="broker_requests", kip="KIP-841", severity=HIGH, since="2.7")
class StaleIncarnationObeyed(Rule):
    """The controller obeyed a request of a broker incarnation that was not the registered one.

    ## What it checks
    AlterPartition, BrokerHeartbeat and ControlledShutdown carry the sender's broker epoch. Unless it is the epoch under which
    the controller holds the broker registered, it must answer 77 (STALE_BROKER_EPOCH) to the whole request; so it must to a
    broker that is not registered. A ZooKeeper controller refuses ControlledShutdown only of smaller epochs.

    ## Why it matters
    A broker that was replaced by its own next incarnation, or has lost its session, still believes that it leads. If its ISR
    changes are obeyed, or its heartbeats keep the new incarnation alive, the fence between the two is gone.

    ## Evidence needed
    The controller's request log. KRaft: the metadata log from its start or from a snapshot. ZooKeeper: controller.log at INFO
    with the lines of live brokers and their epochs.

    ## What is allowed
    A registration while the request was under way leaves it unverifiable, unless it came under the new epoch: a broker of a
    quorum has it from the controller that registered it. Epochs of -1 are not compared. Epoch 0 is an epoch.
    Requests of an incarnation that was replaced while it was live are part of BE-05's finding.

    ## Example
    Broker 1 registered anew with epoch 84. Its former process sends an AlterPartition with epoch 51 and is answered 0.

    ## References
    ClusterControlManager.checkBrokerEpoch; KafkaController.tryProcessAlterPartition, doControlledShutdown; KIP-841,
    AlterPartition RPC; KIP-380.
    """

    evidence = {
        "the request and its answer": "request_ref",
        "the broker's registration": "held_ref",
    }
    expected = "error 77 (STALE_BROKER_EPOCH): the controller held broker {broker_id} under epoch {held_epochs}"
    observed = "error {request_error_code} for broker epoch {broker_epoch}"
    because = (
        "controller {node} can have held broker {broker_id} under broker epochs {held_epochs} (-1: not registered)",
        "{event_type} {correlation_id} of broker {broker_id} came under broker epoch {broker_epoch}",
        "and was answered {request_error_code}",
    )

    def applies(self) -> Column:
        judged = (col("broker_epoch") >= 0) & col("request_error_code").isin(0, STALE_BROKER_EPOCH)
        obeyed_beside = (col("request_error_code") == 0) & F.coalesce("replaced_live", F.lit(False))
        return col("event_type").isin(*UNDER_EPOCH) & judged & ~obeyed_beside

    def verdict(self) -> tuple[Branch, ...]:
        refused, sent = col("request_error_code") == STALE_BROKER_EPOCH, col("broker_epoch")
        may_be_larger = col("zookeeper") & (col("event_type") == "CONTROLLED_SHUTDOWN")
        right = F.exists("held_epochs", lambda epoch: (epoch == sent) | (may_be_larger & (epoch < sent)))
        wrong = F.exists("held_epochs", lambda epoch: (epoch != sent) & ~(may_be_larger & (epoch < sent)))
        told_by_controller = ~refused & (sent == col("newest_epoch"))
        return first_of(
            passed(told_by_controller),
            unverifiable(
                col("held_epochs").isNull(),
                "the broker's registration is not in the evidence (metadata log, controller.log)",
            ),
            fenced(refused & wrong),
            unverifiable(refused, "the evidence does not explain the refusal"),
            unverifiable(
                ~right & ~col("covered"), "the evidence ends before the answer, or its clocks cannot be related"
            ),
            unverifiable(
                ~right & col("zookeeper") & (sent > F.array_max("held_epochs")),
                "no line of the controller tells of a registration under that epoch",
            ),
            violation(~right),
            unverifiable(wrong, "the broker registered while the request was under way"),
            otherwise=passed(),
        )
