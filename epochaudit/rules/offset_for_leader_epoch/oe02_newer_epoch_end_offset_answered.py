"""OE-02."""

from __future__ import annotations

from epochaudit.events.event_types import OFFSET_FOR_LEADER_EPOCH
from epochaudit.rules.leader_epoch_fence import NewerEpochQueryRule
from epochaudit.rules.rule import HIGH, rule


@rule("OE-02", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.1")
class NewerEpochEndOffsetAnswered(NewerEpochQueryRule):
    """An OffsetForLeaderEpoch in a newer leader epoch than the broker's was answered.

    ## What it checks
    A broker must answer 75 (UNKNOWN_LEADER_EPOCH) to a leader epoch that is newer than its own: the broker is a zombie, or
    not up to date yet. 74 is the wrong answer to a newer epoch, and 75 to the broker's own.

    ## Why it matters
    A superseded leader does not know where newer epochs begin. A follower that truncates by its answer keeps records that
    the new leader does not have, and a consumer keeps a position that no longer exists.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines. If its state-change.log has no later
    line than the request, the broker may have begun a newer leader epoch since.

    ## What is allowed
    A request without a leader epoch (-1) skips the fence. 75 may be answered at the broker's own epoch within half a
    second of the line that starts it: the line precedes its effect, clients that learned of the epoch may ask early,
    and request lines may be written late. A broker that creates the replica again has leader epoch -1 until it has a
    log: it answers 75 to any. An answer between the replica's deletion at the broker and its next recorded creation is
    unverifiable.

    ## What to do
    Restart the broker if it still holds the old leader epoch, and look in its server.log for a pause or a lost
    connection to the controller. A follower that compared with it may keep records that the leader lacks: restart it,
    and audit its segments with the leader's (EP-07). A consumer that validated there starts again from its committed
    offset.

    ## Example
    Broker 1 was frozen and still leads orders-0 in epoch 6. A follower that knows epoch 7 asks it where epoch 6 ends and
    gets the end of its log.

    ## References
    Partition.lastOffsetForLeaderEpoch, Partition.makeLeader; KIP-320, OffsetsForLeaderEpoch.
    """

    api = OFFSET_FOR_LEADER_EPOCH
