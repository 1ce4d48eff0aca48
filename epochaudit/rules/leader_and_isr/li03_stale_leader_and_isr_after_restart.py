"""LI-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_BROKER_EPOCH
from epochaudit.rules.reasons import RECREATION_UNKNOWN
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("LI-03", frame="control", kip="KIP-570", severity=HIGH, since="0.8")
class StaleLeaderAndIsrAfterRestart(Rule):
    """A LeaderAndIsr of before a restart was applied after it.

    ## What it checks
    A restarted broker has forgotten all leader epochs and accepts the first LeaderAndIsr of a partition at any epoch. Only
    the broker epoch fences one that was meant for the previous process. LeaderAndIsr 0 and 1 have no broker epoch, and -1
    skips the check. For these, the first one that a process accepts for a partition is compared with those that the
    previous process had accepted.

    ## Why it matters
    A delayed request from before the restart makes the broker lead or follow in an old epoch with an old ISR. KIP-380 was
    written for this; below 2.2 nothing fences it.

    ## Evidence needed
    The broker's request log of both processes, and server.log for the restart.

    ## What is allowed
    The same leader epoch again, because a restart alone does not raise it. A replica that was deleted in between, and a
    partition that is marked as new. BE-01 judges requests with a broker epoch.

    ## What to do
    Restart the broker once more: it then gets the present state, if no delayed request is on its way. If it led in the
    old epoch, save the partition's folder first. LeaderAndIsr below version 2 has no broker epoch: run brokers of 2.2
    or later with inter.broker.protocol.version 2.2 or later (KIP-380, KAFKA-7235).

    ## Example
    Broker 2 of 2.1 had accepted leader epoch 7 of orders-0 and restarts. A LeaderAndIsr with leader epoch 5 is answered 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower up to 2.1; KIP-380; KAFKA-7235.
    """

    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the newer LeaderAndIsr of the process before": "accepted_ref",
        "what shows the restart": "process_ref",
        "the broker's own line": "line_ref",
    }
    expected = "no leader epoch below {accepted_leader_epoch}, which the broker had accepted before it restarted"
    observed = "LeaderAndIsr {api_version} without a broker epoch brought leader epoch {leader_epoch} and was answered {error_code}"
    because = (
        "broker {node} had accepted leader epoch {accepted_leader_epoch} for {topic}-{partition}, and restarted",
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch}",
        "without a broker epoch nothing could refuse it",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == LEADER_AND_ISR)
            & (F.coalesce(col("broker_epoch"), F.lit(NO_BROKER_EPOCH)) == NO_BROKER_EPOCH)
            & (col("request_error_code") == Errors.NONE)
            & (col("error_code") == Errors.NONE)
            & ~holds(col("accepted_in_process"))
            & col("installed_leader_epoch").isNull()
        )

    def verdict(self) -> tuple[Branch, ...]:
        stale = col("leader_epoch") < col("accepted_leader_epoch")
        other_topic = col("topic_id") != col("held_topic_id")
        before, brought = self.because[:2]
        return first_of(
            passed(
                other_topic,
                expected="any leader epoch: it was another topic of the name {topic} before the restart",
                because=(
                    "broker {node} had accepted a LeaderAndIsr for {topic}-{partition} of {held_topic}, and restarted",
                    brought,
                ),
            ),
            passed(
                ~stale,
                expected="leader epoch {accepted_leader_epoch} or above, which the broker had accepted before it restarted",
                because=(before, brought),
            ),
            unverifiable(
                stale & col("topic_id").isNull() & col("topic_deletion_seen"),
                RECREATION_UNKNOWN,
                expected="no leader epoch below {accepted_leader_epoch}, unless {topic} was created again",
                because=(before, brought),
            ),
            exposed(stale),
            passed(
                col("is_new"),
                expected="any leader epoch: the controller marks {topic}-{partition} as new",
                because=(brought,),
            ),
            otherwise=unverifiable(
                None,
                "no LeaderAndIsr of before a restart is in the evidence",
                expected="no leader epoch below one that the broker had accepted before it restarted",
                because=(brought,),
            ),
        )
