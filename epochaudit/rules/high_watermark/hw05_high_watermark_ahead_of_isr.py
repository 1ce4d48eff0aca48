"""HW-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation

_LED = "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}"
_IN_ISR = "a high watermark of {ahead_of} at most, if replica {replica_id} is in the ISR"


@rule("HW-05", frame="follower_epochs", kip="KIP-320", severity=CRITICAL, since="2.1")
class HighWatermarkAheadOfIsr(Rule):
    """A leader's high watermark was ahead of a member of the ISR.

    ## What it checks
    All members of the ISR have all records below the high watermark. A follower's Fetch states its fetch offset, and the
    response states the high watermark, which must not be above that offset while the follower is in the ISR. The subject is
    a follower in a leader epoch. The Fetch with the largest difference decides.

    ## Why it matters
    Records below the high watermark are acknowledged and consumed. If a member of the ISR that lacks some is elected, they
    are lost. This is ValidHighWatermark of Kafka's TLA+ models.

    ## Evidence needed
    The leader's request log, and all ISRs of the leader epoch. In KRaft they are in the metadata log. With ZooKeeper they
    are in LeaderAndIsr requests and, for the leader's own changes, in its server.log, which must be recorded from the start
    of the epoch to the Fetch. For incremental Fetches below version 12: the leader's version.

    ## What is allowed
    A follower that was outside the ISR at any time of the epoch, by any recorded ISR, is catching up: it passes, whenever that
    was. The leader's lines about the partition name no epoch. Each of them counts, unless the metadata log has all ISRs of the
    epoch. A follower whose log has no leader epochs (message format of 0.10) truncates to its own high watermark, which
    may be behind: unverifiable. Not judged are partitions that a Fetch
    leaves to its session, Fetches without leader epoch (below version 9), and Fetches that waited, because another thread
    of the follower may have fetched meanwhile. Neither are incremental Fetches below version 12, unless the leader's version is
    known and none of 2.1.0 to 2.4.1: those lose the leader epoch in fetch sessions (KAFKA-9338), and serve a follower that
    has left the ISR with a newer epoch.

    ## What to do
    Keep the leader running, and hold no election, until the follower has caught up (metric `FetcherLagMetrics`,
    `ConsumerLag`, of its broker). If either restarted since, check whether TR-06 reports a loss. IS-15, BE-06, IS-09 or
    IS-12 for the partition name the cause; otherwise report the finding's lines and the leader's version to the Kafka
    project.

    ## Example
    orders-0 has ISR 1,2,3 throughout leader epoch 4. Broker 3 fetches from broker 1 at offset 90, and the response has high
    watermark 100.

    ## References
    Partition.maybeIncrementLeaderHW, updateFollowerFetchState; Kafka's TLA+ model AsyncIsr (ValidHighWatermark); KIP-320.
    """

    caused_by = ("IS-15", "IS-06", "BE-06")
    evidence = {
        "the follower's Fetch and its answer": "ahead_ref",
        "the first Fetch of the follower in the leader epoch": "first_ref",
        "the line that starts the leader epoch": "start_ref",
        "the first recorded ISR of the leader epoch": "first_isr_ref",
        "the last recorded ISR of the leader epoch": "last_isr_ref",
        "the leader's last line about the ISR": "isr_line_ref",
    }
    expected = "a high watermark of {ahead_of} at most, as replica {replica_id} is in the ISR"
    observed = "high watermark {ahead} in answer to its Fetch at offset {ahead_of}"
    because = (
        _LED,
        "replica {replica_id} was a member of every ISR that is recorded of the leader epoch: {isrs}",
        "it fetched at offset {ahead_of}, and the answer had high watermark {ahead}",
    )

    def applies(self) -> Column:
        return col("replica_id") != col("node")

    def verdict(self) -> tuple[Branch, ...]:
        always = F.forall("isrs", lambda isr: F.array_contains(isr, col("replica_id")))
        return first_of(
            passed(
                col("ahead").isNull(),
                expected="no high watermark above the fetch offset of replica {replica_id}, while it is in the ISR",
                observed="none was above it in the Fetches of leader epoch {leader_epoch} that are judged",
                because=(_LED,),
            ),
            unverifiable(
                F.size("isrs") == 0,
                "the ISR of the leader epoch is not in the evidence",
                expected=_IN_ISR,
                because=(_LED,),
            ),
            passed(
                ~always,
                expected=_IN_ISR,
                observed="high watermark {ahead} in answer to its Fetch at offset {ahead_of}; it was not always in the ISR",
                because=(_LED, "the ISRs that are recorded of the leader epoch: {isrs}"),
            ),
            unverifiable(
                ~col("isrs_complete"),
                "changes of the ISR in the leader epoch may be missing in the evidence",
                expected=_IN_ISR,
            ),
            unverifiable(
                F.coalesce(col("ahead_epoch") < 0, F.lit(True)),
                "the follower's log may have no leader epochs, and be truncated to its own high watermark",
                expected=_IN_ISR,
            ),
            otherwise=violation(),
        )
