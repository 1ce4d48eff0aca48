"""LO-04."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import LIST_OFFSETS
from epochaudit.kafka.errors import Errors
from epochaudit.rules.leader_epoch_fence import DELETED, EPOCH_LINE_MISSING, HAD_DELETED
from epochaudit.rules.reasons import HELD_EPOCH_UNKNOWN
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation

ANSWERED: Final = "it answered {client_id} offset {offset} with leader epoch {response_leader_epoch}"


@rule("LO-04", frame="epoch_queries", kip="KIP-320", severity=MEDIUM, since="2.1")
class LeaderEpochFromTheFuture(Rule):
    """A ListOffsets answer names a leader epoch that the broker did not hold yet.

    ## What it checks
    ListOffsets 4+ returns an offset with the leader epoch of its record, and the latest offset with the broker's own leader
    epoch. No record of a log is newer than the leader epoch that the broker holds.

    ## Why it matters
    The client takes the epoch as that of its position. If it is too high, the client misses a truncation below it: the
    position looks newer than the epoch that truncated it.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines. If its state-change.log has no later
    line than the request, the broker may have begun a newer leader epoch since.

    ## What is allowed
    A lower epoch, if the record is older. -1 for "no record found". A superseded leader returns its own epoch, which is
    right as far as it knows. While an epoch starts, the new one may be returned. An answer between the replica's
    deletion at the broker and its next recorded creation is unverifiable.

    ## What to do
    Stop the consumer, and reset its group to the same offset (`kafka-consumer-groups.sh --reset-offsets --to-current`):
    the position then has no leader epoch that hides a truncation. Look for EP-04 and EP-08 at this broker, with its
    leader-epoch-checkpoint and segments in the capture. If the cache is wrong, let another replica lead and have this
    one copied again.

    ## Example
    Broker 2 leads orders-0 in epoch 7 and answers that the record at offset 90 is of epoch 8.

    ## References
    Partition.fetchOffsetForTimestamp, UnifiedLog.fetchOffsetByTimestamp; KIP-320, ListOffsets.
    """

    evidence = {"the ListOffsets request and its answer": "query_ref", "the leader epoch the broker held": "held_ref"}
    expected = "leader epoch {held_max}, which the broker held, or a lower one"
    observed = "offset {offset} answered with leader epoch {response_leader_epoch}"
    because = ("broker {node} held leader epoch {held_max} of {topic}-{partition}", ANSWERED)

    def applies(self) -> Column:
        return (
            (col("event_type") == LIST_OFFSETS)
            & (col("error_code") == Errors.NONE)
            & (col("response_leader_epoch") >= 0)
        )

    def verdict(self) -> tuple[Branch, ...]:
        by_held = "the leader epoch that the broker held, or a lower one"
        return first_of(
            unverifiable(col("was_deleted"), DELETED, expected=by_held, because=(HAD_DELETED, ANSWERED)),
            passed(col("response_leader_epoch") <= col("held_min")),
            unverifiable(~col("held_complete"), HELD_EPOCH_UNKNOWN, expected=by_held, because=(ANSWERED,)),
            passed(col("response_leader_epoch") <= col("held_max")),
            unverifiable(col("epoch_line_missing"), EPOCH_LINE_MISSING),
            otherwise=violation(),
        )
