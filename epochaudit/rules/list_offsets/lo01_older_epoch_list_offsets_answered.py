"""LO-01."""

from __future__ import annotations

from epochaudit.events.event_types import LIST_OFFSETS
from epochaudit.rules.leader_epoch_fence import OlderEpochQueryRule
from epochaudit.rules.rule import MEDIUM, rule


@rule("LO-01", frame="epoch_queries", kip="KIP-320", severity=MEDIUM, since="2.1")
class OlderEpochListOffsetsAnswered(OlderEpochQueryRule):
    """A ListOffsets in an older leader epoch was answered.

    ## What it checks
    ListOffsets 4+ carries the leader epoch that the client knows. A broker that holds a newer one for the partition must
    answer 74 (FENCED_LEADER_EPOCH). 74 for the broker's own epoch, and 75 for an older one, are wrong answers.

    ## Why it matters
    The client has not learned of an election. The returned offset belongs to another history than the client's, and the
    client sets its position by it.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines. If its state-change.log has no later
    line than the request, the broker may have begun a newer leader epoch since.

    ## What is allowed
    A request without a leader epoch (-1) skips the fence. While an epoch starts, from its line to the end of the
    handler, both the old and the new epoch may decide. Request lines may be written late, so an epoch that ended just
    before may decide, too. Codes that precede the epoch check (3, 6, 56) say nothing about the epoch. A broker that
    creates the replica again has leader epoch -1 until it has a log, and answers 75 to any (LO-02). A follower may
    answer 74 before its line: unverifiable then. An answer between the replica's deletion at the broker and its next
    recorded creation is unverifiable.

    ## What to do
    Find the client in `epochaudit timeline TOPIC-PARTITION`, and compare the offset that it got with its next fetches.
    If it took a position above the start of the newer epoch, stop it and reset its group to that start with
    `kafka-consumer-groups.sh --reset-offsets --to-offset`. Brokers since 2.1 refuse such requests: report the lines to
    the Kafka project.

    ## Example
    Broker 2 leads orders-0 in epoch 7. A consumer that still knows epoch 6 asks it for the latest offset and gets one.

    ## References
    Partition.fetchOffsetForTimestamp, Partition.getLocalLog; KIP-320, ListOffsets.
    """

    api = LIST_OFFSETS
