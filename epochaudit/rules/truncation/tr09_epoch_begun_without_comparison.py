"""TR-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

_LED = "broker {node} began to lead {topic}-{partition} in leader epoch {leader_epoch}"
_FIRST = (
    "its first Fetch in leader epoch {leader_epoch} is at offset {fetch_offset}, its log starts at {log_start_offset}"
)


@rule("TR-09", frame="follower_epochs", kip="KIP-320", severity=HIGH, since="2.1")
class EpochBegunWithoutComparison(Rule):
    """A follower began to fetch in a new leader epoch without comparing its log with the leader's.

    ## What it checks
    Each leader epoch may begin another history. Before a follower accepts records in it, it must compare logs. Since 2.8
    (with inter.broker.protocol.version 2.7) its first Fetch in the epoch states the epoch of its last record. Before, it asks by
    OffsetForLeaderEpoch in the same leader epoch, and fetches after the answer.

    ## Why it matters
    A follower that does not compare keeps its records beyond the point of divergence, and appends the new history to them.
    Both logs have records at the same offsets, and they differ permanently.

    ## Evidence needed
    The leader's request log without missing files from the start of the epoch to the Fetch; the "starts at leader epoch" line
    states that start. A follower that stated the epoch of its last record before states it in each Fetch, so that for it any
    Fetch of the epoch is enough. Proof that
    the follower's log has leader epochs: a Fetch or OffsetForLeaderEpoch of the follower in an earlier leader epoch that
    states one, at any leader.

    ## What is allowed
    A follower with an empty log has nothing to compare: it fetches at offset 0, or at the start of its log. A restart may
    bring back an older log start offset, but no leader epochs from before the last one. A leader that has led since the epoch
    of the follower's Fetch before continues the log that the follower had compared with its own, or copied from the start: up to
    3.6 the follower forgets its last epoch if an empty response of that epoch arrives late. If it skipped leader epochs of
    which no leader is recorded, that is unverifiable. A log in the message format of 0.10 has no epochs, and
    its follower truncates to its high watermark. Fetches below version 9 state no leader epoch and are no subjects.

    ## What to do
    Audit the segments of follower and leader together (EP-07), and do not let the follower lead before. If they differ,
    save the follower's folder, then stop its broker, move the folder out of the log directory, and start it: it copies
    the leader's log. Run all brokers with Kafka 2.8 and inter.broker.protocol.version 2.7 or later, where each Fetch states
    the last epoch.

    ## Example
    Broker 3 has orders-0 up to 30, of epoch 6. Broker 1 becomes leader in epoch 7. The first Fetch of broker 3 in epoch 7
    is at offset 30, and states no last fetched epoch.

    ## References
    AbstractFetcherThread.partitionFetchState, maybeTruncate; Kafka's TLA+ model (FencedBecomeFollowerAndTruncate); KIP-320,
    Replica Handling; KAFKA-7164; KAFKA-15510 (the last epoch is forgotten).
    """

    evidence = {
        "the follower's first Fetch in the leader epoch": "first_ref",
        "the line that starts the leader epoch": "start_ref",
        "the earlier request that states an epoch of the follower's log": "known_ref",
    }
    expected = "a comparison of the logs before replica {replica_id} fetches in leader epoch {leader_epoch}"
    observed = (
        "the first Fetch, at offset {fetch_offset}, states no last fetched epoch, and the replica had not asked before"
    )
    because = (
        _LED,
        "replica {replica_id} has a log with leader epochs: earlier it stated epoch {epochs_known}",
        _FIRST,
        "no OffsetForLeaderEpoch was answered to it in this epoch before",
    )

    def applies(self) -> Column:
        return col("replica_id") >= 0

    def verdict(self) -> tuple[Branch, ...]:
        stated = col("last_fetched_epoch") >= 0
        nothing = (col("fetch_offset") <= 0) | (col("fetch_offset") == col("log_start_offset"))
        return first_of(
            passed(
                nothing,
                expected="a comparison of the logs, if replica {replica_id} has records",
                observed="its first Fetch is at offset {fetch_offset}, where its log begins",
                because=(_LED,),
            ),
            passed(
                col("fetch_offset") <= col("log_began"),
                expected="a comparison of the logs, if replica {replica_id} has records",
                observed="its first Fetch is at offset {fetch_offset}; its log had begun at {log_began}",
                because=(_LED,),
            ),
            passed(
                stated,
                observed="its first Fetch, at offset {fetch_offset}, states last fetched epoch {last_fetched_epoch}",
                because=(_LED,),
            ),
            passed(
                col("compared"),
                observed="it had compared them with broker {node} when it began to fetch at offset {fetch_offset}",
                because=(_LED,),
            ),
            unverifiable(
                col("epochs_known").isNull(),
                "whether the follower's log has leader epochs is not in the evidence",
                because=(_LED, _FIRST),
            ),
            unverifiable(
                ~col("compares_by_fetch") & ~col("covered"),
                "the leader's request log is not recorded from the start of the epoch to that Fetch",
                observed="its first recorded Fetch is at offset {fetch_offset}",
                because=(_LED, _FIRST),
            ),
            unverifiable(
                col("maybe_compared"),
                "who led since the follower last compared its log is not in the evidence",
                because=(_LED, _FIRST),
            ),
            otherwise=violation(),
        )
