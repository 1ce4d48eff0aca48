"""IS-03."""

from __future__ import annotations

from epochaudit.rules.isr.eligibility import IneligibleMemberRule
from epochaudit.rules.rule import CRITICAL, rule


@rule("IS-03", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class UnregisteredReplicaAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names a broker without a registration.

    ## What it checks
    Every member of the ISR that a leader requests by AlterPartition must be registered with the KRaft controller. For a
    broker that was unregistered, or never registered, the controller must refuse with 107 (INELIGIBLE_REPLICA), or 55
    (OPERATION_NOT_ATTEMPTED) below version 2. KIP-841 does not name this case; the code checks it first.

    ## Why it matters
    A broker without a registration has no epoch and no listeners. As an ISR member it can hold up the high watermark
    permanently: the controller does not know it, and so never fences it. The severity is high if the controller does not
    check members (before 3.3).

    ## Evidence needed
    The controller's request log, and the metadata log from its start or from a snapshot, as only such a log proves that a
    registration is absent.

    ## What is allowed
    Refusals for earlier reasons (IS-12). A log without its start or a snapshot does not prove the absence: unverifiable.
    Controllers before 3.3 have no such check: exposed.

    ## What to do
    Start the broker properly, so that it registers, or stop it: the leader removes a replica that does not fetch after
    `replica.lag.time.max.ms`. Until then keep the leader running. Stop a broker before `kafka-cluster.sh unregister`,
    and move its replicas away first. Controllers since 3.3 refuse such an ISR; exposed means an older one.

    ## Example
    Broker 3 was removed from the cluster with kafka-cluster.sh unregister but still runs and fetches. The leader of
    orders-0 requests ISR [1, 2, 3] and is answered 0.

    ## References
    KIP-841, AlterPartition RPC; KIP-631, UnregisterBrokerRecord; ReplicationControlManager.ineligibleReplicasForIsr.
    """

    kind = "unregistered"
    members = "unregistered_members"
    at_times = "maybe_unregistered"
    uncertain = "whether a member was registered at that moment is not certain"
