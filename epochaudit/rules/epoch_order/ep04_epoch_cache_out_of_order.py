"""EP-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import EPOCH_CACHE_CONFLICT, EPOCH_CACHE_DISORDER
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-04", frame="epoch_caches", kip="KIP-320", severity=HIGH, since="0.11")
class EpochCacheOutOfOrder(Rule):
    """A leader epoch cache got an entry that is older than the one before.

    ## What it checks
    The leader epoch cache of a replica maps each leader epoch to its start offset. Epochs strictly rise and start offsets
    never fall, in the lines that report new entries and in leader-epoch-checkpoint files. Kafka up to 2.6 warns of an
    assignment that is older than its latest entry: the rule takes the warning as such an entry.

    ## Why it matters
    Brokers answer OffsetForLeaderEpoch from this cache. If it is out of order, followers truncate too little or too much,
    and two replicas' logs diverge permanently (KAFKA-7415).

    ## Evidence needed
    server.log with LeaderEpochFileCache at DEBUG (INFO up to 2.0.0), or the checkpoint files of a log directory.

    ## What is allowed
    After a truncation, a deletion or a new log the cache starts again. It also starts again if a follower truncates its
    whole log because its offset was out of the leader's range, or had moved to the remote tier (109,
    OFFSET_MOVED_TO_TIERED_STORAGE); the entries of the remote log are then assigned again. No line reports that the cache
    is cleared, but the next entry's line states the number of entries. An entry that replaced conflicting ones is repaired
    and passes, also in the line that 2.7 and later write after the warning: this is routine for epochs without records when
    a replica becomes leader or follower. After a restart the cache may be rebuilt from the log, so a fall across a restart
    is unverifiable. A fall is also unverifiable while the replica moves between log directories: its future replica has a
    separate cache, and the lines of both name only the partition.

    ## What to do
    Do not let this replica lead: followers truncate by its answers. While another replica leads and is in the ISR, have
    the log copied again: stop the broker, move the partition's folder out of the log directory without deleting it,
    start the broker. Up to 2.0.0 upgrade to 2.0.1 or 2.1.0 (KAFKA-7415). In later releases look for a restored
    checkpoint file or a failing disk.

    ## Example
    orders-0 on broker 1 gets (epoch 5, offset 100), then (epoch 4, offset 120).

    ## References
    LeaderEpochFileCache.assign, maybeTruncateNonMonotonicEntries, clearAndFlush; TierStateMachine; KIP-101; KIP-320; KIP-405;
    KAFKA-7415.
    """

    evidence = {"the entry": "entry_ref", "the entry before": "before_ref"}
    expected = "an epoch above {before_epoch}, with a start offset of {before_offset} or above"
    observed = "epoch {leader_epoch} from offset {start_offset}"
    because = (
        "the entry of {topic}-{partition} on broker {node} before it is epoch {before_epoch} from offset {before_offset}",
        "the next one is epoch {leader_epoch} from offset {start_offset}",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull() & col("start_offset").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        falls = (col("leader_epoch") <= col("before_epoch")) | (col("start_offset") < col("before_offset"))
        return first_of(
            violation(
                (col("event_type") == EPOCH_CACHE_DISORDER) & col("before_epoch").isNull(),
                expected="an assignment that is not older than the latest entry of the cache",
                observed="the broker warns that epoch {leader_epoch} from offset {start_offset} is older than its latest entry",
            ),
            violation(
                col("event_type") == EPOCH_CACHE_DISORDER,
                observed="the broker warns that epoch {leader_epoch} from offset {start_offset} is older than its latest entry",
            ),
            passed(
                (col("event_type") == EPOCH_CACHE_CONFLICT) | col("replaces"),
                expected="entries that contradict a newer one are removed",
                observed="epoch {leader_epoch} from offset {start_offset} replaced the entries that contradicted it",
                because=(),
            ),
            passed(
                col("before_epoch").isNull(),
                expected="epochs that rise, and start offsets that never fall",
                observed="epoch {leader_epoch} from offset {start_offset}: no entry before it to compare with",
                because=(),
            ),
            unverifiable(
                falls & col("moving"),
                "the replica moves between log directories, and the lines of its two caches name the partition alone",
            ),
            passed(
                falls & col("cleared"),
                expected="an epoch above those that the cache still holds",
                observed="epoch {leader_epoch} from offset {start_offset}, in a cache that had been cleared",
                because=(
                    "with epoch {before_epoch} the cache of {topic}-{partition} on broker {node} had {before_entries} entries",
                    "with epoch {leader_epoch} it has {entries}: it did not keep the one before",
                ),
            ),
            unverifiable(
                falls & col("restarted"), "the process started anew in between and may have rebuilt the cache"
            ),
            violation(falls),
            otherwise=passed(),
        )
