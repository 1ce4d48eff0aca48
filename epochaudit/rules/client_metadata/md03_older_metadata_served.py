"""MD-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("MD-03", frame="metadata_answers", kip="KIP-232", severity=HIGH, since="2.1")
class OlderMetadataServed(Rule):
    """A broker returned an older leader epoch to clients than it had returned before.

    ## What it checks
    The leader epochs in the Metadata responses of one broker process. After it has returned a leader epoch of a partition,
    it must not answer a later request with a lower one for the same topic. The subject is a leader epoch that a process
    returned for a partition; its evidence is the last request that was answered with it.

    ## Why it matters
    Clients are sent to a replica that no longer leads. Clients that don't know the newer epoch follow: old ones read
    records that may be truncated, newer ones are answered 74 until another broker returns the newer epoch.

    ## Evidence needed
    The broker's request log. For the verdict, the source of the broker's metadata: UpdateMetadata requests, or a metadata
    log.

    ## What is allowed
    Brokers may differ from each other. A restarted process starts again, and so does another topic id. If a name had
    several topics and no id distinguishes them, the rule claims nothing. Request lines may be written late, so half a
    second is tolerated. Metadata 7 and 8 return unreliable leader epochs (KAFKA-9212). In ZooKeeper mode the cache applies
    every accepted UpdateMetadata without a fence: exposed. A KRaft broker's metadata only moves forward: violation.

    ## What to do
    Restart the broker: with ZooKeeper the controller sends it all metadata again, in KRaft it reads the metadata log.
    Clients that know the newer epoch recover by themselves; check the others for TR-01. Exposed means ZooKeeper mode,
    where no release compares leader epochs in the metadata cache; it ends with 4.0. Brokers of 2.2.0 to 2.5.0 may also
    have missed an update (KAFKA-9839).

    ## Example
    Broker 2 returned leader epoch 4 of orders-0. After a delayed UpdateMetadata it returns epoch 0.

    ## References
    KIP-232, Motivation; ZkMetadataCache.updateMetadata, KRaftMetadataCache; KAFKA-9212, KAFKA-9839.
    """

    caused_by = ("UM-02", "UM-01", "BE-01")
    evidence = {
        "the Metadata request and its answer": "answer_ref",
        "the answer with the newer leader epoch before": "newer_ref",
        "the UpdateMetadata that brought the older leader epoch": "published_ref",
    }
    expected = "leader epoch {newer_epoch} or newer for {topic}-{partition}"
    observed = "leader epoch {leader_epoch} with leader {answered_leader} in Metadata {api_version}"
    because = (
        "broker {node} had answered leader epoch {newer_epoch} of {topic}-{partition} in an earlier Metadata response",
        "it then answered {client_id} with leader epoch {leader_epoch}, for the same topic and in the same process",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("newer_epoch").isNull(),
                expected="no leader epoch of {topic}-{partition} below those of earlier answers",
                because=("no earlier answer of broker {node} has a newer leader epoch of {topic}-{partition}",),
            ),
            unverifiable(~col("reliable"), "Metadata 7 and 8 state leader epochs that can't be relied on"),
            unverifiable(
                col("ambiguous_name"),
                AMBIGUOUS_TOPIC,
                expected="leader epoch {newer_epoch} or newer for {topic}-{partition}, if it is the same topic",
                because=(
                    "broker {node} had answered leader epoch {newer_epoch} of {topic}-{partition} in an earlier Metadata response",
                    "it then answered {client_id} with leader epoch {leader_epoch}, in the same process",
                ),
            ),
            exposed(col("published"), "a broker in ZooKeeper mode compares no leader epochs of its metadata"),
            violation(col("from_log")),
            otherwise=unverifiable(None, "whether the broker follows a metadata log is not in the evidence"),
        )
