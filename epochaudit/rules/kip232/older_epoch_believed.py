"""MD-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.client_epochs import IGNORED, REFUSED, SEEN, SERVED
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

OLDER = "older_epoch"


@rule("MD-01", frame="client_epochs", kip="KIP-232", severity=HIGH, since="2.1")
class OlderEpochBelieved(Rule):
    """A client went back to an older leader epoch than it had known.

    ## What it checks
    Two things. A client's log: what it takes over as the last seen leader epoch of a partition is never below the one before.
    And the leader epochs that a consumer states in Fetch on one connection: after the broker has served it in one, it is not
    served in an older one there.

    ## Why it matters
    A client that believes older metadata goes to a leader that was replaced: it reads what may be truncated, or hears of truncated
    positions that are none.

    ## Evidence needed
    The client's log at DEBUG (org.apache.kafka.clients.Metadata), or the request log of the broker. A client's requests at two
    brokers are in no order that the logs tell.

    ## What is allowed
    An older epoch that the client ignored, or that the broker refused, is fenced. A topic that was created again starts anew:
    for a line of a client's log, a topic id of the name has to be known, and only one. A client that forgot the partition knows no
    epoch before. Clients that share a client id have connections of their own.

    ## Example
    A consumer is answered by broker 2 in leader epoch 5 of orders-0. It asks a broker that was cut off, takes over leader epoch 4,
    and fetches from broker 2 in it.

    ## References
    KIP-232, Proposed Changes; Metadata.updateLatestMetadata, Metadata.updateLastSeenEpochIfNewer; KAFKA-12257.
    """

    caused_by = ("FF-01", "MD-03")
    evidence = {
        "the line or request with the older leader epoch": "own_ref",
        "the request with the newer one before": "newer_ref",
    }
    expected = "a leader epoch of {topic}-{partition} not below {previous_epoch}"
    observed = "leader epoch {leader_epoch} of {topic}-{partition}, {how} by {client_id}"
    because = ("{client_id} had known leader epoch {previous_epoch} of {topic}-{partition} before",)

    def applies(self) -> Column:
        ignored = (col("kind") == IGNORED) & (col("reason") == OLDER)
        return col("kind").isin(SEEN, SERVED) | ignored | ((col("kind") == REFUSED) & col("previous_epoch").isNotNull())

    def verdict(self) -> tuple[Branch, ...]:
        older = col("leader_epoch") < col("previous_epoch")
        unknown = col("topic_id").isNull() & ((col("kind") == SEEN) | col("several_incarnations"))
        return first_of(
            fenced(col("kind").isin(IGNORED, REFUSED)),
            unverifiable(older & unknown, "whether the topic had been created again is not in the evidence"),
            violation(older),
            otherwise=passed(),
        )
