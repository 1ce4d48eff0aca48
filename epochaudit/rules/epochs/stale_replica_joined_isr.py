"""BE-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.isr_expansions import without_epoch
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("BE-06", frame="isr_expansions", kip="KIP-903", severity=HIGH, since="3.5")
class StaleReplicaJoinedIsr(Rule):
    """A replica joined the ISR on what its previous incarnation had fetched.

    ## What it checks
    Since Fetch 15 a follower names its broker epoch, once it is registered. When a leader has the controller accept a
    new ISR member under some broker epoch (AlterPartition 3+), that incarnation must have fetched from the leader in
    the leader epoch, at the start of that epoch or beyond. If only fetches with older broker epochs reach so far, the
    new incarnation counts as caught up by the old one's fetches.

    ## Why it matters
    A broker that was killed may come back with a shorter log. If the leader ascribes the old position to it, it is in the
    ISR without records that everyone believes it has (KAFKA-14617, KAFKA-15221).

    ## Evidence needed
    The leader's server.log and state-change.log, its request log with Fetch 15+, and the controller's request log.

    ## What is allowed
    A fetch with an older broker epoch that was answered 0 is no finding by itself: how far the leader's metadata had come is
    in no log. One answered 6 before the new incarnation caught up is a fence that held. Leaders of ZooKeeper clusters state
    no broker epochs, and are not judged.

    ## Example
    Broker 3, registered anew with epoch 77, is accepted into the ISR of orders-0 under 77; all fetches that leader 1 had
    from it in the leader epoch carry epoch 51.

    ## References
    KIP-903, Proposed Changes; Replica.updateFetchStateOrThrow; Partition.maybeExpandIsr; KAFKA-15221.
    """

    evidence = {
        "the leader's line about its new ISR": "line_ref",
        "the AlterPartition that states the broker epoch": "request_ref",
        "the furthest fetch of the new member": "fetch_ref",
    }
    expected = "a fetch of replica {replica_id} with broker epoch {stated_epoch} before it joins ISR {isr}"
    observed = "fetches with broker epochs {epochs_fetched}, under {stated_epoch} up to offset {stated_offset}"
    because = (
        "broker {node} had ISR {isr} of {topic}-{partition} accepted, with broker epoch {stated_epoch} for replica {replica_id}",
        "the replica's fetches in leader epoch {leader_epoch} that had arrived by then carry broker epochs {epochs_fetched}",
    )

    def applies(self) -> Column:
        return (col("replica_id") != col("node")) & (col("stated_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        own = col("stated_offset").isNotNull()
        none = (col("fetched") == 0) | (~own & (F.size("epochs_fetched") == 0))
        behind = F.coalesce(col("stated_offset") < col("start_offset"), F.lit(False))
        return first_of(
            unverifiable(none, "no fetch of the replica in this leader epoch is recorded (request log)"),
            unverifiable(~own & without_epoch(), "the replica's fetches state no broker epoch"),
            fenced(own & ~behind & col("stale_refused")),
            passed(own & ~behind),
            passed(own & (col("fetched_offset") < col("start_offset"))),  # IS-15's
            passed(F.array_max("epochs_fetched") > col("stated_epoch")),
            unverifiable(
                F.array_contains("epochs_refused", col("stated_epoch")),
                "a fetch of the new incarnation was refused in the end; whether it had been accepted on arrival is not in the evidence",
            ),
            unverifiable(col("session_broken"), "requests of the replica's fetch session are not recorded"),
            otherwise=violation(),
        )
