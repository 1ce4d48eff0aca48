"""OE-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import OFFSET_FOR_LEADER_EPOCH
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.rules.leader_epoch_fence import DELETED, EPOCH_LINE_MISSING, HAD_DELETED
from epochaudit.rules.reasons import (
    AMBIGUOUS_TOPIC,
    EPOCH_CHANGED_JUST_BEFORE,
    EPOCH_START_UNKNOWN,
    LED_EPOCH_UNKNOWN,
    START_UNPROVEN,
)
from epochaudit.rules.rule import HIGH, Branch, OwnSentences, Rule, first_of, passed, rule, unverifiable, violation

LED: Final = "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}, which starts at offset {held_start}"
ASKED: Final = "{client_id} asked it where leader epoch {asked_epoch} ends"
ANSWERED: Final = "leader epoch {response_leader_epoch} starts at offset {answered_start}"
OF_VERSION_0: Final = "leader epoch {asked_epoch} answered with end offset {offset}"

_LOG_START_UNKNOWN: Final = "where the leader's log started then is not recorded"
_UNANSWERED: Final = "leader epoch {asked_epoch} answered with no end"
_BY_LINEAGE: Final = "an end that fits the leader's lineage"
_UNKNOWN: Final = OwnSentences(expected=_BY_LINEAGE, because=(ASKED,))


@rule("OE-03", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.0.1")
class EpochEndOutsideLineage(Rule):
    """An OffsetForLeaderEpoch answer does not fit the leader's own lineage.

    ## What it checks
    A leader answers where a leader epoch ends in its log. Five things hold for every log. The answered epoch is never above
    the requested one. An epoch below the leader's own ends at the start of that one at the latest, or at the start of the
    log if that is higher. No epoch ends before it starts. The leader's own epoch is answered with its own number. For an
    epoch above its own the answer is undefined (-1, -1).

    ## Why it matters
    If the end is too high, a follower keeps records that the leader does not have, and the logs diverge below the high
    watermark. If it is too low, the follower truncates committed records. Consumers decide by the same answer whether their
    position still exists.

    ## Evidence needed
    The broker's request log and the "Leader ... starts at leader epoch ... from offset" lines. The serving broker's own
    lines are essential; those of other leaders give the starts of older epochs. The start of the log, from the leader's
    Fetch responses or from the "Incremented log start offset" lines of server.log.

    ## What is allowed
    Retention and DeleteRecords may move the start of the log beyond the start of the leader's epoch. Its epoch cache then
    begins there, and the leader answers that offset as the end of all older epochs. A leader whose log has no record of the
    requested epoch or an older one answers the start of its log, too, even if another leader began that epoch higher. The
    start of an epoch between the two is no bound: an epoch whose leader wrote nothing may vanish, and an unclean election
    restores older histories. A leader that restarts within its epoch writes its line anew, with its log end offset, and so
    do KRaft leaders of 3.0 to 3.2 whenever the ISR changes: a line is no bound for an end below it unless it states an
    earlier epoch as the previous one, or starts at offset 0. If a name had several topics and no id distinguishes them,
    the rule claims nothing. A
    superseded leader answers by its own lineage. A response with an error has (-1, -1), which answers nothing. The content
    of the broker's epoch cache is not recorded, so an undefined answer for an older epoch (no epochs in the log's message
    format) is unverifiable. So is an answer between the replica's deletion at the broker and its next recorded creation,
    unless its epoch is above the requested one.

    ## What to do
    Move the leadership to another member of the ISR: followers and consumers truncate and reset by this broker's
    answers. Add its leader-epoch-checkpoint and segments to the capture, for EP-04 and EP-08. Then have its replica
    copied again, and compare the followers' segments with the new leader's (EP-07). Releases up to 2.0.0 (KAFKA-7415)
    and up to 2.6.0 (KAFKA-10432) lose epochs: upgrade.

    ## Example
    Broker 2 leads orders-0 in epoch 3, which starts at offset 10. A consumer asks where epoch 1 ends and gets 30.

    ## References
    LeaderEpochFileCache.endOffsetFor, truncateFromStart, Partition.lastOffsetForLeaderEpoch; KIP-101, KIP-279, KIP-320;
    KAFKA-7415, KAFKA-10432.
    """

    evidence = {
        "the OffsetForLeaderEpoch request and its answer": "query_ref",
        "the line that starts the leader's epoch": "held_start_ref",
        "the line that starts the epoch answered": "answered_start_ref",
        "a later answer with the start of the leader's log": "log_start_ref",
    }
    expected = "for an epoch below {leader_epoch}, the leader's own, an end at offset {held_start} or below, where that one starts"
    observed = "leader epoch {asked_epoch} answered with epoch {response_leader_epoch}, end offset {offset}"
    because = (LED, ASKED, ANSWERED)

    def applies(self) -> Column:
        return (
            (col("event_type") == OFFSET_FOR_LEADER_EPOCH)
            & (col("error_code") == Errors.NONE)
            & (col("asked_epoch") >= 0)
        )

    def verdict(self) -> tuple[Branch, ...]:
        asked, end, own = col("asked_epoch"), col("offset"), col("held_max")
        answered = F.coalesce("response_leader_epoch", "asked_epoch")  # version 0 answers none
        version_0 = col("response_leader_epoch").isNull()
        from_start = end >= F.coalesce("answered_start", F.lit(0))
        # LeaderEpochFileCache.endOffsetFor: below its first entry, any epoch ends where that entry starts, which is the log's start
        echoed = (answered == asked) & (asked < own) & (end >= 0)
        without = echoed & ((end == 0) | col("log_start_reached"))
        below = (asked < own) & (end <= col("held_start")) & (from_start | without)
        beyond = (asked < own) & (end > col("held_start"))
        at_its_start = "an end at the start of the leader's log, which had moved to {offset}, beyond {held_start}, where its epoch starts"
        no_end = "no end (-1) for an epoch above {leader_epoch}, the leader's own"
        until_later = (LED, ASKED, "later its log still started at offset {log_start_after}")
        return first_of(
            violation(
                answered > asked,
                expected="an epoch not above {asked_epoch}, the one asked for",
                because=(ASKED,),
            ),
            unverifiable(col("was_deleted"), DELETED, expected=_BY_LINEAGE, because=(HAD_DELETED, ASKED)),
            passed(
                (asked > own) & (end < 0),
                expected="no end (-1) for an epoch above {held_max}, the leader's own",
                observed=_UNANSWERED,
                because=(LED, ASKED),
            ),
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC, **_UNKNOWN),
            passed(
                (asked == own) & (answered == own) & from_start,
                expected="the end of the log for {held_max}, the leader's own epoch",
                observed="leader epoch {asked_epoch} answered with end offset {offset}",
                because=(LED, ASKED),
            ),
            passed(below & version_0, observed=OF_VERSION_0),
            passed(below),
            passed(beyond & col("log_start_reached"), expected=at_its_start, because=(LED, ASKED)),
            *_lineage_unknown(beyond, echoed),
            violation(beyond & version_0, observed=OF_VERSION_0, because=until_later),
            violation(beyond, because=until_later),
            violation(version_0, expected=no_end, observed=OF_VERSION_0, because=(LED, ASKED)),
            violation(asked > own, expected=no_end),
            violation(
                (asked == own) & (answered != own),
                expected="epoch {leader_epoch}, the leader's own, under its own number",
            ),
            unverifiable(
                (answered < own) & ~col("answered_start_proven"),
                START_UNPROVEN,
                expected=_BY_LINEAGE,
                because=(
                    LED,
                    ASKED,
                    "the first recorded line of leader epoch {response_leader_epoch} states offset {answered_start}",
                ),
            ),
            otherwise=violation(
                expected="an end at offset {answered_start} or above, where leader epoch {response_leader_epoch} starts"
            ),
        )


def _lineage_unknown(beyond: Column, echoed: Column) -> tuple[Branch, ...]:
    """The branches where the log's epochs, or its start, are not recorded. beyond and echoed: see `verdict`."""
    asked, end, own = col("asked_epoch"), col("offset"), col("held_max")
    return (
        unverifiable(col("leader_epoch").isNull() | ~col("held_leader"), LED_EPOCH_UNKNOWN, **_UNKNOWN),
        unverifiable(col("held_just_before") < col("held_min"), EPOCH_CHANGED_JUST_BEFORE, expected=_BY_LINEAGE),
        unverifiable(
            end < 0,
            "what the broker's epoch cache held is not in the evidence",
            expected=_BY_LINEAGE,
            observed=_UNANSWERED,
        ),
        unverifiable(col("held_start").isNull() & (asked < own), EPOCH_START_UNKNOWN, expected=_BY_LINEAGE),
        unverifiable(col("epoch_line_missing"), EPOCH_LINE_MISSING, expected=_BY_LINEAGE),
        unverifiable(
            beyond & ~holds(col("log_start_after") < end),
            _LOG_START_UNKNOWN,
            expected="an end at offset {held_start} or below, where the leader's own epoch starts, or at the start of its log",
        ),
        unverifiable(
            echoed & ~holds(col("log_start_after") < end),
            _LOG_START_UNKNOWN,
            expected="an end at offset {answered_start} or above, where leader epoch {asked_epoch} starts, or at the start of the log",
        ),
    )
