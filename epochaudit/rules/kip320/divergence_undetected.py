"""TR-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.epoch_queries import BY_FETCH, at_a_leader, judged_in
from epochaudit.rules.kip320.leader_epoch_fence import HOLE
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("TR-03", frame="epoch_queries", kip="KIP-320", severity=CRITICAL, since="2.7")
class DivergenceUndetected(Rule):
    """A leader served a Fetch from beyond the point where the logs diverge.

    ## What it checks
    Fetch 12+ states the leader epoch of the record before its offset. The leader looks up where that epoch ends in its own
    log. If that is below the fetch offset it must answer with the divergence and without records; if it knows no such
    epoch, as it is above its own, with 1 (OFFSET_OUT_OF_RANGE). Whatever its log holds, an epoch below the leader's own ends
    where the leader's own begins, at the latest.

    ## Why it matters
    The follower keeps records that the leader does not have and appends the leader's behind them. Its log differs from the
    leader's for good, below the high watermark too, and it joins the ISR with it.

    ## Evidence needed
    The leader's request log and its "starts at leader epoch ... from offset" lines.

    ## What is allowed
    No last fetched epoch (-1): nothing is compared. An offset at or below the start of the leader's epoch: whether an older
    epoch ended below it can't be told, and passes. Below the log start the leader's memory of epochs is cut off, and
    nothing is demanded. A Fetch that is served in the leader epoch that it states was judged in that one, also while epochs
    change. One whose last epoch is the leader's own compares with the end of the leader's log, which is not
    recorded: it is no subject. Brokers that serve as followers are not judged.

    ## Example
    Broker 2 leads orders-0 in epoch 3 from offset 10. Broker 1 comes back with records up to 29 of epoch 1, fetches at 30 and
    states epoch 1. It gets records instead of "epoch 0 ends at 10".

    ## References
    Partition.readRecords, LeaderEpochFileCache.endOffsetFor; KIP-320, KIP-595; KAFKA-10432.
    """

    evidence = {
        "the Fetch request and its answer": "query_ref",
        "the line that starts the leader's epoch": "held_ref",
    }
    expected = (
        "a divergence at offset {held_start} or below and no records, as leader epoch {held_max} starts there;"
        " error 1 if epoch {asked_epoch} is above it"
    )
    observed = (
        "Fetch at offset {fetch_offset} after epoch {asked_epoch} answered {error_code} with {records_size} bytes of records,"
        " divergence at {offset}"
    )
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {held_max}, which starts at offset {held_start}",
        "{client_id} fetched at offset {fetch_offset} and stated leader epoch {asked_epoch} for the record before it",
        "a log whose record before offset {fetch_offset} is of epoch {asked_epoch} has parted from the leader's",
        "it was answered {error_code} with {records_size} bytes, and divergence at {offset}",
    )

    def applies(self) -> Column:
        return (col("event_type") == BY_FETCH) & at_a_leader()

    def verdict(self) -> tuple[Branch, ...]:
        epoch, own = col("asked_epoch"), judged_in()
        told = col("response_leader_epoch") >= 0
        bound = F.greatest("held_start", "log_start_offset")  # below the log start the epoch cache is cut off
        beyond = (epoch < own) & (col("fetch_offset") > bound)
        refused = col("error_code") != 0
        return first_of(
            violation(told & (col("records_size") > 0)),
            fenced(told | (refused & (epoch > own))),
            passed(refused),
            unverifiable(own.isNull(), "the leader epoch in which the broker led is not recorded"),
            unverifiable(
                (col("held_just_before") < col("held_min")) & (col("current_leader_epoch") < 0),
                "the broker's epoch changed just before, and request lines may be written late",
            ),
            unverifiable(col("held_outdated") & ((epoch > own) | beyond), HOLE),
            violation(epoch > own),
            unverifiable(
                (epoch < own) & col("held_start").isNull(),
                "where the leader epoch of the broker starts is not recorded",
            ),
            violation(beyond),
            otherwise=passed(),
        )
