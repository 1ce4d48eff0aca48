"""TI-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.api_versions import TOPIC_ID_FETCH_VERSION
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, rule
from epochaudit.rules.topic_id.position_origin import origin


@rule("TI-08", frame="positions", kip="KIP-516", severity=HIGH, since="all")
class SuccessorReachedByName(Rule):
    """A Fetch by name went from a deleted topic to its successor.

    ## What it checks
    Fetch 12 and below names the topic. After the topic is deleted and re-created, a consumer's fetches reach the new topic
    without any error. A stated leader epoch may happen to be refused (74, 75), but epochs start at 0 again and soon match.
    The subject is the consumer's first fetch in the new topic.

    ## Why it matters
    The protocol version in use has no fence against it.

    ## Evidence needed
    Request logs of the brokers that served the consumer from both topics, for the new one without a gap from its creation on.
    And the topic of a replica: from "starts at leader epoch" lines and control requests, or before 2.8, which has no ids, from
    all deletions and creations of the name.

    ## What is allowed
    A fetch at the start of the new log, a new position from ListOffsets, an earlier out-of-range answer, and an answer that
    states where the last epoch that the consumer read ends (Fetch 12). A position that the consumer never had in the old
    topic proves nothing. ListOffsets, OffsetForLeaderEpoch and commits by name are judged where their positions are used;
    StopReplica by SR-07.

    ## What to do
    Stop the group and reset it for the new topic with `kafka-consumer-groups.sh --reset-offsets --to-earliest`, if it
    skipped records. Fetch below version 13 has no topic id: brokers and Java clients of 3.1 and later use one, and
    refuse the old topic's. Even these keep the offset (TI-09), so stop consumers before a topic is deleted, and remove
    their offsets with `kafka-consumer-groups.sh --delete-offsets`.

    ## Example
    orders is deleted and re-created. A consumer with Fetch 12 continues in its old fetch session, in leader epoch 0 of both
    topics.

    ## References
    KafkaApis.handleFetchRequest, CachedPartition; KIP-516, Fetch.
    """

    caused_by = ("TI-09",)
    evidence = {
        "the first fetch in the new topic": "fetch_ref",
        "where the consumer had the position in the old topic": "position_ref",
        "the broker's first line about the topic created again": "created_ref",
    }
    expected = "a refusal: {client_id} took its position {fetch_offset} from another topic of the name {topic}"
    observed = "Fetch {api_version} by name at offset {fetch_offset} was answered {NONE} from {topic_now}"
    because = (
        "{client_id} had read {topic}-{partition} of {topic_before}",
        "broker {node} answered it from {topic_now} in leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        return col("crossed_topic_recreation") & (col("api_version") < TOPIC_ID_FETCH_VERSION)

    def verdict(self) -> tuple[Branch, ...]:
        return origin(
            "the first Fetch {api_version} of {client_id} in {topic_now} was answered {NONE}",
            "a Fetch {api_version} by name of {client_id} was answered {NONE} in leader epoch {leader_epoch}",
            "the protocol version in use has no topic ids",
            refused=fenced(
                col("refused"),
                observed="a fetch of {client_id} was refused for its leader epoch before the first that was answered {NONE}",
            ),
        )
