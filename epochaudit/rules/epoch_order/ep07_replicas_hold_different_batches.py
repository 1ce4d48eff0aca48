"""EP-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation

_DIFFERENT = (
    "the batches differ {where}: of leader epoch {one_epoch} on broker {one_node}, of leader epoch {other_epoch} on broker "
    "{other_node}"
)


@rule("EP-07", frame="replica_logs", kip="KIP-320", severity=CRITICAL, since="all")
class ReplicasHoldDifferentBatches(Rule):
    """Two replicas have different batches at an offset below both high watermarks.

    ## What it checks
    Followers append the leader's batches byte for byte, including the leader epoch that the leader wrote into them. At
    offsets that two brokers' copies of a partition's log share, the batches must be equal in offsets, size, leader epoch,
    message format and checksum, which covers everything else. A difference counts below the high watermark of both brokers.

    ## Why it matters
    Below the high watermark all replicas must hold the same records. If they differ, a consumer reads other records after
    each change of leader, and Kafka does not detect it: followers compare leader epochs, and never the records below their
    own log end.

    ## Evidence needed
    Segments of the partition, or dumps of them by kafka-dump-log, from two brokers, and replication-offset-checkpoint of
    their log directories. Collect the partition's whole folder, with leader-epoch-checkpoint and partition.metadata. A dump
    has no creation time: it needs replication-offset-checkpoint and leader-epoch-checkpoint of its broker.

    ## What is allowed
    Logs may begin and end anywhere and have different segments: only offsets that both copies contain are compared. Records
    above the high watermark of a replica may differ, because it truncates them when it follows the leader. The checkpoint
    may be older than the log, so such a difference is unverifiable. The log cleaner rewrites batches on each replica
    separately: if either copy shows traces of that, only leader epochs are compared. Batches of one leader epoch in the
    middle of a log are compared 2048 offsets at a time; if one log ends within such a range, that rest is not compared.
    Different batches after an unclean election are exposed, because such an election discards committed records: those of
    the former leader, or, if it elects a broker that had led before, all that were written since. Folders of replicas that
    are deleted, moved or stray are ignored, and so are copies of two topics of one name, distinguished by their ids.

    ## What to do
    Before the next change of leader, copy the partition's folder from both brokers: each may hold the only copy of a
    record. What the present leader has is what consumers get. If it is the right one, stop the follower, move its
    folder aside and start it, and it copies the leader's log. TR-03, TR-05, TR-09 and EP-04 of the same partition name
    the cause; without them check the disks. If an election was unclean, set `unclean.leader.election.enable=false`.

    ## Example
    At offset 1,204 of orders-0, broker 1 has a batch of leader epoch 7, and broker 2 one of epoch 8. Both high watermarks
    are above 1,500. Or both have the same epoch and different checksums, because a disk corrupted data or a file was
    restored.

    ## References
    ReplicaManager and UnifiedLog.appendAsFollower; KIP-101; KIP-279; DefaultRecordBatch; LogCleaner.
    """

    evidence = {
        "the batch of one replica": "one_ref",
        "the batch of the other": "other_ref",
        "the high watermark of the one replica": "one_high_watermark_ref",
        "the high watermark of the other": "other_high_watermark_ref",
        "the unclean election": "unclean_ref",
    }
    expected = "the same batches on brokers {one_node} and {other_node} below the high watermark"
    observed = _DIFFERENT
    because = (
        "both copies of {topic}-{partition} have the offsets from {first_offset} up to, but without, {end_offset}",
        _DIFFERENT,
        "the high watermark of broker {one_node} is {one_high_watermark}, that of broker {other_node} {other_high_watermark}",
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        common = "from offset {first_offset} up to, but without, {end_offset}"
        alike = f"no batches of brokers {{one_node}} and {{other_node}} were found to differ {common}"
        epochs = f"no leader epochs of brokers {{one_node}} and {{other_node}} were found to differ {common}"
        by = col("differs_by")
        known = col("one_high_watermark").isNotNull() & col("other_high_watermark").isNotNull()
        committed = (by < col("one_high_watermark")) & (by < col("other_high_watermark"))
        return first_of(
            passed(
                col("differs_at").isNull() & col("compacted"),
                observed=epochs,
                because=("the log was compacted, which rewrites batches: only leader epochs are compared", epochs),
            ),
            passed(col("differs_at").isNull(), observed=alike, because=(alike,)),
            unverifiable(
                col("ambiguous_name"),
                "several topics had the name, and no partition.metadata distinguishes them",
            ),
            unverifiable(
                col("truncated_since"),
                "a log was truncated after its segments were copied and before its checkpoint was",
            ),
            unverifiable(~known, "no replication-offset-checkpoint states a replica's high watermark as of its log"),
            unverifiable(
                ~committed, "whether both replicas had these offsets below their high watermarks is not in the evidence"
            ),
            exposed(
                col("unclean"),
                because=(
                    *self.because,
                    "an unclean election after the lower of these leader epochs discarded committed records",
                ),
            ),
            exposed(
                col("unclean").isNull(),
                "whether the elections after the lower of these leader epochs were clean is not in the evidence",
            ),
            otherwise=violation(),
        )
