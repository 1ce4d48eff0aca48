"""IS-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip841.eligibility import REFUSED_AS_INELIGIBLE, refused_as_ineligible
from epochaudit.rules.rule import (
    CRITICAL,
    HIGH,
    Branch,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)


@rule("IS-05", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class DeadReplicaAccepted(Rule):
    """A ZooKeeper controller accepted an ISR that names a broker that is dead or shutting down.

    ## What it checks
    A controller with ZooKeeper knows which brokers are live, and leaves out those whose controlled shutdown it is
    handling. Since 3.3 it must refuse an AlterPartition whose ISR names any other with 107 (INELIGIBLE_REPLICA), or 55
    (OPERATION_NOT_ATTEMPTED) below version 2.

    ## Why it matters
    A broker that has lost its registration but not its network keeps fetching, and the leader takes it back into the ISR
    (KAFKA-14140). The controller will not watch over it, and acknowledged records may rest on it.

    ## Evidence needed
    The controller's request log and its controller.log at INFO: the lines that tell all live brokers, and those of
    brokers shutting down, since its election.

    ## What is allowed
    A request for the state that the controller already has is answered 0 before members are looked at, even if one has
    just died. A broker that came or went while the request was under way is unverifiable. Broker epochs in the request
    are ignored. Controllers before 3.3 do not check: exposed.

    ## Example
    Controller 1 logs "Shutting down broker 3". A moment later the leader of orders-0 asks for ISR [1, 2, 3] and is
    answered 0.

    ## References
    KafkaController.tryProcessAlterPartition, ControllerContext.liveOrShuttingDownBrokerIds; KIP-841, Proposed Changes;
    KIP-320, Inadequate Replica Fencing; KAFKA-6880, KAFKA-14140.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the controller's line about the broker": "dead_ref",
    }
    expected = "error 107 (INELIGIBLE_REPLICA; 55 below version 2) for ISR {isr} with dead or leaving {dead_members}"
    observed = "error {error_code}"
    because = (
        "by its own log, controller {node} held brokers {dead_members} for dead or shutting down",
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}, partition epoch {response_partition_epoch}",
    )

    def applies(self) -> Column:
        reached = col("error_code").isin(0, *REFUSED_AS_INELIGIBLE)
        return col("zookeeper") & (col("request_error_code") == 0) & reached & (F.size("isr") > 0)

    def verdict(self) -> tuple[Branch, ...]:
        dead, unchanged = F.size("dead_members") > 0, col("response_partition_epoch") <= col("partition_epoch")
        return first_of(
            fenced(refused_as_ineligible() & col("dead_at_times")),
            unverifiable(
                col("dead_members").isNull(),
                "the controller's lines do not tell which brokers were live (controller.log)",
            ),
            unverifiable(refused_as_ineligible(), "no member of the refused ISR is known as dead or shutting down"),
            passed(unchanged),
            exposed(dead & ~col("checks_eligibility")),
            violation(dead & col("checks_eligibility")),
            unverifiable(dead, "the controller's Kafka version is not in the evidence"),
            unverifiable(col("dead_at_times"), "whether a member was live at that moment is not certain"),
            otherwise=passed(),
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("checks_eligibility"), HIGH)
