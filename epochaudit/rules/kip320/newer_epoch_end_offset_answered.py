"""OE-02."""

from __future__ import annotations

from epochaudit.replay.epoch_queries import BY_EPOCH
from epochaudit.rules.kip320.leader_epoch_fence import NewerEpochRule
from epochaudit.rules.rule import HIGH, rule


@rule("OE-02", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.1")
class NewerEpochEndOffsetAnswered(NewerEpochRule):
    """An OffsetForLeaderEpoch in a newer leader epoch than the broker's was answered.

    ## What it checks
    A broker that is asked in a leader epoch it has not heard of must answer 75 (UNKNOWN_LEADER_EPOCH): it is a zombie, or
    not up to date yet. 74 for a newer epoch is the wrong answer.

    ## Why it matters
    A superseded leader does not know where the newer epochs begin. A follower that truncates by its answer keeps records
    that the new leader does not have; a consumer keeps a position that no longer exists.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines.

    ## What is allowed
    No epoch (-1): the fence is skipped. 75 at the broker's own epoch: the line that starts an epoch is written some
    milliseconds before it takes effect, and clients that heard of it come early.

    ## Example
    Broker 1 was frozen and still leads orders-0 in epoch 6. A follower that knows epoch 7 asks it where epoch 6 ends and is
    told the end of its log.

    ## References
    Partition.lastOffsetForLeaderEpoch, Partition.makeLeader; KIP-320, OffsetsForLeaderEpoch.
    """

    api = BY_EPOCH
