"""LS-01."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC, HELD_EPOCH_UNCERTAIN
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

_BEFORE: Final = (
    "broker {node} gave out log start offset {start_fallen_from} of {topic}-{partition} in leader epoch {leader_epoch}"
)
_AFTER: Final = "a request that arrived later, in the same process and epoch, was answered with {log_start}"


@rule("LS-01", frame="high_watermarks", kip="KIP-107", severity=HIGH, since="1.0")
class LogStartOffsetFell(Rule):
    """A leader's log start offset fell within one leader epoch: records that were deleted are given out again.

    ## What it checks
    The log start offsets in the Fetch responses of one leader process in one leader epoch. They rise with retention and with DeleteRecords,
    and never fall. The subject is ten seconds of responses for one
    partition; of these, the last one with the highest high watermark is judged.

    ## Why it matters
    Consumers that read from the beginning receive records that had been deleted, perhaps because nobody may read them any more. If the
    leader's log was replaced by an older one, newer records are missing from it, too.

    ## Evidence needed
    The leader's request log, its "starts at leader epoch" lines, and its server.log from before the higher offset on.

    ## What is allowed
    A lower log start offset of a new leader or a restarted one: brokers checkpoint it once a minute only, and leaders wait for live
    replicas only. A replica that moved to another log directory in between: its copy there may be behind. Responses that overlap may be
    logged in any order, and request lines may be written late, so half a second is tolerated. A fall that ends within the same ten
    seconds may be missed. Responses with an uncertain leader epoch are subjects only if the broker returned a higher one before. If
    a name had several topics and no id distinguishes them, the rule claims nothing.

    ## What to do
    See in the leader's server.log what happened to its log between the two answers: a deletion (SR-01, SR-03, SR-07), a truncation, or a
    disk error. Compare the log end offsets of the replicas before you restart the leader: another member of the ISR may be the only one
    that has all records. Send a deletion of records again with kafka-delete-records.sh.

    ## Example
    Broker 1 leads orders-0 in epoch 3 and has returned log start offset 500. A late StopReplica deletes its log. Ten seconds later it
    returns 0.

    ## References
    UnifiedLog.maybeIncrementLogStartOffset; KIP-107.
    """

    caused_by = ("HW-01", "SR-01", "SR-03", "SR-04", "SR-07", "LI-01")
    evidence = {
        "the answer with the lower log start offset": "log_start_ref",
        "an earlier answer with the higher one": "start_fallen_ref",
    }
    expected = "a log start offset of {start_fallen_from} or more"
    observed = "log start offset {log_start}"
    because = (_BEFORE, _AFTER)

    def applies(self) -> Column:
        fell = col("start_fallen_from").isNotNull()
        return col("log_start").isNotNull() & (col("leads") | (col("leader_epoch").isNull() & fell))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("start_fallen_from").isNull(),
                expected="no log start offset below one that was given out before",
                observed="log start offset {log_start} in the answer with the highest high watermark of these ten seconds",
                because=(),
            ),
            unverifiable(
                col("leader_epoch").isNull(),
                HELD_EPOCH_UNCERTAIN,
                expected="a log start offset of {start_fallen_from} or more, if the leader epoch is the same",
                because=("broker {node} gave out log start offset {start_fallen_from} of {topic}-{partition}",),
            ),
            unverifiable(
                col("ambiguous_name"),
                AMBIGUOUS_TOPIC,
                expected="a log start offset of {start_fallen_from} or more, if it is the same topic",
            ),
            unverifiable(
                col("log_moved").isNull(),
                "whether the replica moved to another log directory in between is not in the evidence (server.log)",
                expected="a log start offset of {start_fallen_from} or more, unless the replica moved to another log directory",
            ),
            passed(
                col("log_moved"),
                expected="a log start offset of {start_fallen_from} or more, unless the replica moved to another log directory",
                because=(_BEFORE, _AFTER, "the replica moved to another log directory in between"),
            ),
            otherwise=violation(),
        )
