"""EP-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.epoch_caches import CONFLICT, DISORDER
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-04", frame="epoch_caches", kip="KIP-320", severity=HIGH, since="0.11")
class EpochCacheOutOfOrder(Rule):
    """A leader epoch cache got an entry that is older than the one before.

    ## What it checks
    The leader epoch cache of a replica says at which offset each leader epoch begins. Epochs strictly rise and start offsets
    never fall, in the lines that report new entries and in leader-epoch-checkpoint files. Kafka up to 2.6 warns of an
    assignment older than its latest entry: that is such an entry too.

    ## Why it matters
    OffsetForLeaderEpoch is answered from this cache. If it is out of order, followers truncate too little or too much, and
    the logs of two replicas differ for good (KAFKA-7415).

    ## Evidence needed
    server.log with LeaderEpochFileCache at DEBUG (INFO up to 1.1), or the checkpoint files of a log directory.

    ## What is allowed
    After a truncation, a deletion or a new log the cache begins anew. An entry that replaced conflicting ones is repaired and
    passes: on becoming leader or follower it is routine for epochs without records. After a restart the cache may be
    rebuilt from the log: a fall across one is unverifiable.

    ## Example
    orders-0 on broker 1 gets (epoch 5, offset 100), then (epoch 4, offset 120).

    ## References
    LeaderEpochFileCache.assign, maybeTruncateNonMonotonicEntries; KIP-101; KIP-320; KAFKA-7415.
    """

    evidence = {"the entry": "entry_ref", "the entry before": "before_ref"}
    expected = "an epoch above {before_epoch}, with a start offset of {before_offset} or above"
    observed = "epoch {leader_epoch} from offset {start_offset} ({event_type})"
    because = (
        "the cache of {topic}-{partition} on broker {node} had got epoch {before_epoch} from offset {before_offset}",
        "then {event_type} tells epoch {leader_epoch} from offset {start_offset}",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull() & col("start_offset").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        falls = (col("leader_epoch") <= col("before_epoch")) | (col("start_offset") < col("before_offset"))
        return first_of(
            violation(col("event_type") == DISORDER),
            passed(col("event_type") == CONFLICT),
            unverifiable(
                F.coalesce(falls, F.lit(False)) & col("restarted"),
                "the process started anew in between and may have rebuilt the cache",
            ),
            violation(falls),
            otherwise=passed(),
        )
