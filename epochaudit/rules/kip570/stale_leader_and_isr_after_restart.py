"""LI-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("LI-03", frame="control", kip="KIP-570", severity=HIGH, since="0.8")
class StaleLeaderAndIsrAfterRestart(Rule):
    """A LeaderAndIsr of before a restart was applied after it.

    ## What it checks
    A broker that has restarted has forgotten all leader epochs and takes the first LeaderAndIsr of a partition at any epoch.
    Only the broker epoch can stop one that was meant for the process before. LeaderAndIsr 0 and 1 have none, and -1 skips the
    check: then the first one that a process accepts for a partition is held against what the process before had accepted.

    ## Why it matters
    A delayed request of before the restart makes the broker lead or follow in an old epoch with an old ISR. This is what
    KIP-380 was written for; below 2.2 nothing stops it.

    ## Evidence needed
    The broker's request log of both processes, and server.log for the restart.

    ## What is allowed
    The same leader epoch again: a restart alone does not raise it. A replica that was deleted in between, and a partition
    marked as new. Requests with a broker epoch are judged by BE-01.

    ## Example
    Broker 2 of 2.1 had accepted leader epoch 7 of orders-0 and restarts; a LeaderAndIsr with leader epoch 5 is answered 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower up to 2.1; KIP-380; KAFKA-7235.
    """

    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the newer LeaderAndIsr of the process before": "accepted_ref",
        "the broker's own line": "line_ref",
    }
    expected = "no leader epoch below {accepted_leader_epoch}, which the broker had accepted before it restarted"
    observed = "leader epoch {leader_epoch}, broker epoch {broker_epoch}, answered {error_code}"
    because = (
        "broker {node} had accepted leader epoch {accepted_leader_epoch} for {topic}-{partition}, and restarted",
        "LeaderAndIsr {correlation_id} version {api_version} of controller {controller_id} brought leader epoch {leader_epoch}",
        "without a broker epoch nothing could refuse it",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "LEADER_AND_ISR")
            & (F.coalesce(col("broker_epoch"), F.lit(-1)) == -1)
            & (col("request_error_code") == 0)
            & (col("error_code") == 0)
            & ~F.coalesce(col("accepted_in_process"), F.lit(False))
            & col("installed_leader_epoch").isNull()
        )

    def verdict(self) -> tuple[Branch, ...]:
        stale = col("leader_epoch") < col("accepted_leader_epoch")
        other_topic = col("topic_id") != col("held_topic_id")
        return first_of(
            passed(~stale | other_topic),
            unverifiable(
                stale & col("topic_id").isNull() & col("topic_deletion_seen"),
                "the topic was deleted, and no topic id tells whether it was created again",
            ),
            exposed(stale),
            passed(col("is_new")),
            otherwise=unverifiable(None, "no LeaderAndIsr of before a restart is in the evidence"),
        )
