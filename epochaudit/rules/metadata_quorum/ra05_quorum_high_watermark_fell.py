"""RA-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, violation


@rule("RA-05", frame="raft_epochs", kip="KIP-595", severity=CRITICAL, since="2.8")
class QuorumHighWatermarkFell(Rule):
    """A leader of the metadata quorum gave out a lower high watermark than a leader of an earlier epoch.

    ## What it checks
    The high watermarks in answers with code 0 to a Fetch of the metadata log, by the epoch of the request. The lowest of an epoch is
    not below the highest of any lower epoch. Epochs without an earlier one in the evidence are no subjects.

    ## Why it matters
    What is below the high watermark is committed: a majority has it, and brokers have applied it. A leader that begins below
    it has lost committed metadata, and brokers hold elections, topics and configurations that no controller knows any more.

    ## Evidence needed
    Request logs of the controllers in JSON, of two epochs. If a log begins within an epoch, lower high watermarks of it may have been
    given out before.

    ## What is allowed
    A new leader states -1 until it has committed a record of its own epoch; such answers do not count. Within one epoch,
    answers may overtake each other, and are not compared. If the quorum was formatted anew (RA-02), it is unverifiable.

    ## What to do
    Keep `__cluster_metadata-0` of every controller and broker before you restart any: a copy that still has the lost records may
    be among them, and EP-06 shows where copies differ. Find out which voters lost data: replaced disks, restored snapshots, a
    majority that was formatted anew at once. Restore the controllers from the longest copy while all of them are stopped.

    ## Example
    In epoch 4 controller 1 gives out high watermark 379. Two of three controllers are set up anew, and controller 2 leads epoch 5
    with high watermark 12.

    ## References
    KIP-595, A Raft Protocol for the Metadata Quorum; LeaderState.maybeUpdateHighWatermark;
    KafkaRaftClient.tryCompleteFetchRequest.
    """

    evidence = {"the lowest high watermark of the epoch": "low_ref", "the highest of a lower epoch": "earlier_ref"}
    expected = "high watermarks of {earlier_high} and above in epoch {raft_epoch}"
    observed = "high watermark {low}"
    because = ("a leader gave out high watermark {earlier_high} in epoch {earlier_epoch}",)

    def applies(self) -> Column:
        return col("low").isNotNull() & col("earlier_high").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        falls = col("low") < col("earlier_high")
        return first_of(
            passed(~falls, observed="{low} is the lowest recorded"),
            maybe_formatted_anew(falls),
            otherwise=violation(),
        )
