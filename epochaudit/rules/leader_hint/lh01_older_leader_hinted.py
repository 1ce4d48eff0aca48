"""LH-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import LOW, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("LH-01", frame="leader_hints", kip="KIP-951", severity=LOW, since="3.7")
class OlderLeaderHinted(Rule):
    """A broker refused a leader epoch as old, and named a leader of no newer one.

    ## What it checks
    A Fetch of version 16 or later that is answered 74 (FENCED_LEADER_EPOCH) may be given the current leader and its epoch
    (currentLeader). The broker refused because it knew a newer leader epoch, so the hint must be of a newer one than the request
    states.

    ## Why it matters
    A client takes a leader over only if its epoch is newer than its own. With an older hint it goes on asking the same broker, and is
    refused, until it gets new metadata.

    ## Evidence needed
    The brokers' request logs as JSON. Only requests that state the partition's leader epoch are judged. For a violation, the metadata
    log or the request log of a KRaft controller.

    ## What is allowed
    An answer without a hint: leader epoch -1. If the topic was deleted and created again, the hint may be of the new topic, as the broker
    looks it up by name. With ZooKeeper the hint may come from UpdateMetadata, which may be older than what the broker knew of
    the partition. Both are unverifiable. A hint with error 6 (NOT_LEADER_OR_FOLLOWER) is not judged: a broker that has no replica may
    be behind the client.

    ## What to do
    Nothing is lost. Check `epochaudit timeline TOPIC-PARTITION` for how long the client asked in vain; a restart of the client gives it
    new metadata. Report the broker's version and the request lines to the Kafka project.

    ## Example
    A consumer fetches orders-0 in leader epoch 6 and is answered 74 with broker 2 as leader of epoch 6.

    ## References
    KafkaApis.getCurrentLeader; Partition.checkCurrentLeaderEpoch; BrokerMetadataPublisher.onMetadataUpdate; KIP-951.
    """

    evidence = {"the request and its answer": "answer_ref"}
    expected = "a hint above leader epoch {leader_epoch}, or none"
    observed = "broker {hinted_leader} as leader of epoch {hinted_leader_epoch}"
    because = (
        "Fetch {correlation_id} of {client_id} asks for {topic}-{partition} in leader epoch {leader_epoch}",
        "broker {node} refused this leader epoch as old",
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            fenced(
                (col("hinted_leader_epoch") > col("leader_epoch")) & (col("hinted_leader") < 0),
                observed="leader epoch {hinted_leader_epoch}, without a leader",
            ),
            fenced(col("hinted_leader_epoch") > col("leader_epoch")),
            passed(col("hinted_leader_epoch").isNull() | (col("hinted_leader_epoch") < 0), observed="no hint"),
            unverifiable(col("recreated"), "the name had several topics, and the hint may be about another one"),
            unverifiable(
                ~col("kraft"),
                "whether the broker got the hint from UpdateMetadata of ZooKeeper mode is not in the evidence",
            ),
            otherwise=violation(),
        )
