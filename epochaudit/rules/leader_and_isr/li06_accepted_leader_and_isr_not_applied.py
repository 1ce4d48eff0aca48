"""LI-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation

_FIRST_WITH_END_LINE = release("2.7")  # before, the end of it has no line, and up to 2.5 followers have none


@rule("LI-06", frame="control", kip="KIP-516", severity=MEDIUM, since="2.7")
class AcceptedLeaderAndIsrNotApplied(Rule):
    """A LeaderAndIsr was answered 0 for a partition, and was not applied.

    ## What it checks
    For each partition that a broker answers 0, its state-change.log states the outcome between the lines that begin and end
    the request's handling. One of these lines must be there: the replica starts at the leader epoch, the change was
    skipped, the new leader is unavailable, or the log was assigned a topic id at its current leader epoch. It is a breach
    if the line states that the change was skipped because the broker could not read the topic's settings from ZooKeeper.

    ## Why it matters
    The controller takes the replica for a leader or follower of the new epoch. If it is not, the partition has no leader or
    one replica less, and the controller does not send the request again.

    ## Evidence needed
    The broker's request log, and state-change.log at INFO. Both lines of the handling must be in one file; otherwise the
    answer is unverifiable. A missing line alone is unverifiable, too: an appender may have dropped it. It is a breach if the same
    broker process accepts the same leader epoch of the same topic id again, which it would refuse with 11 had it
    installed it.

    ## What is allowed
    LI-02 judges a leader epoch that the broker has already installed. A later LeaderAndIsr at the same leader epoch that is
    answered 11 shows that the epoch was installed, whatever the lines say.

    ## What to do
    Check with `kafka-topics.sh --describe --under-replicated-partitions` whether the replica is missing, and restart
    its broker: the controller sends the request only once. Look at the same moment in its server.log for an exception, a
    lost session with ZooKeeper or a failed log directory. Report it with these lines if there is none.

    ## Example
    LeaderAndIsr 42 with leader epoch 5 of orders-0 is answered 0. state-change.log has "Handling" and "Finished", and no
    line of orders-0 between them. A new controller sends leader epoch 5 again, and is answered 0 instead of 11.

    ## References
    ReplicaManager.becomeLeaderOrFollower, makeLeaders and makeFollowers; Partition.makeLeader and makeFollower, where
    they catch ZooKeeperClientException; KIP-516, LeaderAndIsr.
    """

    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the line that begins its handling": "line_ref",
        "the line that ends its handling": "finished_ref",
        "what became of the partition": "applied_ref",
        "the line that it was not applied": "unapplied_ref",
        "the same leader epoch accepted again": "refuted_ref",
    }
    expected = 'a line that {topic}-{partition} starts at leader epoch {leader_epoch}, or why not, before "Finished"'
    observed = "broker {node} answered {NONE}, and no line shows what became of leader epoch {leader_epoch} of {topic}-{partition}"
    because = (
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch} of {topic}-{partition}",
        "state-change.log has the lines that begin and end its handling, and none of that leader epoch between them",
        "broker {node} accepted leader epoch {leader_epoch} of the same topic id later again: it had not installed it",
    )

    def applies(self) -> Column:
        installed_already = col("leader_epoch") == col("installed_leader_epoch")
        return (
            (col("event_type") == LEADER_AND_ISR)
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") == Errors.NONE)
            & F.array_contains(col("replicas"), col("node"))
            & ~holds(installed_already)
            & F.coalesce(col("kafka_version") >= _FIRST_WITH_END_LINE, F.lit(True))
        )

    def verdict(self) -> tuple[Branch, ...]:
        brought = self.because[:1]
        return first_of(
            violation(
                col("unapplied_ref").isNotNull(),
                expected="leader epoch {leader_epoch} of {topic}-{partition} is installed, or the answer is an error",
                observed="broker {node} answered {NONE}, and its log states that it skipped the change",
                because=(
                    *brought,
                    "while it handled the request, its ZooKeeper client failed: it left {topic}-{partition} as it was",
                ),
            ),
            passed(
                col("applied_ref").isNotNull(),
                observed="broker {node} answered {NONE}, and a line shows what became of {topic}-{partition}",
                because=brought,
            ),
            passed(
                col("confirmed_ref").isNotNull(),
                expected="leader epoch {leader_epoch} of {topic}-{partition} is installed",
                observed="broker {node} answered {NONE}, and refused the same leader epoch later as one that it has",
                because=brought,
            ),
            unverifiable(
                ~col("handling_recorded"),
                "the lines that begin and end the request's handling are not in the evidence",
                observed="broker {node} answered {NONE}",
                because=brought,
            ),
            violation(col("refuted_ref").isNotNull()),
            otherwise=unverifiable(
                None,
                "a line may be missing: no later answer shows whether the epoch was installed",
                because=self.because[:2],
            ),
        )
