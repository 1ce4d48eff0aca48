"""LD-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.leader_states import RECOVERING
from epochaudit.replay.partition_states import LEADER_AND_ISR, RECORD
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation

RECOVERY_STATE_LEVEL = 3  # 3.2-IV0


@rule("LD-03", frame="metadata", kip="KIP-320", severity=CRITICAL, since="all")
class UncleanElectionNotAllowed(Rule):
    """A leader was elected from outside the ISR without leave, or without being marked.

    ## What it checks
    Each election that a controller committed: the new leader was a member of the ISR before (of the eligible leader
    replicas, if that ISR was empty). If not, the election was unclean. It needs unclean.leader.election.enable, or an
    administrator who asks for it; the ISR it leaves is the leader alone; and since metadata.version 3.2-IV0 it is marked by
    leaderRecoveryState 1.

    ## Why it matters
    The new leader lacks acknowledged records, and they are deleted from all other replicas. Whoever has not allowed that
    relies on its not happening; whoever has, on being able to see it.

    ## Evidence needed
    KRaft: the metadata log. ZooKeeper: the controllers' state-change.log, and the ISR of the partition epoch just before the
    election, which need not be in it: UpdateMetadata and LeaderAndIsr that were accepted, answers to AlterPartition (2.7+) and
    the leader's own lines ("ISR updated", "starts at") state it, too. The setting from the topic's configuration
    (ConfigRecord, CreateTopics, AlterConfigs, the controller's "Unclean leader election has been enabled", the brokers' lines
    about changed settings) or from the start of the servers.

    ## What is allowed
    A permitted unclean election, marked: it passes. What it lost is reported by TR-06. A reassignment that completes
    elects from the ISR that the same record writes. With eligible leader replicas the last known leader may be elected
    without leave, and marked, when no member of the ISR and no eligible replica is left. Where the log names none, an
    election from an empty ISR is unverifiable, as is one whose setting is not in the evidence.

    ## Example
    orders-0 had ISR [1]. Broker 1 dies, and the controller makes broker 2 leader with ISR [2]; the topic was created with
    unclean.leader.election.enable=false.

    ## References
    PartitionChangeBuilder.electLeader; PartitionRegistration; Election.leaderForOffline; KIP-320, Motivation; KIP-704.
    """

    evidence = {"the election": "state_ref", "the ISR before": "isr_before_ref"}
    expected = (
        "a leader of ISR {isr_before}, as unclean elections were not permitted, or an unclean election that is marked"
    )
    observed = "leader {leader} with ISR {isr}, leaderRecoveryState {leader_recovery_state}"
    because = (
        "{topic}-{partition} had leader {previous_leader} and ISR {isr_before} in leader epoch {previous_leader_epoch}",
        "leader epoch {leader_epoch} has leader {leader}, ISR {isr}, leaderRecoveryState {leader_recovery_state}",
        "unclean elections of the topic were permitted: {unclean_permitted}",
    )

    def applies(self) -> Column:
        return (col("scope") != LEADER_AND_ISR) & F.coalesce(col("elects"), F.lit(False)) & ~col("starts_anew")

    def verdict(self) -> tuple[Branch, ...]:
        marked = col("leader_recovery_state") == RECOVERING
        alone = F.coalesce((F.size("isr") == 1) & (F.get("isr", F.lit(0)) == col("leader")), F.lit(False))
        must_mark = (col("scope") == RECORD) & (col("metadata_level") >= RECOVERY_STATE_LEVEL)
        adjacent = col("partition_epoch") == col("previous_partition_epoch") + 1
        certain = (col("scope") == RECORD) | adjacent | col("isr_before_stated")
        unseen = ~F.coalesce(certain | marked, F.lit(False))
        return first_of(
            unverifiable(
                col("isr_before").isNull() | col("isr").isNull(),
                "the partition's earlier states are not in the evidence",
            ),
            passed(~F.coalesce(marked, F.lit(False)) & _clean()),
            passed(unseen & (F.size("isr") > 1)),
            unverifiable(unseen, "the ISR just before the election is not in the evidence"),
            violation(~alone),
            violation(must_mark & ~F.coalesce(marked, F.lit(False))),
            passed(col("unclean_permitted") | _of_last_known_leader()),
            unverifiable(
                _may_have_led_last(),
                "an election from an empty ISR may be that of the last known leader, who is not in the evidence",
            ),
            violation(~col("unclean_permitted")),
            otherwise=unverifiable(None, "whether unclean elections were permitted is not in the evidence"),
        )


def _of_last_known_leader() -> Column:
    """The record that elects may itself take the leader out of the eligible replicas: its process had been killed."""
    none_eligible = (F.size("isr_before") == 0) & (F.size("elr") == 0)
    return F.coalesce(none_eligible & (col("previous_last_known_elr") == F.array("leader")), F.lit(False))


def _may_have_led_last() -> Column:
    led_last = F.coalesce("previous_last_known_elr", F.array().cast("array<int>"))
    return (F.size("isr_before") == 0) & ((F.size(led_last) == 0) | F.array_contains(led_last, col("leader")))


def _clean() -> Column:
    leader = col("leader")
    of_elr = (F.size("isr_before") == 0) & F.array_contains("previous_elr", leader)
    reassigned = (col("scope") == RECORD) & (col("replicas") != col("previous_replicas"))
    return (
        F.array_contains("isr_before", leader)
        | F.coalesce(of_elr, F.lit(False))
        | F.coalesce(reassigned & F.array_contains("isr", leader), F.lit(False))
    )
