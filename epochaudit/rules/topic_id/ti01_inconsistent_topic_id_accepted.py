"""TI-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.inferred_topic_ids import is_inferred
from epochaudit.rules.reasons import CONTROL_REQUESTS_MISSING
from epochaudit.rules.rule import (
    CRITICAL,
    Branch,
    OwnSentences,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

_BROUGHT = "LeaderAndIsr {correlation_id} of controller {controller_id} brought topic id {topic_id} and was answered {error_code}"
_CONSISTENT = "no error {INCONSISTENT_TOPIC_ID} unless the replica has another topic id"
_UNLESS_ANOTHER = OwnSentences(expected=_CONSISTENT, because=(_BROUGHT,))


@rule("TI-01", frame="control", kip="KIP-516", severity=CRITICAL, since="2.8")
class InconsistentTopicIdAccepted(Rule):
    """A LeaderAndIsr with another topic id than the replica's was accepted.

    ## What it checks
    LeaderAndIsr 5+ carries the topic id. A broker whose replica has another id must answer 103 (INCONSISTENT_TOPIC_ID) for
    the partition, before it compares epochs.

    ## Why it matters
    The replica belongs to another topic of the same name. Serving it mixes two topics' records.

    ## Evidence needed
    The request log with the LeaderAndIsr that gave the replica its id, and for a breach the broker's process since then: the
    id survives a restart (partition.metadata), but not a new disk, nor an operator who removed the file.

    ## What is allowed
    An id that is missing on either side is consistent by definition. An accepted StopReplica with deletePartition ends the
    old id. So does a LeaderAndIsr of type FULL, which a KRaft controller sends in a migration: since 3.6.2 the broker
    renames each replica that it does not list under the same id to `-stray`, before it compares ids. That such a controller
    marks a partition as new proves nothing, as it marks all. A failed log directory is answered 56 first. If another id was
    accepted, only that request is a breach, not its repetition and not the next LeaderAndIsr with the former id. Where a
    correlation id of the controller's connection is missing, a request is, and it may have deleted the replica.

    2.8 opens the log after it has looked at the id: of the first LeaderAndIsr for a partition that a process gets, it neither
    compares nor stores the id. If the second one brings another, it is accepted, too (exposed). Where the replica may have been
    there before, its own id is not known until the second one is accepted.

    ## What to do
    Move the leadership away from this broker, and compare the `topic_id` in the folder's partition.metadata with
    `kafka-topics.sh --describe`. If they differ, stop the broker, move the folder aside without deleting it, and start
    it: the replica of the present topic is copied. Consumers that read from it may have got both topics' records.
    Brokers since 3.0 refuse such a request: report the lines. Upgrade 2.8, which does not always compare.

    ## Example
    orders-0 has id A. A LeaderAndIsr for orders-0 with id B is answered 0 without a deletion in between.

    ## References
    ReplicaManager.becomeLeaderOrFollower, Partition.topicId, LogManager.findStrayReplicas, MigrationPropagator; KIP-516,
    LeaderAndIsr; KAFKA-15605.
    """

    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the LeaderAndIsr that gave the replica its topic id": "held_topic_id_ref",
        "the LeaderAndIsr that gave the former replica its id": "moved_aside_ref",
        "the broker's own line": "line_ref",
    }
    expected = "partition error {INCONSISTENT_TOPIC_ID}: the replica has topic id {held_topic_id}"
    observed = "partition error {error_code} for topic id {topic_id}"
    because = (
        "broker {node} held {topic}-{partition} under topic id {held_topic_id} and had received no request to delete it",
        _BROUGHT,
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == LEADER_AND_ISR)
            & ~is_inferred(col("topic_id"))
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") != Errors.KAFKA_STORAGE_ERROR)
        )

    def verdict(self) -> tuple[Branch, ...]:
        refused, held = col("error_code") == Errors.INCONSISTENT_TOPIC_ID, col("held_topic_id")
        another = held != col("topic_id")
        of_own = OwnSentences(
            expected="no error {INCONSISTENT_TOPIC_ID} for topic id {held_topic_id}, which the replica has",
            because=("broker {node} held {topic}-{partition} under topic id {held_topic_id}", _BROUGHT),
        )
        return first_of(
            fenced(
                another & refused & ~col("named_uncompared"),
                observed="partition error {INCONSISTENT_TOPIC_ID} for topic id {topic_id}",
            ),
            passed(
                col("restores_topic_id"),
                expected="the topic id that the replica had before a LeaderAndIsr with another id was accepted",
                because=(_BROUGHT,),
            ),
            unverifiable(
                col("named_uncompared") & (refused | another),
                "the broker may not have compared the topic id in the LeaderAndIsr before, as Kafka 2.8 in the first one of a process",
                **_UNLESS_ANOTHER,
            ),
            *_of_another_id(another),
            violation((held == col("topic_id")) & refused, **of_own),
            passed(held == col("topic_id"), **of_own),
            *_of_unknown_id(refused),
            otherwise=unverifiable(
                None, "the topic id that the replica had before is not in the evidence", **_UNLESS_ANOTHER
            ),
        )


def _of_another_id(another: Column) -> tuple[Branch, ...]:
    """The branches for a request with another topic id than the replica's, which the broker accepted."""
    return (
        unverifiable(another & col("requests_missing_since_named"), CONTROL_REQUESTS_MISSING, **_UNLESS_ANOTHER),
        unverifiable(
            another & ~col("named_in_process"),
            "the broker was restarted in between, and which topic id was on its disk then is not in the evidence",
            **_UNLESS_ANOTHER,
        ),
        unverifiable(
            another & col("named_without_storing") & col("kafka_version").isNull(),
            "the broker's Kafka version is not in the evidence: 2.8 does not store the topic id of the first LeaderAndIsr",
            **_UNLESS_ANOTHER,
        ),
        exposed(
            another & col("named_without_storing"),
            "Kafka 2.8 does not store the topic id of the first LeaderAndIsr for a partition",
            expected="partition error {INCONSISTENT_TOPIC_ID}: the replica was created for topic id {held_topic_id}",
            because=(
                "the first LeaderAndIsr for {topic}-{partition} had brought topic id {held_topic_id}, and no request had deleted it",
                _BROUGHT,
            ),
        ),
        violation(another),
    )


def _of_unknown_id(refused: Column) -> tuple[Branch, ...]:
    """The branches where the topic id of the replica, if it has one, is not recorded."""
    moved_aside = col("moved_aside_ref").isNotNull()
    marks_all = holds(col("is_kraft_controller"))  # MigrationPropagator
    return (
        unverifiable(
            refused, "refused for its topic id, but the replica's own id is not in the evidence", **_UNLESS_ANOTHER
        ),
        unverifiable(
            moved_aside & col("kafka_version").isNull(),
            "the broker's Kafka version is not in the evidence: up to 3.6.1 no LeaderAndIsr of type FULL ends the former topic id",
            **_UNLESS_ANOTHER,
        ),
        passed(
            moved_aside,
            expected=_CONSISTENT,
            because=(
                "a LeaderAndIsr of type FULL made the broker move the replica of the former topic id aside",
                _BROUGHT,
            ),
        ),
        passed(
            (col("is_new") & ~marks_all) | col("deleted_ref").isNotNull(),
            expected=_CONSISTENT,
            because=("the broker had no replica of {topic}-{partition}, or had deleted it", _BROUGHT),
        ),
    )
