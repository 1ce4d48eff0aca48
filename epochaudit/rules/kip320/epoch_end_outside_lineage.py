"""OE-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.epoch_queries import BY_EPOCH
from epochaudit.rules.kip320.leader_epoch_fence import HOLE
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("OE-03", frame="epoch_queries", kip="KIP-320", severity=HIGH, since="2.0.1")
class EpochEndOutsideLineage(Rule):
    """An OffsetForLeaderEpoch answer does not fit the leader's own lineage.

    ## What it checks
    A leader answers where a leader epoch ends in its log. Whatever its log holds, some things are certain: the epoch
    answered is never above the one asked for; an epoch below the leader's own ends at the start of that one at the
    latest; no epoch ends before it starts; the leader's own epoch is answered under its own number; and for an epoch above
    its own the answer is undefined (-1, -1).

    ## Why it matters
    A follower that is told too high an end keeps records that the leader does not have: the logs diverge below the high
    watermark. Told too low, it truncates what is committed. Consumers judge by the same answer whether their position
    still exists.

    ## Evidence needed
    The broker's request log and the "Leader ... starts at leader epoch ... from offset" lines, the serving broker's own above
    all; those of other leaders give the starts of older epochs.

    ## What is allowed
    The start of an epoch between the two is no bound: an epoch whose leader wrote nothing may vanish, and an unclean
    election brings older histories back. A superseded leader answers by its own lineage. An error is answered with
    (-1, -1) and is no answer. What the broker's epoch cache held is not recorded: an undefined answer for an
    older epoch (no epochs in the log's message format) can't be judged.

    ## Example
    Broker 2 leads orders-0 in epoch 3, which starts at offset 10. A consumer asks where epoch 1 ends and is told 30.

    ## References
    LeaderEpochFileCache.endOffsetFor, Partition.lastOffsetForLeaderEpoch; KIP-101, KIP-279, KIP-320; KAFKA-7415, KAFKA-10432.
    """

    evidence = {
        "the OffsetForLeaderEpoch request and its answer": "query_ref",
        "the line that starts the leader's epoch": "held_ref",
        "the line that starts the epoch answered": "answered_start_ref",
    }
    expected = (
        "an end between the start of the epoch answered ({answered_start}) and that of the leader's own ({held_start});"
        " (-1, -1) above leader epoch {leader_epoch}"
    )
    observed = "leader epoch {asked_epoch} answered with epoch {response_leader_epoch}, end offset {offset}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}, which starts at offset {held_start}",
        "leader epoch {response_leader_epoch} starts at offset {answered_start}",
        "asked by {client_id} where leader epoch {asked_epoch} ends, it answered epoch {response_leader_epoch}, offset {offset}",
    )

    def applies(self) -> Column:
        return (col("event_type") == BY_EPOCH) & (col("error_code") == 0) & (col("asked_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        asked, end, own = col("asked_epoch"), col("offset"), col("held_max")
        answered = F.coalesce("response_leader_epoch", "asked_epoch")  # version 0 answers none
        from_start = end >= F.coalesce("answered_start", F.lit(0))
        fits = (
            F.when(asked > own, end < 0)
            .when(asked == own, (answered == own) & from_start)
            .otherwise((end <= col("held_start")) & from_start)
        )
        return first_of(
            violation(answered > asked),
            unverifiable(own.isNull(), "the leader epoch in which the broker led is not recorded"),
            passed(fits),
            unverifiable(
                col("leader_epoch").isNull() | ~col("held_leader"),
                "the leader epoch in which the broker led is not recorded",
            ),
            unverifiable(
                col("held_just_before") < col("held_min"),
                "the broker's epoch changed just before, and request lines may be written late",
            ),
            unverifiable((end < 0) & (asked <= own), "what the broker's epoch cache held is not in the evidence"),
            unverifiable(
                col("held_start").isNull() & (asked < own),
                "where the leader epoch of the broker starts is not recorded",
            ),
            unverifiable(col("held_outdated"), HOLE),
            otherwise=violation(),
        )
