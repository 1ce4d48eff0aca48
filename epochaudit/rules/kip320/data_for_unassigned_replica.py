"""FF-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip320.leader_epoch_fence import HOLE, UNKNOWN_LEADER_EPOCH
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

NOT_LEADER_OR_FOLLOWER: Final = 6
FIRST_REFUSING: Final = 3_003_000


@rule("FF-03", frame="fetches", kip="KIP-320", severity=HIGH, since="3.3")
class DataForUnassignedReplica(Rule):
    """A leader served a follower that is not among the partition's replicas.

    ## What it checks
    A follower's Fetch at a leader whose assignment does not hold the follower. From 3.3 on it must be answered 75
    (UNKNOWN_LEADER_EPOCH) if it states a leader epoch and 6 (NOT_LEADER_OR_FOLLOWER) if not; before, with code 0 and no data.

    ## Why it matters
    A replica that was taken out of the assignment, or never was in it, copies data that nobody accounts for. The leader
    keeps no state of it; if it is assigned again its log may hold what was truncated elsewhere.

    ## Evidence needed
    The leader's request log and its "starts at leader epoch" lines, and the replicas of that leader epoch: LeaderAndIsr
    requests, or the metadata log.

    ## What is allowed
    Every replica that any state of the same leader epoch names: adding replicas in KRaft does not change the epoch, taking
    one out always does. Kafka before 3.3 answers code 0 without records.

    ## Example
    orders-0 was moved from brokers 1, 2, 3 to 1, 2, 4. Broker 3 goes on fetching from the leader and gets records.

    ## References
    Partition.fetchRecords, Partition.followerReplicaOrThrow; KAFKA-13790, KAFKA-16120.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "error 75, or 6 without a leader epoch, for replica {replica_id}"
    observed = "error {error_code} with {records_size} bytes of records"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}, whose replicas are {assigned}",
        "{client_id} fetched as replica {replica_id} and was answered {error_code}",
    )

    def applies(self) -> Column:
        refused = col("error_code").isin(UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER)
        stranger = F.coalesce(~F.array_contains("assigned", col("replica_id")) & col("held_leader"), F.lit(False))
        return (col("replica_id") >= 0) & ((col("error_code") == 0) | refused & stranger)

    def verdict(self) -> tuple[Branch, ...]:
        served, version = col("error_code") == 0, col("kafka_version")
        return first_of(
            unverifiable(
                col("leader_epoch").isNull() & col("held_min").isNotNull(),
                "the leader epoch changed while the request was worked on, or the one at its arrival is not recorded",
            ),
            unverifiable(col("leader_epoch").isNull(), "the leader epoch that the broker held is not recorded"),
            unverifiable(col("assigned").isNull(), "the replicas of the leader epoch are not in the evidence"),
            fenced(~served),
            passed(F.array_contains("assigned", col("replica_id"))),
            unverifiable(
                col("held_just_before") < col("held_min"),
                "the broker's epoch changed just before, and request lines may be written late",
            ),
            unverifiable(col("held_outdated"), HOLE),
            violation(col("records_size") > 0),
            violation(version >= FIRST_REFUSING),
            unverifiable(version.isNull(), "the version of the broker is not in the evidence"),
            unverifiable(col("records_size").isNull(), "whether records were delivered is not in the evidence"),
            otherwise=passed(),
        )
