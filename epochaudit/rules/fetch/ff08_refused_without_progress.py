"""FF-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.data_plane.refusals import METADATA_LIVES_MS
from epochaudit.rules.rule import INFO, Branch, Rule, fenced, first_of, passed, rule, unverifiable


@rule("FF-08", frame="refusals", kip="KIP-320", severity=INFO, since="1.0")
class RefusedWithoutProgress(Rule):
    """Observation: a client or a follower was refused over and over.

    ## What it checks
    The subject is a series of fetches of one client or follower that a broker refused: not the leader (6), older (74) or
    newer (75) leader epoch, or unknown topic id (100), with pauses of at most half a minute. It passes if the requester
    made progress: no partition stayed refused in one leader epoch at one offset, without such a pause, for longer than
    clients cache metadata. Otherwise it is `fenced`: every answer was right, and the requester is stuck. This rule never
    gives a violation.

    ## Why it matters
    Thousands of refusals within seconds are an ordinary hand-over. A client that is refused for minutes with the same epoch
    at the same offset reads nothing: its metadata does not get newer (KAFKA-9212), or the partition has no leader.

    ## Evidence needed
    The broker's request log, with a request that states the offset of a partition that was refused for long.

    ## What is allowed
    Every such series is allowed. The rule assumes the default `metadata.max.age.ms` of five minutes.

    ## What to do
    Restart the client or follower of a `fenced` series, which then asks for metadata again; a series that passed needs
    nothing. Check that the partition has a leader (`kafka-topics.sh --describe --unavailable-partitions`). If brokers
    or clients are of 2.3 or older, their metadata may be at fault (KAFKA-9212): 2.4 ends that.

    ## Example
    After an election a consumer's 39,000 fetches are answered 74 within eight seconds: one hand-over of two partitions.

    ## References
    KIP-320, Consumer Handling and Replica Handling; Metadata.requestUpdate, AbstractFetcherThread.
    """

    evidence = {
        "the first refusal": "first_ref",
        "the last refusal in the same leader epoch at the same offset": "last_ref",
    }
    expected = "a requester that is refused gets newer metadata and moves on"
    observed = "refusals of {client_id}: {refusals} within {run_seconds} s, with error {codes}; partitions refused: {partitions}"
    because = (
        "{topic}-{partition} was refused longest: for {lasted_seconds} s without a pause",
        "all that time it was asked for in leader epoch {leader_epoch}",
        "all that time it was asked for at offset {fetch_offset}",
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("lasted_ms") <= METADATA_LIVES_MS),
            unverifiable(col("fetch_offset").isNull(), "the requests left the offset to their fetch session"),
            otherwise=fenced(),
        )
