"""MD-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("MD-04", frame="metadata_answers", kip="KIP-232", severity=INFO, since="2.1")
class UnreliableEpochReturned(Rule):
    """Observation: a broker returned leader epochs to clients by Metadata 7 or 8.

    ## What it checks
    Metadata 7 and 8 state leader epochs that a client cannot rely on: up to 2.3 a broker takes them from the last
    UpdateMetadata, and during a reassignment the controller raised the leader epoch but published the previous one. Brokers of
    2.4 and later have Metadata 9, but answer the older versions to older clients. Each leader epoch of a partition that a broker
    process returned in these versions counts as one `pass`.

    ## Why it matters
    A client up to 2.3 that uses such an epoch is answered 74 until the next election. Clients since 2.4 ignore the leader
    epochs of these versions, and so can't validate positions.

    ## Evidence needed
    The broker's request log.

    ## What is allowed
    Every such response is allowed: the broker or the client supports no newer version.

    ## What to do
    Nothing was lost. If clients of 2.3 or older are refused with 74 for long, an election ends it, for instance a
    restart of the partition's leader. Upgrade brokers and clients to 2.4 or later; from then on clients can also validate
    positions.

    ## Example
    A reassignment moves orders-0 to leader epoch 5. Metadata 8 still returns 4, and consumers that state it are refused.

    ## References
    KAFKA-9212; MetadataResponse.hasReliableLeaderEpochs; KIP-232, KIP-320.
    """

    evidence = {"the Metadata request and its answer": "answer_ref"}
    expected = "Metadata 9, whose leader epochs can be relied on"
    observed = "leader epoch {leader_epoch} of {topic}-{partition} in Metadata {api_version}"
    because = (
        "clients of 2.4 and later ignore leader epochs of Metadata 7 and 8, which could lag behind LeaderAndIsr",
    )

    def applies(self) -> Column:
        return ~col("reliable")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC), otherwise=passed())
