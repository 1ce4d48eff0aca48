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
    A name gets a new topic id only after the previous topic was deleted. KRaft: a TopicRecord for the name follows the
    RemoveTopicRecord of the former id. ZooKeeper: between requests of the controller with one id and with the next, the
    deletion was announced to a broker (UpdateMetadata with leader -2), or DeleteTopics was answered 0.

    ## Why it matters
    Replicas keep the former id in partition.metadata and refuse every LeaderAndIsr of the new one (103): the partition
    loses its leader. Kafka 2.8.0 did so after the IBP was lowered and raised again (KAFKA-12835), and tools that write the
    topic's znode as before 2.8 still do (KAFKA-14190).

    ## Evidence needed
    The metadata log from its beginning or from a snapshot, without a missing offset. Or a broker's request log with both
    ids, and its server.log, which shows that it was neither started nor registered anew in between. Both logs must be whole
    there.

    ## What is allowed
    Deletion and re-creation. Refused LeaderAndIsr requests say nothing about a topic's id. A migration from ZooKeeper does
    not copy a topic that is still being deleted: another id that a KRaft controller brings after it is unverifiable.

    ## What to do
    Delete neither the topic nor its folders: the records are still there, under the former id in partition.metadata.
    2.8.0 changes ids when inter.broker.protocol.version is lowered and raised: upgrade to 2.8.1 or 3.0.0 (KAFKA-12835).
    Tools of before 2.8 that write to ZooKeeper change them in every release (KAFKA-14190): stop using them. To mend the
    topic, stop one broker after the other, move the file partition.metadata, and nothing else, out of the topic's
    folders, and start it: it writes the new id. Not with tiered storage, whose segments have the former id.

    ## Example
    After a controller election UpdateMetadata has orders with id B, where it had id A before, and no broker was informed of
    a deletion.

    ## References
    TopicsImage, ReplicationControlManager.replay(TopicRecord), KafkaController.processTopicIds; KAFKA-12835, KAFKA-14190.
    """

    evidence = {
        "where the topic id is first stated": "first_ref",
        "where the former topic id is first stated": "previous_ref",
    }
    expected = "a deletion of {topic} with topic id {previous_topic_id} before it gets another"
    observed = "topic id {topic_id}, and no deletion of {previous_topic_id} is recorded"
    because = (
        "{topic} had topic id {previous_topic_id}",
        "later it has topic id {topic_id}",
        "no RemoveTopicRecord, announced deletion or DeleteTopics of the former id is recorded (broker {witness} ran and was"
        " registered all the time)",
    )

    def applies(self) -> Column:
        return col("topic").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        change = "a deletion of the former topic before {topic} gets another topic id"
        had = "{topic} had topic id {previous_topic_id}"
        return first_of(
            unverifiable(
                col("topic_id").isNull(),
                "the versions in use have no topic ids",
                expected=change,
                observed="several topics of the name {topic}, none with a topic id",
                because=(),
            ),
            passed(col("other_ids") == 0, expected=change, observed="topic id {topic_id} and no other", because=()),
            unverifiable(
                col("order_unknown"),
                "which of the name's topic ids came first is not in the evidence",
                expected=change,
                observed="topic id {topic_id} and {other_ids} other",
                because=(),
            ),
            passed(
                col("previous_topic_id").isNull(),
                expected=change,
                observed="topic id {topic_id}, the first of the name; later ones: {other_ids}",
                because=(),
            ),
            passed(
                F.size("undeleted") == 0,
                observed="topic id {topic_id}, after the deletion of {previous_topic_id}",
                because=(had,),
            ),
            unverifiable(
                col("in_log") & col("log_complete") & ~col("log_whole"),
                "offsets of the metadata log are missing, and the deletion may be there",
            ),
            violation(col("in_log") & col("log_complete")),
            passed(
                col("deleted_by_name"),
                observed="topic id {topic_id}, after a deletion of a topic {topic}",
                because=(had, "a topic {topic} was deleted, by a request or line that names no topic id"),
            ),
            unverifiable(
                col("deletion_unplaced"),
                "a topic of the name was deleted, at a broker that does not show whether this was between the two",
            ),
            violation(col("witness").isNotNull()),
            otherwise=unverifiable(
                None,
                "no deletion of the former topic is recorded, and no broker is known to have received all requests in between",
            ),
        )
