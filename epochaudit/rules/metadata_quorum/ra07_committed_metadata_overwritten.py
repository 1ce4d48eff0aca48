"""RA-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("RA-07", frame="raft_epochs", kip="KIP-595", severity=CRITICAL, since="2.8")
class CommittedMetadataOverwritten(Rule):
    """A leader of the metadata quorum began its epoch below a high watermark that had been given out.

    ## What it checks
    Each epoch whose LeaderChange record is in any copy of the metadata log. A leader writes that record as it begins; 3.3 to 3.5 may
    write others before it. The offset of the epoch's first record is not below the highest high watermark that leaders of lower
    epochs gave out.

    ## Why it matters
    A leader is elected by a majority, and each majority has a voter with all that was committed. A leader that begins below
    the high watermark overwrites committed metadata: brokers that have applied it differ from the controllers from then on.

    ## Evidence needed
    The metadata log, and request logs of the controllers in JSON from an earlier epoch.

    ## What is allowed
    A tail that was not committed may be overwritten. An epoch that begins at offset 0 is judged only if an earlier high watermark
    is in the evidence: that of the first leader of a cluster does. If the quorum was formatted anew (RA-02), it is unverifiable.

    ## What to do
    Stop the controllers, and keep the metadata log of each controller and broker. Compare them from the offset named on: EP-06 lists
    records that differ, and `kafka-dump-log.sh --cluster-metadata-decoder` prints what was lost. RA-03 and a voter whose
    disk was replaced explain how such a leader was elected. Restart brokers only with the log that you keep, since each one
    rebuilds its state from it.

    ## Example
    High watermark 379 was given out in epoch 4. The log of controller 2 has the first record of epoch 5 at offset 350.

    ## References
    KIP-595, A Raft Protocol for the Metadata Quorum; KafkaRaftClient.onBecomeLeader; LeaderState;
    KafkaMetadataLog.truncateToEndOffset.
    """

    evidence = {"the first record of the epoch": "start_ref", "the high watermark": "earlier_ref"}
    expected = "epoch {raft_epoch} of the quorum begins at offset {earlier_high} or above"
    observed = "the first record of the epoch is at offset {start_offset}"
    because = ("a leader gave out high watermark {earlier_high} in epoch {earlier_epoch}",)
    caused_by = ("RA-02", "RA-03")

    def applies(self) -> Column:
        return col("start_offset").isNotNull() & ((col("start_offset") > 0) | col("earlier_high").isNotNull())

    def verdict(self) -> tuple[Branch, ...]:
        overwrites = col("start_offset") < col("earlier_high")
        return first_of(
            unverifiable(
                col("earlier_high").isNull(),
                "no answer of an earlier leader of the quorum is in the evidence (request log)",
                expected="epoch {raft_epoch} of the quorum begins above all that was committed before",
            ),
            passed(~overwrites),
            maybe_formatted_anew(overwrites),
            otherwise=violation(),
        )
