"""TI-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.api_versions import TOPIC_ID_ALTER_PARTITION_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import (
    HIGH,
    Branch,
    OwnSentences,
    Rule,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

_BECAUSE = (
    "topic {topic} with id {topic_id} had been removed before the request came, or replaced by another of its name",
    "broker {broker_id} sent AlterPartition {api_version} for partition {partition} in leader epoch {leader_epoch}",
    "controller {node} answered {code}",
)
_REMOVAL_UNKNOWN: Final = "nothing recorded shows that the topic had been removed"
_NOT_COVERED: Final = "the metadata log does not cover the request"


@rule("TI-03", frame="isr_changes", kip="KIP-516", severity=HIGH, since="3.3")
class RemovedTopicAltered(Rule):
    """An ISR change for a topic that no longer existed was accepted.

    ## What it checks
    AlterPartition 2+ names the topic by id. The controller must answer 100 (UNKNOWN_TOPIC_ID) for an id that it has
    removed. Versions 0 and 1 carry the name, and are answered 3 (UNKNOWN_TOPIC_OR_PARTITION).

    ## Why it matters
    A leader of the deleted topic would change the ISR of its successor, whose replicas it knows nothing about.

    ## Evidence needed
    The controller's request log. KRaft: the metadata log from its beginning or from a snapshot. The request is located
    between records that the same controller wrote: others have the clock of another host. ZooKeeper: the control requests
    to the controller's own broker, which show when another topic took over the name.

    ## What is allowed
    A request that arrived while the topic was being removed. In ZooKeeper mode a topic keeps its id until the controller
    has finished its deletion.

    ## What to do
    Restart the broker that sent the request: it still leads a topic that is deleted. Check the ISR of the topic that
    has the name now with `kafka-topics.sh --describe`, and keep its leader running until all members have caught up
    (metric `FetcherLagMetrics`, `ConsumerLag`, of their brokers). Controllers refuse unknown ids since 3.3: report the
    lines.

    ## Example
    A RemoveTopicRecord removes orders (id A). Two seconds later its former leader sends AlterPartition for id A, and is
    answered 0.

    ## References
    ReplicationControlManager.alterPartition, KafkaController.tryProcessAlterPartition; KIP-516, KIP-841.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the record that removed the topic": "removed_ref",
        "the first statement of another topic of the name": "superseding_ref",
        "the record that the controller wrote": "committed_ref",
        "the partition's state before": "state_ref",
    }
    expected = "error {UNKNOWN_TOPIC_ID}, or {UNKNOWN_TOPIC_OR_PARTITION} below version 2"
    observed = "error {code} for topic id {topic_id}"
    because = _BECAUSE

    def applies(self) -> Column:
        by_id = col("api_version") >= TOPIC_ID_ALTER_PARTITION_VERSION
        # below version 2 the same code is for a partition that an existing topic does not have
        by_name = (col("code") == Errors.UNKNOWN_TOPIC_OR_PARTITION) & ~holds(col("without_partition"))
        refused = by_id & (col("code") == Errors.UNKNOWN_TOPIC_ID) | ~by_id & by_name
        return refused | col("code").isin(Errors.NONE, Errors.NEW_LEADER_ELECTED)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("code").isin(Errors.UNKNOWN_TOPIC_ID, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        deleted, superseded = col("topic_deleted"), col("superseding_ref").isNotNull()
        in_zookeeper = col("zookeeper") & col("topic_known")
        not_covered = ~in_zookeeper & ~(col("log_complete") & col("log_whole") & col("covered"))
        exists = "no error {UNKNOWN_TOPIC_ID} or {UNKNOWN_TOPIC_OR_PARTITION} while the topic exists"
        refusal = "error {code} for partition {partition} of {topic}"
        topic_exists = OwnSentences(expected=exists, observed=refusal, because=_BECAUSE[1:])
        if_removed = (
            "error {UNKNOWN_TOPIC_ID}, or {UNKNOWN_TOPIC_OR_PARTITION} below version 2, if the topic was removed before"
        )
        return first_of(
            fenced(refused & (deleted | superseded), observed=refusal),
            unverifiable(
                refused & col("topic").isNull(),
                _REMOVAL_UNKNOWN,
                expected=exists,
                observed="error {code} for partition {partition} of topic id {topic_id}",
                because=_BECAUSE[1:],
            ),
            unverifiable(refused, _REMOVAL_UNKNOWN, **topic_exists),
            violation(col("removed_before") | superseded),
            unverifiable(
                deleted,
                "the topic was removed about when the request came",
                expected=if_removed,
                because=("topic {topic} with id {topic_id} was removed about when the request came", *_BECAUSE[1:]),
            ),
            unverifiable(
                col("ambiguous_name"), "the request names the topic, and several topics had the name", **topic_exists
            ),
            passed(col("committed").isNotNull(), **topic_exists),
            unverifiable(not_covered & col("topic").isNull(), _NOT_COVERED, expected=if_removed, because=_BECAUSE[1:]),
            unverifiable(not_covered, _NOT_COVERED, expected=if_removed, observed=refusal, because=_BECAUSE[1:]),
            otherwise=passed(**topic_exists),
        )
