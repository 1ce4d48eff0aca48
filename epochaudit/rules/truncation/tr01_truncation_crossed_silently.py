"""TR-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import HIGH, Branch, OwnSentences, Rule, first_of, passed, rule, unverifiable
from epochaudit.rules.truncation.position_validation import (
    can_validate,
    crossing,
    nothing_is_below,
    severity_of_crossing,
)

_HELD = "{client_id} held position {fetch_offset} of {topic}-{partition}: the record before it is of leader epoch {position_epoch} or older"
_FETCHED = "Fetch {api_version} at offset {fetch_offset} answered {NONE} in leader epoch {leader_epoch}"
_SERVED = "broker {node} answered its first fetch in leader epoch {leader_epoch} at {fetch_offset} with {NONE}"
_VALIDATION = "validation of position {fetch_offset} before fetching in leader epoch {leader_epoch}, if a newer epoch starts below it"


@rule("TR-01", frame="positions", kip="KIP-320", severity=HIGH, since="2.3")
class TruncationCrossedSilently(Rule):
    """A consumer read on beyond a truncation of the log without noticing.

    ## What it checks
    The subject is a consumer's first fetch in a new leader epoch, at a position from an older epoch or from a committed
    offset. If an epoch that is newer than the record before the position starts below the position, that record was
    truncated, and in the new history the position is another place.

    ## Why it matters
    The consumer never sees the new records between the truncation and its position, and has processed records that no
    longer exist. Nothing reports an error. The severity is critical unless the election is known to have been unclean.

    ## Evidence needed
    Request logs of the brokers that served the consumer in both epochs, and the leaders' "starts at leader epoch" lines.
    For a committed offset: the coordinator's request log. The epoch of the record before the position is that of the
    committed offset, or is bounded by the epoch of the broker that returned the record.

    ## What is allowed
    The client detected the truncation: an OffsetForLeaderEpoch answered before the fetch, an out-of-range answer, a new
    position from ListOffsets, or lastFetchedEpoch in the request. A position that it never read up to (a seek) proves
    nothing. A start exactly at the position loses nothing, and nothing is below position 0. An unclean election after the
    new epoch may restore the old history: then the rule claims nothing. It is exposed instead of a violation if the client
    could not know: Fetch below 9, no epoch with the committed offset, a position that ListOffsets returned (clients skip
    its validation), brokers before 2.3, or a client that had read on from the position before: if a seek took it back, the
    position has no leader epoch.

    ## What to do
    Stop the consumer, reset its group to the first skipped offset that the finding reports with
    `kafka-consumer-groups.sh --reset-offsets --to-offset`, and process from there again. The application also has to
    correct the effects of records that were truncated after it had read them. Java clients up to 2.6 miss some
    truncations (KAFKA-9840): upgrade to 2.7. Exposed means that client or broker gave no epoch to compare: use brokers
    and Java clients of 2.7 or later, and commit offsets with their leader epoch (CO-05).

    ## Example
    A consumer read orders-0 to offset 30 in epoch 1. After an unclean election epoch 3 starts at 10, and the log grows to
    50 before the consumer fetches at 30 from the new leader: it skips 10 to 29 of the new log.

    ## References
    KIP-320, Consumer Handling; SubscriptionState.maybeValidatePosition, OffsetsForLeaderEpochClient.
    """

    evidence = {
        "the fetch that went on": "fetch_ref",
        "the leader's line that starts the new epoch": "crossed_ref",
        "where the position came from": "position_ref",
        "the committed offset that was resumed": "committed_ref",
        "the coordinator's answer with that offset and no leader epoch": "without_epoch_ref",
        "the commit of that offset": "commit_ref",
        "the ListOffsets answer with that offset": "reset_ref",
        "the election of the new epoch": "crossed_election_ref",
    }
    expected = (
        "validation of position {fetch_offset} before fetching in leader epoch {leader_epoch}, as KIP-320 provides"
    )
    observed = f"{_FETCHED}; offsets {{divergence_offset}} to {{last_lost_offset}} of the new log were never seen"
    because = (
        _HELD,
        "leader epoch {crossed_epoch} starts at offset {divergence_offset}: the records that it had read at {divergence_offset} to"
        " {last_lost_offset} were truncated",
        "the election of leader epoch {crossed_epoch} was {crossed_how}",
        _SERVED,
        "before that fetch no OffsetForLeaderEpoch or ListOffsets of the client in leader epoch {crossed_epoch} or later is recorded, and"
        " no out-of-range answer to it",
    )

    def lost(self) -> tuple[Column, Column]:
        return col("divergence_offset"), col("last_lost_offset")

    def applies(self) -> Column:
        return col("crossed_topic_recreation").isNull()  # within one topic; TI-09 judges the others

    def verdict(self) -> tuple[Branch, ...]:
        could_validate = can_validate() & (~col("resumed") | (col("lowest_offset_fetch_epoch") >= 0))
        crossed = col("crossed")
        return first_of(
            passed(
                nothing_is_below(),
                expected=_VALIDATION,
                observed=f"{_FETCHED}: no leader epoch starts below that offset",
                because=(_SERVED,),
            ),
            unverifiable(
                col("position_epoch").isNull(),
                "the leader epoch of the committed offset is not in the evidence",
                expected=_VALIDATION,
                observed=_FETCHED,
                because=(_HELD, _SERVED),
            ),
            unverifiable(
                col("ambiguous_name"),
                AMBIGUOUS_TOPIC,
                expected=_VALIDATION,
                observed=_FETCHED,
                because=(_HELD, _SERVED),
            ),
            passed(
                crossed & col("detected").isNotNull(),
                expected=_VALIDATION,
                observed="the client noticed before it fetched on: by {detected}",
                because=(_HELD, "leader epoch {crossed_epoch} starts at offset {divergence_offset}"),
            ),
            *crossing(
                could_validate,
                "the protocol versions in use gave the client no epoch to validate with",
                because=self.because[:4],
                of_crossed=OwnSentences(
                    expected=_VALIDATION,
                    observed=_FETCHED,
                    because=("leader epoch {crossed_epoch} starts at offset {divergence_offset}, below it", _SERVED),
                ),
                of_uncertain=OwnSentences(expected=_VALIDATION, observed=_FETCHED, because=(_HELD, _SERVED)),
            ),
            otherwise=passed(
                expected=_VALIDATION,
                observed=f"{_FETCHED}: no newer epoch starts below that offset",
                because=(_HELD, _SERVED),
            ),
        )

    def severity_of(self) -> Column | None:
        return severity_of_crossing()
