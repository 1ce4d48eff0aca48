"""TI-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

FIRST_WITH_TOPIC_ID = 2
UNKNOWN_TOPIC_ID = 100
UNKNOWN_TOPIC_OR_PARTITION = 3
NEW_LEADER_ELECTED = 108
SLACK_MS = 1000


@rule("TI-03", frame="isr_changes", kip="KIP-516", severity=HIGH, since="3.3")
class RemovedTopicAltered(Rule):
    """An ISR change for a topic that no longer existed was accepted.

    ## What it checks
    AlterPartition 2+ names the topic by id. The controller must answer 100 (UNKNOWN_TOPIC_ID) for an id that it has
    removed; versions 0 and 1 name it, and are answered 3 (UNKNOWN_TOPIC_OR_PARTITION).

    ## Why it matters
    A leader of the deleted topic would change the ISR of its successor, whose replicas it knows nothing about.

    ## Evidence needed
    The controller's request log; KRaft: the metadata log from its beginning or from a snapshot; ZooKeeper: the control
    requests to the controller's own broker, which tell when another topic took over the name.

    ## What is allowed
    A request that came while the topic was being removed. In ZooKeeper mode a topic keeps its id until the controller has
    finished its deletion.

    ## Example
    orders (id A) is removed by a RemoveTopicRecord. Two seconds later its former leader sends AlterPartition for id A, and
    is answered 0.

    ## References
    ReplicationControlManager.alterPartition, KafkaController.tryProcessAlterPartition; KIP-516, KIP-841.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the record that it wrote": "committed_ref",
        "the state that the controller had": "met_ref",
    }
    expected = "error 100 (UNKNOWN_TOPIC_ID), or 3 below version 2"
    observed = "error {code} for topic id {topic_id}"
    because = (
        "topic {topic} with id {topic_id} had been removed before the request came, or replaced by another of its name",
        "broker {broker_id} sent AlterPartition {api_version} for partition {partition} in leader epoch {leader_epoch}",
        "controller {node} answered {code}",
    )

    def applies(self) -> Column:
        by_id = col("api_version") >= FIRST_WITH_TOPIC_ID
        refused = by_id & (col("code") == UNKNOWN_TOPIC_ID) | ~by_id & (col("code") == UNKNOWN_TOPIC_OR_PARTITION)
        return refused | col("code").isin(0, NEW_LEADER_ELECTED)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("code").isin(UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION)
        gone = F.coalesce(col("topic_gone"), F.lit(False))
        removed = col("topic_removed_ms") < col("from_ms") - SLACK_MS
        by_name = (col("api_version") < FIRST_WITH_TOPIC_ID) & col("topic_id").isNull() & col("several_incarnations")
        in_zookeeper = col("zookeeper") & col("topic_known")
        return first_of(
            fenced(refused & (gone | col("superseded"))),
            unverifiable(refused, "nothing recorded shows that the topic was gone"),
            violation(removed | col("superseded")),
            unverifiable(gone, "the topic was removed about when the request came"),
            unverifiable(by_name, "the request names the topic, and several topics had the name"),
            passed(col("committed").isNotNull()),
            unverifiable(
                ~in_zookeeper & ~F.coalesce(col("log_complete") & col("covered"), F.lit(False)),
                "the metadata log does not cover the request",
            ),
            otherwise=passed(),
        )
