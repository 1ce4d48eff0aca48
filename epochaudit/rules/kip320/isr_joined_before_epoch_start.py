"""IS-15."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation

FIRST_WITH_CHECK = 2_000_001  # 2.0.1


@rule("IS-15", frame="isr_expansions", kip="KIP-320", severity=HIGH, since="2.0.1")
class IsrJoinedBeforeEpochStart(Rule):
    """A leader took a replica into the ISR that had not reached the start of its leader epoch.

    ## What it checks
    A follower joins the ISR when it has fetched, in the current leader epoch, from the high watermark and from the start of
    that epoch or beyond. For each new ISR member that a leader logs, the highest offset that the member had fetched from it
    in this epoch must reach the epoch's start.

    ## Why it matters
    Below the epoch's start the follower lacks records that the leader had when it was elected, committed ones among them. As
    an ISR member it can be elected and loses them (KAFKA-7128).

    ## Evidence needed
    Three logs of the leader: server.log (ISR changes), state-change.log ("starts at leader epoch"), request log (Fetch; up to
    2.5 LeaderAndIsr, too, for the ISR that it began with).

    ## What is allowed
    Fetches without a leader epoch (below version 9) count if they arrived after the epoch's start. Fetches that arrive up to
    a second after the leader's line count: the request log is written late. A fetch that waits is accepted on arrival and may
    yet be refused when the leader changes: unverifiable. Members whose fetches are not recorded are
    unverifiable. Kafka before 2.0.1 does not look at the epoch's start: exposed.

    ## Example
    Broker 1 leads orders-0 in epoch 4 from offset 120. Broker 3 has fetched offset 100, and broker 1 expands the ISR by it.

    ## References
    Partition.isFollowerInSync; Kafka's TLA+ model (FencedLeaderExpandIsr); KIP-320, Inadequate Replica Fencing; KAFKA-7128.
    """

    evidence = {
        "the leader's line about its new ISR": "line_ref",
        "the furthest fetch of the new member": "fetch_ref",
        "the start of the leader epoch": "start_ref",
    }
    expected = "a fetch of replica {replica_id} at offset {start_offset} or beyond before it joins ISR {isr}"
    observed = "fetches up to offset {fetched_offset}"
    because = (
        "broker {node} leads {topic}-{partition} in leader epoch {leader_epoch} from offset {start_offset}",
        "until it took replica {replica_id} into ISR {isr}, {fetched} fetches of the replica in this epoch were answered 0",
        "the furthest was at offset {fetched_offset}",
    )

    def applies(self) -> Column:
        return col("replica_id") != col("node")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("start_offset").isNull(), "where the leader epoch starts is not in the evidence"),
            passed(col("fetched_offset") >= col("start_offset")),
            unverifiable(
                col("refused_offset") >= col("start_offset"),
                "a fetch that suffices was refused in the end; whether it had been accepted on arrival is not in the evidence",
            ),
            unverifiable(col("fetched") == 0, "no fetch of the replica in this leader epoch is recorded (request log)"),
            unverifiable(col("session_broken"), "requests of the replica's fetch session are not recorded"),
            exposed(F.coalesce(col("version") < FIRST_WITH_CHECK, F.lit(False))),
            otherwise=violation(),
        )
