"""SR-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.control import EPOCH_DURING_DELETE
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable


def hits_new_incarnation() -> Column:
    """The deletion reached a replica of a topic created anew under the name, whose own deletion nobody had announced."""
    deletes = (col("leader_epoch") == EPOCH_DURING_DELETE) & col("delete_partition")
    return F.coalesce(
        deletes & col("reborn") & col("accepted_ref").isNotNull() & ~col("deletion_announced"), F.lit(False)
    )


@rule("SR-07", frame="control", kip="KIP-516", severity=CRITICAL, since="2.6")
class DelayedDeleteHitRecreatedTopic(Rule):
    """A late deletion of a topic removed a replica of its successor of the same name.

    ## What it checks
    StopReplica names the topic, in no version its id, and the deletion sentinel -2 passes any leader epoch. When a
    StopReplica with -2 and deletePartition is accepted after a LeaderAndIsr for the same name with a new topic id, and that
    new topic was not being deleted, the new topic's data is gone from this broker.

    ## Why it matters
    The data of the living topic is deleted, and the broker did nothing wrong by the protocol: there is no fence. KIP-516
    planned a topic id in StopReplica 4; it was never built.

    ## Evidence needed
    The broker's request log with both incarnations' LeaderAndIsr or UpdateMetadata requests: their topic ids, or before 2.8 the
    deletion between them.

    ## What is allowed
    The deletion that the controller announced by UpdateMetadata with leader -2 after the LeaderAndIsr of the same
    incarnation. KRaft deletes by id: not concerned.

    ## Example
    orders is deleted and created again; a duplicate of the deletion's StopReplica arrives after the new LeaderAndIsr.

    ## References
    ReplicaManager.stopReplicas; KIP-516, StopReplica; StopReplicaRequest.json.
    """

    evidence = {
        "the StopReplica request and its answer": "request_ref",
        "the LeaderAndIsr of the new topic": "accepted_ref",
        "the new topic treated as living afterwards": "alive_ref",
        "the broker's own line": "line_ref",
    }
    expected = "no deletion of {topic}-{partition} under topic id {held_topic_id}"
    observed = "leader epoch -2 with deletePartition answered {error_code}"
    because = (
        "broker {node} had accepted a LeaderAndIsr for {topic}-{partition} under the new topic id {held_topic_id}",
        "the name had another topic id at this broker before",
        "StopReplica {correlation_id} of controller {controller_id} carried -2 (deletion), which no epoch fences, and deleted the replica",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "STOP_REPLICA")
            & (col("api_version") >= 3)
            & (col("leader_epoch") == EPOCH_DURING_DELETE)
            & col("delete_partition")
            & (col("request_error_code") == 0)
            & (col("error_code") == 0)
        )

    def verdict(self) -> tuple[Branch, ...]:
        lives_on = F.coalesce(col("alive_topic_id") == col("held_topic_id"), F.lit(False))
        return first_of(
            passed(~hits_new_incarnation()),
            exposed(lives_on | ~col("topic_deletion_seen")),
            otherwise=unverifiable(None, "whether the new topic was being deleted is not in the evidence"),
        )
