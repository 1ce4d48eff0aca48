"""LD-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.field_values import RECOVERING
from epochaudit.kafka.releases import MetadataVersion
from epochaudit.replay.state.partition_states import OF_RECORD
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation

_BEFORE = (
    "{topic}-{partition} had leader {previous_leader} and ISR {isr_before} in leader epoch {previous_leader_epoch}"
)
_ELECTED = "leader epoch {leader_epoch} has leader {leader} and ISR {isr}"
_UNCLEAN = "leader {leader}, from outside that ISR, with ISR {isr}"
_FROM_EMPTY_ISR = "a leader from the ISR, an eligible leader replica or the last known leader"
_ELR_UNKNOWN = "the eligible leader replicas before the election are not in the evidence (metadata log)"


@rule("LD-03", frame="metadata", kip="KIP-320", severity=CRITICAL, since="all")
class UncleanElectionNotAllowed(Rule):
    """A leader was elected from outside the ISR without permission, or without being marked.

    ## What it checks
    Each election that a controller committed. The new leader must have been a member of the previous ISR or, if the
    election leaves no member of that ISR, of the eligible leader replicas. Otherwise the election was unclean. It then
    needs unclean.leader.election.enable or an administrator's request. The ISR after it is the leader alone, and since
    metadata.version 3.2-IV0 the record marks it by leaderRecoveryState 1. So if the previous ISR is not recorded, an election
    that leaves the leader alone is unverifiable, also if an earlier ISR had the leader, and any other is clean.

    ## Why it matters
    The new leader lacks acknowledged records, and all other replicas delete them. Operators who have not allowed that rely
    on its never happening. Operators who have allowed it rely on the mark.

    ## Evidence needed
    KRaft: the metadata log. ZooKeeper: the controllers' state-change.log, and the ISR of the partition epoch just before
    the election. If state-change.log lacks that ISR, other sources state it: accepted UpdateMetadata and LeaderAndIsr
    requests, AlterPartition responses (2.7+) and the leader's own lines ("ISR updated", "starts at"). In KRaft
    the setting comes from the records before the election (ConfigRecord, RemoveTopicRecord) or, if none has a default, from
    the properties of a controller. In ZooKeeper, and where the metadata log is not complete, it comes from requests
    (CreateTopics, AlterConfigs, DeleteTopics), from lines (the controller's "Unclean leader election has been enabled", the
    brokers' about changed settings and deletions) or from the servers' start. An administrator's request is in
    the request log (ElectLeaders) and, in ZooKeeper clusters since 2.4, in controller.log ("Starting replica leader
    election (UNCLEAN)").

    ## What is allowed
    A permitted and marked unclean election passes; TR-06 reports what it lost. The mark remains until the leader next
    changes the ISR, and an election from the ISR meanwhile is clean. A completing reassignment elects from the ISR that the
    same record writes. If a reassignment is cancelled and no member of the ISR remains, controllers elect the first replica
    that does. They need permission for that, and do not mark it: exposed. Controllers before 4.3 may empty the eligible
    leader replicas in the same batch in which they elect one of them.

    With eligible leader replicas the last known leader may be elected without permission, and marked, if neither a member
    of the ISR nor an eligible replica is left. One eligible replica may have been taken off by the same record. If the log
    names no last known leader, an election from an empty ISR is unverifiable. So is one that may be of an eligible replica, if
    the log begins late or has a hole, and the record is the first to set the eligible replicas.

    An administrator's request can only have caused the election if the partition had no leader. Such an election is a
    violation only if the broker was elected when it was unfenced, and otherwise unverifiable. An election is also
    unverifiable if its setting is not in the evidence. In ZooKeeper a topic's setting that permits does so at any time. One
    that forbids counts no more once it was removed or the topic deleted, unless the controller's host stated it again before
    the election.

    CreateTopics that a ZooKeeper controller answers with 7 (REQUEST_TIMED_OUT) counts: it has created the topic, which has
    no leader yet. Any other request that is answered with 7, and each in KRaft or in a migration to it, may have been carried
    out: without the metadata log an election whose verdict depends on that is unverifiable.

    ## What to do
    Before you start or clean a former member of the ISR, copy its log directory: it may hold the only copy of the lost
    records, and truncates them when it follows the new leader. TR-06 states their offsets; `kafka-dump-log.sh
    --print-data-log` reads them from the copy. Find out who allowed the election: `kafka-configs.sh --describe` of
    topic and brokers, an ElectLeaders request, or a reassignment tool. Set `unclean.leader.election.enable=false`, with
    three replicas and `min.insync.replicas` 2.

    ## Example
    orders-0 had ISR [1] and unclean.leader.election.enable=false. Broker 1 dies, and the controller makes broker 2 leader
    with ISR [2].

    ## References
    PartitionChangeBuilder.electLeader, isValidNewLeader, canElectLastKnownLeader; PartitionReassignmentRevert;
    ReplicationControlManager.electLeader, cancelPartitionReassignment, handleAssignReplicasToDirs; PartitionRegistration;
    ConfigurationControlManager.getTopicConfig; Election.leaderForOffline; KIP-320, Motivation; KIP-460; KIP-704; KIP-966.
    """

    evidence = {
        "the election": "state_ref",
        "the ISR before": "isr_before_ref",
        "the leader before": "leader_before_ref",
        "the setting that permits or forbids unclean elections": "unclean_permitted_ref",
        "the administrator's request, or the controller's line about it": "asked_ref",
    }
    expected = "a leader from the ISR before, {isr_before}, as unclean elections were not permitted"
    observed = "leader {leader} with ISR {isr}"
    because = (
        _BEFORE,
        _ELECTED,
        "its leaderRecoveryState is {leader_recovery_state}",
        "unclean elections of the topic were permitted: {unclean_permitted}",
        "an administrator ({asked_by}) asked for an unclean election of {topic}-{partition}",
        "controller {asked_of} began an unclean election of {topic}-{partition} that an administrator had asked for",
    )

    def applies(self) -> Column:
        return col("elects") & ~col("starts_anew")

    def verdict(self) -> tuple[Branch, ...]:
        recovering = holds(col("leader_recovery_state") == RECOVERING)
        carried = holds(col("previous_leader_recovery_state") == RECOVERING)
        marks = recovering & ~carried
        must_mark = (col("scope") == OF_RECORD) & (col("metadata_level") >= MetadataVersion.IBP_3_2_IV0)
        adjacent = col("partition_epoch") == col("previous_partition_epoch") + 1
        certain = (col("scope") == OF_RECORD) | adjacent | col("isr_before_stated")
        unseen = ~holds(certain)
        reverts = col("reverts_uncleanly") & ~recovering
        return first_of(
            *_states_unknown(),
            *_clean(marks, unseen),
            *_isr_before_unseen(unseen),
            violation(
                ~_alone(),
                expected="the leader alone in the ISR, as it is not from the ISR before, {isr_before}",
            ),
            *_cancels_reassignment(reverts, must_mark),
            unverifiable(
                ~marks & _maybe_of_elr(),
                _ELR_UNKNOWN,
                expected="a leader from the ISR before, {isr_before}, or an eligible leader replica",
            ),
            violation(
                must_mark & ~recovering & ~reverts,
                expected="leaderRecoveryState 1, as the leader is not from the ISR before, {isr_before}",
                observed="leader {leader} with ISR {isr}, without that mark",
            ),
            *_permitted(),
            *_from_empty_isr(),
            violation(~col("unclean_permitted") & ~col("by_administrator")),
            unverifiable(
                ~col("unclean_permitted"),
                "whether an administrator asked for the election is not in the evidence (request log, ElectLeaders)",
                expected="a leader from ISR {isr_before}, unless an administrator asks for an unclean election",
                observed=_UNCLEAN,
            ),
            otherwise=unverifiable(
                None,
                "whether unclean elections were permitted is not in the evidence",
                expected="a leader from ISR {isr_before}, unless unclean elections are permitted",
                observed=_UNCLEAN,
            ),
        )


def _states_unknown() -> tuple[Branch, ...]:
    """The branches where a state of the partition is not recorded."""
    """The branches where a state of the partition is not recorded."""
    return (
        unverifiable(
            col("isr").isNull(),
            "the partition's earlier states are not in the evidence",
            expected="a leader from the ISR before",
            observed="leader {leader}",
            because=(_BEFORE,),
        ),
        unverifiable(
            col("isr_before").isNull(),
            "the partition's earlier states are not in the evidence",
            expected="a leader from the ISR before",
            because=(_BEFORE, _ELECTED),
        ),
    )


def _clean(marks: Column, unseen: Column) -> tuple[Branch, ...]:
    """The branches for a leader that the controller may elect without permission."""
    # whoever left the ISR meanwhile could be elected uncleanly, and would then be alone in it
    may_have_left = unseen & _alone()
    return (
        passed(
            ~marks & F.array_contains("isr_before", col("leader")) & ~may_have_left,
            expected="a leader from the ISR before, {isr_before}",
            observed="leader {leader}, a member of it",
            because=(_BEFORE, _ELECTED),
        ),
        passed(
            ~marks & _of_elr(),
            expected="a leader from the eligible leader replicas {previous_elr}, if no member of ISR {isr_before} is left",
            observed="leader {leader}, one of them, with ISR {isr}",
            because=(_BEFORE, _ELECTED),
        ),
        passed(
            ~marks & _of_elr_in_batch(),
            expected="a leader from the eligible leader replicas {elr_in_batch}, which the same batch emptied, if no member of "
            "ISR {isr_before} is left",
            observed="leader {leader}, one of them, with ISR {isr}",
            because=(_BEFORE, _ELECTED),
        ),
        passed(
            ~marks & _of_reassignment(),
            expected="a leader from the ISR that the record writes with the new replicas, {isr}",
            observed="leader {leader}, a member of it",
            because=(_BEFORE, _ELECTED),
        ),
    )


def _isr_before_unseen(unseen: Column) -> tuple[Branch, ...]:
    """The branches where the ISR just before the election is not recorded."""
    return (
        passed(
            unseen & ~_alone(),
            expected="the leader alone in the ISR, if the election was unclean",
            observed="leader {leader} with ISR {isr}: the election was clean",
            because=(_ELECTED,),
        ),
        unverifiable(
            unseen,
            "the ISR just before the election is not in the evidence",
            expected="a leader from the ISR just before the election",
            because=(
                "an earlier state of {topic}-{partition} has leader {previous_leader} and ISR {isr_before}",
                _ELECTED,
            ),
        ),
    )


def _cancels_reassignment(reverts: Column, must_mark: Column) -> tuple[Branch, ...]:
    """The branches where the record cancels a reassignment, and elects the first replica that remains, without a mark."""
    return (
        exposed(
            reverts & must_mark & col("unclean_permitted"),
            "where a reassignment is cancelled, controllers elect the first replica without a mark",
            expected="leaderRecoveryState 1, as the leader is not from the ISR before, {isr_before}",
            observed="leader {leader} with ISR {isr} and replicas {replicas}, without that mark",
        ),
        violation(
            reverts & ~col("unclean_permitted"),
            observed="leader {leader} with ISR {isr} and replicas {replicas}, as the record cancels a reassignment",
        ),
    )


def _permitted() -> tuple[Branch, ...]:
    """The branches for an unclean election that somebody allowed."""
    return (
        passed(
            col("asked_ref").isNotNull(),
            expected="a leader from ISR {isr_before}, unless an administrator asks for an unclean election",
            observed=f"{_UNCLEAN}: an administrator asked for it",
        ),
        passed(
            col("unclean_permitted"),
            expected="a leader from ISR {isr_before}, unless unclean elections are permitted",
            observed=f"{_UNCLEAN}: unclean elections were permitted",
        ),
    )


def _from_empty_isr() -> tuple[Branch, ...]:
    """The branches for the last known leader of an empty ISR."""
    return (
        unverifiable(_of_last_known_leader() & _elr_unknown(), _ELR_UNKNOWN, expected=_FROM_EMPTY_ISR),
        passed(
            _of_last_known_leader(),
            expected="the last known leader {leader}, as no member of the ISR and no eligible leader replica was left",
            observed="leader {leader} with ISR {isr}",
        ),
        unverifiable(
            _may_have_led_last(),
            "an election from an empty ISR may be that of the last known leader, who is not in the evidence",
            expected=_FROM_EMPTY_ISR,
        ),
    )


def _alone() -> Column:
    return (F.size("isr") == 1) & (F.get("isr", F.lit(0)) == col("leader"))


def _none_left() -> Column:
    """The record that elects may itself take one replica out of the eligible ones: its process had been killed."""
    before, after = (F.coalesce(name, F.array().cast("array<int>")) for name in ("previous_elr", "elr"))
    return (F.size("isr_before") == 0) & (F.size(before) <= 1) & (F.size(after) == 0)


def _of_last_known_leader() -> Column:
    return _none_left() & (col("previous_last_known_elr") == F.array("leader"))


def _may_have_led_last() -> Column:
    return _none_left() & (F.size(F.coalesce("previous_last_known_elr", F.array().cast("array<int>"))) == 0)


def _emptied() -> Column:
    """The controller looks at the ISR that the same event leaves: its last member may be the broker that it fences."""
    return (F.size("isr_before") <= 1) & _alone()


def _of_elr() -> Column:
    return _emptied() & F.array_contains("previous_elr", col("leader"))


def _of_elr_in_batch() -> Column:
    return _emptied() & F.array_contains("elr_in_batch", col("leader"))


def _elr_unknown() -> Column:
    """The log lacks what set the eligible replicas last: no record before this one does, and this one changes them.

    A record leaves out what it keeps (PartitionChangeBuilder.maybeUpdateRecordElr).
    """
    return col("previous_elr").isNull() & col("elr").isNotNull()


def _maybe_of_elr() -> Column:
    """The record takes whom it elects out of the eligible replicas, if the leader was one."""
    return _emptied() & _elr_unknown()


def _of_reassignment() -> Column:
    return col("completes_reassignment") & F.array_contains("isr", col("leader"))
