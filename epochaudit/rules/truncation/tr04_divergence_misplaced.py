"""TR-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import FETCH
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.epoch_queries import at_a_leader, states_another_epoch
from epochaudit.rules.leader_epoch_fence import EPOCH_LINE_MISSING
from epochaudit.rules.reasons import (
    AMBIGUOUS_TOPIC,
    EPOCH_START_UNKNOWN,
    START_UNPROVEN,
)
from epochaudit.rules.rule import HIGH, Branch, OwnSentences, Rule, first_of, passed, rule, unverifiable, violation
from epochaudit.rules.truncation.divergence import ASKED, LED, OUT_OF_RANGE, led_epoch_uncertain


@rule("TR-04", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.7")
class DivergenceMisplaced(Rule):
    """A divergence in a leader's answer does not fit the leader's own lineage.

    ## What it checks
    A Fetch response with a divergence names an epoch and the offset at which it ends in the leader's log, and the follower
    truncates by it. The epoch must not be above the one that the Fetch stated. It must be another epoch or end below the
    fetch offset, otherwise nothing diverges. An epoch below the leader's own must not end beyond the start of that one, and
    no epoch before it starts.

    ## Why it matters
    If the offset is too high, the follower keeps records that the leader does not have. If it is too low, the follower
    truncates committed records, which are lost if the leader fails before the follower has fetched them again.

    ## Evidence needed
    The leader's request log and the "Leader ... starts at leader epoch ... from offset" lines. The leader's own lines are
    essential; those of other leaders give the starts of older epochs.

    ## What is allowed
    A divergence that ends at the fetch offset or beyond, if its epoch is below the stated one: the new leader does not know
    an epoch without records, and the follower only removes it from its cache. This is routine after elections in quick
    succession. An end at a start of the leader's log, if it is answered for the stated epoch itself: the leader has no
    record of that epoch or an older one. A restart may have brought back an older log start offset since. The start of an
    epoch between the two is no bound, and a line that is written anew none for an end below it, as in OE-03. If a name had
    several topics and no id distinguishes them (Fetch 12), the rule claims nothing. Brokers that serve as followers are not judged.
    A divergence that is answered between the replica's deletion at the broker and its next recorded creation is
    unverifiable, unless it contradicts the Fetch itself.

    ## What to do
    Keep all replicas running until the follower has caught up (metric `FetcherLagMetrics`, `ConsumerLag`, of its
    broker): it may have truncated committed records. If the answered offset is too high, have the follower's log copied
    again: stop its broker, move the partition's folder aside, start it. Audit the leader's leader-epoch-checkpoint and
    segments (EP-04, EP-08), and let another replica lead if they disagree.

    ## Example
    Broker 2 leads orders-0 in epoch 3 from offset 10. Broker 1 fetches at 30 and states epoch 1. The response states that
    epoch 1 ends at 25.

    ## References
    Partition.readRecords, LeaderEpochFileCache.endOffsetFor; KIP-320, KIP-595.
    """

    caused_by = ("TR-03",)
    evidence = {
        "the Fetch request and its answer": "query_ref",
        "the line that starts the leader's epoch": "judged_ref",
        "the line that starts the epoch answered": "answered_start_ref",
    }
    expected = "epoch {response_leader_epoch} ended at {judged_start} or below, where the leader's own epoch starts"
    observed = "answered that epoch {response_leader_epoch} ends at offset {offset}"
    because = (LED, "leader epoch {response_leader_epoch} starts at offset {answered_start}", ASKED)

    def applies(self) -> Column:
        answered = (col("error_code") == Errors.NONE) & (col("response_leader_epoch") >= 0)
        return (col("event_type") == FETCH) & answered & at_a_leader()

    def verdict(self) -> tuple[Branch, ...]:
        asked, answered, end = (col(name) for name in ("asked_epoch", "response_leader_epoch", "offset"))
        own = col("judged_epoch")
        # LeaderEpochFileCache.endOffsetFor: below its first entry, any epoch ends where that entry starts, which is the log's start
        begins = (end <= col("log_start_offset")) | col("log_start_reached")
        without = (answered == asked) & begins
        beyond = (answered < own) & (end > F.greatest("judged_start", "log_start_offset"))
        if_led = "an end that fits the leader's lineage"
        unknown = OwnSentences(expected=if_led, because=(ASKED,))
        return first_of(
            violation(answered > asked, expected="an epoch not above {asked_epoch}, the one stated", because=(ASKED,)),
            violation(
                (answered == asked) & (end >= col("fetch_offset")),
                expected="an end below fetch offset {fetch_offset}: else nothing diverges",
                because=(ASKED,),
            ),
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC, **unknown),
            *led_epoch_uncertain(if_led),
            unverifiable(
                col("epoch_line_missing") & states_another_epoch() & ((asked > own) | beyond),
                EPOCH_LINE_MISSING,
                expected=if_led,
            ),
            violation(asked > own, expected=OUT_OF_RANGE),
            unverifiable((answered < own) & col("judged_start").isNull(), EPOCH_START_UNKNOWN, **unknown),
            violation(beyond),
            unverifiable(
                (answered < own) & (end < col("answered_start")) & ~without & ~col("answered_start_proven"),
                START_UNPROVEN,
                expected=if_led,
                because=(
                    LED,
                    "the first recorded line of leader epoch {response_leader_epoch} states offset {answered_start}",
                    ASKED,
                ),
            ),
            violation(
                (end < col("answered_start")) & ~without,
                expected="an end at offset {answered_start} or above, where epoch {response_leader_epoch} starts",
            ),
            passed(
                answered < own,
                expected="epoch {response_leader_epoch} ended at {judged_start} or below, where the leader's own epoch starts, or at"
                " its log start",
            ),
            otherwise=passed(expected="the end of the leader's own epoch, below fetch offset {fetch_offset}"),
        )
