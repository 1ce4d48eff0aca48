"""IS-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from epochaudit.events.views import holds
from epochaudit.kafka.field_values import NO_BROKER_EPOCH
from epochaudit.rules.isr.eligibility import IneligibleMemberRule
from epochaudit.rules.rule import CRITICAL, rule


@rule("IS-04", frame="isr_changes", kip="KIP-903", severity=CRITICAL, since="3.5")
class StaleIncarnationAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names an incarnation of a broker that is no longer registered.

    ## What it checks
    AlterPartition 3+ states for each ISR member the broker epoch with which the leader saw it fetch. If that is not the
    registered epoch, smaller or larger, the leader means an incarnation that has ended, and the KRaft controller must
    refuse with 107 (INELIGIBLE_REPLICA).

    ## Why it matters
    A broker that was killed and came back may have lost the end of its log. If its fetches from before the crash bring it
    into the ISR, it can be elected without acknowledged records (KAFKA-14617).

    ## Evidence needed
    The controller's request log (AlterPartition 3+) and the metadata log.

    ## What is allowed
    A broker epoch of -1 is not compared: leaders send it for members that have not fetched yet, and all leaders of
    ZooKeeper clusters send it. A registration during the request makes it unverifiable. Only IS-01, IS-02 or IS-03 report a
    member that is fenced, in controlled shutdown or not registered.

    ## What to do
    Keep the partition's leader running, and hold no election, until the restarted broker has caught up (its metric
    `FetcherLagMetrics`, `ConsumerLag`): it may have lost the end of its log. If it has been elected since, TR-06
    reports the loss. Controllers since 3.5 compare the broker epochs of AlterPartition 3 (KIP-903): report the lines to
    the Kafka project.

    ## Example
    Broker 3 registered again with epoch 77. The leader of orders-0 requests ISR [1, 2, 3] with epoch 51 for broker 3 and is
    answered 0.

    ## References
    KIP-903, Proposed Changes; KIP-841, AlterPartition RPC; ReplicationControlManager.ineligibleReplicasForIsr.
    """

    kind = "stale"
    made_so = "the record of the member's current broker epoch"
    asked = (
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} with broker epochs {isr_broker_epochs}, in leader epoch "
        "{leader_epoch}, partition epoch {partition_epoch}, and was answered {error_code}"
    )
    when = "by the metadata log, the broker epochs stated for {stale_members} were not the registered ones when the controller decided"
    members = "stale_members"
    at_times = "maybe_other_epoch"
    uncertain = "whether a member's broker epoch was the registered one at that moment is not certain"

    def applies(self) -> Column:
        stated = F.exists("isr_broker_epochs", lambda epoch: epoch != NO_BROKER_EPOCH)
        return super().applies() & holds(stated)

    def severity_of(self) -> Column | None:
        return None
