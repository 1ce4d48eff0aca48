"""TI-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.fetches import FETCH_SESSION_TOPIC_ID_ERROR
from epochaudit.replay.held_epochs import LATE_MS
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

FIRST_WITH_TOPIC_ID = 13
UNKNOWN_TOPIC_ID = 100
INCONSISTENT_TOPIC_ID = 103


@rule("TI-02", frame="fetches", kip="KIP-516", severity=CRITICAL, since="3.1")
class StaleTopicIdServed(Rule):
    """A Fetch for the id of a deleted topic, or of none that ever existed, was answered with data.

    ## What it checks
    Fetch 13+ names topics by id. An id that is not in the broker's metadata must be answered 100 (UNKNOWN_TOPIC_ID), one
    that is, but is not that of the replica, 103 (INCONSISTENT_TOPIC_ID); a session that mixes requests with and without
    topic ids 106 (FETCH_SESSION_TOPIC_ID_ERROR) as a whole.

    ## Why it matters
    The reader would get records of another topic of the same name at offsets that mean nothing there.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines, which tell the topic id of its replica from when on. Of an
    id that no line names, the metadata log tells that no topic ever had it, if nothing is missing of the log from offset 0 or a
    snapshot half a minute before the Fetch to half a minute after it.

    ## What is allowed
    100 for an id that the broker has not been told of yet: a topic that was just created. Answers while the replica of one
    topic gives way to that of the next. Fetch 12 and below carries no id: TI-08 and TI-09 judge what that leads to. A
    replica that was deleted and has no successor is SR-06's.

    ## Example
    orders (id A) is deleted and created again (id B). A consumer that still asks for A at offset 20 gets records of B.

    ## References
    KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, FetchManager.newContext; KIP-516, Fetch.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the replica of the next topic": "successor_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "error 103 (INCONSISTENT_TOPIC_ID) or 100 (UNKNOWN_TOPIC_ID) for topic id {topic_id}"
    observed = "error {code} with {records_size} bytes of records"
    because = (
        "of {topic}-{partition} at broker {node}: {fate}",
        "{client_id} fetched topic id {topic_id} (Fetch {api_version}) and was answered {code}",
    )

    def applies(self) -> Column:
        by_id = (col("api_version") >= FIRST_WITH_TOPIC_ID) & col("topic_id").isNotNull()
        judged = by_id & col("code").isin(0, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID)
        mixed = col("code") == FETCH_SESSION_TOPIC_ID_ERROR
        return F.coalesce(judged, F.lit(False)) | F.coalesce(mixed, F.lit(False))

    def verdict(self) -> tuple[Branch, ...]:
        held, code = col("held_max").isNotNull(), col("code")
        return first_of(
            fenced(col("code") == FETCH_SESSION_TOPIC_ID_ERROR),
            fenced(code == INCONSISTENT_TOPIC_ID),
            fenced((code == UNKNOWN_TOPIC_ID) & ~held & ~F.coalesce(col("held_later"), F.lit(False))),
            passed(held | (code == UNKNOWN_TOPIC_ID)),
            violation(col("never_existed")),
            violation(col("arrival_ms") - LATE_MS > col("successor_ms")),
            unverifiable(
                col("successor_ms").isNotNull(), "the replica of the next topic was just being started, or not yet"
            ),
            otherwise=unverifiable(None, "no line of the broker tells the topic id of its replica"),
        )
