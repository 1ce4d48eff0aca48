"""HW-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("HW-02", frame="high_watermarks", kip="KIP-320", severity=MEDIUM, since="0.11")
class HighWatermarkOutOfBounds(Rule):
    """A Fetch answer's high watermark contradicts its other offsets.

    ## What it checks
    In a response with code 0 the high watermark is not negative, and neither the log start offset nor the last stable
    offset is above it. The subject is ten seconds of responses for one partition; the one with the largest deviation
    counts.

    ## Why it matters
    Consumers read committed records up to the last stable offset and compute their lag from the high watermark. Offsets
    that contradict each other come from a broken broker, or from a log that was deleted or truncated while its checkpoint
    remained.

    ## Evidence needed
    The broker's request log.

    ## What is allowed
    The broker reads the last stable offset a moment after the high watermark, which may have advanced in between. A last
    stable offset above it is a breach only if no response of these ten seconds and the next reaches it. The same holds for
    the log start offset, which DeleteRecords may raise to the new high watermark and which then does not fall.

    ## What to do
    Move the leadership to another member of the ISR, and look in the broker's server.log for a deletion, truncation or
    recovery of this log. Compare its offsets in replication-offset-checkpoint and log-start-offset-checkpoint. Then
    have the log copied again: stop the broker, move the partition's folder aside, start the broker. With a single
    replica, keep a copy of the folder before you restart the broker.

    ## Example
    Broker 2 answers a Fetch of orders-0 with high watermark 90 and log start offset 100.

    ## References
    Partition.readRecords, UnifiedLog.
    """

    evidence = {"the answer": "outside_ref", "the answer with the highest high watermark": "reached_ref"}
    expected = "log start offset and last stable offset at or below the high watermark, and none of them negative"
    observed = (
        "high watermark {outside_high_watermark}, log start offset {outside_log_start_offset},"
        " last stable offset {outside_last_stable_offset}"
    )
    because = (
        "broker {node} answered a Fetch of {topic}-{partition} with high watermark {outside_high_watermark}",
        "the same answer has log start offset {outside_log_start_offset} and last stable offset {outside_last_stable_offset}",
        "the highest high watermark of these seconds and the next is {reached}",
    )

    def applies(self) -> Column:
        return col("node").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        high = col("outside_high_watermark")
        return first_of(
            passed(
                col("outside_ref").isNull(),
                observed="no answer of broker {node} in these ten seconds contradicts itself",
                because=(),
            ),
            violation(high < 0, observed="high watermark {outside_high_watermark}"),
            unverifiable(
                (col("outside_log_start_offset") > high)
                & (col("outside_log_start_offset") <= col("reached"))
                & F.coalesce(col("later_log_start") >= col("outside_log_start_offset"), F.lit(True)),
                "the high watermark may have advanced while the answer was made",
            ),
            violation(col("outside_log_start_offset") > high),
            unverifiable(
                col("outside_last_stable_offset") <= col("reached"),
                "the high watermark may have advanced while the answer was made",
                expected="a last stable offset at or below the high watermark of the same moment",
            ),
            unverifiable(
                ~col("followed"),
                "no later answer shows how far the high watermark had advanced",
                expected="a last stable offset at or below the high watermark of the same moment",
            ),
            otherwise=violation(),
        )
