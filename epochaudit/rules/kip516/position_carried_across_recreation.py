"""TI-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("TI-09", frame="positions", kip="KIP-516", severity=CRITICAL, since="all")
class PositionCarriedAcrossRecreation(Rule):
    """A consumer went on at its old position in a topic that had been created again.

    ## What it checks
    A consumer's first fetch that was answered 0 under a new topic id, at an offset beyond the start of the log that it had
    reached in the former topic of the name. It must have got a new position in between.

    ## Why it matters
    The records of the new topic before that offset are never delivered. Offsets and leader epochs start at 0 again, so that
    no epoch can tell; and consumers that fetch by topic id refresh their metadata after 103 or 100 and go on at the old
    offset all the same (Java up to 4.4, librdkafka, kafka-python).

    ## Evidence needed
    Request logs of the brokers that served the consumer from both topics, and what tells the topic of a replica and which
    came first: "starts at leader epoch" lines and control requests, or the metadata log. Before 2.8 there are no ids: the
    deletion (UpdateMetadata) and the next creation tell, at each broker by its own log, and the creations in the controllers'
    state-change.log that none is missing.

    ## What is allowed
    A fetch at the start of the new log, a new position from ListOffsets, an out-of-range answer before, an answer that tells
    where the epoch it had read last ends in the new log (Fetch 12), or the offset that the consumer's group had committed
    (the coordinator drops it with the topic); but not one that the consumer alone had committed before it fetched in the
    new topic, as by name it commits its old position there and is told it again. A position that the consumer never had
    in the old topic proves nothing, nor does a first fetch that is recorded only in a later leader epoch of the new one.

    ## Example
    A consumer read orders to offset 20. orders is deleted, created again, and grows to 50 before the consumer fetches at 20:
    0 to 19 of the new topic are skipped.

    ## References
    Fetcher, SubscriptionState, FetchSessionHandler; KIP-516; KAFKA-12257 (metadata of a topic created again).
    """

    evidence = {
        "the first fetch in the new topic": "fetch_ref",
        "where the consumer had the position in the old topic": "position_ref",
        "the topic created again, as the broker was told": "created_ref",
        "the committed offset that it was told": "committed_ref",
    }
    expected = "a new position in the new topic, which starts at offset {log_start_offset}"
    observed = (
        "Fetch {api_version} at offset {fetch_offset} answered 0 under topic id {topic_id}; "
        "offsets {log_start_offset} to {last_skipped_offset} of the new topic were never seen"
    )
    because = (
        "{client_id} held position {fetch_offset} of {topic}-{partition}, reached under topic id {previous_topic_id}",
        "the topic was deleted and created again with topic id {topic_id}: leader epochs and offsets start at 0 again",
        "broker {node} answered its first fetch there, at {fetch_offset}, with 0",
        "no ListOffsets, out-of-range answer or offset that others had committed is recorded of the client before it",
    )

    def applies(self) -> Column:
        return col("entered")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("topic_id").isNull(), "nothing tells the topics of the name apart"),
            unverifiable(col("order_unknown"), "which of the name's topic ids came first is not in the evidence"),
            passed(col("fetch_offset") <= col("log_start_offset")),
            passed(col("detected").isNotNull()),
            unverifiable(
                col("leader_epoch") > 0,
                "a broker that led the new topic before may have given the consumer its position",
            ),
            unverifiable(col("shared_client_id"), "several consumers share the client id"),
            unverifiable(
                col("resumed"), "whether the consumer was told its group's offset before is not in the evidence"
            ),
            exposed(col("position_ref").isNotNull(), "no version of the protocol binds a position to a topic id"),
            otherwise=unverifiable(None, "where the position came from is not in the evidence"),
        )
