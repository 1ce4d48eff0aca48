"""TI-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, fenced, first_of, passed, rule, unverifiable

FIRST_WITH_TOPIC_ID = 13


@rule("TI-08", frame="positions", kip="KIP-516", severity=HIGH, since="all")
class SuccessorReachedByName(Rule):
    """A Fetch by name went from a deleted topic to its successor.

    ## What it checks
    Fetch 12 and below names the topic. When it is deleted and created again, a consumer's fetches reach the new topic
    without any error: a stated leader epoch may be refused by luck (74, 75), but epochs start at 0 again and soon agree.
    Judged is the consumer's first fetch in the new topic.

    ## Why it matters
    The protocol version in use has no fence against it.

    ## Evidence needed
    Request logs of the brokers that served the consumer from both topics, and what tells the topic of a replica: "starts at
    leader epoch" lines and control requests; before 2.8, where they have no ids, all deletions and creations of the name.

    ## What is allowed
    A fetch at the start of the new log, a new position from ListOffsets, an out-of-range answer before, and an answer that
    tells where the epoch it had read last ends (Fetch 12). A position that the consumer never had in the old topic proves
    nothing. ListOffsets, OffsetForLeaderEpoch and commits by name are judged
    where their positions are used; StopReplica by SR-07.

    ## Example
    orders is deleted and created again. A consumer with Fetch 12 goes on in its old fetch session, in leader epoch 0 of both.

    ## References
    KafkaApis.handleFetchRequest, CachedPartition; KIP-516, Fetch.
    """

    caused_by = ("TI-09",)
    evidence = {
        "the first fetch in the new topic": "fetch_ref",
        "where the consumer had the position in the old topic": "position_ref",
        "the topic created again, as the broker was told": "created_ref",
    }
    expected = "Fetch {api_version} cannot be told apart: only topic ids (Fetch 13) fence it"
    observed = "Fetch {api_version} by name at offset {fetch_offset} answered 0 under topic id {topic_id}"
    because = (
        "{client_id} had read {topic}-{partition} under topic id {previous_topic_id}",
        "broker {node} served it under topic id {topic_id} in leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        return col("entered") & (col("api_version") < FIRST_WITH_TOPIC_ID)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("topic_id").isNull(), "nothing tells the topics of the name apart"),
            unverifiable(col("order_unknown"), "which of the name's topic ids came first is not in the evidence"),
            fenced(col("refused")),
            passed(col("fetch_offset") <= col("log_start_offset")),
            passed(col("detected").isNotNull()),
            unverifiable(
                col("leader_epoch") > 0,
                "a broker that led the new topic before may have given the consumer its position",
            ),
            unverifiable(col("shared_client_id"), "several consumers share the client id"),
            exposed(col("position_ref").isNotNull(), "the protocol version in use has no topic ids"),
            otherwise=unverifiable(None, "where the position came from is not in the evidence"),
        )
