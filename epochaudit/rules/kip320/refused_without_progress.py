"""FF-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.refusals import METADATA_LIVES_MS
from epochaudit.rules.rule import INFO, Branch, Rule, fenced, first_of, passed, rule, unverifiable


@rule("FF-08", frame="refusals", kip="KIP-320", severity=INFO, since="1.0")
class RefusedWithoutProgress(Rule):
    """Observation: a client or a follower was refused over and over.

    ## What it checks
    All fetches of one client or follower that a broker refused as no leader (6), in an older (74) or newer (75) leader epoch,
    or by an unknown topic id (100), with pauses of at most five minutes between them, are one subject. It passes if the
    requester moved on: no partition stayed refused in one leader epoch at one offset for longer than clients keep their
    metadata. It is `fenced` if one did: every answer was right, and the requester is stuck. This rule never gives a violation.

    ## Why it matters
    Thousands of refusals in seconds are a hand-over, and nothing to wake up for. A client that is refused for minutes with the
    same epoch at the same offset reads nothing: its metadata does not get newer (KAFKA-9212), or nobody leads.

    ## Evidence needed
    The broker's request log. Of a partition that was refused for long, a request that names its offset.

    ## What is allowed
    All of it. `metadata.max.age.ms` is taken to be five minutes, as it is by default.

    ## Example
    After an election 39,000 fetches of a consumer are answered 74 within eight seconds: one hand-over of two partitions.

    ## References
    KIP-320, Consumer Handling and Replica Handling; Metadata.requestUpdate, AbstractFetcherThread.
    """

    evidence = {
        "the first refusal": "first_ref",
        "the last refusal in the same leader epoch at the same offset": "last_ref",
    }
    expected = "a requester that is refused gets newer metadata and moves on"
    observed = (
        "{refusals} fetches of {client_id} for {partitions} partitions refused with {codes} within {run_seconds} s"
    )
    because = (
        "{topic}-{partition} was refused longest: for {lasted_seconds} s in leader epoch {leader_epoch} at offset {fetch_offset}",
    )

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(col("lasted_ms") <= METADATA_LIVES_MS),
            unverifiable(col("fetch_offset").isNull(), "the requests left the offset to their fetch session"),
            otherwise=fenced(),
        )
