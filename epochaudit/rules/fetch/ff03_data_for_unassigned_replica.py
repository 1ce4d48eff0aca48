"""FF-03."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.api_versions import REPLICA_STATE_FETCH_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release
from epochaudit.rules.leader_epoch_fence import DELETED, EPOCH_LINE_MISSING, HAD_DELETED
from epochaudit.rules.reasons import (
    BROKER_VERSION_UNKNOWN,
    EPOCH_CHANGED_JUST_BEFORE,
    EPOCH_CHANGED_MEANWHILE,
    HELD_EPOCH_UNKNOWN,
)
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, fenced, first_of, passed, rule, unverifiable, violation

FIRST_REFUSING: Final = release("3.3")

ASKED: Final = "{client_id} fetched as replica {replica_id} and was answered {error_code}"


@rule("FF-03", frame="fetches", kip="KIP-320", severity=HIGH, since="3.3")
class DataForUnassignedReplica(Rule):
    """A leader served a follower that is not among the partition's replicas.

    ## What it checks
    A follower's Fetch at a leader whose assignment lacks the follower. Since 3.3 the leader must answer 75
    (UNKNOWN_LEADER_EPOCH) to a request with a leader epoch, and 6 (NOT_LEADER_OR_FOLLOWER) to one without. Older leaders
    answer 0, and may give it records.

    ## Why it matters
    A replica outside the assignment copies data without the leader tracking it. If the replica is assigned again, its log
    may contain records that were truncated elsewhere.

    ## Evidence needed
    The leader's request log and its "starts at leader epoch" lines. The replicas of that leader epoch, from LeaderAndIsr
    requests or from the metadata log. The metadata log must have no gap up to the request, because KRaft adds replicas
    within a leader epoch.

    ## What is allowed
    Every replica that any state of the same leader epoch lists is allowed: in KRaft, adding replicas does not change the
    epoch, and removing one always does. Kafka before 3.3 answers 0: it empties the first read of such a Fetch, but reads
    again without the check if the Fetch has waited. Records in its answer are exposed, an empty answer passes. If the version
    of the leader is not recorded, Fetch 15 and later show that it is newer. A broker that has deleted its replica leads
    nothing: an answer until its next recorded creation is unverifiable.

    ## What to do
    If the broker that fetches is none of the partition's replicas (`kafka-topics.sh --describe`), stop it, move the
    partition's folder out of its log directory, and start it. Do so before the partition is assigned to it again.
    Leaders since 3.3 refuse such a follower: report the lines with the leader's version. Exposed means an older leader:
    upgrade.

    ## Example
    orders-0 was moved from brokers 1, 2, 3 to 1, 2, 4. Broker 3 goes on fetching from the leader and gets records.

    ## References
    Partition.fetchRecords, Partition.followerReplicaOrThrow; before 3.3
    ReplicaManager.updateFollowerFetchState, DelayedFetch.onComplete; KAFKA-13790, KAFKA-16120.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the leader epoch the broker held": "held_ref",
        "what states the replicas of the leader epoch": "assigned_ref",
    }
    expected = (
        "error {UNKNOWN_LEADER_EPOCH}, or {NOT_LEADER_OR_FOLLOWER} without a leader epoch, for replica"
        " {replica_id}, which is not among the replicas {assigned}"
    )
    observed = "error {error_code} for replica {replica_id}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}, whose replicas are {assigned}",
        ASKED,
        "the answer held {records_size} bytes of records",
    )

    def applies(self) -> Column:
        refused = col("error_code").isin(Errors.UNKNOWN_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER)
        stranger = ~F.array_contains("assigned", col("replica_id")) & col("held_leader")
        return (col("replica_id") >= 0) & ((col("error_code") == Errors.NONE) | refused & stranger)

    def verdict(self) -> tuple[Branch, ...]:
        served, version = col("error_code") == Errors.NONE, col("kafka_version")
        # brokers since 3.5 have that request version
        refuses = (version >= FIRST_REFUSING) | (col("api_version") >= REPLICA_STATE_FETCH_VERSION)
        if_assigned = "a refusal, if replica {replica_id} is not among the replicas of the leader epoch"
        unassigned = "no records for replica {replica_id}, which is not among the replicas {assigned}"
        return first_of(
            unverifiable(col("was_deleted"), DELETED, expected=if_assigned, because=(HAD_DELETED, ASKED)),
            unverifiable(
                col("leader_epoch").isNull() & col("held_min").isNotNull(),
                EPOCH_CHANGED_MEANWHILE,
                expected=if_assigned,
            ),
            unverifiable(col("leader_epoch").isNull(), HELD_EPOCH_UNKNOWN, expected=if_assigned),
            unverifiable(
                col("assigned").isNull(),
                "the replicas of the leader epoch are not in the evidence",
                expected=if_assigned,
            ),
            fenced(
                ~served & col("deleting"),
                because=(*self.because, "about that time broker {node} deleted its replica of {topic}-{partition}"),
            ),
            fenced(~served),
            passed(
                F.array_contains("assigned", col("replica_id")),
                expected="an answer, as replica {replica_id} is among the replicas {assigned}",
            ),
            unverifiable(col("held_just_before") < col("held_min"), EPOCH_CHANGED_JUST_BEFORE, expected=if_assigned),
            unverifiable(col("epoch_line_missing"), EPOCH_LINE_MISSING, expected=if_assigned),
            unverifiable(
                ~col("assigned_known"),
                "the metadata log does not reach to the request without a gap: the replica may have been assigned by then",
                expected=if_assigned,
            ),
            violation(refuses),
            exposed(
                (version < FIRST_REFUSING) & (col("records_size") > 0),
                "Kafka before 3.3 reads a Fetch that waited again, without the check",
                expected=unassigned,
                observed="{records_size} bytes of records",
            ),
            unverifiable(version.isNull(), BROKER_VERSION_UNKNOWN, expected=if_assigned),
            unverifiable(
                col("records_size").isNull(),
                "whether records were delivered is not in the evidence",
                expected=unassigned,
            ),
            otherwise=passed(
                expected=unassigned + "; Kafka before 3.3 does not refuse it",
                observed="error {error_code} without records",
            ),
        )
