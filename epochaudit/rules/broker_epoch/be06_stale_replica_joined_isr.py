"""BE-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.control_plane.isr_expansions import without_epoch
from epochaudit.rules.reasons import (
    EPOCH_START_MISSING,
    FETCH_SESSION_INCOMPLETE,
    NO_FETCH_OF_REPLICA,
    NO_LINE_OF_NEW_ISR,
)
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("BE-06", frame="isr_expansions", kip="KIP-903", severity=HIGH, since="3.5")
class StaleReplicaJoinedIsr(Rule):
    """A replica joined the ISR on what its previous incarnation had fetched.

    ## What it checks
    Since Fetch 15 a registered follower states its broker epoch. If the controller accepts a new ISR member under a broker
    epoch (AlterPartition 3+), that incarnation must have fetched from the leader in the current leader epoch, up to the
    start of that epoch or beyond. It is a breach if only fetches with older broker epochs reach that far: the leader then
    takes the new incarnation for caught up because the old one was.

    ## Why it matters
    A killed broker may come back with a shorter log. If the leader ascribes the old position to it, the ISR has a member
    without records that every other member has (KAFKA-14617, KAFKA-15221).

    ## Evidence needed
    The new ISRs from the metadata log, or else from the leader's server.log and state-change.log. The leader's request log
    with Fetch 15+. The controller's request log. If the change itself replaces the leader: server.log, as for IS-15.

    ## What is allowed
    A fetch with an older broker epoch that was answered 0 is no finding by itself, because no log shows how recent the
    leader's metadata was. A broker fetches with epoch -1 until it learns of its registration; the epoch that it later
    states in the same fetch session also applies to these fetches. A fetch that was answered 6 before the new
    incarnation caught up was fenced. A fetch that waited (remoteTimeMs above 0) counts even if it was refused in the
    end. A fetch that is answered with a diverging epoch does not count: the follower truncates first. Leaders of
    ZooKeeper clusters state no broker epochs and are not judged.

    ## What to do
    Keep the leader running, and hold no election, until the replica has caught up (metric `FetcherLagMetrics`,
    `ConsumerLag`, of its broker). If it was elected before that, TR-06 reports what was lost. Upgrade brokers to 3.7,
    where a leader reads a follower's position and broker epoch together (KAFKA-15221).

    ## Example
    Broker 3 registers again with epoch 77, and the controller accepts it into the ISR of orders-0 under 77. All its fetches
    from leader 1 in the leader epoch state epoch 51.

    ## References
    KIP-903, Proposed Changes; Replica.updateFetchStateOrThrow; Partition.maybeExpandIsr; KAFKA-15221.
    """

    evidence = {
        "the leader's line about its new ISR": "line_ref",
        "the record of the new ISR": "record_ref",
        "the AlterPartition that states the broker epoch": "request_ref",
        "the furthest fetch of the new member": "fetch_ref",
        "its furthest fetch with the broker epoch stated": "stated_ref",
        "its furthest fetch that was answered with a diverging epoch": "diverged_ref",
        "the start of the leader epoch": "start_ref",
    }
    expected = (
        "before replica {replica_id} joins ISR {isr} with broker epoch {stated_epoch}, it fetches with that broker epoch from the "
        "start of leader epoch {leader_epoch} or beyond"
    )
    observed = "replica {replica_id} is in ISR {isr} with broker epoch {stated_epoch}"
    because = (
        "the controller accepted ISR {requested_isr} of {topic}-{partition} from broker {node}, with broker epoch {stated_epoch} for "
        "replica {replica_id}",
        "broker {node} led in leader epoch {leader_epoch} from offset {start_offset}",
        "until then the replica had fetched in this leader epoch with broker epochs {epochs_fetched}, up to offset {fetched_offset}",
        "its fetch from offset {diverged_offset} does not count: the leader answered with a diverging epoch",
    )

    def applies(self) -> Column:
        return (col("replica_id") != col("node")) & (col("stated_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        own = col("stated_offset").isNotNull()
        none = (col("fetched") == 0) | (~own & (F.size("epochs_fetched") == 0))
        reaches = col("stated_offset") >= col("start_offset")
        return first_of(
            unverifiable(~col("timed"), NO_LINE_OF_NEW_ISR),
            unverifiable(col("start_offset").isNull(), EPOCH_START_MISSING),
            unverifiable(
                (col("fetched") == 0) & col("diverged_offset").isNotNull(),
                "the replica's recorded fetches in this leader epoch were answered with a diverging epoch (request log)",
            ),
            unverifiable(none, NO_FETCH_OF_REPLICA, because=self.because[:2]),
            unverifiable(
                ~own & without_epoch(),
                "the replica's fetches state no broker epoch",
                because=(*self.because[:2], "the replica's fetches until then state no broker epoch"),
            ),
            fenced(
                reaches & col("stale_refused"),
                observed="a fetch with an older broker epoch was answered {NOT_LEADER_OR_FOLLOWER}; with broker"
                " epoch {stated_epoch} the replica fetched from "
                "offset {stated_offset}",
            ),
            passed(
                reaches,
                observed="with broker epoch {stated_epoch} the replica fetched from offset {stated_offset}",
            ),
            passed(
                own & (col("fetched_offset") < col("start_offset")),
                expected="the replica's position is that of its fetches with broker epoch {stated_epoch}",
                observed="none of its fetches reached offset {start_offset}, whatever their broker epoch: IS-15 judges that",
            ),
            passed(
                F.array_max("epochs_fetched") > col("stated_epoch"),
                expected="the replica's position is not that of an incarnation older than broker epoch {stated_epoch}",
                observed="it had fetched with broker epochs {epochs_fetched}, the last of them newer than the one stated",
            ),
            unverifiable(
                F.array_contains("epochs_refused", col("stated_epoch")),
                "a fetch of the new incarnation was refused in the end; whether it had been accepted on arrival is not in the evidence",
            ),
            unverifiable(col("session_broken") | col("requests_missing"), FETCH_SESSION_INCOMPLETE),
            violation(
                own,
                observed="with broker epoch {stated_epoch} the replica fetched up to offset {stated_offset}, with older ones up to "
                "{fetched_offset}",
            ),
            otherwise=violation(observed="the replica's fetches that count have broker epochs {epochs_fetched} only"),
        )
