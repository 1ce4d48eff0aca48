"""IS-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.isr.eligibility import ASKED, REFUSAL, REFUSED_AS_INELIGIBLE, refused_as_ineligible
from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN
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
    A ZooKeeper controller counts the registered brokers as live, except those whose controlled shutdown it is handling.
    Since 3.3 it must refuse an AlterPartition whose ISR names a broker that is not live: with 107 (INELIGIBLE_REPLICA), or
    55 (OPERATION_NOT_ATTEMPTED) below version 2.

    ## Why it matters
    A broker that has lost its registration but not its network keeps fetching, and the leader adds it to the ISR again
    (KAFKA-14140). The controller does not monitor it, and acknowledged records may depend on it. The severity is high if
    the controller does not check members (before 3.3).

    ## Evidence needed
    The controller's request log, and its controller.log at INFO since its election: the lines that list all live brokers,
    and those about brokers shutting down.

    ## What is allowed
    A request for the ISR that the controller already has is answered 0 before the members are checked, even if one has
    just died, and even if the request was sent again and has an older partition epoch. The answer to a change has the
    request's partition epoch plus one. A broker that came or left during the request is unverifiable. The controller
    ignores the request's broker epochs.
    Controllers before 3.3 do not check: exposed.

    ## What to do
    Keep the leader running. Compare the live brokers (`ls /brokers/ids` in `zookeeper-shell.sh`) with the ISR, and
    restart a broker that runs without being listed. Exposed means a controller before 3.3, which checks no member:
    upgrade to 3.3 (KIP-841, KAFKA-14140).

    ## Example
    Controller 1 logs "Shutting down broker 3". A moment later the leader of orders-0 requests ISR [1, 2, 3] and is answered
    0.

    ## References
    KafkaController.tryProcessAlterPartition, ControllerContext.liveBrokerIds; KIP-841, Proposed Changes;
    KIP-320, Inadequate Replica Fencing; KAFKA-6880, KAFKA-14140.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the controller's line about the broker": "dead_ref",
    }
    expected = "no dead or leaving member in ISR {isr}"
    observed = "answered {error_code}"
    because = (ASKED,)

    def applies(self) -> Column:
        reached = col("error_code").isin(Errors.NONE, *REFUSED_AS_INELIGIBLE)
        return col("zookeeper") & (col("request_error_code") == Errors.NONE) & reached & (F.size("isr") > 0)

    def verdict(self) -> tuple[Branch, ...]:
        dead, unchanged = F.size("dead_members") > 0, col("response_partition_epoch") != col("partition_epoch") + 1
        refusal = REFUSAL + " for ISR {isr} with dead or leaving {dead_members}"
        accepted = "answered {error_code}, with dead or leaving {dead_members} in the ISR"
        held = "by its own log, controller {node} considered brokers {dead_members} dead or shutting down"
        return first_of(
            fenced(
                refused_as_ineligible() & (F.size("dead_members") > 0),
                expected=refusal,
                observed="error {error_code}",
                because=(held, ASKED),
            ),
            fenced(
                refused_as_ineligible() & col("dead_at_times"),
                expected=REFUSAL + " for an ISR with a member that is dead or leaving",
                observed="error {error_code}",
                because=("by its own log, controller {node} saw a member come or go just then", ASKED),
            ),
            passed(
                unchanged & ~refused_as_ineligible(),
                expected="the controller already has ISR {isr}, or checks its members",
                observed="answered {error_code}, and the partition epoch stays {response_partition_epoch}",
            ),
            unverifiable(
                col("dead_members").isNull(),
                "the controller's lines do not tell which brokers were live (controller.log)",
            ),
            unverifiable(refused_as_ineligible(), "no member of the refused ISR is known as dead or shutting down"),
            unverifiable(
                dead & col("held_before"),
                "the controller may have had this ISR before, and then checks no member: the request was sent again",
            ),
            exposed(
                dead & ~col("checks_eligibility"),
                "controllers before 3.3 do not look at the members",
                observed=accepted,
                because=(held, *self.because),
            ),
            violation(
                dead & col("checks_eligibility"), expected=refusal, observed=accepted, because=(held, *self.because)
            ),
            unverifiable(dead, CONTROLLER_VERSION_UNKNOWN),
            unverifiable(col("dead_at_times"), "whether a member was live at that moment is not certain"),
            otherwise=passed(observed="answered {error_code}, and all members were live"),
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("checks_eligibility"), HIGH)
