"""EP-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-05", frame="log_order", kip="KIP-595", severity=HIGH, since="2.8")
class MetadataLogOutOfOrder(Rule):
    """A metadata log has a hole, an offset twice, or a raft epoch that falls.

    ## What it checks
    In each copy of the metadata log offsets follow one another without holes and repetitions, and the raft epoch never falls.
    One subject per record.

    ## Why it matters
    Every broker rebuilds the cluster's state from this log. A record that is missing or out of order means other epochs,
    ISRs and leaders than the controller decided on, and all verdicts about this log rest on it.

    ## Evidence needed
    A dump of the metadata log with the lines of its batches, or its segments.

    ## What is allowed
    Snapshots, whose offsets are none of the log. A log that begins above 0, several dumps in one file. Control records and
    those of metadata transactions, also aborted ones, have offsets like others. Where lines between two records were left
    out or could not be read, and in dumps without the lines of batches, a hole is unverifiable: it may be one of the copy.

    ## Example
    A batch ends at offset 211, the next one begins at offset 230.

    ## References
    KIP-595, Log structure; KIP-630; KafkaMetadataLog.append.
    """

    evidence = {"the record": "record_ref", "the record before": "before_ref"}
    expected = "the offset after the one before, in the same raft epoch or a later one"
    observed = "offset {metadata_offset} in raft epoch {raft_epoch}"
    because = (
        "the record before is {before}",
        "the next one is at offset {metadata_offset}, in a batch from {batch_base_offset} to {batch_last_offset} of raft epoch "
        "{raft_epoch}",
    )

    def applies(self) -> Column:
        return col("metadata_offset").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        offset, last = col("metadata_offset"), col("before.metadata_offset")
        known = col("batch_base_offset").isNotNull() & col("before.batch_last_offset").isNotNull()
        follows = known & F.coalesce("adjacent", F.lit(False))
        return first_of(
            passed(last.isNull()),
            passed((offset <= last) & ~follows & ~col("raw")),  # another dump begins
            violation(offset <= last),
            violation(col("raft_epoch") < col("before.raft_epoch")),
            passed(offset == last + 1),
            violation(follows & col("begins") & (col("batch_base_offset") > col("before.batch_last_offset") + 1)),
            otherwise=unverifiable(None, "the records between two of a copy are not in the evidence"),
        )
