"""TR-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.epoch_queries import BY_FETCH, at_a_leader, judged_in
from epochaudit.rules.kip320.leader_epoch_fence import HOLE
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TR-04", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.7")
class DivergenceMisplaced(Rule):
    """A divergence that a leader told does not fit its own lineage.

    ## What it checks
    A Fetch answer with a divergence names an epoch and the offset at which it ends in the leader's log; the follower
    truncates by it. The epoch must not be above the one that the Fetch stated; it must be another one or end below the fetch
    offset, else nothing diverges; an epoch below the leader's own must not end beyond the start of that one, and none
    before it starts.

    ## Why it matters
    Told too high, the follower keeps records that the leader does not have. Told too low, it throws away committed ones, and
    if the leader fails before it has fetched them again, they are lost.

    ## Evidence needed
    The leader's request log and the "Leader ... starts at leader epoch ... from offset" lines, the leader's own above all;
    those of other leaders give the starts of older epochs.

    ## What is allowed
    A divergence that ends at the fetch offset or beyond, if its epoch is below the stated one: an epoch without records is
    unknown to the new leader, and the follower only forgets it. It is routine after elections in quick succession. The start
    of an epoch between the two is no bound, as in OE-03. Brokers that serve as followers are not judged.

    ## Example
    Broker 2 leads orders-0 in epoch 3 from offset 10. Broker 1 fetches at 30 and states epoch 1; it is told that epoch 1
    ends at 25.

    ## References
    Partition.readRecords, LeaderEpochFileCache.endOffsetFor; KIP-320, KIP-595.
    """

    caused_by = ("TR-03",)
    evidence = {
        "the Fetch request and its answer": "query_ref",
        "the line that starts the leader's epoch": "held_ref",
        "the line that starts the epoch answered": "answered_start_ref",
    }
    expected = (
        "an epoch not above {asked_epoch}, ended between its start ({answered_start}) and that of the leader's own"
        " ({held_start}), or below fetch offset {fetch_offset} if it is {asked_epoch}"
    )
    observed = "divergence told: epoch {response_leader_epoch} ends at offset {offset}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {held_max}, which starts at offset {held_start}",
        "leader epoch {response_leader_epoch} starts at offset {answered_start}",
        "{client_id} fetched at offset {fetch_offset} after a record of epoch {asked_epoch}, and was told that epoch"
        " {response_leader_epoch} ends at offset {offset}",
    )

    def applies(self) -> Column:
        told = (col("error_code") == 0) & (col("response_leader_epoch") >= 0)
        return (col("event_type") == BY_FETCH) & told & at_a_leader()

    def verdict(self) -> tuple[Branch, ...]:
        asked, answered, end = (col(name) for name in ("asked_epoch", "response_leader_epoch", "offset"))
        own = judged_in()
        return first_of(
            violation(answered > asked),
            violation((answered == asked) & (end >= col("fetch_offset"))),
            unverifiable(own.isNull(), "the leader epoch in which the broker led is not recorded"),
            unverifiable(
                (col("held_just_before") < col("held_min")) & (col("current_leader_epoch") < 0),
                "the broker's epoch changed just before, and request lines may be written late",
            ),
            unverifiable(col("held_outdated") & (asked > own), HOLE),
            violation(asked > own),
            unverifiable(
                (answered < own) & col("held_start").isNull(),
                "where the leader epoch of the broker starts is not recorded",
            ),
            violation((answered < own) & (end > F.greatest("held_start", "log_start_offset"))),
            violation(end < col("answered_start")),
            otherwise=passed(),
        )
