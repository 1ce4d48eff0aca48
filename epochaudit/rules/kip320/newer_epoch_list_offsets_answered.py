"""LO-02."""

from __future__ import annotations

from epochaudit.replay.epoch_queries import BY_TIME
from epochaudit.rules.kip320.leader_epoch_fence import NewerEpochRule
from epochaudit.rules.rule import MEDIUM, rule


@rule("LO-02", frame="epoch_queries", kip="KIP-320", severity=MEDIUM, since="2.1")
class NewerEpochListOffsetsAnswered(NewerEpochRule):
    """A ListOffsets in a newer leader epoch than the broker's was answered.

    ## What it checks
    A broker that is asked in a leader epoch it has not heard of must answer 75 (UNKNOWN_LEADER_EPOCH): it is a zombie, or
    not up to date yet. 74 for a newer epoch is the wrong answer.

    ## Why it matters
    The client knows of an election that this broker missed. The offset that it is told may lie in records that the new
    leader's history no longer has.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines.

    ## What is allowed
    No epoch (-1): the fence is skipped. 75 at the broker's own epoch: the line that starts an epoch is written some
    milliseconds before it takes effect.

    ## Example
    Broker 1 was frozen and still leads orders-0 in epoch 6. A consumer that knows epoch 7 asks it for the latest offset and
    is told one.

    ## References
    Partition.fetchOffsetForTimestamp, Partition.makeLeader; KIP-320, ListOffsets.
    """

    api = BY_TIME
