"""LI-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR
from epochaudit.kafka.errors import Errors
from epochaudit.rules.reasons import PARTITION_ANSWER_MISSING
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("LI-04", frame="control", kip="KIP-516", severity=MEDIUM, since="0.8")
class LeaderAndIsrAcceptedByStranger(Rule):
    """A broker accepted a LeaderAndIsr for a partition of which it is no replica.

    ## What it checks
    A LeaderAndIsr whose replica list does not name the broker must be answered 3 (UNKNOWN_TOPIC_OR_PARTITION) for the
    partition.

    ## Why it matters
    The broker would create a log and fetch for a partition whose assignment does not contain it: a stray replica.

    ## Evidence needed
    The broker's request log at DEBUG.

    ## What is allowed
    Earlier checks: a failed log directory (56), another topic id (103), a leader epoch that is not newer (11). CE-01 and
    BE-01 judge a refusal as a whole. Up to 2.3 a controller may send such a request for a partition that a reassignment has
    just moved away.

    ## What to do
    If the broker is none of the partition's replicas (`kafka-topics.sh --describe`), stop it, move the partition's
    folder out of the log directory, and start it again. Keep that folder until the assigned replicas are in the ISR.
    Look in the controller's state-change.log for a reassignment that was cancelled or repeated.

    ## Example
    Broker 3 gets a LeaderAndIsr for orders-0 with replicas [1, 2] and answers 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower; KIP-516, LeaderAndIsr.
    """

    caused_by = ("CE-01", "BE-01")
    evidence = {"the LeaderAndIsr request and its answer": "request_ref", "the broker's own line": "line_ref"}
    expected = (
        "error {UNKNOWN_TOPIC_OR_PARTITION}: broker {node} is none of the replicas {replicas} of {topic}-{partition}"
    )
    observed = "the partition was answered {error_code}"
    because = (
        "LeaderAndIsr {correlation_id} of controller {controller_id} named the replicas {replicas} of {topic}-{partition}",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == LEADER_AND_ISR)
            & col("partition").isNotNull()
            & (F.coalesce(col("request_error_code"), F.lit(Errors.NONE)) == Errors.NONE)
        )

    def verdict(self) -> tuple[Branch, ...]:
        code, is_replica = col("error_code"), F.array_contains(col("replicas"), col("node"))
        replica = (
            "any answer but error {UNKNOWN_TOPIC_OR_PARTITION}: broker {node} is one of the replicas"
            " {replicas} of {topic}-{partition}"
        )
        anyone = "error {UNKNOWN_TOPIC_OR_PARTITION} if broker {node} is no replica of {topic}-{partition}"
        return first_of(
            unverifiable(
                code.isNull(),
                PARTITION_ANSWER_MISSING,
                expected=anyone,
                observed="an answer that is not recorded",
            ),
            unverifiable(is_replica.isNull(), "the request's replica list is not in the evidence", expected=anyone),
            unverifiable(
                is_replica & (code == Errors.UNKNOWN_TOPIC_OR_PARTITION),
                "refused as if the broker were no replica, although the request names it",
                expected=replica,
            ),
            fenced(~is_replica & (code == Errors.UNKNOWN_TOPIC_OR_PARTITION)),
            violation(~is_replica & (code == Errors.NONE)),
            passed(is_replica, expected=replica),
            otherwise=passed(expected=f"{self.expected}, or the error of an earlier check"),
        )
