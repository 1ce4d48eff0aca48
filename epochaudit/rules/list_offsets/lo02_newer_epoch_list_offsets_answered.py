"""LO-02."""

from __future__ import annotations

from epochaudit.events.event_types import LIST_OFFSETS
from epochaudit.rules.leader_epoch_fence import NewerEpochQueryRule
from epochaudit.rules.rule import MEDIUM, rule


@rule("LO-02", frame="epoch_queries", kip="KIP-320", severity=MEDIUM, since="2.1")
class NewerEpochListOffsetsAnswered(NewerEpochQueryRule):
    """A ListOffsets in a newer leader epoch than the broker's was answered.

    ## What it checks
    A broker must answer 75 (UNKNOWN_LEADER_EPOCH) to a leader epoch that is newer than its own: the broker is a zombie, or
    not up to date yet. 74 is the wrong answer to a newer epoch, and 75 to the broker's own.

    ## Why it matters
    The client knows of an election that this broker missed. The returned offset may lie in records that the new leader's
    history no longer has.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines. If its state-change.log has no later
    line than the request, the broker may have begun a newer leader epoch since.

    ## What is allowed
    A request without a leader epoch (-1) skips the fence. 75 may be answered at the broker's own epoch within half a
    second of the line that starts it: the line precedes its effect, and request lines may be written late. A broker
    that creates the replica again has leader epoch -1 until it has a log: it answers 75 to any. An answer between the
    replica's deletion at the broker and its next recorded creation is unverifiable.

    ## What to do
    Check that the broker reaches the controller, and restart it if it still holds the old leader epoch. Restart the
    client or reset its group, if it took the returned offset as its position: the offset may not exist at the new
    leader. If the broker was paused, find out why (garbage collection, disk, virtual machine).

    ## Example
    Broker 1 was frozen and still leads orders-0 in epoch 6. A consumer that knows epoch 7 asks it for the latest offset and
    gets one.

    ## References
    Partition.fetchOffsetForTimestamp, Partition.makeLeader; KIP-320, ListOffsets.
    """

    api = LIST_OFFSETS
