"""EP-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-09", frame="log_runs", kip="KIP-320", severity=CRITICAL, since="0.11")
class EpochGoesBackInLog(Rule):
    """In the log of a partition a batch has a lower leader epoch than one in front of it.

    ## What it checks
    A leader writes its leader epoch into each batch, and each leader has a higher epoch than its predecessors. Along the
    offsets of a log, leader epochs therefore never fall.

    ## Why it matters
    Truncation after a failover assumes that an epoch ends where the next higher one begins. If epochs fall in a log, a
    replaced leader has written it, or a follower has fetched from such a leader, and no replica can find where its log
    diverged.

    ## Evidence needed
    Segments of the partition, or dumps of them.

    ## What is allowed
    No exceptions: a log keeps its epochs in order when it is appended, fetched, compacted or moved to another directory.
    Batches of message formats 0 and 1 have no epoch. If they follow batches that have one, it is unverifiable which leader
    wrote them.

    ## What to do
    Save the partition's folder on every replica, and audit them together: another replica may have the log in order. If
    one has, let it lead, and have the others copy it: stop the broker, move the folder aside, start the broker. If none
    has, read the records and write them to a new topic, because no later truncation of this log can be trusted.
    `epochaudit timeline TOPIC-PARTITION` shows which leader wrote in the lower epoch.

    ## Example
    orders-0 on broker 1 has batches of epoch 6 from offset 90 to 104, then of epoch 5 from offset 105 on.

    ## References
    DefaultRecordBatch.partitionLeaderEpoch; LogValidator; LeaderEpochFileCache.assign; KIP-101; KIP-279.
    """

    evidence = {"the batch": "run_ref", "the batches in front": "before_ref"}
    expected = "leader epoch {before_epoch} or above from offset {batch_base_offset} on"
    observed = "leader epoch {leader_epoch} from offset {batch_base_offset} on"
    because = (
        "the log of {topic}-{partition} on broker {node} has batches of leader epoch {before_epoch}",
        "behind them, from offset {batch_base_offset} to {batch_last_offset}, batches of leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull() | col("before_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        first = "leader epoch {leader_epoch} from offset {batch_base_offset} on, with no batches in front"
        return first_of(
            passed(col("before_epoch").isNull(), expected="any leader epoch", observed=first, because=(first,)),
            unverifiable(
                col("leader_epoch").isNull(),
                "the batches are of message format 0 or 1, which have no leader epoch",
                observed="batches without a leader epoch from offset {batch_base_offset} on",
                because=self.because[:1],
            ),
            violation(col("leader_epoch") < col("before_epoch")),
            otherwise=passed(),
        )
