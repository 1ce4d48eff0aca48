"""TI-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.lives import is_life
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("TI-01", frame="control", kip="KIP-516", severity=CRITICAL, since="2.8")
class InconsistentTopicIdAccepted(Rule):
    """A LeaderAndIsr with another topic id than the replica's was accepted.

    ## What it checks
    LeaderAndIsr 5+ carries the topic id. A broker whose replica has another id must answer 103 (INCONSISTENT_TOPIC_ID)
    for the partition, before it looks at the epoch.

    ## Why it matters
    The replica belongs to another topic of the same name. Serving it mixes two topics' records.

    ## Evidence needed
    Request log with the LeaderAndIsr that gave the replica its id; the id survives restarts (partition.metadata).

    ## What is allowed
    An id missing on either side is consistent by definition. An accepted StopReplica with deletePartition ends the old id.
    A failed log directory is answered 56 first. Where another id was accepted, that is the breach: neither what repeats it nor
    the next LeaderAndIsr with the former id is another.

    ## Example
    orders-0 holds id A; a LeaderAndIsr for orders-0 with id B is answered 0 without a deletion in between.

    ## References
    ReplicaManager.becomeLeaderOrFollower, Partition.topicId; KIP-516, LeaderAndIsr.
    """

    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the LeaderAndIsr that gave the replica its topic id": "held_topic_id_ref",
        "the broker's own line": "line_ref",
    }
    expected = "partition error 103 (INCONSISTENT_TOPIC_ID): the replica has topic id {held_topic_id}"
    observed = "partition error {error_code} for topic id {topic_id}"
    because = (
        "broker {node} held {topic}-{partition} under topic id {held_topic_id} and had not been told to delete it",
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought topic id {topic_id} and was answered {error_code}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "LEADER_AND_ISR")
            & ~is_life(col("topic_id"))
            & (col("request_error_code") == 0)
            & col("error_code").isNotNull()
            & (col("error_code") != 56)
        )

    def verdict(self) -> tuple[Branch, ...]:
        refused, held = col("error_code") == 103, col("held_topic_id")
        return first_of(
            fenced((held != col("topic_id")) & refused),
            passed(col("restores_topic_id")),
            violation(held != col("topic_id")),
            violation((held == col("topic_id")) & refused),
            passed(held == col("topic_id")),
            unverifiable(refused, "refused for its topic id, but the replica's own id is not in the evidence"),
            passed(F.coalesce(col("is_new"), F.lit(False)) | col("deleted_ref").isNotNull()),
            otherwise=unverifiable(None, "the topic id that the replica had before is not in the evidence"),
        )
