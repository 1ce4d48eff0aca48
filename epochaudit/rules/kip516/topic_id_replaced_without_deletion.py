"""TI-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TI-04", frame="topics", kip="KIP-516", severity=HIGH, since="2.8")
class TopicIdReplacedWithoutDeletion(Rule):
    """A topic got another id although it was never deleted.

    ## What it checks
    A name gets a new topic id only after the topic that had it was deleted. KRaft: a TopicRecord for the name follows the
    RemoveTopicRecord of the former id. ZooKeeper: between requests of the controller with one id and with the next, the
    deletion was announced to a broker (UpdateMetadata with leader -2), or DeleteTopics answered 0.

    ## Why it matters
    Replicas keep the former id in partition.metadata and refuse every LeaderAndIsr of the new one (103): the partition has
    no leader any more. Kafka 2.8.0 did so after an IBP round trip (KAFKA-12835), and tools that write the topic's znode as
    before 2.8 still do (KAFKA-14190).

    ## Evidence needed
    The metadata log from its beginning or from a snapshot, with no offset missing; or a broker's request log with both ids and
    its server.log, which shows that it ran all the time between.

    ## What is allowed
    Deletion and re-creation. Refused LeaderAndIsr requests say nothing about a topic's id.

    ## Example
    After an election of the controller UpdateMetadata brings orders with id B, where it had brought id A, and no broker was
    told of a deletion.

    ## References
    TopicsImage, ReplicationControlManager.replay(TopicRecord), KafkaController.processTopicIds; KAFKA-12835, KAFKA-14190.
    """

    evidence = {
        "where the topic id is first stated": "first_ref",
        "where the former topic id is first stated": "previous_ref",
    }
    expected = "a deletion of {topic} with topic id {previous_topic_id} before it gets another"
    observed = "topic id {topic_id}, and no deletion of {previous_topic_id}"
    because = (
        "{topic} had topic id {previous_topic_id}",
        "later it has topic id {topic_id}",
        "no RemoveTopicRecord, announced deletion or DeleteTopics of the former id is recorded (broker {witness} ran all the time)",
    )

    def applies(self) -> Column:
        return col("topic").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("topic_id").isNull(), "the versions in use have no topic ids"),
            passed(col("other_ids") == 0),
            unverifiable(col("order_unknown"), "which of the name's topic ids came first is not in the evidence"),
            passed(F.size("undeleted") == 0),
            unverifiable(
                col("in_log") & col("log_complete") & ~col("log_whole"),
                "offsets of the metadata log are missing, and the deletion may be there",
            ),
            violation(col("in_log") & col("log_complete")),
            passed(col("deleted_by_name")),
            violation(col("witness").isNotNull()),
            otherwise=unverifiable(
                None, "no deletion of the former topic is recorded, and no broker is known to have run all the time"
            ),
        )
