"""EP-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EP-08", frame="log_runs", kip="KIP-320", severity=HIGH, since="0.11")
class EpochMissingFromCheckpoint(Rule):
    """A log has batches of a leader epoch that its leader-epoch-checkpoint does not have.

    ## What it checks
    A replica writes a leader epoch to its leader epoch cache, and so to leader-epoch-checkpoint, before it appends the
    first batch of that epoch. For each run of batches the checkpoint beside it must therefore contain their leader epoch,
    starting at their offset or below.

    ## Why it matters
    The broker answers from the cache where an epoch ends. If the cache lacks an epoch whose records are in the log, a
    follower or consumer gets an earlier one. It truncates too much, or takes its diverging records for the leader's.

    ## Evidence needed
    A partition's folder: its segments and leader-epoch-checkpoint. Dumps of segments have no checkpoint beside them, and
    are no subjects.

    ## What is allowed
    When the beginning of a log is removed, the entries of its epochs are removed too, while the segment may remain: batches
    below the first entry pass. Files of a running broker are copied one after the other. An epoch above all entries may
    have begun in between, and an epoch whose offsets a later entry covers may have been truncated in between; both are
    unverifiable. Batches of message formats 0 and 1 have no epoch. Entries of epochs without batches are normal.

    ## What to do
    Move the leadership to another replica of the ISR: the records are there, but this broker's answers about epochs are
    wrong. Then stop the broker, move the partition's folder aside, and start it: it copies log and epochs from the
    leader. Do not edit the checkpoint. Up to 2.6 an unclean stop can lose epoch 0 (KAFKA-10432), and up to 2.0.0
    leaders did not write their own epoch (KAFKA-7415): upgrade.

    ## Example
    orders-0 on broker 1 has batches of epoch 5 from offset 100 to 140. Its checkpoint has the entries (4, 60) and (6, 141).

    ## References
    LeaderEpochFileCache.assign, truncateFromStart; UnifiedLog.append; KIP-101; KIP-320.
    """

    evidence = {"the batches": "run_ref", "the checkpoint's entry": "checkpoint_ref"}
    expected = "leader epoch {leader_epoch} in the checkpoint, from offset {batch_base_offset} or below"
    observed = "the checkpoint has no leader epoch {leader_epoch}"
    because = (
        "{topic}-{partition} of broker {node} has batches of leader epoch {leader_epoch}, offsets {batch_base_offset} to "
        "{batch_last_offset}",
        "its checkpoint begins at offset {first_checkpoint_offset} and has no such epoch",
        "the next later epoch there is {later_checkpoint_epoch}, from offset {later_checkpoint_offset}",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull() & col("is_raw")

    def verdict(self) -> tuple[Branch, ...]:
        has = "the checkpoint has leader epoch {leader_epoch} from offset {checkpoint_offset}"
        below = "the batches end at offset {batch_last_offset}, and the checkpoint begins at {first_checkpoint_offset}"
        log, *_ = self.because
        first, own = col("first_checkpoint_offset"), col("checkpoint_offset")
        return first_of(
            unverifiable(
                ~col("has_checkpoint"),
                "no leader-epoch-checkpoint lies beside the segment",
                observed="no checkpoint of the log is recorded",
                because=(log,),
            ),
            passed(col("batch_last_offset") < first, observed=below, because=(log, below)),
            passed((own <= col("batch_base_offset")) | (own == first), observed=has, because=(log, has)),
            violation(own.isNotNull(), observed=has, because=(log, has)),
            unverifiable(
                col("later_checkpoint_epoch").isNull(),
                "the epoch may have begun between the copies of the checkpoint and the segment",
            ),
            unverifiable(
                col("later_checkpoint_offset") <= col("batch_base_offset"),
                "the batches may have been truncated between the copies of the segment and the checkpoint",
            ),
            otherwise=violation(),
        )
