"""OE-01."""

from __future__ import annotations

from epochaudit.replay.epoch_queries import BY_EPOCH
from epochaudit.rules.kip320.leader_epoch_fence import OlderEpochRule
from epochaudit.rules.rule import HIGH, rule


@rule("OE-01", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.1")
class OlderEpochEndOffsetAnswered(OlderEpochRule):
    """An OffsetForLeaderEpoch in an older leader epoch was answered.

    ## What it checks
    OffsetForLeaderEpoch 2+ carries the leader epoch that the follower or consumer believes in, beside the one it asks about.
    A broker that holds a newer one for the partition must answer 74 (FENCED_LEADER_EPOCH); 74 for its own epoch, or 75 for
    an older one, is the wrong answer.

    ## Why it matters
    Followers truncate, and consumers keep or give up their position, by this answer. Whoever asks in an older epoch acts
    on the history of a leader that is not theirs, and is not told.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines.

    ## What is allowed
    No epoch (-1): the fence is skipped. While an epoch starts, from its line to the end of the handler, the old epoch and
    the new one may both judge; and as a request's line may be written late, so may an epoch that ended just before. Codes
    that come before the epoch check (3, 6, 56) say nothing about the epoch; an error is answered with leader epoch -1 and
    offset -1, which is no answer.

    ## Example
    Broker 2 leads orders-0 in epoch 7. A follower that still believes in epoch 6 asks it where epoch 5 ends and is told.

    ## References
    Partition.lastOffsetForLeaderEpoch, Partition.getLocalLog; KIP-320, OffsetsForLeaderEpoch.
    """

    api = BY_EPOCH
