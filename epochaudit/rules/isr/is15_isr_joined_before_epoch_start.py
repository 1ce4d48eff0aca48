"""IS-15."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.releases import release
from epochaudit.rules.reasons import (
    EPOCH_START_MISSING,
    FETCH_SESSION_INCOMPLETE,
    NO_FETCH_OF_REPLICA,
    NO_LINE_OF_NEW_ISR,
)
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation

FIRST_WITH_CHECK = release("2.0.1")


@rule("IS-15", frame="isr_expansions", kip="KIP-320", severity=HIGH, since="2.0.1")
class IsrJoinedBeforeEpochStart(Rule):
    """A leader took a replica into the ISR that had not reached the start of its leader epoch.

    ## What it checks
    A follower joins the ISR after it has fetched, in the current leader epoch, from the high watermark and from the start
    of that epoch or beyond. For each member that a new ISR adds, the highest offset that the member has fetched from the
    leader in this epoch must reach the epoch's start.

    ## Why it matters
    Below the epoch's start the follower lacks records that the leader had at its election, including committed ones. As an
    ISR member it can be elected and lose them (KAFKA-7128).

    ## Evidence needed
    The new ISRs from the metadata log, or else from the leader's lines. Three logs of the leader: server.log ("ISR
    updated"), state-change.log ("starts at leader epoch", and in KRaft "Skipped the become-leader state change", the only
    line about an ISR that reaches the leader by the metadata log first), and the request log (Fetch; up to 2.5 also
    LeaderAndIsr, for the ISR that it began with). If the change itself replaces the leader: server.log up to the line that
    its replica's log "is scheduled for deletion".

    ## What is allowed
    Fetches without a leader epoch (below version 9) count if they arrived after the epoch's start. The request log is
    written late, so fetches that arrive up to a second after the leader's line count. A fetch that waits (remoteTimeMs
    above 0) was accepted at its arrival, although it is refused when the leader changes. Another refused fetch is
    unverifiable. A fetch that is answered with a diverging epoch does not count: the follower truncates first. Leaders of
    2.7.0, 2.7.1 and 2.8.0 take it for the follower's position (KAFKA-13141). Members without recorded fetches are
    unverifiable. A leader that the change itself replaces, at the end of a reassignment, logs no line about it: all its
    fetches of the epoch count. No leader takes in a replica that the controller elects from outside the ISR, as it may when
    a reassignment is cancelled. Kafka before 2.0.1 does not check the epoch's start: exposed.

    ## What to do
    Keep the leader running, and hold no election, until the replica has caught up (metric `FetcherLagMetrics`,
    `ConsumerLag`, of its broker). If it was elected before, TR-06 reports the loss, and the former leader's log may
    hold the only copy. Exposed means a leader before 2.0.1, which does not check the start of its epoch: upgrade to
    2.0.1 or 2.1.0 (KAFKA-7128). Leaders of 2.7 and 2.8.0 need 2.7.2 or 2.8.1 (KAFKA-13141).

    ## Example
    Broker 1 leads orders-0 in epoch 4 from offset 120. Broker 3 has fetched up to offset 100, and broker 1 adds it to the
    ISR.

    ## References
    Partition.isFollowerInSync; Kafka's TLA+ model (FencedLeaderExpandIsr); KIP-320, Inadequate Replica Fencing; KAFKA-7128,
    KAFKA-13141.
    """

    evidence = {
        "the leader's line about its new ISR": "line_ref",
        "the record of the new ISR": "record_ref",
        "the furthest fetch of the new member": "fetch_ref",
        "its furthest fetch that was answered with a diverging epoch": "diverged_ref",
        "the start of the leader epoch": "start_ref",
    }
    expected = (
        "replica {replica_id} fetches from the start of leader epoch {leader_epoch} or beyond before it joins ISR {isr}"
    )
    observed = "replica {replica_id} is in ISR {isr}"
    because = (
        "broker {node} led {topic}-{partition} in leader epoch {leader_epoch} from offset {start_offset}",
        "until it took replica {replica_id} into ISR {isr}, the replica had fetched in this leader epoch up to offset {fetched_offset}",
        "its fetch from offset {diverged_offset} does not count: the leader answered with a diverging epoch",
    )

    def applies(self) -> Column:
        return col("replica_id") != col("node")

    def verdict(self) -> tuple[Branch, ...]:
        reaching = "replica {replica_id} fetches from offset {start_offset} or beyond before it joins ISR {isr}"
        below = "it fetched from offset {fetched_offset} at most"
        diverged = col("diverged_offset").isNotNull()
        none_recorded = "no recorded one that counts is from offset {start_offset} or beyond"
        return first_of(
            unverifiable(~col("timed"), NO_LINE_OF_NEW_ISR),
            unverifiable(col("start_offset").isNull(), EPOCH_START_MISSING),
            passed(
                col("fetched_offset") >= col("start_offset"),
                expected=reaching,
                observed="it had fetched from offset {fetched_offset}",
            ),
            unverifiable(
                col("refused_offset") >= col("start_offset"),
                "a fetch that suffices was refused in the end; whether it had been accepted on arrival is not in the evidence",
                observed="a fetch from offset {refused_offset} was refused",
            ),
            unverifiable((col("fetched") == 0) & ~diverged, NO_FETCH_OF_REPLICA),
            unverifiable(col("session_broken"), FETCH_SESSION_INCOMPLETE, observed=none_recorded),
            unverifiable(
                col("requests_missing"),
                "requests of the replica are missing (request log)",
                observed=none_recorded,
            ),
            exposed(
                holds(col("version") < FIRST_WITH_CHECK),
                "leaders before 2.0.1 do not look at the start of the leader epoch",
                expected=reaching,
                observed=below,
            ),
            violation(col("fetched") == 0, expected=reaching, observed="none of its fetches counts"),
            violation(
                diverged,
                expected=reaching,
                observed="apart from those that were answered with a diverging epoch, its fetches are from offset {fetched_offset} at most",
            ),
            otherwise=violation(expected=reaching, observed=below),
        )
