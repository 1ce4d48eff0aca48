"""FF-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, fenced, first_of, passed, rule, unverifiable


@rule("FF-06", frame="isr_expansions", kip="KIP-320", severity=CRITICAL, since="2.1")
class ZombieFollowerJoinedIsr(Rule):
    """A leader took a broker into the ISR that it had been told is gone.

    ## What it checks
    Up to 2.6 a leader changes the ISR in ZooKeeper by itself. Each replica that it takes in ("Expanding ISR") must be among the
    live brokers of the last UpdateMetadata that the leader was sent.

    ## Why it matters
    A broker without a registration gets no LeaderAndIsr: it does not hear of elections and does not truncate. In the ISR it
    counts for acknowledgements, and may be elected with a log of another history. KIP-320 fences its fetches by the leader
    epoch from 2.1 on; before, nothing does.

    ## Evidence needed
    The leader's server.log, its request log with the UpdateMetadata requests, and its "starts at leader epoch" lines.

    ## What is allowed
    A broker that the leader is told of as live within half a minute after: it may have been registered anew before the leader
    heard of it. A broker that was told gone only within the second before. ZooKeeper may refuse the new ISR, as the controller
    has changed it since: fenced. From 2.7 on the controller decides: IS-05, IS-16. In KRaft IS-01 and IS-06 judge.
    A release that has no fence is reported only when the replica was taken in, and then as exposed.

    ## Example
    Broker 3 loses its session with ZooKeeper and goes on fetching from broker 1. Broker 1 is told that 1 and 2 are live, and
    expands the ISR of orders-0 from 1,2 to 1,2,3.

    ## References
    Partition.maybeExpandIsr; KIP-320, Inadequate Replica Fencing; KAFKA-6880, KAFKA-7395.
    """

    evidence = {
        "the leader's line about its new ISR": "line_ref",
        "the last UpdateMetadata about live brokers": "live_ref",
        "the furthest fetch of the new member": "fetch_ref",
    }
    expected = "replica {replica_id} stays out of the ISR, as live brokers were {live_told}"
    observed = "ISR {isr}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}, and had been told that brokers {live_told} are live",
        "replica {replica_id} went on fetching, up to offset {fetched_offset}",
        "broker {node} took it into ISR {isr}, and was not told within half a minute that it is live",
    )

    def applies(self) -> Column:
        return (col("event_type") == "ISR_EXPANDING") & (col("replica_id") != col("node"))

    def verdict(self) -> tuple[Branch, ...]:
        gone = ~F.array_contains("live_told", col("replica_id"))
        return first_of(
            unverifiable(col("live_told").isNull(), "no UpdateMetadata tells the leader which brokers are live"),
            passed(~gone),
            fenced(gone & col("skipped")),
            unverifiable(col("live_soon"), "the replica may have gone or been registered anew just then"),
            unverifiable(
                col("live_told_until") <= col("line_ref.time_ms"),
                "no later UpdateMetadata tells whether the replica had been registered anew",
            ),
            exposed(gone, "leaders of these releases do not look whether a follower is alive"),
            otherwise=passed(),
        )
