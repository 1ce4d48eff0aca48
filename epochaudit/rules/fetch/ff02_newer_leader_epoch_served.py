"""FF-02."""

from __future__ import annotations

from epochaudit.rules.leader_epoch_fence import NewerEpochFetchRule
from epochaudit.rules.rule import HIGH, rule


@rule("FF-02", frame="fetches", kip="KIP-320", severity=HIGH, since="2.1")
class NewerLeaderEpochServed(NewerEpochFetchRule):
    """A Fetch in a newer leader epoch than the broker's was served.

    ## What it checks
    A broker must answer 75 (UNKNOWN_LEADER_EPOCH) to a leader epoch that is newer than its own: the broker is a zombie, or
    not up to date yet. 74 is the wrong answer to a newer epoch, and 75 to the broker's own.

    ## Why it matters
    The requester knows of an election that this broker missed. The records that the broker serves may already be truncated
    in the requester's history. The severity is medium if a consumer sent the request.

    ## Evidence needed
    The request log and the node's "starts at leader epoch" lines. For partitions that an incremental fetch leaves out: the
    request of the session that last listed them. For incremental Fetches below version 12: the broker's version. If no line
    of the broker's state-change.log is later than the request, that log may have been copied first, and the broker may have
    begun the newer epoch since: unverifiable.

    ## What is allowed
    A request without a leader epoch (-1) skips the fence. 75 may be answered at the broker's own epoch: to a follower
    outside the leader's assignment, and within half a second of the line that starts the epoch, as that precedes its
    effect and request lines may be written late. A broker that creates the replica again has leader epoch -1 until it
    has a log: it answers 75 to any. If the broker's epoch is not recorded, its answer 75 shows that it was older. What
    is served between the replica's deletion at the broker and its next recorded creation is unverifiable; after a
    StopReplica SR-06 judges it. Kafka 2.1.0 to 2.4.1 lose the epoch in incremental sessions (KAFKA-9338): reported as
    exposed, and as unverifiable if the broker's version is not recorded and the Fetch is below version 12.

    ## What to do
    The broker missed an election: check in its server.log whether it reaches the controller, and restart it if it still
    serves in the old leader epoch. What it gave out may be truncated; TR-01 names consumers that have to go back.
    Exposed means 2.1.0 to 2.4.1, whose incremental fetch sessions check no epoch: upgrade brokers to 2.5.0
    (KAFKA-9338).

    ## Example
    Broker 1 was frozen and still leads orders-0 in epoch 6. A consumer that knows epoch 7 fetches from it and gets records.

    ## References
    Partition.getLocalLog, Partition.makeLeader; KIP-320, Leader Fetch Handling; KAFKA-9338.
    """
