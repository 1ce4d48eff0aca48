"""TI-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.field_values import METADATA_TOPIC, METADATA_TOPIC_ID
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TI-05", frame="topics", kip="KIP-516", severity=HIGH, since="2.8")
class TopicIdUsedTwice(Rule):
    """One topic id stands for two topics.

    ## What it checks
    A topic id belongs to one name and is created once. The id of the metadata topic is reserved for it.

    ## Why it matters
    Ids identify topics: Kafka would take fetches, replicas and committed state of one topic for another's.

    ## Evidence needed
    Any records, accepted control requests, Metadata responses or log lines of a broker that name the id.

    ## What is allowed
    The zero id, which means none.

    ## What to do
    Make sure that the capture holds one cluster only (`capture.toml`), and no metadata log restored from a backup
    (EP-06). If two topics have the id now, copy the records of the smaller one to a new topic, which gets its own id,
    and delete it. Reset the groups that consumed it. Look for tools that create topics with an id of their own.

    ## Example
    The metadata log removes orders with id A, and later creates payments with id A.

    ## References
    Uuid.RESERVED, Uuid.METADATA_TOPIC_ID; KIP-516, Topic Ids.
    """

    evidence = {
        "where the topic id is first stated": "first_ref",
        "a statement of the id for the first of the names": "first_name_ref",
        "a statement of the id for the last of the names": "last_name_ref",
        "the record that removed the id": "removed_ref",
        "the record that created the id again": "revived_ref",
    }
    expected = "one topic with id {topic_id}"
    observed = "topic id {topic_id} stated for {names}"
    because = ("requests, records or lines state topic id {topic_id} for {names}",)

    def applies(self) -> Column:
        return col("topic_id").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        reserved = (col("topic_id") == METADATA_TOPIC_ID) & (col("topic") != METADATA_TOPIC)
        return first_of(
            violation(F.size("names") > 1),
            violation(reserved, expected="no topic with the id {topic_id}, which is that of the metadata topic"),
            violation(
                col("revived"),
                expected="a topic id that is used once",
                observed="topic id {topic_id} again after its removal",
                because=(
                    "{names} has topic id {topic_id}",
                    "the metadata log creates the id again after it removed it",
                ),
            ),
            unverifiable(
                col("topic").isNull(),
                "nothing recorded names the topic of the id",
                observed="topic id {topic_id} and no name",
                because=(),
            ),
            otherwise=passed(),
        )
