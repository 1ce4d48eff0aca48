"""TR-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.follower_answers import BY_EPOCH
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TR-05", frame="follower_answers", kip="KIP-320", severity=HIGH, since="0.11")
class TruncationIgnored(Rule):
    """A follower did not truncate where its leader told it that their logs part.

    ## What it checks
    A leader tells a follower where an epoch ends: as a divergence in a Fetch answer (2.7+), or in answer to an
    OffsetForLeaderEpoch. The next request for the partition on the same connection, in the same leader epoch, shows what
    the follower did. It must fetch at that offset or below; or state an epoch below the answered one, to search on; and
    never again the epoch of which it was told that the leader does not have it.

    ## Why it matters
    The follower keeps records that the leader does not have, and the logs differ for good; or it asks the same for ever and
    never catches up.

    ## Evidence needed
    The leader's request log. The connection and its correlation ids, or an unbroken fetch session, show that no
    request between the two is missing.

    ## What is allowed
    A search in several steps: the follower may first truncate to the end of an older epoch of its own, beyond the answered
    offset, if it then states that older epoch. An offset at the start of its log, when the log was emptied. A new leader
    epoch begins anew. An answer without an offset (-1) makes it fall back on its high watermark and binds it to nothing.

    ## Example
    Broker 2 tells broker 1, which fetched orders-0 at 30 in epoch 1, that epoch 0 ends at 10. Broker 1 fetches at 30 again,
    and gets records of the new history behind its own.

    ## References
    AbstractFetcherThread.truncateOnFetchResponse, getOffsetTruncationState; KIP-101, KIP-279, KIP-320; KAFKA-6361,
    KAFKA-10706.
    """

    caused_by = ("TR-04", "OE-03")
    evidence = {"the answer that says where to truncate": "answer_ref", "the follower's next request": "next_ref"}
    expected = "replica {node} fetches at offset {end_offset} or below, or asks about an epoch below {end_epoch}"
    observed = (
        "{next_event_type} at offset {next_fetch_offset}, last fetched epoch {next_last_fetched_epoch}, epoch asked for"
        " {next_asked_epoch}"
    )
    because = (
        "replica {node} asked broker {leader} in leader epoch {leader_epoch} of {topic}-{partition} about epoch {asked_epoch}",
        "it was told that epoch {end_epoch} ends at offset {end_offset}",
        "its next request on the connection was {next_event_type} at offset {next_fetch_offset} in leader epoch"
        " {next_leader_epoch}",
    )

    def applies(self) -> Column:
        return (col("error_code") == 0) & (col("end_offset") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        offset, last = col("next_fetch_offset"), F.coalesce("next_last_fetched_epoch", F.lit(-1))
        below = offset <= col("end_offset")
        emptied = offset == col("next_log_start_offset")
        fetches = F.when(last < 0, below | emptied).otherwise(
            (last < col("end_epoch")) | ((last == col("end_epoch")) & below)
        )
        asks = col("end_epoch").isNull() | (col("next_asked_epoch") <= col("end_epoch"))
        return first_of(
            unverifiable(
                col("next_ref").isNull(),
                "no later request of the follower for the partition is recorded on the connection",
            ),
            passed(~col("next_leader_epoch").eqNullSafe(col("leader_epoch"))),
            passed(F.when(col("next_event_type") == BY_EPOCH, asks).otherwise(fetches)),
            unverifiable(~col("unbroken"), "requests between the answer and the follower's next one are not recorded"),
            otherwise=violation(),
        )
