"""MD-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("MD-03", frame="metadata_answers", kip="KIP-232", severity=HIGH, since="2.1")
class OlderMetadataServed(Rule):
    """A broker told clients an older leader epoch than it had told before.

    ## What it checks
    The leader epochs in the Metadata answers of one broker process. Once it has told a leader epoch of a partition, no
    request that arrives later may be answered with a lower one for the same topic. The subject is a leader epoch that a
    process told for a partition, with the last request that was answered so.

    ## Why it matters
    Clients are sent to a replica that no longer leads. Those that had not heard of the newer epoch follow: old ones read
    what may be truncated, newer ones are answered 74 until another broker tells them better.

    ## Evidence needed
    The broker's request log. For the verdict, signs of what the broker's metadata comes from: UpdateMetadata requests, or a
    metadata log.

    ## What is allowed
    Brokers may differ from each other. A restarted process starts anew, and so does another topic id; where a name had several
    topics and no id tells them apart, nothing is claimed. Half a second is granted, as a request's line may be written
    late. Metadata 7 and 8 state leader epochs that can't be relied on (KAFKA-9212). In ZooKeeper mode the cache
    takes over what an accepted UpdateMetadata says, without a fence: exposed. A KRaft broker's metadata only moves
    forward: violation.

    ## Example
    Broker 2 told clients leader epoch 4 of orders-0. After a delayed UpdateMetadata it tells epoch 0.

    ## References
    KIP-232, Motivation; ZkMetadataCache.updateMetadata, KRaftMetadataCache; KAFKA-9212, KAFKA-9839.
    """

    caused_by = ("UM-02", "UM-01", "BE-01")
    evidence = {
        "the Metadata request and its answer": "answer_ref",
        "the answer with the newer leader epoch before": "newer_ref",
    }
    expected = "leader epoch {newer_epoch} or newer for {topic}-{partition}"
    observed = "leader epoch {leader_epoch} with leader {answered_leader} in Metadata {api_version}"
    because = (
        "broker {node} had told leader epoch {newer_epoch} of {topic}-{partition} in an earlier Metadata answer",
        "it then answered {client_id} with leader epoch {leader_epoch}, for the same topic and in the same process",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("newer_epoch").isNull()),
            unverifiable(~col("reliable"), "Metadata 7 and 8 state leader epochs that can't be relied on"),
            unverifiable(
                col("several_incarnations") & col("topic_id").isNull(),
                "the topic name had several incarnations and no topic id tells them apart",
            ),
            exposed(col("published"), "a broker in ZooKeeper mode compares no leader epochs of its metadata"),
            violation(col("from_log")),
            otherwise=unverifiable(None, "whether the broker follows a metadata log is not in the evidence"),
        )
