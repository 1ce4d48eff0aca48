"""IS-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from epochaudit.rules.kip841.eligibility import IneligibleMemberRule, judged_on_eligibility, refused_as_ineligible
from epochaudit.rules.rule import CRITICAL, rule


@rule("IS-01", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class FencedReplicaAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names a fenced replica.

    ## What it checks
    A leader asks the KRaft controller by AlterPartition for a new ISR. If any member of it is fenced in the
    controller's registrations, the controller must refuse with 107 (INELIGIBLE_REPLICA), or 55
    (OPERATION_NOT_ATTEMPTED) below version 2. The whole ISR is checked, also the members it had before. Members in
    controlled shutdown are IS-02's, unregistered ones IS-03's, those of another incarnation IS-04's.

    ## Why it matters
    A fenced replica is dead, or lives without the controller's leave. As an ISR member it can be elected, it delays the
    high watermark, and acks=all counts it as a copy that exists (KAFKA-13916).

    ## Evidence needed
    The controller's request log and the metadata log from its start or from a snapshot. An accepted change is placed
    exactly, by the record it wrote. A request that changed nothing, or was refused, is placed between the records that
    made and ended the partition epoch it carries, and between its arrival and its answer.

    ## What is allowed
    Requests refused for another reason come before this check: 74, 95, 41, 42, 77, 3 or 100 (IS-12). A member that was
    fenced or unfenced while the request was under way is unverifiable, and so is a refusal that no known state of a
    member explains. Controllers before 3.3 have no such check: exposed. There a restarted broker often re-enters the ISR
    before it is unfenced.

    ## Example
    Broker 3 was killed and fenced. The leader of orders-0, whose metadata lags, asks for the ISR [1, 2, 3] and is
    answered 0.

    ## References
    KIP-841, Proposed Changes and AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData,
    ReplicationControlManager.ineligibleReplicasForIsr.
    """

    members = "fenced_members"
    at_times = "fenced_at_times"
    uncertain = "whether a member was fenced at that moment is not certain"
    expected = "error 107 (INELIGIBLE_REPLICA; 55 below version 2) for ISR {isr} with fenced {fenced_members}"
    because = (
        "by the metadata log, brokers {fenced_members} were fenced when the controller decided",
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        unexplained = F.coalesce(F.size("ineligible_members") <= 0, F.lit(True))  # no rule of another kind takes it
        return super().applies() | (judged_on_eligibility() & refused_as_ineligible() & unexplained)
