"""LO-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.api_versions import OFFSET_NOT_AVAILABLE_LIST_OFFSETS_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import READ_COMMITTED
from epochaudit.kafka.releases import release
from epochaudit.replay.data_plane.epoch_queries import asks_latest
from epochaudit.rules.leader_epoch_fence import DELETED, HAD_DELETED
from epochaudit.rules.reasons import (
    AMBIGUOUS_TOPIC,
    BROKER_VERSION_UNKNOWN,
    EPOCH_CHANGED_JUST_BEFORE,
    EPOCH_CHANGED_MEANWHILE,
    EPOCH_START_UNKNOWN,
)
from epochaudit.rules.rule import (
    MEDIUM,
    Branch,
    OwnSentences,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

FIRST_WITH_CHECK: Final = release("2.2")

BEGAN: Final = "leader epoch {leader_epoch} of {topic}-{partition} starts at offset {held_start} on broker {node}"
ASKED: Final = "{client_id} asked for the latest offset, with isolation level {isolation_level}"


@rule("LO-03", frame="epoch_queries", kip="KIP-207", severity=MEDIUM, since="2.2")
class LatestOffsetBelowEpochStart(Rule):
    """A leader returned its latest offset before its high watermark had reached the start of its leader epoch.

    ## What it checks
    A new leader's high watermark lags. Until it has reached the offset at which the leader epoch starts, the leader must
    answer a consumer's ListOffsets for the latest offset with 78 (OFFSET_NOT_AVAILABLE), below version 5 with 5
    (LEADER_NOT_AVAILABLE). An answered latest offset below that start is a breach. So is either code in a version that has
    the other.

    ## Why it matters
    The old leader may have returned a higher offset: for the client, the log end goes back. A consumer that starts at the
    latest offset reads records again, and lag monitors jump.

    ## Evidence needed
    The broker's request log and its "Leader ... starts at leader epoch ... from offset" lines.

    ## What is allowed
    Read-committed clients get the last stable offset, which may always be below the high watermark. The broker does not
    check requests of followers and tools. Kafka before 2.2 has no such check: exposed if a leader of a lower epoch had
    returned a higher offset to a client. The broker reads the high watermark before it checks it, and it may have advanced
    in between. An answer below the start is therefore a breach only if the high watermark had reached the start before, by
    the line that starts the epoch or an earlier response, or if a later answer is below it, too. Lookups by timestamp are
    not judged, because no log shows whether a record lies beyond the high watermark. If a name had several topics and no id
    distinguishes them, the rule claims nothing of an answered offset. An offset that is answered between the replica's
    deletion at the broker and its next recorded creation is unverifiable.

    ## What to do
    Nothing is lost: a consumer that began at this offset reads some records twice, which its application has to bear or
    filter. If the high watermark does not rise, look for a member of the ISR that does not fetch. Exposed means a
    broker before 2.2, which has no such check (KIP-207): upgrade. Report a violation, with its lines, to the
    Kafka project.

    ## Example
    Broker 2 becomes leader of orders-0 at offset 100 while its high watermark is 90, and answers a consumer that the latest
    offset is 90.

    ## References
    Partition.fetchOffsetForTimestamp; KIP-207.
    """

    evidence = {
        "the ListOffsets request and its answer": "query_ref",
        "the line that starts the leader epoch": "held_start_ref",
        "the higher offset that was returned before": "shown_ref",
        "another answer for the latest offset in the leader epoch": "witness_ref",
    }
    expected = "error {OFFSET_NOT_AVAILABLE} (below ListOffsets 5: {LEADER_NOT_AVAILABLE}), or a latest offset of {held_start} or more"
    observed = "latest offset {offset} in ListOffsets {api_version}"
    because = (BEGAN, ASKED, "the leader epoch began with high watermark {held_high_watermark}")

    def applies(self) -> Column:
        refused = col("error_code").isin(Errors.LEADER_NOT_AVAILABLE, Errors.OFFSET_NOT_AVAILABLE)
        return asks_latest() & (refused | (col("error_code") == Errors.NONE) & (col("offset") >= 0))

    def verdict(self) -> tuple[Branch, ...]:
        own_code = col("api_version") >= OFFSET_NOT_AVAILABLE_LIST_OFFSETS_VERSION
        checks = own_code | (col("kafka_version") >= FIRST_WITH_CHECK)
        start = col("held_start")
        below_before = col("latest_reached_before") | (col("offset") < col("held_high_watermark"))
        certain = holds(below_before | col("latest_behind_after"))
        expected_below = (
            "error {OFFSET_NOT_AVAILABLE} (below ListOffsets 5: {LEADER_NOT_AVAILABLE}), if the high watermark is below the"
            " start of the leader epoch"
        )
        if_below = OwnSentences(expected=expected_below, because=(ASKED,))
        return first_of(
            *_refused(own_code),
            unverifiable(col("was_deleted"), DELETED, expected=expected_below, because=(HAD_DELETED, ASKED)),
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC, **if_below),
            unverifiable(col("leader_epoch").isNull() & start.isNotNull(), EPOCH_CHANGED_MEANWHILE, **if_below),
            unverifiable(start.isNull(), EPOCH_START_UNKNOWN, **if_below),
            passed(col("offset") >= start, expected="a latest offset of {held_start} or more", because=(BEGAN, ASKED)),
            unverifiable(col("held_just_before") < col("held_min"), EPOCH_CHANGED_JUST_BEFORE),
            unverifiable(
                col("isolation_level") == READ_COMMITTED, "the last stable offset may lie below the high watermark"
            ),
            unverifiable(
                checks & ~certain,
                "the high watermark may have reached the start of the leader epoch while the broker answered",
            ),
            violation(
                checks & col("latest_behind_after"),
                because=(BEGAN, ASKED, "a later answer in the epoch was below it, too"),
            ),
            violation(checks),
            unverifiable(col("kafka_version").isNull(), BROKER_VERSION_UNKNOWN),
            exposed(
                col("shown") > col("offset"),
                "Kafka before 2.2 has no such check (KIP-207)",
                expected="a latest offset of {shown} or more, as a leader of a lower epoch had answered",
                because=(
                    BEGAN,
                    ASKED,
                    "the highest latest offset that a leader of a lower epoch answered a client is {shown}",
                ),
            ),
            otherwise=unverifiable(None, "no answer of an earlier leader shows whether a client got a higher offset"),
        )


def _refused(own_code: Column) -> tuple[Branch, ...]:
    """The branches for an error. own_code: the version has a code of its own for it."""
    code, refused = col("error_code"), "error {error_code} in ListOffsets {api_version}"
    right_code = F.when(own_code, Errors.OFFSET_NOT_AVAILABLE).otherwise(Errors.LEADER_NOT_AVAILABLE)
    return (
        fenced(
            code == right_code,
            expected="this error, as long as the high watermark is below the start of the leader epoch",
            observed=refused,
            because=(BEGAN, ASKED),
        ),
        violation(
            (code != Errors.NONE) & own_code,
            "the code of another version",
            expected="error {OFFSET_NOT_AVAILABLE}, the code of ListOffsets 5 and later",
            observed=refused,
            because=(BEGAN, ASKED),
        ),
        violation(
            code != Errors.NONE,
            "the code of another version",
            expected="error {LEADER_NOT_AVAILABLE}, the code below ListOffsets 5",
            observed=refused,
            because=(BEGAN, ASKED),
        ),
    )
