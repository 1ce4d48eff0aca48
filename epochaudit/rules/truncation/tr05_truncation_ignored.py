"""TR-05."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import FETCH, OFFSET_FOR_LEADER_EPOCH
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

ASKED: Final = (
    "replica {node} stated epoch {asked_epoch} of {topic}-{partition} to broker {leader}",
    "replica {node} sent the request in leader epoch {leader_epoch}",
)
NEXT: Final = (
    "its next request on the connection for the partition was {next_event_type} in leader epoch {next_leader_epoch}",
    "it stated epoch {next_last_fetched_epoch} as that of its last record",
)


@rule("TR-05", frame="follower_answers", kip="KIP-320", severity=HIGH, since="0.11")
class TruncationIgnored(Rule):
    """A follower did not truncate where its leader answered that their logs diverge.

    ## What it checks
    A leader answers where an epoch ends: by a divergence in a Fetch response (2.8+), or in an OffsetForLeaderEpoch
    response. The next request for the partition on the same connection, in the same leader epoch, shows the follower's
    reaction. It must fetch at that offset or below, or state an epoch below the answered one to search on. It must not
    state again an epoch that the leader lacks by its answer.

    ## Why it matters
    The follower keeps records that the leader does not have, and the logs differ permanently. Or it repeats the same
    request endlessly and never catches up.

    ## Evidence needed
    The leader's request log. The connection and its correlation ids, or an unbroken fetch session, show that no request in
    between is missing.

    ## What is allowed
    A search in several steps: the follower may first truncate to the end of an older epoch of its own, beyond the answered
    offset, if it then states that older epoch. An offset at the start of its log, if the log was emptied. A new leader
    epoch starts a new comparison. After an answer without an offset (-1) the follower uses its high watermark, and nothing
    is required. A follower whose Fetches state the epoch of its last record (2.8+) compares logs by them. It asks by
    OffsetForLeaderEpoch only to find its place behind the remote tier, after it was answered 109
    (OFFSET_MOVED_TO_TIERED_STORAGE), or from 4.3 on also 1 (OFFSET_OUT_OF_RANGE), if its log is empty and
    follower.fetch.last.tiered.offset.enable is set: those requests are no subjects.

    ## What to do
    If the follower repeats its request, restart its broker; if that does not help, stop it, move the partition's folder
    aside, and start it: it copies the log. If it went on behind its own records, save its folder first, and do not let
    it lead. Up to 2.6.0 a truncation without effect is repeated for ever: upgrade to 2.6.1 or 2.7.0 (KAFKA-10706).

    ## Example
    Broker 1 fetches orders-0 at 30 in epoch 1, and broker 2 answers that epoch 0 ends at 10. Broker 1 fetches at 30 again,
    and gets records of the new history behind its own.

    ## References
    AbstractFetcherThread.truncateOnFetchResponse, getOffsetTruncationState; KIP-101, KIP-279, KIP-320,
    KIP-405; KAFKA-6361, KAFKA-10706.
    """

    caused_by = ("TR-04", "OE-03")
    evidence = {"the answer that states where to truncate": "answer_ref", "the follower's next request": "next_ref"}
    expected = (
        "replica {node} fetches at offset {end_offset} or below, states an epoch below {end_epoch} for its last record, or asks about"
        " epoch {end_epoch} or one below"
    )
    observed = "the follower's next request was a Fetch at offset {next_fetch_offset}"
    because = (*ASKED, "it was answered that epoch {end_epoch} ends at offset {end_offset}", *NEXT)

    def applies(self) -> Column:
        # 2.7 sends Fetch 12 without that epoch
        compares_by_fetch = (col("next_event_type") == FETCH) & (col("next_last_fetched_epoch") >= 0)
        of_tier = (col("event_type") == OFFSET_FOR_LEADER_EPOCH) & holds(compares_by_fetch)
        return (col("error_code") == Errors.NONE) & (col("end_offset") >= 0) & ~of_tier

    def verdict(self) -> tuple[Branch, ...]:
        offset, last = col("next_fetch_offset"), F.coalesce("next_last_fetched_epoch", F.lit(NO_EPOCH))
        asked_again, below = col("next_event_type") == OFFSET_FOR_LEADER_EPOCH, offset <= col("end_offset")
        emptied = (last < 0) & (offset == col("next_log_start_offset"))
        fetches = F.when(last < 0, below).otherwise((last < col("end_epoch")) | ((last == col("end_epoch")) & below))
        without_epoch = col("end_epoch").isNull()
        asks = col("next_asked_epoch") <= col("end_epoch")
        of_version_0 = (*ASKED, "it was answered that the epoch ends at offset {end_offset}", *NEXT)
        at_or_below = "replica {node} fetches at offset {end_offset} or below"
        asked = "its next request was an OffsetForLeaderEpoch about epoch {next_asked_epoch}"
        return first_of(
            unverifiable(
                col("next_ref").isNull(),
                "no later request of the follower for the partition is recorded on the connection",
                expected=at_or_below,
                observed="no later request",
            ),
            passed(
                ~col("next_leader_epoch").eqNullSafe(col("leader_epoch")),
                expected="a truncation, unless the follower begins another leader epoch before",
                observed="its next request was made in another leader epoch",
            ),
            passed(asked_again & without_epoch, expected=at_or_below, observed=asked, because=of_version_0),
            passed(asks, observed=asked),
            passed(fetches & without_epoch, expected=at_or_below, because=of_version_0),
            passed(fetches),
            passed(
                emptied,
                expected=at_or_below + ", or where its log starts, if the log was emptied",
                observed="its next request was a Fetch at offset {next_fetch_offset}, where its log starts",
                because=self.because[:-1],
            ),
            unverifiable(
                ~col("unbroken"),
                "requests between the answer and the follower's next one are not recorded",
                expected=at_or_below,
                observed="the request that came next is not recorded",
            ),
            violation(asked_again, observed=asked),
            violation(without_epoch, expected=at_or_below, because=of_version_0),
            otherwise=violation(),
        )
