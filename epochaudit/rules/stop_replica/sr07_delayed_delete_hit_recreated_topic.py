"""SR-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import STOP_REPLICA
from epochaudit.kafka.api_versions import LEADER_EPOCH_STOP_REPLICA_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import EPOCH_DURING_DELETE
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable
from epochaudit.rules.stop_replica.new_incarnation import hits_new_incarnation


@rule("SR-07", frame="control", kip="KIP-516", severity=CRITICAL, since="2.6")
class DelayedDeleteHitRecreatedTopic(Rule):
    """A late deletion of a topic removed a replica of its successor of the same name.

    ## What it checks
    StopReplica names the topic, and in no version its id. The deletion sentinel -2 passes every leader epoch. The new
    topic's data is deleted from this broker if it accepts a StopReplica with -2 and deletePartition after a LeaderAndIsr
    for the same name with a new topic id, and that new topic was not being deleted. If the broker then accepts a
    LeaderAndIsr of the former topic, too (TI-01), the replica still has the new topic's records.

    ## Why it matters
    An existing topic's data is deleted although the broker followed the protocol, which has no fence here. KIP-516 planned
    a topic id in StopReplica 4; it was never built.

    ## Evidence needed
    The broker's request log with the LeaderAndIsr or UpdateMetadata requests of both topics: their topic ids, or before 2.8
    the deletion between them.

    ## What is allowed
    A deletion that the controller announced by UpdateMetadata with leader -2 after the LeaderAndIsr of the same topic.
    KRaft deletes by id and has no subjects.

    ## What to do
    Keep the partition's other replicas running, and restart the broker once another replica leads: it creates the
    replica again, and copies the log. If the leader's log was deleted, save the followers' folders first; if no replica
    is left, produce the records again from their source. Before a topic is created again, wait until its deletion has
    finished on all brokers, or use a new name. StopReplica has a topic id in no version; KRaft deletes by id, and 4.0
    has no ZooKeeper.

    ## Example
    orders is deleted and re-created. A duplicate of the deletion's StopReplica arrives after the new LeaderAndIsr.

    ## References
    ReplicaManager.stopReplicas; KIP-516, StopReplica; StopReplicaRequest.json.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the LeaderAndIsr of the new topic": "accepted_ref",
        "where the topic id of a former topic of the name was stated": "former_topic_id_ref",
        "the announced deletion of a former topic of the name": "former_deletion_ref",
        "the new topic treated as living afterwards": "alive_ref",
        "the broker's own line": "line_ref",
    }
    expected = "no deletion: nobody had announced that {held_topic} of the name {topic} is being deleted"
    observed = "a StopReplica with leader epoch -2 and deletePartition was answered {error_code}"
    because = (
        "{topic} was deleted and created again: broker {node} had accepted a LeaderAndIsr of {held_topic}",
        "StopReplica {correlation_id} of controller {controller_id} names no topic id, and no leader epoch stops -2",
        "broker {node} deleted its replica of the new topic",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == STOP_REPLICA)
            & (col("api_version") >= LEADER_EPOCH_STOP_REPLICA_VERSION)
            & (col("leader_epoch") == EPOCH_DURING_DELETE)
            & col("delete_partition")
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") == Errors.NONE)
        )

    def verdict(self) -> tuple[Branch, ...]:
        topic_exists = col("alive_topic_id") == col("held_topic_id")
        return first_of(
            passed(
                ~hits_new_incarnation(),
                expected="a deletion of the topic that the controller is deleting",
                because=("nothing shows that the StopReplica was applied to another topic of the name {topic}",),
            ),
            exposed(topic_exists | ~col("topic_deletion_seen")),
            otherwise=unverifiable(
                None,
                "whether the new topic was being deleted is not in the evidence",
                expected="no deletion, unless {held_topic} of the name {topic} is being deleted, too",
                because=self.because[:2],
            ),
        )
