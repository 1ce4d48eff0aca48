"""IS-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from epochaudit.rules.isr.eligibility import IneligibleMemberRule, judged_on_eligibility
from epochaudit.rules.rule import CRITICAL, rule


@rule("IS-01", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class FencedReplicaAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names a fenced replica.

    ## What it checks
    A leader requests a new ISR from the KRaft controller by AlterPartition. If any member is fenced in the controller's
    registrations, the controller must refuse with 107 (INELIGIBLE_REPLICA), or 55 (OPERATION_NOT_ATTEMPTED) below version
    2. It checks the whole ISR, including members that were in it before. IS-02 covers members in controlled shutdown, IS-03
    unregistered ones, IS-04 those of another incarnation.

    ## Why it matters
    A fenced replica is dead, or runs without a valid session. As an ISR member it can be elected, it delays the high
    watermark, and acks=all counts it as an existing copy (KAFKA-13916). The severity is high if the controller does not
    check members (before 3.3).

    ## Evidence needed
    The controller's request log, and the metadata log from its start or from a snapshot. An accepted change is located
    exactly, by its record. A request that changed nothing or was refused is located between the records that began and
    ended its partition epoch, and between those that the same controller wrote before its arrival and after its answer.

    ## What is allowed
    Refusals for other reasons come before this check: 74, 95, 41, 42, 77, 3 or 100 (IS-12). A member that was fenced or
    unfenced during the request is unverifiable, and so is a refusal that no known state of a member explains. Controllers
    before 3.3 have no such check: exposed. There a restarted broker often re-enters the ISR before it is unfenced.

    ## What to do
    Keep the partition's leader running, and hold no election, until the fenced broker is back and has caught up (its
    metric `FetcherLagMetrics`, `ConsumerLag`), or has left the ISR. If it is dead, the leader removes it after
    `replica.lag.time.max.ms`. Exposed means a controller before 3.3, which does not check the members: upgrade the
    controllers to 3.3 (KIP-841, KAFKA-13916).

    ## Example
    Broker 3 was killed and fenced. The leader of orders-0, whose metadata lags, requests the ISR [1, 2, 3] and is answered
    0.

    ## References
    KIP-841, Proposed Changes and AlterPartition RPC; ReplicationControlManager.validateAlterPartitionData,
    ReplicationControlManager.ineligibleReplicasForIsr.
    """

    kind = "fenced"
    members = "fenced_members"
    at_times = "maybe_fenced"
    uncertain = "whether a member was fenced at that moment is not certain"

    def applies(self) -> Column:
        unexplained = F.coalesce(F.size("ineligible_members") <= 0, F.lit(True))  # no rule of another kind takes it
        return super().applies() | (judged_on_eligibility() & unexplained)
