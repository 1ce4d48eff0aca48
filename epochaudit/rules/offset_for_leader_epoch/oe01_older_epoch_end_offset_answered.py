"""OE-01."""

from __future__ import annotations

from epochaudit.events.event_types import OFFSET_FOR_LEADER_EPOCH
from epochaudit.rules.leader_epoch_fence import OlderEpochQueryRule
from epochaudit.rules.rule import HIGH, rule


@rule("OE-01", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.1")
class OlderEpochEndOffsetAnswered(OlderEpochQueryRule):
    """An OffsetForLeaderEpoch in an older leader epoch was answered.

    ## What it checks
    OffsetForLeaderEpoch 2+ carries the leader epoch that the follower or consumer knows, beside the one that it asks about.
    A broker that holds a newer one for the partition must answer 74 (FENCED_LEADER_EPOCH). 74 for the broker's own epoch,
    and 75 for an older one, are wrong answers.

    ## Why it matters
    By this answer followers truncate, and consumers keep or discard their position. A requester in an older epoch acts on
    another leader's history without knowing it.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines. If its state-change.log has no later
    line than the request, the broker may have begun a newer leader epoch since.

    ## What is allowed
    A request without a leader epoch (-1) skips the fence. While an epoch starts, from its line to the end of the
    handler, both the old and the new epoch may decide. Request lines may be written late, so an epoch that ended just
    before may decide, too. Codes that precede the epoch check (3, 6, 56) say nothing about the epoch. A response with
    an error has leader epoch -1 and offset -1, which answer nothing. A broker that creates the replica again has leader
    epoch -1 until it has a log, and answers 75 to any (OE-02). A follower may answer 74 before its line: unverifiable
    then. An answer between the replica's deletion at the broker and its next recorded creation is unverifiable.

    ## What to do
    Restart a follower that acted on the answer: it compares its log with the present leader's again. Then audit the
    segments of both (EP-07). For a consumer, TR-01 reports whether it passed a truncation; reset its group if so.
    Brokers since 2.1 refuse such requests: report the lines.

    ## Example
    Broker 2 leads orders-0 in epoch 7. A follower that still knows epoch 6 asks it where epoch 5 ends and gets an offset.

    ## References
    Partition.lastOffsetForLeaderEpoch, Partition.getLocalLog; KIP-320, OffsetsForLeaderEpoch.
    """

    api = OFFSET_FOR_LEADER_EPOCH
