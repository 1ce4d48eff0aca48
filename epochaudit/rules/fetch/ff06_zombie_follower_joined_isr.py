"""FF-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import ISR_EXPANDING, ISR_UPDATED
from epochaudit.kafka.releases import release
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, fenced, first_of, passed, rule, unverifiable

FIRST_WITHOUT_ANNOUNCEMENT = release("2.8")  # no line "Expanding ISR" any more


@rule("FF-06", frame="isr_expansions", kip="KIP-320", severity=CRITICAL, since="2.1")
class ZombieFollowerJoinedIsr(Rule):
    """A leader took a broker into the ISR that UpdateMetadata no longer listed as live.

    ## What it checks
    A leader whose inter.broker.protocol.version is below 2.7-IV2 writes the ISR to ZooKeeper itself. Each replica that it
    adds must be among the live brokers of the last UpdateMetadata that it received. Its log line is "Expanding ISR" up to
    2.7, and "ISR updated" from 2.8 to 3.9.

    ## Why it matters
    A broker without a registration gets no LeaderAndIsr, so it does not learn of elections and does not truncate. As an ISR
    member it counts for acknowledgements, and may be elected with a diverging log. KIP-320 fences its fetches by the leader
    epoch since 2.1; before, nothing does.

    ## Evidence needed
    The leader's server.log, its request log with the UpdateMetadata requests, and its "starts at leader epoch" lines. Since
    2.8 also the settings that it logs at its start, for inter.broker.protocol.version.

    ## What is allowed
    A broker that an UpdateMetadata lists as live within the next half minute: it may have registered before the leader
    learned of it. A broker that was removed from the live brokers only within the second before. ZooKeeper may refuse the
    new ISR because the controller has changed it since: fenced. From 2.8 on no line shows such an ISR, and it is not
    judged. From inter.broker.protocol.version 2.7-IV2 on the controller decides (IS-05, IS-16), in KRaft IS-01 and IS-06
    judge it. A release without a fence is reported only if the replica joined the ISR, and then as exposed.

    ## What to do
    Keep the leader running: the broker that it took in may have another history and must not be elected. Restart that
    broker, and find out from its server.log why it lost its ZooKeeper session. These releases have no check of live
    followers: 2.1 fences such a broker by the leader epoch, and with inter.broker.protocol.version 2.7-IV2 or later the
    controller decides about ISRs, since 3.3 only in favour of live brokers.

    ## Example
    Broker 3 loses its ZooKeeper session and continues to fetch from broker 1. An UpdateMetadata lists brokers 1 and 2 as
    live, and broker 1 expands the ISR of orders-0 from 1,2 to 1,2,3.

    ## References
    Partition.maybeExpandIsr; ZkIsrManager; KIP-320, Inadequate Replica Fencing; KAFKA-6880, KAFKA-7395.
    """

    evidence = {
        "the leader's line about its new ISR": "line_ref",
        "the last UpdateMetadata that changed the live brokers": "live_ref",
        "the furthest fetch of the new member": "fetch_ref",
        "the start of the leader epoch": "start_ref",
    }
    expected = "replica {replica_id} is live when it joins ISR {isr}"
    observed = "replica {replica_id} is in ISR {isr}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch}, and UpdateMetadata had listed brokers "
        "{known_live_brokers} as live",
        "replica {replica_id} had fetched up to offset {fetched_offset}",
    )

    def applies(self) -> Column:
        updated = col("event_type") == ISR_UPDATED
        not_live = ~F.array_contains("known_live_brokers", col("replica_id"))
        by_itself = F.coalesce("writes_zookeeper", not_live & (col("version") >= FIRST_WITHOUT_ANNOUNCEMENT))
        return ((col("event_type") == ISR_EXPANDING) | (updated & by_itself)) & (col("replica_id") != col("node"))

    def verdict(self) -> tuple[Branch, ...]:
        not_live = ~F.array_contains("known_live_brokers", col("replica_id"))
        out = "replica {replica_id} stays out of the ISR, as brokers {known_live_brokers} were live"
        return first_of(
            unverifiable(
                col("known_live_brokers").isNull(), "no UpdateMetadata to the leader states which brokers are live"
            ),
            passed(~not_live, observed="brokers {known_live_brokers} were live"),
            unverifiable(
                (col("event_type") == ISR_UPDATED) & col("writes_zookeeper").isNull(),
                "whether the leader or the controller decided is not in the evidence (inter.broker.protocol.version)",
            ),
            fenced(col("skipped"), expected=out, observed="ZooKeeper refused ISR {isr}"),
            unverifiable(col("live_soon"), "the replica may have gone or been registered anew just then"),
            unverifiable(
                col("known_live_brokers_until") <= col("line_ref.time_ms"),
                "no later UpdateMetadata shows whether the replica had been registered anew",
            ),
            otherwise=exposed(
                reason="leaders of these releases do not look whether a follower is alive",
                expected=out,
                observed="ISR {isr}",
                because=(
                    *self.because,
                    "no UpdateMetadata to broker {node} listed the replica as live within half a minute after it",
                ),
            ),
        )
