"""LI-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.control_plane.control import NEWER_PARTITION_EPOCH
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("LI-05", frame="control", kip="KIP-841", severity=HIGH, since="3.3")
class PartitionStateMovedBack(Rule):
    """A replica took over a state with an older partition epoch than it had.

    ## What it checks
    Since 3.3 a broker ignores a LeaderAndIsr, or in KRaft mode a metadata record, with an older partition epoch than its
    replica's, whatever the leader epoch. The partition epochs of a replica's "starts at leader epoch" lines must not fall
    within a process. A line about a change that was skipped for this reason counts as fenced.

    ## Why it matters
    An older partition epoch restores a replaced ISR, replica list or leader, and the controller refuses this leader's
    AlterPartition requests from then on.

    ## Evidence needed
    state-change.log at INFO, of 3.3 or later, and server.log for restarts. If the epoch falls: the topic id before and
    after, from a LeaderAndIsr, a leader's line or, in KRaft mode, the creation of the replica.

    ## What is allowed
    Any state after a restart, and after the replica was deleted or created anew. A deletion is shown by a StopReplica, by a
    line of server.log that schedules the log for deletion, or by the topic's deletion at another broker before the replica
    starts at leader epoch 0 and partition epoch 0. Another topic id is another partition, whose epochs start at 0. A follower
    that starts at both epochs 0 without any of these is unverifiable, because the line that names its topic may be missing.
    Lines of skipped changes are normal at start-up.

    ## What to do
    Restart the broker, once another replica leads: it then takes over the present state of its partitions. As leader
    its ISR changes are refused. Check afterwards with `kafka-topics.sh --describe` that leader and ISR are those of the
    highest partition epoch in `epochaudit timeline TOPIC-PARTITION`. Brokers since 3.3 skip older states: report the
    lines to the Kafka project.

    ## Example
    Broker 2 logs "Follower orders-0 starts at leader epoch 4 ... with partition epoch 9", and later a line with partition
    epoch 7.

    ## References
    Partition.makeLeader and makeFollower from 3.3; KIP-704; KIP-841, Leader and ISR.
    """

    evidence = {
        "the broker's line": "request_ref",
        "the state it had": "installed_ref",
        "the deletion of its log": "log_deleted_ref",
    }
    expected = "partition epoch {installed_partition_epoch} or above"
    observed = "the replica started at partition epoch {partition_epoch} in leader epoch {leader_epoch}"
    because = (
        "broker {node} held {topic}-{partition} at partition epoch {installed_partition_epoch}, leader epoch"
        " {installed_leader_epoch}, in the same process",
    )

    def applies(self) -> Column:
        starts = col("event_type").isin(*STARTS) & col("partition_epoch").isNotNull()
        return (col("reason") == NEWER_PARTITION_EPOCH) | (starts & col("installed_partition_epoch").isNotNull())

    def verdict(self) -> tuple[Branch, ...]:
        any_epoch = "any partition epoch, as {topic} was created again"
        depends = "partition epoch {installed_partition_epoch} or above, unless the replica was created anew"
        begins = (col("leader_epoch") == 0) & (col("partition_epoch") == 0)
        return first_of(
            fenced(
                col("reason") == NEWER_PARTITION_EPOCH,
                expected="no change to a state with an older partition epoch",
                observed="broker {node} skipped the change of {topic}-{partition} to partition epoch {partition_epoch}, leader"
                " epoch {leader_epoch}, as its own partition epoch was newer",
                because=(),
            ),
            passed(col("partition_epoch") >= col("installed_partition_epoch")),
            passed(
                col("known_topic_id") != col("installed_topic_id"),
                expected=any_epoch,
                because=(*self.because, "its topic id was {installed_topic_id} then, and is {known_topic_id} now"),
            ),
            passed(
                begins & col("log_deleted_ref").isNotNull(),
                expected=any_epoch,
                because=(*self.because, "broker {node} deleted its log since"),
            ),
            passed(
                begins & col("topic_deletion_seen") & col("topic_id_carried"),
                expected=any_epoch,
                because=(*self.because, "a deletion of {topic} is recorded"),
            ),
            unverifiable(
                col("log_deleted_ref").isNotNull(),
                "the broker deleted a log of the partition: its replica, or one on another disk",
                expected=depends,
            ),
            unverifiable(
                col("known_topic_id").isNull() | col("installed_topic_id").isNull() | col("topic_id_carried"),
                "no topic id shows whether the topic was created again",
                expected=depends,
            ),
            unverifiable(
                ~col("process_recorded"),
                "nothing shows whether the broker restarted in between (server.log)",
                expected="partition epoch {installed_partition_epoch} or above, unless broker {node} restarted",
                because=(
                    "broker {node} held {topic}-{partition} at partition epoch {installed_partition_epoch} before",
                ),
            ),
            otherwise=violation(),
        )
