"""IS-03."""

from __future__ import annotations

from epochaudit.rules.kip841.eligibility import IneligibleMemberRule
from epochaudit.rules.rule import CRITICAL, rule


@rule("IS-03", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="3.3")
class UnregisteredReplicaAccepted(IneligibleMemberRule):
    """The controller accepted an ISR that names a broker without a registration.

    ## What it checks
    Every member of the ISR that a leader asks for by AlterPartition must be registered with the KRaft controller. For a
    broker that was unregistered, or never registered, the controller must refuse with 107 (INELIGIBLE_REPLICA), or 55
    (OPERATION_NOT_ATTEMPTED) below version 2. KIP-841 does not name this case; the code checks it first.

    ## Why it matters
    A broker without a registration has no epoch and no listeners. As an ISR member it can hold up the high watermark
    for good: nothing will ever fence it, because the controller doesn't know it.

    ## Evidence needed
    The controller's request log and the metadata log from its start or from a snapshot: only then is the absence of a
    registration known.

    ## What is allowed
    Requests refused for an earlier reason (IS-12). A log that does not reach back tells no absence: unverifiable.
    Controllers before 3.3 have no such check: exposed.

    ## Example
    Broker 3 was taken out of the cluster with kafka-cluster.sh unregister but still runs and fetches. The leader of
    orders-0 asks for ISR [1, 2, 3] and is answered 0.

    ## References
    KIP-841, AlterPartition RPC; KIP-631, UnregisterBrokerRecord; ReplicationControlManager.ineligibleReplicasForIsr.
    """

    members = "unregistered_members"
    at_times = "unregistered_at_times"
    uncertain = "whether a member was registered at that moment is not certain"
    expected = (
        "error 107 (INELIGIBLE_REPLICA; 55 below version 2) for ISR {isr} with unregistered {unregistered_members}"
    )
    because = (
        "by the metadata log, brokers {unregistered_members} were not registered when the controller decided",
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )
