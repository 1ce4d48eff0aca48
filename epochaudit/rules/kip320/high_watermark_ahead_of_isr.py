"""HW-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("HW-05", frame="follower_epochs", kip="KIP-320", severity=CRITICAL, since="2.1")
class HighWatermarkAheadOfIsr(Rule):
    """A leader's high watermark was ahead of a member of the ISR.

    ## What it checks
    All members of the ISR have everything below the high watermark. A follower's Fetch says how far it has come, and the
    answer gives out the high watermark: while the follower is in the ISR, it must not be above the fetch offset. The
    subject is a follower in a leader epoch; the Fetch that it was furthest ahead of is judged.

    ## Why it matters
    Records below the high watermark are acknowledged and consumed. A member of the ISR that lacks some may be elected, and then
    they are gone: this is ValidHighWatermark of Kafka's TLA+ models.

    ## Evidence needed
    The leader's request log, and all ISRs of the leader epoch: the metadata log in KRaft; with ZooKeeper LeaderAndIsr
    requests, and the leader's server.log for what it changed itself.

    ## What is allowed
    A follower that was out of the ISR at some time, by any ISR recorded of the epoch or by any of the leader's lines about
    the partition, catches up: it passes, as when in the epoch is not looked at. A follower whose log has no leader epochs (the
    message format of 0.10) falls back on its own high watermark, which may be behind: unverifiable. Partitions that a
    Fetch leaves to its session are not judged, nor are Fetches without leader epoch (below version 9), nor those that waited:
    meanwhile another thread of the follower may have fetched on.

    ## Example
    orders-0 has ISR 1,2,3 throughout leader epoch 4. Broker 3 fetches from broker 1 at offset 90 and is told high watermark
    100.

    ## References
    Partition.maybeIncrementLeaderHW, updateFollowerFetchState; Kafka's TLA+ model AsyncIsr (ValidHighWatermark); KIP-320.
    """

    caused_by = ("IS-15", "IS-06", "BE-06")
    evidence = {
        "the follower's Fetch and its answer": "ahead_ref",
        "the first Fetch of the follower in the leader epoch": "first_ref",
        "the line that starts the leader epoch": "start_ref",
    }
    expected = "a high watermark of {ahead_of} at most, as replica {replica_id} is in the ISR"
    observed = "high watermark {ahead} in answer to its Fetch at offset {ahead_of}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}",
        "replica {replica_id} was a member of every ISR that is recorded of it: {isrs}",
        "it fetched at offset {ahead_of}, and was told high watermark {ahead}",
    )

    def applies(self) -> Column:
        return col("replica_id") != col("node")

    def verdict(self) -> tuple[Branch, ...]:
        always = F.forall("isrs", lambda isr: F.array_contains(isr, col("replica_id")))
        return first_of(
            passed(col("ahead").isNull()),
            unverifiable(F.size("isrs") == 0, "the ISR of the leader epoch is not in the evidence"),
            passed(~always),
            unverifiable(
                ~col("isrs_complete"), "changes of the ISR in the leader epoch may be missing in the evidence"
            ),
            unverifiable(
                F.coalesce(col("ahead_epoch") < 0, F.lit(True)),
                "the follower's log may have no leader epochs, and be truncated to its own high watermark",
            ),
            otherwise=violation(),
        )
