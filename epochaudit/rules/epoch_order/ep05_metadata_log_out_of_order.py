"""EP-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-05", frame="log_order", kip="KIP-595", severity=HIGH, since="2.8")
class MetadataLogOutOfOrder(Rule):
    """A metadata log has a hole, an offset twice, or a raft epoch that falls.

    ## What it checks
    In each copy of the metadata log the offsets are consecutive, and the raft epoch never falls. One subject per record.

    ## Why it matters
    Every broker rebuilds the cluster's state from this log. A missing or misplaced record yields other epochs, ISRs and
    leaders than the controller decided, and all verdicts about this log depend on it.

    ## Evidence needed
    A dump of the metadata log with the lines of its batches, or its segments.

    ## What is allowed
    Snapshots, whose offsets are not offsets of the log. A log that begins above 0, and several dumps in one file. Control
    records and records of metadata transactions, even aborted ones, have offsets like others. A hole is unverifiable if
    lines between two records were left out or could not be read, and in dumps without the lines of batches: the copy may
    have lost them.

    ## What to do
    Dump another node's metadata log for the same offsets with `kafka-dump-log.sh --cluster-metadata-decoder`. If only
    one copy is wrong, stop that node, move its folder `__cluster_metadata-0` aside, and start it: it fetches the log
    again. Do that to a controller only while the others are a majority without it. If all copies have the fault, keep
    them, make no changes to the cluster, and ask the Kafka project.

    ## Example
    A batch ends at offset 211, and the next one begins at offset 230.

    ## References
    KIP-595, Log structure; KIP-630; KafkaMetadataLog.append.
    """

    evidence = {"the record": "record_ref", "the record before": "before_ref"}
    expected = "offset {before_offset} is followed by the next one, in the same raft epoch or a later one"
    observed = "offset {metadata_offset}"
    because = (
        "the record before is at offset {before_offset}, of raft epoch {before_raft_epoch}",
        "this one is in a batch from offset {batch_base_offset} to {batch_last_offset} of raft epoch {raft_epoch}",
    )

    def applies(self) -> Column:
        return col("metadata_offset").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        offset, last = col("metadata_offset"), col("before.metadata_offset")
        known = col("batch_base_offset").isNotNull() & col("before.batch_last_offset").isNotNull()
        follows = known & col("adjacent")
        return first_of(
            passed(last.isNull(), expected="a first record", observed="the copy begins with offset {metadata_offset}"),
            passed(
                (offset <= last) & ~follows & ~col("raw"),
                expected="offsets that follow one another within a dump",
                observed="after offset {before_offset} another dump begins, with offset {metadata_offset}",
            ),
            violation(offset <= last, expected="an offset above {before_offset}"),
            violation(
                col("raft_epoch") < col("before.raft_epoch"),
                expected="raft epoch {before_raft_epoch} or a later one",
                observed="raft epoch {raft_epoch} at offset {metadata_offset}",
            ),
            passed(offset == last + 1),
            violation(follows & (col("batch_base_offset") > col("before.batch_last_offset") + 1)),
            otherwise=unverifiable(None, "the records between two of a copy are not in the evidence"),
        )
