"""LI-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.control import NEWER_PARTITION_EPOCH, STARTS
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("LI-05", frame="control", kip="KIP-841", severity=HIGH, since="3.3")
class PartitionStateMovedBack(Rule):
    """A replica took over a state with an older partition epoch than it had.

    ## What it checks
    From 3.3 on a broker leaves a replica as it is when a LeaderAndIsr, or in KRaft mode a metadata record, brings an older
    partition epoch, whatever the leader epoch. The partition epochs of a replica's "starts at leader epoch" lines must not
    fall within a process. A line that says the change was skipped for this reason counts as fenced.

    ## Why it matters
    An older partition epoch brings back an ISR, a replica list or a leader that has been replaced, and AlterPartition of
    this leader is refused from then on.

    ## Evidence needed
    state-change.log at INFO, of 3.3 or later, and server.log for restarts. Where the epoch falls, the topic id before and
    after.

    ## What is allowed
    After a restart, and after the replica was deleted or created anew, any state is new. Another topic id is another
    partition, whose epochs start at 0. Lines of skipped changes are normal at start-up.

    ## Example
    Broker 2 logs "Follower orders-0 starts at leader epoch 4 ... with partition epoch 9", later one with partition epoch 7.

    ## References
    Partition.makeLeader and makeFollower from 3.3; KIP-704; KIP-841, Leader and ISR.
    """

    evidence = {"the broker's line": "request_ref", "the newer state it had": "installed_ref"}
    expected = "a partition epoch of {installed_partition_epoch} or more"
    observed = "partition epoch {partition_epoch} in leader epoch {leader_epoch}"
    because = (
        "broker {node} held {topic}-{partition} at partition epoch {installed_partition_epoch}, leader epoch {installed_leader_epoch}",
        "then the replica started at partition epoch {partition_epoch}, leader epoch {leader_epoch}, in the same process",
    )

    def applies(self) -> Column:
        starts = col("event_type").isin(*STARTS) & col("partition_epoch").isNotNull()
        return (col("reason") == NEWER_PARTITION_EPOCH) | (starts & col("installed_partition_epoch").isNotNull())

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            fenced(col("reason") == NEWER_PARTITION_EPOCH),
            passed(col("partition_epoch") >= col("installed_partition_epoch")),
            passed(col("known_topic_id") != col("installed_topic_id")),
            unverifiable(
                col("known_topic_id").isNull() | col("installed_topic_id").isNull(),
                "no topic id tells whether the topic was created again",
            ),
            unverifiable(
                ~col("process_recorded"), "nothing tells whether the broker restarted in between (server.log)"
            ),
            otherwise=violation(),
        )
