"""IS-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.isr.eligibility import IneligibleMemberRule, refused_as_ineligible
from epochaudit.rules.rule import CRITICAL, HIGH, Branch, exposed, rule, unverifiable


@rule("IS-02", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class ShuttingDownReplicaAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names a replica in controlled shutdown.

    ## What it checks
    A broker in controlled shutdown was removed from every ISR and must not return until it registers again. The controller
    must refuse an AlterPartition that names it with 107 (INELIGIBLE_REPLICA), or 55 (OPERATION_NOT_ATTEMPTED) below version
    2. IS-01 covers a broker that is also fenced.

    ## Why it matters
    The broker still fetches while it shuts down, so a leader whose metadata lags adds it again. The controller then moves
    leaderships back to a broker that is about to stop, and the ISR shrinks only when the broker's session expires. The
    severity is high if the controller does not check members (before 3.3), or if the metadata log lacks the shutdown that
    it had been asked for.

    ## Evidence needed
    The controller's request log and the metadata log. The metadata log has the controlled shutdown of brokers that
    registered under metadata.version 3.3-IV3 (level 7) or later. For other brokers the active controller holds it in memory
    only, and the heartbeats in its request log show it (BrokerHeartbeat with wantShutDown).

    ## What is allowed
    Refusals for earlier reasons, as for IS-01. A shutdown that began during the request is unverifiable. The registration
    of a new incarnation ends the shutdown. A shutdown without a record is exposed: since 3.3 the check reads only the
    registration, even if metadata.version is upgraded while the broker shuts down.

    ## What to do
    Let the broker finish its shutdown, and look for partitions that it leads again: `kafka-topics.sh --describe
    --unavailable-partitions`. Start it again, or elect the first replica with `kafka-leader-election.sh --election-type
    preferred`. Controllers check since 3.3, and see a shutdown in the registration since metadata.version 3.3-IV3:
    upgrade, finalise that version, and restart the brokers that registered before it.

    ## Example
    Broker 2 was granted its shutdown (BrokerRegistrationChangeRecord, inControlledShutdown 1). The leader of orders-0
    requests ISR [1, 2] and is answered 0.

    ## References
    KIP-841, Proposed Changes, BrokerRegistrationChangeRecord; ReplicationControlManager.ineligibleReplicasForIsr,
    ClusterControlManager.inControlledShutdown.
    """

    kind = "shutting down"
    further_evidence = {"the heartbeat that wants to shut down": "wanted_ref"}
    members = "shutting_down_members"
    at_times = "maybe_shutting_down"
    uncertain = "whether a member was shutting down at that moment is not certain"

    def verdict(self) -> tuple[Branch, ...]:
        no_log, unplaced, *others, otherwise = super().verdict()
        not_recorded = "a shutdown that began below metadata.version 3.3-IV3 is in no record, and no heartbeat of a member states it"
        leaving = (F.size("unrecorded_shutdowns") > 0) & ~refused_as_ineligible()
        return (
            no_log,
            unplaced,
            exposed(
                leaving,
                "the controller's check does not see a shutdown that began below metadata.version 3.3-IV3",
                observed="answered {error_code}, with shutting down {unrecorded_shutdowns} in the ISR",
                because=(
                    "by their heartbeats to controller {node}, brokers {unrecorded_shutdowns} had begun to shut down before the request",
                    *self.because,
                ),
            ),
            *others,
            unverifiable(col("shutdown_unknown"), not_recorded),
            otherwise,
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("checks_eligibility") | (F.size("unrecorded_shutdowns") > 0), HIGH)
