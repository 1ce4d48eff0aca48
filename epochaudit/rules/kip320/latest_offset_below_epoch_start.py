"""LO-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.epoch_queries import asks_latest
from epochaudit.rules.rule import (
    MEDIUM,
    Branch,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

LEADER_NOT_AVAILABLE: Final = 5
OFFSET_NOT_AVAILABLE: Final = 78
FIRST_WITH_OFFSET_NOT_AVAILABLE: Final = 5
FIRST_WITH_CHECK: Final = 2_002_000
READ_COMMITTED: Final = 1


@rule("LO-03", frame="epoch_queries", kip="KIP-207", severity=MEDIUM, since="2.2")
class LatestOffsetBelowEpochStart(Rule):
    """A leader told its latest offset before its high watermark had reached the start of its leader epoch.

    ## What it checks
    A new leader's high watermark lags behind. Until it has reached the offset at which the leader epoch starts, a consumer's
    ListOffsets for the latest offset must be answered 78 (OFFSET_NOT_AVAILABLE), below version 5 with 5
    (LEADER_NOT_AVAILABLE). An answered latest offset below that start is the breach; so is either code in a version that
    has the other.

    ## Why it matters
    The old leader may have told a higher one: seen by the client, the end of the log goes back. A consumer that starts at
    the latest offset reads records again, lag monitors jump.

    ## Evidence needed
    The broker's request log and its "Leader ... starts at leader epoch ... from offset" lines.

    ## What is allowed
    Read-committed clients are told the last stable offset, which may lie below the high watermark at any time. Requests of
    followers and tools are not checked by the broker. Kafka before 2.2 has no such check: exposed where a leader of a lower
    epoch had told a client more. Lookups by timestamp are not judged: whether a record lies beyond the high watermark is
    not in the log.

    ## Example
    Broker 2 becomes leader of orders-0 at offset 100, its high watermark still at 90, and answers a consumer that the latest
    offset is 90.

    ## References
    Partition.fetchOffsetForTimestamp; KIP-207.
    """

    evidence = {
        "the ListOffsets request and its answer": "query_ref",
        "the line that starts the leader epoch": "held_ref",
        "the higher offset that was told before": "shown_ref",
    }
    expected = "error 78 (5 below version 5), or a latest offset of {held_start} or more"
    observed = "error {error_code} with offset {offset} in ListOffsets {api_version}"
    because = (
        "leader epoch {leader_epoch} of {topic}-{partition} starts at offset {held_start} on broker {node}",
        "{client_id} asked for the latest offset and was answered {error_code} with {offset}",
        "the highest latest offset that a leader of a lower epoch told a client is {shown}",
    )

    def applies(self) -> Column:
        refused = col("error_code").isin(LEADER_NOT_AVAILABLE, OFFSET_NOT_AVAILABLE)
        return asks_latest() & (refused | (col("error_code") == 0) & (col("offset") >= 0))

    def verdict(self) -> tuple[Branch, ...]:
        code, own_code = col("error_code"), col("api_version") >= FIRST_WITH_OFFSET_NOT_AVAILABLE
        right_code = F.when(own_code, OFFSET_NOT_AVAILABLE).otherwise(LEADER_NOT_AVAILABLE)
        checks = own_code | (col("kafka_version") >= FIRST_WITH_CHECK)
        return first_of(
            fenced(code == right_code),
            violation(code != 0, "the code of another version"),
            unverifiable(
                col("leader_epoch").isNull() | ~col("held_leader") | col("held_start").isNull(),
                "where the leader epoch of the broker starts is not recorded",
            ),
            passed(col("offset") >= col("held_start")),
            unverifiable(
                col("held_just_before") < col("held_min"),
                "the broker's epoch changed just before, and request lines may be written late",
            ),
            unverifiable(
                col("isolation_level") == READ_COMMITTED, "the last stable offset may lie below the high watermark"
            ),
            violation(checks),
            unverifiable(col("kafka_version").isNull(), "the version of the broker is not in the evidence"),
            exposed(col("shown") > col("offset"), "Kafka before 2.2 has no such check (KIP-207)"),
            otherwise=unverifiable(None, "no answer of an earlier leader shows whether a client had been told more"),
        )
