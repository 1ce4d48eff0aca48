"""LS-02."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import HIGH_WATERMARK
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

_REFUSED: Final = (Errors.OFFSET_OUT_OF_RANGE, Errors.REQUEST_TIMED_OUT)
_TO_HIGH_WATERMARK: Final = (
    "DeleteRecords {correlation_id} of {client_id} deletes the committed records of {topic}-{partition}",
)


@rule("LS-02", frame="record_deletions", kip="KIP-107", severity=MEDIUM, since="1.0")
class DeletionConfirmedEarly(Rule):
    """A leader confirmed that records are deleted before all live replicas had deleted them.

    ## What it checks
    DeleteRecords asks for the deletion of all records below an offset. The answer has the low watermark: the lowest log start offset of
    the live replicas. Error 0 means that the low watermark has reached the offset. If it has not in time, the answer is 7
    (REQUEST_TIMED_OUT), and above the high watermark it is 1 (OFFSET_OUT_OF_RANGE).

    ## Why it matters
    Records are deleted because nobody may read them any more. A replica that still has them gives them out when it becomes leader.

    ## Evidence needed
    The leader's request log.

    ## What is allowed
    A deletion up to the high watermark (offset -1): the answer does not state which offset that was, so any low watermark passes. Any
    other offset below 0 is answered 1.
    Other error codes are no verdict, and a request whose answer is not recorded is unverifiable. The leader does not wait for
    replicas on brokers that are not live.

    ## What to do
    Send the deletion again with kafka-delete-records.sh, and compare the low watermark that it prints with the offset. Then compare the
    log start offsets of the replicas: the names of their first segments in the data directories, or
    log-start-offset-checkpoint. Report the leader's version and the request line to the Kafka project.

    ## Example
    An administrator deletes the records of orders-0 below offset 500. A follower has deleted those below 300, and the
    answer is error 0 with low watermark 300.

    ## References
    ReplicaManager.deleteRecords; DelayedDeleteRecords.tryComplete; Partition.lowWatermarkIfLeader; KIP-107.
    """

    evidence = {"the request and its answer": "answer_ref"}
    expected = "error {REQUEST_TIMED_OUT} while the low watermark is below offset {offset}"
    observed = "error {error_code}, low watermark {low_watermark}"
    because = (
        "DeleteRecords {correlation_id} of {client_id} deletes the records of {topic}-{partition} below offset {offset}",
    )

    def applies(self) -> Column:
        return col("error_code").isNull() | col("error_code").isin(Errors.NONE, *_REFUSED)

    def verdict(self) -> tuple[Branch, ...]:
        to_high_watermark = col("offset") == HIGH_WATERMARK
        up_to_it = (
            "error {REQUEST_TIMED_OUT} while the low watermark is below the high watermark at the time of the request"
        )
        return first_of(
            unverifiable(
                to_high_watermark & col("error_code").isNull(),
                "the answer is not recorded",
                expected=up_to_it,
                observed="no answer",
                because=_TO_HIGH_WATERMARK,
            ),
            unverifiable(
                col("error_code").isNull(), "the answer is not recorded", observed="no answer", because=self.because
            ),
            fenced(
                (col("error_code") == Errors.OFFSET_OUT_OF_RANGE) & (col("offset") < 0),
                expected="error {OFFSET_OUT_OF_RANGE} for an offset below 0, which is no offset of a log",
                observed="error {error_code}",
                because=(
                    "DeleteRecords {correlation_id} of {client_id} states offset {offset} for {topic}-{partition}",
                ),
            ),
            fenced(
                col("error_code") == Errors.OFFSET_OUT_OF_RANGE,
                expected="error {OFFSET_OUT_OF_RANGE} if offset {offset} is above the high watermark",
                observed="error {error_code}",
            ),
            fenced(
                to_high_watermark & (col("error_code") == Errors.REQUEST_TIMED_OUT),
                expected=up_to_it,
                because=_TO_HIGH_WATERMARK,
            ),
            fenced(col("error_code") == Errors.REQUEST_TIMED_OUT),
            passed(col("offset") < 0, expected="a deletion up to the high watermark", because=_TO_HIGH_WATERMARK),
            violation(col("low_watermark") < col("offset")),
            otherwise=passed(expected="a low watermark of {offset} or more"),
        )
