"""MD-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import CLIENT_EPOCH_IGNORED, CLIENT_EPOCH_SEEN, CLIENT_TOPIC_ID_CHANGED
from epochaudit.replay.data_plane.client_epochs import REFUSED, SERVED
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, fenced, first_of, passed, rule, unverifiable, violation

OLDER = "older_epoch"


@rule("MD-01", frame="client_epochs", kip="KIP-232", severity=HIGH, since="2.1")
class OlderEpochBelieved(Rule):
    """A client went back to an older leader epoch than it had known.

    ## What it checks
    Two things. In a client's log, the last seen leader epoch of a partition never falls. On one connection, a consumer that
    the broker has served in a leader epoch is not served in an older one later.

    ## Why it matters
    A client that accepts older metadata fetches from a leader that was replaced. It reads records that may be truncated, or
    reports truncations that did not happen.

    ## Evidence needed
    The client's log at DEBUG (org.apache.kafka.clients.Metadata), or the broker's request log. The logs don't order a
    client's requests at two brokers.

    ## What is allowed
    An older epoch that the client ignored or the broker refused is fenced. A re-created topic starts again at 0: for a line
    of a client's log, the evidence must have exactly one topic id of the name. A client that forgot the partition has no
    earlier epoch. A Java client that has lost a topic's id trusts any leader epoch, as after it bootstrapped again
    (`metadata.recovery.strategy=rebootstrap`, the default from 4.0): an older one of the same topic is exposed, if the log
    has the lines of one client alone, from its start. Clients that share a client id have separate connections. Without
    topic ids, requests are judged where a controller's state-change.log shows that the topic was created once.

    ## What to do
    Restart the client, and see whether TR-01 reports that it passed a truncation. Find the broker that gave out the
    older epoch (MD-03, UM-02) and restart it. Java clients trust leader epochs from 2.4 on, with brokers of 2.4 or
    later: upgrade both. If the topic was created again, clients before 3.0, but for 2.8.2, confuse its epochs (KAFKA-12257).
    Exposed means that the client asked the outdated broker for metadata just after it had lost the topic's id.

    ## Example
    Broker 2 answers a consumer in leader epoch 5 of orders-0. The consumer asks an isolated broker for metadata, accepts
    leader epoch 4, and fetches from broker 2 in it.

    ## References
    KIP-232, Proposed Changes; Metadata.updateLatestMetadata, Metadata.updateLastSeenEpochIfNewer; KAFKA-12257.
    """

    caused_by = ("FF-01", "MD-03")
    evidence = {
        "the line or request with the older leader epoch": "own_ref",
        "the request with the newer one before": "newer_ref",
        "the line with the newer one before": "known_ref",
    }
    expected = "a leader epoch of {topic}-{partition} not below {previous_epoch}"
    observed = "leader epoch {leader_epoch} of {topic}-{partition}, {how} by {client_id}"
    because = ("{client_id} had known leader epoch {previous_epoch} of {topic}-{partition} before",)

    def applies(self) -> Column:
        ignored = (col("kind") == CLIENT_EPOCH_IGNORED) & (col("reason") == OLDER)
        return (
            col("kind").isin(CLIENT_EPOCH_SEEN, SERVED)
            | ignored
            | ((col("kind") == REFUSED) & col("previous_epoch").isNotNull())
            | (_names_topic_id() & col("topic_id").isNotNull() & col("previous_epoch").isNotNull())
        )

    def verdict(self) -> tuple[Branch, ...]:
        older = col("leader_epoch") < col("previous_epoch")
        unknown = col("topic_id").isNull() & ((col("kind") == CLIENT_EPOCH_SEEN) | ~col("created_once"))
        return first_of(
            fenced(
                col("kind").isin(CLIENT_EPOCH_IGNORED, REFUSED),
                expected="no leader epoch below the one that {client_id} had known",
            ),
            unverifiable(
                older & unknown,
                "whether the topic had been created again is not in the evidence",
                expected="a leader epoch of {topic}-{partition} not below {previous_epoch}, unless {topic} was created again",
            ),
            unverifiable(
                older & _names_topic_id() & ~col("one_client"),
                "the log does not have the lines of one client alone, from its start",
                expected="a leader epoch of {topic}-{partition} not below {previous_epoch}, if the same process had known that",
                because=("a line of {client_id} before states leader epoch {previous_epoch} of {topic}-{partition}",),
            ),
            exposed(older & _names_topic_id(), "a client that has lost the topic id trusts any leader epoch"),
            violation(older),
            passed(
                col("previous_epoch").isNull(),
                expected="any leader epoch of {topic}-{partition}, as none is recorded before",
            ),
            otherwise=passed(),
        )


def _names_topic_id() -> Column:
    """The line of a client that had lost the topic id, and takes over that of the only topic of the name."""
    return col("kind") == CLIENT_TOPIC_ID_CHANGED
