"""TR-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

FIRST_COMPARING_FETCH = 12


@rule("TR-09", frame="follower_epochs", kip="KIP-320", severity=HIGH, since="2.1")
class EpochBegunWithoutComparison(Rule):
    """A follower began to fetch in a new leader epoch without comparing its log with the leader's.

    ## What it checks
    Each leader epoch may begin with another history. Before a follower takes records in it, it compares logs: since 2.7
    (inter.broker.protocol.version) its first Fetch in the epoch states the epoch of its last record; before, it asks by
    OffsetForLeaderEpoch in the same leader epoch, and fetches when it has been answered.

    ## Why it matters
    A follower that does not compare keeps what it has beyond the point where the logs part, and appends the new history to
    it. Both have records at the same offsets, and they differ for good.

    ## Evidence needed
    The leader's request log, from before the start of the epoch; for that its "starts at leader epoch" line. That the
    follower's log has leader epochs at all: a Fetch or OffsetForLeaderEpoch of the follower in an earlier leader epoch that
    states one, at any leader.

    ## What is allowed
    A follower with an empty log has nothing to compare: it fetches at offset 0, or at the start of its log. A leader that led
    the epoch before, too, goes on with the log that the follower had compared its own with, or copied from the start: the
    follower forgets its last epoch when an empty answer of the epoch before comes late. A log in the message format of 0.10
    has no epochs, and its follower truncates to its high watermark. Fetches below version 9 state no leader epoch: they are
    no subject.

    ## Example
    Broker 3 has orders-0 up to 30, of epoch 6. Broker 1 becomes leader in epoch 7; the first Fetch of broker 3 in epoch 7 is at
    offset 30, and states no last fetched epoch.

    ## References
    AbstractFetcherThread.partitionFetchState, maybeTruncate; Kafka's TLA+ model (FencedBecomeFollowerAndTruncate); KIP-320,
    Replica Handling; KAFKA-7164.
    """

    evidence = {
        "the follower's first Fetch in the leader epoch": "first_ref",
        "the line that starts the leader epoch": "start_ref",
    }
    expected = "a last fetched epoch, or an OffsetForLeaderEpoch of replica {replica_id} answered before"
    observed = "Fetch {api_version} at offset {fetch_offset} with last fetched epoch {last_fetched_epoch}"
    because = (
        "broker {node} began to lead {topic}-{partition} in leader epoch {leader_epoch}",
        "replica {replica_id} has a log with leader epochs: earlier it stated epoch {epochs_known}",
        "its first Fetch in leader epoch {leader_epoch} is at offset {fetch_offset}, its log starts at {log_start_offset}",
        "no OffsetForLeaderEpoch was answered to it in this epoch before",
    )

    def applies(self) -> Column:
        return col("replica_id") >= 0

    def verdict(self) -> tuple[Branch, ...]:
        stated = F.coalesce(col("last_fetched_epoch") >= 0, F.lit(False))
        by_fetch = col("api_version") >= FIRST_COMPARING_FETCH
        return first_of(
            passed((col("fetch_offset") <= 0) | (col("fetch_offset") == col("log_start_offset"))),
            passed(stated | col("compared")),
            unverifiable(
                col("epochs_known").isNull(), "whether the follower's log has leader epochs is not in the evidence"
            ),
            unverifiable(
                ~by_fetch & ~col("covered"), "the leader's request log does not reach back to the start of the epoch"
            ),
            otherwise=violation(),
        )
