"""LI-01."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

FIRST_WITH_FOLLOWER_LINES: Final = 2_006_000


def refused_at_the_accepted_epoch() -> Column:
    """Up to 2.5, where a follower has no line: the process had accepted the same epoch, and so held it when it refused it."""
    held = col("accepted_in_process") & (col("leader_epoch") == col("accepted_leader_epoch"))
    older = F.coalesce(col("installed_leader_epoch") < col("leader_epoch"), F.lit(True))
    silent = col("kafka_version") < FIRST_WITH_FOLLOWER_LINES
    return F.coalesce((col("error_code") == 11) & silent & held & older, F.lit(False))


@rule("LI-01", frame="control", kip="KIP-570", severity=CRITICAL, since="0.8")
class StaleLeaderAndIsrAccepted(Rule):
    """A LeaderAndIsr with an older leader epoch was accepted.

    ## What it checks
    A broker that holds a leader epoch for a partition must answer 11 for the partition when a LeaderAndIsr brings a
    smaller one.

    ## Why it matters
    Accepting it takes the replica back to an older leader or ISR: two leaders, or a follower of the wrong one.

    ## Evidence needed
    Request log, and state-change.log for the epoch that was installed ("starts at leader epoch"): a LeaderAndIsr may be
    answered 0 without being installed, when the new leader is not alive. Up to 2.5 a follower has no such line; there, a
    refusal below an epoch that the broker had accepted is taken for the fence, and one at that epoch for LI-02's.

    ## What is allowed
    The first LeaderAndIsr after a restart or after a deletion of the replica is accepted at any epoch: the broker keeps
    epochs in memory only. Equal epochs are LI-02's. A request refused as a whole (11, 77) says nothing about the epochs in
    it. A failed log directory (56) and a wrong topic id (103) are answered before the epoch is looked at.

    ## Example
    Broker 3 follows orders-0 in epoch 6; a LeaderAndIsr of epoch 5 is answered 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower; KIP-570, which brings StopReplica in line with it.
    """

    caused_by = ("CE-01", "BE-01", "TI-01")
    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the leader epoch the broker had installed": "installed_ref",
        "the LeaderAndIsr that the broker had accepted": "accepted_ref",
        "the broker's own line": "line_ref",
    }
    expected = "partition error 11 for leader epoch {leader_epoch}, below {installed_leader_epoch}"
    observed = "partition error {error_code}"
    because = (
        "broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition}",
        "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch} with leader {leader}",
        "and was answered {error_code} for the partition",
    )

    def applies(self) -> Column:
        return (
            (col("event_type") == "LEADER_AND_ISR")
            & (col("request_error_code") == 0)
            & col("error_code").isin(0, 3, 11)
            & ~F.coalesce(col("leader_epoch") == col("installed_leader_epoch"), F.lit(False))
            & ~refused_at_the_accepted_epoch()
        )

    def verdict(self) -> tuple[Branch, ...]:
        code, epoch, installed = col("error_code"), col("leader_epoch"), col("installed_leader_epoch")
        refused = code == 11
        return first_of(
            unverifiable(~col("state_change_recorded"), "no state-change.log of this broker"),
            fenced((epoch < installed) & refused),
            fenced(
                (epoch < col("accepted_leader_epoch"))
                & col("accepted_in_process")
                & refused
                & (col("kafka_version") < FIRST_WITH_FOLLOWER_LINES)
            ),
            unverifiable(
                (epoch < installed) & (col("ordered_by") == "time"),
                "the request has no line in state-change.log, so its place among the others is not certain",
            ),
            violation(epoch < installed),
            passed(~refused),
            unverifiable(
                installed.isNull(), "refused as stale, but the leader epoch that the broker held is not in the evidence"
            ),
            unverifiable(
                epoch <= col("accepted_leader_epoch"),
                "refused at an epoch that had been accepted, though its installation is not in the evidence",
            ),
            otherwise=violation(),
        )
