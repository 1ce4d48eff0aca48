"""UM-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import UPDATE_METADATA
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import LEADER_DURING_DELETE
from epochaudit.rules.reasons import RECREATION_UNKNOWN, RESTARTED_OR_EXPIRED
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable

_BECAUSE = (
    "broker {node} had leader epoch {metadata_leader_epoch} of {topic}-{partition} from an UpdateMetadata that it accepted",
    "UpdateMetadata {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch}, and was accepted",
)


@rule("UM-02", frame="control", kip="KIP-232", severity=HIGH, since="0.8")
class StaleMetadataPublished(Rule):
    """An UpdateMetadata set the leader epoch in a broker's metadata cache back.

    ## What it checks
    The metadata cache of a ZooKeeper-mode broker applies every partition state of an UpdateMetadata that it accepts, and
    compares neither leader epoch nor topic id. The rule compares each state with the one that the same process got before
    for the partition: under one topic id the leader epoch must not fall, and neither a state nor the
    deletion of a former topic must replace the state of its successor.

    ## Why it matters
    The broker returns the old leader and epoch to clients. Clients without KIP-320 follow it and read from a replica that
    no longer leads. Newer clients are answered 74 until they ask another broker. KIP-232's Motivation describes this
    staleness. Of a deleted topic the broker returns the id: consumers that fetch by id are answered 100 (UNKNOWN_TOPIC_ID),
    also at this broker for the present topic.

    ## Evidence needed
    The broker's request log at DEBUG with the UpdateMetadata requests of the process, and its server.log for restarts.
    Without server.log a newer broker epoch may be that of a restart or of a session with ZooKeeper that expired, after which
    the cache is the same.

    ## What is allowed
    A topic that is being deleted is announced with leader -2 and leader epoch 0. Another topic id starts at epoch 0. A
    broker that has just started has an empty cache. A request of an old controller is refused as a whole: UM-01.
    Controllers up to 2.3 raise the leader epoch of a reassignment in LeaderAndIsr but publish the previous one
    (KAFKA-9212): the cache lags, but its epoch does not fall.

    ## What to do
    Restart the broker, or have a new controller elected: either sends the present metadata again. Clients of 2.4 and
    later keep the newer epoch that they know; restart older ones that are stuck at the old leader. No release with
    ZooKeeper compares leader epochs here: the metadata log of KRaft does not go back, and 4.0 has no ZooKeeper.

    ## Example
    Broker 2 has leader epoch 4 of orders-0 in its cache. A delayed UpdateMetadata with leader epoch 0 is answered 0.

    ## References
    ZkMetadataCache.updateMetadata; KIP-232, Motivation; KAFKA-9212.
    """

    caused_by = ("UM-01", "BE-01")
    evidence = {
        "the UpdateMetadata request and its answer": "request_ref",
        "the newer state that the broker had received": "metadata_ref",
        "the announced deletion of the topic with this id": "own_deletion_ref",
        "the broker's own line": "line_ref",
    }
    expected = "leader epoch {metadata_leader_epoch} or newer for {topic}-{partition}"
    observed = "leader epoch {leader_epoch} with leader {leader}, answered {request_error_code}"
    because = (
        *_BECAUSE,
        "the metadata cache compares no leader epochs, so that the broker serves the older one from then on",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == UPDATE_METADATA)
            & (col("request_error_code") == Errors.NONE)
            & ((col("leader") != LEADER_DURING_DELETE) | (_came_back() & col("own_deletion_ref").isNotNull()))
        )

    def verdict(self) -> tuple[Branch, ...]:
        cached, one_id = col("metadata_leader_epoch"), col("topic_id") == col("metadata_topic_id")
        first = "any leader epoch, as the first that the broker has of {topic}-{partition}"
        return first_of(
            *_another_topic_id(),
            passed(col("leader_epoch") >= cached, because=_BECAUSE),
            unverifiable(
                cached.isNull() & (col("leader_epoch") < col("former_metadata_leader_epoch")),
                RESTARTED_OR_EXPIRED,
                expected="leader epoch {former_metadata_leader_epoch} or newer for {topic}-{partition}, unless broker {node} has"
                " restarted",
                because=_BECAUSE,
            ),
            passed(
                cached.isNull() & (col("process_begun") | (col("metadata_leader") == LEADER_DURING_DELETE)),
                expected=first,
                because=_BECAUSE,
            ),
            unverifiable(
                cached.isNull(),
                "no earlier UpdateMetadata of the partition is in the evidence",
                expected="no leader epoch below the one that the broker had of {topic}-{partition}",
                because=_BECAUSE,
            ),
            passed(
                ~one_id,
                expected="any leader epoch, as another topic has the name now",
                because=(
                    "the broker had topic id {metadata_topic_id} of {topic}, the request brings {topic_id}",
                    *_BECAUSE[1:],
                ),
            ),
            unverifiable(
                one_id.isNull() & col("topic_deletion_seen"),
                RECREATION_UNKNOWN,
                expected="leader epoch {metadata_leader_epoch} or newer for {topic}-{partition}, unless {topic} was created again",
                because=_BECAUSE,
            ),
            unverifiable(
                col("metadata_overlaps"),
                "two UpdateMetadata requests overlap and no state-change.log orders them",
                expected="leader epoch {metadata_leader_epoch} or newer for {topic}-{partition}, if that one was applied before",
                because=(
                    "broker {node} accepted an UpdateMetadata with leader epoch {metadata_leader_epoch} of {topic}-{partition}",
                    *_BECAUSE[1:],
                ),
            ),
            otherwise=exposed(),
        )


def _came_back() -> Column:
    """The state's topic id is another than the one that the broker has, and was there before."""
    another = holds(col("topic_id") != col("metadata_topic_id"))
    return another & col("published_before") & ~col("metadata_deleted")


def _another_topic_id() -> tuple[Branch, ...]:
    """Of a topic id that came back."""
    back, removes = _came_back(), col("leader") == LEADER_DURING_DELETE
    deleted = col("own_deletion_ref").isNotNull()
    expected = "a state of {topic} with topic id {metadata_topic_id}, unless the topic with that id was deleted"
    brought = (
        "broker {node} had topic id {metadata_topic_id} of {topic} from an UpdateMetadata that it accepted",
        "UpdateMetadata {correlation_id} of controller {controller_id} brought topic id {topic_id}, which the broker had had before",
    )
    return (
        unverifiable(
            back & deleted & col("metadata_overlaps"),
            "two UpdateMetadata requests overlap and no state-change.log orders them",
            expected=expected,
            because=brought,
        ),
        exposed(
            back & removes,
            expected="topic id {metadata_topic_id} of {topic}: the deletion of topic id {topic_id} had been announced before",
            observed="the deletion of topic id {topic_id} once more, answered {request_error_code}",
            because=(
                *brought,
                "the metadata cache compares no topic ids, so that the broker has no metadata of {topic} from then on",
            ),
        ),
        exposed(
            back & deleted,
            expected="topic id {metadata_topic_id} of {topic}: the topic with topic id {topic_id} was deleted before",
            observed="topic id {topic_id} with leader {leader}, answered {request_error_code}",
            because=(
                "an UpdateMetadata with leader -2 had announced to broker {node} the deletion of topic id {topic_id}",
                *brought,
                "the metadata cache compares no topic ids, so that the broker serves the deleted topic from then on",
            ),
        ),
        unverifiable(
            back,
            "the topic id was replaced and is there again, and no deletion shows which is older (request log)",
            expected=expected,
            because=brought,
        ),
    )
