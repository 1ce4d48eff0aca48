"""EP-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import PARTITION_CHANGE_RECORD
from epochaudit.kafka.field_values import NO_LEADER
from epochaudit.rules.reasons import EARLIER_RECORDS_MISSING
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-03", frame="metadata", kip="KIP-841", severity=LOW, since="2.8")
class LeaderEpochBumpedOtherwise(Rule):
    """A record raised the leader epoch without a reason, or had a reason and did not.

    ## What it checks
    A PartitionChangeRecord raises the leader epoch by setting the leader, even to the same broker. A KRaft controller does
    that if and only if the leader changes, a replica leaves the assignment, or the ISR shrinks below metadata.version
    3.6-IV0 or while the cluster migrates from ZooKeeper.

    ## Why it matters
    An unnecessary bump makes every follower and client start anew. A missing bump leaves a removed replica in an epoch in
    which the leader accepts its fetches.

    ## Evidence needed
    The metadata log, and the controller's Kafka version if the log has no metadata.version.

    ## What is allowed
    Below 3.6-IV0, and during a recorded migration, a record for the last member of an ISR may raise the leader epoch of a
    partition without leader and change nothing (KAFKA-16624). During a migration a shrink may bump or not. In 2.8 the
    controller bumps when it removes a broker that it fences, and does not when a leader requests the shrink.

    ## What to do
    An unnecessary bump needs no repair: followers and clients have continued in the new epoch. If the bump is missing
    after a replica was removed, move the leadership to another replica, which raises the leader epoch and locks the
    removed replica out. Compare the controller's version with the finalised metadata.version (`kafka-features.sh
    describe`), and report the record to the Kafka project if both allow no such change.

    ## Example
    metadata.version is 3.9-IV0. A record removes broker 3 from ISR [1, 2, 3] and sets the leader to broker 1, which already
    led.

    ## References
    PartitionChangeBuilder.triggerLeaderEpochBumpForReplicaReassignmentIfNeeded,
    triggerLeaderEpochBumpForIsrShrinkIfNeeded; of 2.8 ReplicationControlManager.alterIsr, handleNodeDeactivated; KAFKA-15021,
    KAFKA-16624.
    """

    caused_by = ("EP-01",)
    evidence = {
        "the committed record": "state_ref",
        "the partition's record before": "previous_ref",
        "the metadata.version in force": "metadata_level_ref",
    }
    expected = "a leader epoch that rises with a new leader, a removed replica or (metadata.version below 3.6-IV0) a shrunk ISR"
    observed = "leader epoch {previous_leader_epoch}, then {leader_epoch}"
    because = (
        "{topic}-{partition} had leader {previous_leader}, ISR {previous_isr}, replicas {previous_replicas} in leader epoch "
        "{previous_leader_epoch}",
        "the record leaves leader {leader}, ISR {isr}, replicas {replicas} in leader epoch {leader_epoch}",
        "metadata.version is at level {metadata_level}",
    )

    def applies(self) -> Column:
        return col("event_type") == PARTITION_CHANGE_RECORD

    def verdict(self) -> tuple[Branch, ...]:
        bumps, by_shrink = col("sets_leader"), col("bumps_on_shrink")
        moved = col("leader") != col("previous_leader")
        removed = F.size(F.array_except("previous_replicas", "replicas")) > 0
        shrinks = F.size(F.array_except("previous_isr", "isr")) > 0
        last_man = (F.size("isr") <= 1) & (col("leader") == NO_LEADER)
        before = col("previous_leader").isNull() | col("previous_isr").isNull() | col("previous_replicas").isNull()
        risen, same = "a new leader epoch, as ", "the same leader epoch, as "
        return first_of(
            unverifiable(before, EARLIER_RECORDS_MISSING, observed="a change of the state in an earlier record"),
            passed(moved, expected=risen + "the leader is no longer broker {previous_leader}"),
            passed(bumps & removed, expected=risen + "a replica was removed"),
            violation(removed, expected=risen + "a replica was removed"),
            passed(~bumps & ~shrinks, expected=same + "the leader stays and neither ISR nor replicas lost a member"),
            passed(
                col("migrates") & shrinks,
                expected="the same leader epoch or a new one, as the ISR shrank while the cluster migrates from ZooKeeper",
            ),
            unverifiable(
                by_shrink.isNull(), "neither metadata.version nor a controller's release below 3.6 is in the evidence"
            ),
            passed(
                shrinks & col("bumps_or_not"),
                expected="the same leader epoch or a new one, as the ISR of a 2.8 controller shrank",
            ),
            passed(shrinks & bumps & by_shrink, expected=risen + "the ISR shrank (metadata.version below 3.6-IV0)"),
            passed(~bumps & ~by_shrink, expected=same + "the ISR shrank (metadata.version 3.6-IV0 or later)"),
            passed(
                bumps & last_man & (by_shrink | col("migrates")),
                expected="the same leader epoch or a new one, as the ISR has one member and there is no leader",
            ),
            violation(shrinks & by_shrink, expected=risen + "the ISR shrank (metadata.version below 3.6-IV0)"),
            violation(
                shrinks,
                expected=same + "the leader stays and a shrunk ISR is no reason (metadata.version 3.6-IV0 or later)",
            ),
            otherwise=violation(expected=same + "the leader stays and neither ISR nor replicas lost a member"),
        )
