"""IS-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from epochaudit.rules.kip841.eligibility import IneligibleMemberRule
from epochaudit.rules.rule import CRITICAL, rule


@rule("IS-04", frame="isr_changes", kip="KIP-903", severity=CRITICAL, since="3.5")
class StaleIncarnationAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names an incarnation of a broker that is no longer registered.

    ## What it checks
    AlterPartition 3+ names each ISR member with the broker epoch under which the leader saw it fetch. If it is not the
    registered one, the leader speaks of an incarnation that has ended, and the KRaft controller must refuse with 107
    (INELIGIBLE_REPLICA), whether the epoch is smaller or larger.

    ## Why it matters
    A broker that was killed and came back may have lost the end of its log. If its fetches of before the crash carry it
    into the ISR, it can be elected without records that were acknowledged to everyone (KAFKA-14617).

    ## Evidence needed
    The controller's request log (AlterPartition 3+) and the metadata log.

    ## What is allowed
    A broker epoch of -1 is not compared: leaders send it for members that have not fetched yet, and all leaders of
    ZooKeeper clusters do. A registration while the request was under way leaves it unverifiable. A member that is fenced, in
    controlled shutdown or not registered is reported by IS-01, IS-02 or IS-03 alone.

    ## Example
    Broker 3 registered anew with epoch 77. The leader of orders-0 asks for ISR [1, 2, 3] with epoch 51 for broker 3 and
    is answered 0.

    ## References
    KIP-903, Proposed Changes; KIP-841, AlterPartition RPC; ReplicationControlManager.ineligibleReplicasForIsr.
    """

    members = "stale_members"
    at_times = "other_epoch_at_times"
    uncertain = "whether a member's broker epoch was the registered one at that moment is not certain"
    expected = "error 107 (INELIGIBLE_REPLICA) for ISR {isr} with broker epochs {isr_broker_epochs}"
    because = (
        "by the metadata log, the broker epochs stated for brokers {stale_members} were not the registered ones",
        "broker {broker_id} asked for ISR {isr} with broker epochs {isr_broker_epochs} of {topic}-{partition} in leader epoch "
        "{leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        stated = F.exists("isr_broker_epochs", lambda epoch: epoch != -1)
        return super().applies() & F.coalesce(stated, F.lit(False))

    def severity_of(self) -> Column | None:
        return None
