"""LO-01."""

from __future__ import annotations

from epochaudit.replay.epoch_queries import BY_TIME
from epochaudit.rules.kip320.leader_epoch_fence import OlderEpochRule
from epochaudit.rules.rule import MEDIUM, rule


@rule("LO-01", frame="epoch_queries", kip="KIP-320", severity=MEDIUM, since="2.1")
class OlderEpochListOffsetsAnswered(OlderEpochRule):
    """A ListOffsets in an older leader epoch was answered.

    ## What it checks
    ListOffsets 4+ carries the leader epoch that the client believes in. A broker that holds a newer one for the partition
    must answer 74 (FENCED_LEADER_EPOCH); 74 for its own epoch, or 75 for an older one, is the wrong answer.

    ## Why it matters
    The client has not heard of an election. The offset that it is told belongs to another history than the one it
    believes in, and it starts or resets its position by it.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines.

    ## What is allowed
    No epoch (-1): the fence is skipped. While an epoch starts, from its line to the end of the handler, the old epoch and
    the new one may both judge; and as a request's line may be written late, so may an epoch that ended just before. Codes
    that come before the epoch check (3, 6, 56) say nothing about the epoch.

    ## Example
    Broker 2 leads orders-0 in epoch 7. A consumer that still believes in epoch 6 asks it for the latest offset and is told one.

    ## References
    Partition.fetchOffsetForTimestamp, Partition.getLocalLog; KIP-320, ListOffsets.
    """

    api = BY_TIME
