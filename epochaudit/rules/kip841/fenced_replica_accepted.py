"""IS-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.isr_changes import NEW_LEADER_ELECTED
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

INELIGIBLE_REPLICA = 107
OPERATION_NOT_ATTEMPTED = 55
REFUSED_AS_INELIGIBLE = (INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED)
SUCCEEDED = (0, NEW_LEADER_ELECTED)


def judged_on_eligibility() -> Column:
    """An AlterPartition partition that reached the controller's check of the ISR's members (KRaft)."""
    return (
        ~col("zookeeper")
        & (col("request_error_code") == 0)
        & col("error_code").isin(*SUCCEEDED, *REFUSED_AS_INELIGIBLE)
        & (F.size("isr") > 0)
    )


@rule("IS-01", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class FencedReplicaAccepted(Rule):
    """The controller accepted an ISR that names a fenced or unknown replica.

    ## What it checks
    A leader asks the KRaft controller by AlterPartition for a new ISR. If any member of it is fenced in the
    controller's registrations, the controller must refuse with 107 (INELIGIBLE_REPLICA), or 55
    (OPERATION_NOT_ATTEMPTED) below version 2. The whole ISR is checked, also the members it had before. A refusal
    counts as fenced when some member was ineligible: fenced, in controlled shutdown, not registered, or sent with
    another broker epoch than the registered one.

    ## Why it matters
    A fenced replica is dead, or lives without the controller's leave. As an ISR member it can be elected, it delays the
    high watermark, and acks=all counts it as a copy that exists (KAFKA-13916).

    ## Evidence needed
    The controller's request log and the metadata log from its start or from a snapshot. An accepted change is placed
    exactly, by the record it wrote. A request that changed nothing, or was refused, is placed between the records that
    made and ended the partition epoch it carries, and between its arrival and its answer.

    ## What is allowed
    Requests refused for another reason come before this check: 74, 95, 41, 42, 77, 3 or 100 (IS-12). A member that was
    fenced or unfenced while the request was under way is unverifiable. Controllers before 3.3 have no such check:
    exposed. There a restarted broker often re-enters the ISR before it is unfenced.

    ## Example
    Broker 3 was killed and fenced. The leader of orders-0, whose metadata lags, asks for the ISR [1, 2, 3] and is
    answered 0.

    ## References
    KIP-841, Proposed Changes and AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData,
    ReplicationControlManager.ineligibleReplicasForIsr.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the record that made the replica ineligible": "ineligible_ref",
        "the record that the controller wrote": "committed_ref",
        "the partition's state before": "met_ref",
    }
    expected = "error 107 (INELIGIBLE_REPLICA; 55 below version 2) for ISR {isr}"
    observed = "error {error_code}"
    because = (
        "by the metadata log, when the controller decided brokers {fenced_members} were fenced, and {unknown_members} not registered or "
        "not with the broker epoch stated",
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        return judged_on_eligibility()

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("error_code").isin(*REFUSED_AS_INELIGIBLE)
        named = (F.size("fenced_members") > 0) | (F.size("unknown_members") > 0)
        return first_of(
            unverifiable(~F.coalesce("has_metadata_log", F.lit(False)), "no metadata log"),
            unverifiable(col("fenced_members").isNull(), "the request cannot be placed in the metadata log"),
            fenced(refused & (F.size("ineligible_members") > 0)),
            unverifiable(refused, "no member of the refused ISR is known as ineligible"),
            exposed(named & ~col("checks_eligibility")),
            violation(named & col("checks_eligibility")),
            unverifiable(named, "the controller's Kafka version is not in the evidence"),
            unverifiable(col("fenced_at_times"), "whether a member was fenced at that moment is not certain"),
            otherwise=passed(),
        )

    def severity_of(self) -> Column:
        return F.when(~col("checks_eligibility"), HIGH)
