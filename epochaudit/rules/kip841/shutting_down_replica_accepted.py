"""IS-02."""

from __future__ import annotations

from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.cluster_history import SHUTDOWN_RECORDED_LEVEL
from epochaudit.rules.kip841.eligibility import IneligibleMemberRule
from epochaudit.rules.rule import CRITICAL, Branch, rule, unverifiable


@rule("IS-02", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class ShuttingDownReplicaAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names a replica in controlled shutdown.

    ## What it checks
    A broker in controlled shutdown has been taken out of every ISR and must not come back until it registers anew. An
    AlterPartition that names it must be refused with 107 (INELIGIBLE_REPLICA), or 55 (OPERATION_NOT_ATTEMPTED) below
    version 2. A broker that is fenced as well is IS-01's.

    ## Why it matters
    The broker still fetches while it shuts down, so a leader whose metadata lags adds it again. The controller then
    moves its leaderships back to a broker about to stop, and the ISR shrinks only when the broker's session has timed
    out.

    ## Evidence needed
    The controller's request log and the metadata log. Controlled shutdown is written there since metadata.version
    3.3-IV3 (level 7); below, only the memory of the active controller holds it.

    ## What is allowed
    Requests refused for an earlier reason, as for IS-01. A shutdown that began while the request was under way is
    unverifiable. The registration of a new incarnation ends the state.

    ## Example
    Broker 2 has been granted its shutdown (BrokerRegistrationChangeRecord, inControlledShutdown 1). The leader of
    orders-0 asks for ISR [1, 2] and is answered 0.

    ## References
    KIP-841, Proposed Changes, BrokerRegistrationChangeRecord; ReplicationControlManager.ineligibleReplicasForIsr,
    ClusterControlManager.inControlledShutdown.
    """

    members = "shutting_down_members"
    at_times = "shutting_down_at_times"
    uncertain = "whether a member was shutting down at that moment is not certain"
    expected = (
        "error 107 (INELIGIBLE_REPLICA; 55 below version 2) for ISR {isr} with shutting down {shutting_down_members}"
    )
    because = (
        "by the metadata log, brokers {shutting_down_members} were in controlled shutdown when the controller decided",
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def verdict(self) -> tuple[Branch, ...]:
        recorded = F.coalesce(col("metadata_level") >= SHUTDOWN_RECORDED_LEVEL, F.lit(False))
        no_log, unplaced, *others = super().verdict()
        silent = "controlled shutdown is not in the metadata log below metadata.version 3.3-IV3"
        return (no_log, unplaced, unverifiable(~recorded, silent), *others)
