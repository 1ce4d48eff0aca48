"""EP-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.state.partition_states import OF_CONTROLLER, OF_REQUEST
from epochaudit.rules.epoch_order.recreation import unproven_recreation
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-02", frame="metadata", kip="KIP-841", severity=HIGH, since="all")
class PartitionEpochFell(Rule):
    """The partition epoch of a partition went down, or stood for two states.

    ## What it checks
    Every committed change of a partition raises its partition epoch: in KRaft by one per PartitionChangeRecord and per
    ClearElrRecord that removes eligible leader replicas, in ZooKeeper by one per write of the znode (zkVersion). Within one
    topic id it never falls, and one partition epoch never has two leader epochs.

    ## Why it matters
    AlterPartition is fenced by the partition epoch. If it falls or repeats, an ISR that was decided on an older state
    passes as current.

    ## Evidence needed
    The metadata log; or controllers' state-change.log, or brokers' request logs with LeaderAndIsr.

    ## What is allowed
    A re-created topic starts at 0, as for EP-01. A controller may report one state in two lines. Before 3.1, except in 2.7.2,
    2.8.1 and 2.8.2, some of its lines have no partition epoch: the next state is compared with the last one that has it. If
    the topic may have been created again meanwhile, a lower epoch is unverifiable. Jumps are ISR changes that its
    state-change.log does not report. Brokers may receive LeaderAndIsr requests in any order. After a migration to KRaft that
    was rolled back, the partition epoch is the version of the znode again, which KRaft controllers raise less often than
    their own: the first state then is unverifiable.

    ## What to do
    Compare the partition's ISR at the leader, at the controller and on disk: `epochaudit timeline TOPIC-PARTITION` has
    what each stated. With ZooKeeper, restart the controller, so that the next one reads the state anew, and look for a
    restored or edited znode. In KRaft, audit all copies of the metadata log together (EP-05, EP-06), and replace the
    copy that differs. Keep the leader running until the other replicas have caught up (metric `FetcherLagMetrics`,
    `ConsumerLag`, of their brokers).

    ## Example
    The controller reports orders-0 with partition epoch 9, then with partition epoch 7.

    ## References
    PartitionRegistration.merge; TopicDelta.maybeClearElr (4.0); KafkaZkClient.updateLeaderAndIsr; KIP-497; KIP-841, AlterPartition RPC.
    """

    caused_by = ("IS-12", "TI-01", "TI-04", "TI-05")
    evidence = {"the committed state": "state_ref", "the state before": "numbered_ref"}
    expected = "a partition epoch that rises with each change within the topic"
    observed = "partition epoch {partition_epoch} with leader epoch {leader_epoch}"
    because = (
        "{topic}-{partition} was committed with partition epoch {numbered_partition_epoch}, leader epoch {numbered_leader_epoch}",
        "the next state has partition epoch {partition_epoch}, leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        stated = (col("scope") != OF_CONTROLLER) | col("partition_epoch").isNotNull()
        return stated & ((col("scope") != OF_REQUEST) | col("topic_id").isNotNull())

    def verdict(self) -> tuple[Branch, ...]:
        epoch, before = col("partition_epoch"), col("numbered_partition_epoch")
        follows_unnumbered = col("previous_ref") != col("numbered_ref")
        return first_of(
            unverifiable(
                epoch.isNull(),
                "the partition's first record is not in the evidence",
                observed="a change whose epochs count from an earlier record",
            ),
            passed(
                before.isNull(),
                observed="partition epoch {partition_epoch}, the first that is recorded",
                because=("{topic}-{partition} has partition epoch {partition_epoch}, leader epoch {leader_epoch}",),
            ),
            unverifiable(
                col("rolled_back"),
                "a migration to KRaft was rolled back in between, and ZooKeeper counts the writes of the znode only",
            ),
            passed(epoch > before, expected="a partition epoch above {numbered_partition_epoch}"),
            passed(
                (epoch == before) & (col("leader_epoch") == col("numbered_leader_epoch")),
                expected="the same epochs, as it is the same state once more",
            ),
            passed(
                col("starts_anew") & (col("recreated") | col("deleted_before")),
                expected="partition epoch 0 of a topic created again",
            ),
            *unproven_recreation(),
            unverifiable(
                follows_unnumbered & (col("recreated") | col("deleted_by_name")),
                "a state in between has no partition epoch, and may be of a topic that was created again",
            ),
            violation(
                epoch == before,
                expected="a partition epoch above {numbered_partition_epoch}, as the leader epoch is another",
            ),
            otherwise=violation(expected="a partition epoch above {numbered_partition_epoch}"),
        )
