"""LI-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation

_LINES_OF_THE_WHOLE_HANDLING = 2_007_000  # before, the end of it has no line, and up to 2.5 followers have none


@rule("LI-06", frame="control", kip="KIP-516", severity=MEDIUM, since="2.7")
class AcceptedLeaderAndIsrNotApplied(Rule):
    """A LeaderAndIsr was answered 0 for a partition, and nothing became of it.

    ## What it checks
    For each partition that a broker answers 0, its state-change.log says what became of it, between the lines that begin and
    end the request's handling: the replica starts at the leader epoch, or the change was skipped, or the new leader is
    unavailable. One of these lines must be there.

    ## Why it matters
    The controller takes the replica for a leader or follower of the new epoch. If the broker is not, the partition has no
    leader or one replica less, and nobody sends the request again.

    ## Evidence needed
    The broker's request log, and state-change.log at INFO. Both lines of the handling must be in one file; otherwise the
    answer is unverifiable.

    ## What is allowed
    A leader epoch that the broker has installed already is judged by LI-02. A later LeaderAndIsr at the same leader epoch
    that is answered 11 shows that the epoch was installed, whatever the lines say.

    ## Example
    LeaderAndIsr 42 with leader epoch 5 of orders-0 is answered 0; "Handling" and "Finished" are logged, and no line of orders-0.

    ## References
    ReplicaManager.becomeLeaderOrFollower, makeLeaders and makeFollowers; KIP-516, LeaderAndIsr.
    """

    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the line that begins its handling": "line_ref",
        "what became of the partition": "applied_ref",
    }
    expected = 'a line that {topic}-{partition} starts at leader epoch {leader_epoch}, or why not, before "Finished"'
    observed = "partition error {error_code}, and no line of the partition"
    because = (
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch} of {topic}-{partition}",
        "broker {node} answered 0; its state-change.log has the lines that begin and end the handling, and none of the partition",
    )

    def applies(self) -> Column:
        installed_already = col("leader_epoch") == col("installed_leader_epoch")
        return (
            (col("event_type") == "LEADER_AND_ISR")
            & (col("request_error_code") == 0)
            & (col("error_code") == 0)
            & F.array_contains(col("replicas"), col("node"))
            & ~F.coalesce(installed_already, F.lit(False))
            & F.coalesce(col("kafka_version") >= _LINES_OF_THE_WHOLE_HANDLING, F.lit(True))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("applied_ref").isNotNull() | col("confirmed_ref").isNotNull()),
            unverifiable(
                ~col("handling_recorded"), "the lines that begin and end the request's handling are not in the evidence"
            ),
            otherwise=violation(),
        )
