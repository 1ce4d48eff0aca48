"""IS-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.cluster_history import SHUTDOWN_RECORDED_LEVEL
from epochaudit.rules.kip841.fenced_replica_accepted import REFUSED_AS_INELIGIBLE, judged_on_eligibility
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("IS-02", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class ShuttingDownReplicaAccepted(Rule):
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

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the record that made the replica ineligible": "ineligible_ref",
        "the record that the controller wrote": "committed_ref",
        "the partition's state before": "met_ref",
    }
    expected = (
        "error 107 (INELIGIBLE_REPLICA; 55 below version 2) for ISR {isr} with shutting down {shutting_down_members}"
    )
    observed = "error {error_code}"
    because = (
        "by the metadata log, brokers {shutting_down_members} were in controlled shutdown when the controller decided",
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        explained_by_shutdown = F.coalesce("shutting_down_at_times", F.lit(False))
        return judged_on_eligibility() & (~col("error_code").isin(*REFUSED_AS_INELIGIBLE) | explained_by_shutdown)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("error_code").isin(*REFUSED_AS_INELIGIBLE)
        recorded = F.coalesce(col("metadata_level") >= SHUTDOWN_RECORDED_LEVEL, F.lit(False))
        return first_of(
            unverifiable(~F.coalesce("has_metadata_log", F.lit(False)), "no metadata log"),
            unverifiable(col("shutting_down_members").isNull(), "the request cannot be placed in the metadata log"),
            unverifiable(~recorded, "controlled shutdown is not in the metadata log below metadata.version 3.3-IV3"),
            fenced(refused),
            violation(F.size("shutting_down_members") > 0),
            unverifiable(
                col("shutting_down_at_times"), "whether a member was shutting down at that moment is not certain"
            ),
            otherwise=passed(),
        )
