"""TR-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import FETCH
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.epoch_queries import at_a_leader, states_another_epoch
from epochaudit.rules.leader_epoch_fence import EPOCH_LINE_MISSING
from epochaudit.rules.reasons import EPOCH_START_UNKNOWN
from epochaudit.rules.rule import (
    CRITICAL,
    Branch,
    OwnSentences,
    Rule,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)
from epochaudit.rules.truncation.divergence import ASKED, LED, OUT_OF_RANGE, led_epoch_uncertain


@rule("TR-03", frame="epoch_queries", kip="KIP-320", severity=CRITICAL, since="2.7")
class DivergenceUndetected(Rule):
    """A leader served a Fetch from beyond the point where the logs diverge.

    ## What it checks
    Fetch 12+ states the leader epoch of the record before its offset. The leader looks up where that epoch ends in its own
    log. If that is below the fetch offset, it must answer with the divergence and without records. If the epoch is above
    its own and so unknown, it must answer 1 (OFFSET_OUT_OF_RANGE). For every log, an epoch below the leader's own ends at
    the start of the leader's own epoch at the latest.

    ## Why it matters
    The follower keeps records that the leader does not have and appends the leader's records behind them. Its log differs
    from the leader's permanently, even below the high watermark, and it joins the ISR with it.

    ## Evidence needed
    The leader's request log and its "starts at leader epoch ... from offset" lines.

    ## What is allowed
    Without a last fetched epoch (-1) nothing is compared. An offset at or below the start of the leader's epoch passes,
    because it is unknown whether an older epoch ended below it. Below the log start the leader's epoch cache has no
    entries, and nothing is required. A Fetch that was served in the leader epoch that it states was checked in that epoch,
    even while epochs change. A Fetch whose last epoch is the leader's own is no subject: it is compared with the end of the
    leader's log, which is not recorded. Brokers that serve as followers are not judged. Records that are served between
    the replica's deletion at the broker and its next recorded creation are unverifiable.

    ## What to do
    Keep the leader running, and save the partition's folder of the follower, which may not be elected with this log.
    Then stop the follower's broker, move the folder out of the log directory, and start it: it copies the leader's log.
    The saved folder has what the leader lacks. Look for EP-04 and EP-08 at the leader: up to 2.6.0 an epoch cache may
    have lost epoch 0 (KAFKA-10432).

    ## Example
    Broker 2 leads orders-0 in epoch 3 from offset 10. Broker 1 comes back with records up to 29 of epoch 1, fetches at 30
    and states epoch 1. It gets records instead of "epoch 0 ends at 10".

    ## References
    Partition.readRecords, LeaderEpochFileCache.endOffsetFor; KIP-320, KIP-595; KAFKA-10432.
    """

    evidence = {
        "the Fetch request and its answer": "query_ref",
        "the line that starts the leader's epoch": "judged_ref",
    }
    expected = (
        "a divergence at offset {judged_start} or below and no records, as leader epoch {judged_epoch} starts there"
    )
    observed = "Fetch at offset {fetch_offset} after a record of epoch {asked_epoch} answered {error_code} without a divergence"
    because = (
        LED,
        ASKED,
        "so its log has no record of epoch {asked_epoch} from offset {judged_start} on",
        "the answer held {records_size} bytes of records",
    )

    def applies(self) -> Column:
        return (col("event_type") == FETCH) & at_a_leader()

    def verdict(self) -> tuple[Branch, ...]:
        epoch, own = col("asked_epoch"), col("judged_epoch")
        bound = F.greatest("judged_start", "log_start_offset")  # below the log start the epoch cache is cut off
        beyond = (epoch < own) & (col("fetch_offset") > bound)
        refused = col("error_code") != Errors.NONE
        if_parted = "a divergence and no records, if the leader's log has no record of epoch {asked_epoch} before {fetch_offset}"
        unknown = OwnSentences(expected=if_parted, because=(ASKED,))
        return first_of(
            *_diverged(),
            fenced(
                refused & (epoch > own),
                expected=OUT_OF_RANGE,
                observed="error {error_code} for a Fetch at offset {fetch_offset} after a record of epoch {asked_epoch}",
                because=(LED, ASKED),
            ),
            passed(
                refused,
                expected="an answer, a divergence or error {OFFSET_OUT_OF_RANGE} for an offset outside the leader's log",
                observed="error {error_code} for a Fetch at offset {fetch_offset}",
                because=(LED, ASKED),
            ),
            *led_epoch_uncertain(if_parted),
            unverifiable(
                col("epoch_line_missing") & states_another_epoch() & ((epoch > own) | beyond),
                EPOCH_LINE_MISSING,
                expected=if_parted,
                because=(LED, ASKED),
            ),
            violation(
                epoch > own,
                expected=OUT_OF_RANGE,
                because=(LED, ASKED, "the answer held {records_size} bytes of records"),
            ),
            unverifiable((epoch < own) & col("judged_start").isNull(), EPOCH_START_UNKNOWN, **unknown),
            violation(beyond),
            passed(
                epoch < own,
                expected="an answer, as {fetch_offset} is not beyond the start of the leader's epoch ({judged_start}), or that of its log",
                because=(LED, ASKED),
            ),
            otherwise=passed(
                expected="an answer, as the leader's own epoch has nothing to be compared", because=(LED, ASKED)
            ),
        )


def _diverged() -> tuple[Branch, ...]:
    """The branches for an answer with a divergence."""
    diverged = col("response_leader_epoch") >= 0
    divergence = "answered that epoch {response_leader_epoch} ends at offset {offset}"
    return (
        violation(
            diverged & (col("records_size") > 0),
            expected="no records beside a divergence",
            observed=divergence + ", beside {records_size} bytes of records",
            because=(ASKED,),
        ),
        fenced(
            diverged & (col("response_leader_epoch") < col("asked_epoch")) & (col("offset") >= col("fetch_offset")),
            expected="a divergence, as the leader's log has no epoch {asked_epoch}",
            observed=divergence + ", at the fetch offset {fetch_offset} or beyond and no records",
            because=(
                LED,
                ASKED,
                "no record is lost by that: epoch {asked_epoch} had none, and the follower only forgets it",
            ),
        ),
        fenced(
            diverged,
            expected="a divergence below fetch offset {fetch_offset} and no records",
            observed=divergence + " and no records",
            because=(LED, ASKED),
        ),
    )
