"""TI-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import holds
from epochaudit.kafka.api_versions import TOPIC_ID_FETCH_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.leader_epoch_fence import DELETED, HAD_DELETED
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

_BECAUSE = (
    "of {topic}-{partition} at broker {node}: {fate}",
    "{client_id} fetched topic id {topic_id} (Fetch {api_version}) and was answered {code}",
)


@rule("TI-02", frame="fetches", kip="KIP-516", severity=CRITICAL, since="3.1")
class StaleTopicIdServed(Rule):
    """A Fetch for the id of a deleted topic, or of none that ever existed, was answered with data.

    ## What it checks
    Fetch 13+ names topics by id. The broker must answer 100 (UNKNOWN_TOPIC_ID) to an id that is not in its metadata, and
    103 (INCONSISTENT_TOPIC_ID) to an id that is in its metadata but not that of the replica. To a session that mixes
    requests with and without topic ids it must answer 106 (FETCH_SESSION_TOPIC_ID_ERROR) as a whole.

    ## Why it matters
    The reader would get records of another topic of the same name at offsets that mean nothing there.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines, which give the topic id of its replica over time. For
    an id that nothing names: the metadata log, which proves that no topic ever had it. It must be complete from offset 0, or
    from a snapshot half a minute before the Fetch, to half a minute after it. Of a cluster that was migrated from ZooKeeper it
    proves that from half a minute after the migration on: a topic that was deleted before is not in it.

    ## What is allowed
    100 for the id of a topic that was just created, which the broker does not know yet. Answers while one topic's replica
    is replaced by the next topic's. Fetch 12 and below carries no id: TI-08 and TI-09 judge the consequences. SR-06 judges
    what is served after a StopReplica that deletes the replica; until its next recorded start it is unverifiable here.

    ## What to do
    Stop the consumer and reset its group for the new topic with `kafka-consumer-groups.sh --reset-offsets
    --to-earliest`: the records and offsets that it got are of another topic. Restart a follower that fetched so.
    Compare the folder's partition.metadata at the broker with the id in `kafka-topics.sh --describe`; restart the
    broker if it still serves the old one.

    ## Example
    orders (id A) is deleted and re-created (id B). A consumer that still requests A at offset 20 gets records of B.

    ## References
    KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, FetchManager.newContext; KIP-516, Fetch.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the replica of the next topic": "successor_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "error {INCONSISTENT_TOPIC_ID} or {UNKNOWN_TOPIC_ID} for topic id {topic_id}"
    observed = "error {code} with {records_size} bytes of records"
    because = _BECAUSE

    def applies(self) -> Column:
        by_id = (col("api_version") >= TOPIC_ID_FETCH_VERSION) & col("topic_id").isNotNull()
        judged = by_id & col("code").isin(Errors.NONE, Errors.UNKNOWN_TOPIC_ID, Errors.INCONSISTENT_TOPIC_ID)
        mixed = col("code") == Errors.FETCH_SESSION_TOPIC_ID_ERROR
        return judged | mixed

    def verdict(self) -> tuple[Branch, ...]:
        held, code = col("held_max").isNotNull(), col("code")
        refusal = "error {code} for topic id {topic_id}"
        if_other = (
            "error {INCONSISTENT_TOPIC_ID} or {UNKNOWN_TOPIC_ID}, if the broker's replica is not of topic id {topic_id}"
        )
        fetched = _BECAUSE[1:]
        return first_of(
            fenced(
                col("code") == Errors.FETCH_SESSION_TOPIC_ID_ERROR,
                expected="error {FETCH_SESSION_TOPIC_ID_ERROR} where a session mixes requests with and without topic ids",
                observed="error {FETCH_SESSION_TOPIC_ID_ERROR} for Fetch {api_version}",
                because=("{client_id} sent Fetch {api_version} in a session of the other kind",),
            ),
            fenced(code == Errors.INCONSISTENT_TOPIC_ID, observed=refusal),
            fenced(
                (code == Errors.UNKNOWN_TOPIC_ID) & col("started_ref").isNull() & ~holds(col("held_later")),
                observed=refusal,
            ),
            passed(
                code == Errors.UNKNOWN_TOPIC_ID,
                expected="error {UNKNOWN_TOPIC_ID} for a topic id that the broker does not know yet, or no more",
                observed=refusal,
                because=fetched,
            ),
            unverifiable(col("was_deleted"), DELETED, expected=if_other, because=(HAD_DELETED, *fetched)),
            passed(held, expected="data of topic id {topic_id}, of which the broker had the replica", because=fetched),
            violation(col("never_existed")),
            violation(col("arrival_ms") - REQUEST_LINE_LAG_MS > col("successor_ms")),
            unverifiable(
                col("successor_ms").isNotNull(),
                "the replica of the next topic was just being started, or not yet",
                expected=if_other,
                because=fetched,
            ),
            otherwise=unverifiable(
                None, "no line of the broker states the topic id of its replica", expected=if_other, because=fetched
            ),
        )
