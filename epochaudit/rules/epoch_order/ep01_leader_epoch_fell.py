"""EP-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.state.partition_states import OF_CONTROLLER, OF_RECORD, OF_REQUEST
from epochaudit.rules.epoch_order.recreation import unproven_recreation
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-01", frame="metadata", kip="KIP-320", severity=CRITICAL, since="all")
class LeaderEpochFell(Rule):
    """The leader epoch of a partition went down.

    ## What it checks
    Within one topic id the leader epoch never falls. KRaft: a PartitionRecord of a known partition, in the log or in a
    snapshot, is compared with the state that the records before it yield. PartitionChangeRecords carry no epoch; they raise
    it by one if they set the leader. ZooKeeper: the states that controllers report, by controller epoch and line order. The
    LeaderAndIsr partitions that brokers accepted must not fall in leader epoch if ordered by partition epoch; those of
    ZooKeeper controllers after a migration to KRaft that was rolled back come after those of KRaft.

    ## Why it matters
    Every fence of KIP-320 and KIP-570 compares leader epochs. If they fall, the stale side passes as the current one.

    ## Evidence needed
    The metadata log; or controllers' state-change.log, or brokers' request logs with LeaderAndIsr.

    ## What is allowed
    A re-created topic has a new topic id and starts at 0. A controller's lines name topics without id. A state at leader
    and partition epoch 0 begins a new topic. It passes if the name is known to have had several ids, or if the host of the
    controller, or of the controller that wrote the previous state, logged a deletion since that state: DeleteTopics answered 0,
    "Deletion of topic ... successfully completed", an UpdateMetadata with leader -2, or the log of a replica in the ISR
    scheduled for deletion. Otherwise it is unverifiable. So is a lower state after such a deletion, because the line of the
    creation may be missing. A lower state is also unverifiable if the name had several topics and whole controller epochs in
    between are not recorded. Jumps by more than one are gaps in the evidence. Refused LeaderAndIsr requests, and the order in
    which brokers received accepted ones, prove nothing.

    ## What to do
    Pause the producers of the partition: what is written in a lower leader epoch than the log already has can be
    truncated, or stay on one replica only. Find in `epochaudit timeline TOPIC-PARTITION` where the lower epoch came
    from; a restored ZooKeeper, a znode written by hand and a restored metadata log are the usual sources. Keep every
    replica's folder. A log whose epochs went back is not repaired by elections: read the records from the most complete
    replica, and write them to a new topic.

    ## Example
    The controller reports orders-0 in leader epoch 6, then in leader epoch 5 with a later partition epoch.

    ## References
    PartitionRegistration.merge; LeaderAndIsr.newLeaderAndIsr; KIP-320, Leader Epoch.
    """

    caused_by = ("IS-12", "TI-01", "TI-04", "TI-05")
    evidence = {"the committed state": "state_ref", "the state before": "previous_ref"}
    expected = "a leader epoch that does not fall within the topic"
    observed = "leader epoch {leader_epoch}"
    because = (
        "{topic}-{partition} was committed in leader epoch {previous_leader_epoch}, partition epoch {previous_partition_epoch}",
        "the next state has leader epoch {leader_epoch}, partition epoch {partition_epoch}",
    )

    def applies(self) -> Column:
        return col("scope").isin(OF_RECORD, OF_CONTROLLER, OF_REQUEST)

    def verdict(self) -> tuple[Branch, ...]:
        least = "a leader epoch of at least {previous_leader_epoch}"
        nameless = (col("scope") == OF_REQUEST) & col("topic_id").isNull()
        return first_of(
            unverifiable(
                col("leader_epoch").isNull(),
                "the partition's first record is not in the evidence",
                observed="a change whose epochs count from an earlier record",
            ),
            passed(
                col("previous_leader_epoch").isNull(),
                observed="leader epoch {leader_epoch}, the first that is recorded",
                because=("{topic}-{partition} has leader epoch {leader_epoch}, partition epoch {partition_epoch}",),
            ),
            passed(col("leader_epoch") >= col("previous_leader_epoch"), expected=least),
            passed(
                col("starts_anew") & (col("recreated") | col("deleted_before")),
                expected="leader epoch 0 of a topic created again",
            ),
            *unproven_recreation(),
            unverifiable(nameless, "without topic ids the topics of the name cannot be distinguished"),
            otherwise=violation(expected=least),
        )
