"""TI-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, rule
from epochaudit.rules.topic_id.position_origin import origin


@rule("TI-09", frame="positions", kip="KIP-516", severity=CRITICAL, since="all")
class PositionCarriedAcrossRecreation(Rule):
    """A consumer went on at its old position in a topic that had been created again.

    ## What it checks
    The subject is a consumer's first fetch that was answered 0 under a new topic id, at an offset beyond the start of the
    log that it had reached in the former topic of the name. The consumer must have got a new position in between.

    ## Why it matters
    The consumer never gets the records of the new topic before that offset. Offsets and leader epochs start at 0 again, so
    no epoch shows it. Even consumers that fetch by topic id refresh their metadata after 103 or 100 and continue at the old
    offset (Java up to 4.4, librdkafka, kafka-python).

    ## Evidence needed
    Request logs of the brokers that served the consumer from both topics, for the new one without a gap from its creation on.
    The topics of a replica and their order, from "starts at leader epoch" lines and control requests, or from the metadata
    log. Before 2.8 there are no ids. There the deletion (UpdateMetadata) and the next creation distinguish the topics, at each
    broker by its own log, and the creations in the controllers' state-change.log show that none is missing.

    ## What is allowed
    A fetch at the start of the new log, a new position from ListOffsets, an earlier out-of-range answer, an answer that
    states where the last epoch that the consumer read ends in the new log (Fetch 12), or the offset that the consumer's
    group had committed (the coordinator drops it with the topic). An offset that the consumer alone had committed before it
    fetched in the new topic is no excuse: by name it commits its old position there and gets it back. A position that the
    consumer never had in the old topic proves nothing. Neither does a first fetch that is recorded only in a later leader
    epoch of the new topic.

    ## What to do
    Stop the group, and reset it to the first offset that the finding reports as skipped: `kafka-consumer-groups.sh
    --reset-offsets --to-offset`, or `--to-earliest`. A consumer without a group has to seek there. No client or broker
    release fences this. Before a topic is created again, stop its consumers, and remove their offsets with
    `kafka-consumer-groups.sh --delete-offsets`; or use a new name.

    ## Example
    A consumer read orders to offset 20. orders is deleted and re-created, and grows to 50 before the consumer fetches at
    20: it skips 0 to 19 of the new topic.

    ## References
    Fetcher, SubscriptionState, FetchSessionHandler; KIP-516; KAFKA-12257 (metadata of a topic created again).
    """

    evidence = {
        "the first fetch in the new topic": "fetch_ref",
        "where the consumer had the position in the old topic": "position_ref",
        "the broker's first line about the topic created again": "created_ref",
        "the committed offset that the coordinator returned": "committed_ref",
    }
    expected = "a new position of {client_id} in the new topic, which starts at offset {log_start_offset}"
    observed = (
        "its first Fetch {api_version} in the new topic was answered {NONE} at offset {fetch_offset}; offsets {log_start_offset} to"
        " {last_skipped_offset} of it were never delivered to the client"
    )
    because = (
        "{client_id} had reached position {fetch_offset} of {topic}-{partition} in {topic_before}",
        "{topic} was deleted and created again: broker {node} answered from {topic_now}, whose leader epochs and offsets start at 0",
        "no ListOffsets, out-of-range answer or offset that others had committed is recorded of the client before that fetch",
    )

    def lost(self) -> tuple[Column, Column]:
        return col("log_start_offset"), col("last_skipped_offset")

    def applies(self) -> Column:
        return col("crossed_topic_recreation")

    def verdict(self) -> tuple[Branch, ...]:
        return origin(
            "its first Fetch {api_version} in {topic_now} was answered {NONE}",
            "a Fetch {api_version} of {client_id} was answered {NONE} in leader epoch {leader_epoch}",
            "no version of the protocol binds a position to a topic id",
            at_start=("{client_id} had read {topic}-{partition} of {topic_before} before",),
            resumed=col("resumed"),
        )
