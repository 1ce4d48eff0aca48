"""CO-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC, SHARED_CLIENT_ID
from epochaudit.rules.rule import HIGH, UNVERIFIABLE, Branch, Rule, first_of, passed, rule, unverifiable
from epochaudit.rules.truncation.position_validation import (
    can_validate,
    crossing,
    nothing_is_below,
    severity_of_crossing,
)


@rule("CO-04", frame="positions", kip="KIP-320", severity=HIGH, since="2.3")
class TruncatedCommitResumed(Rule):
    """A consumer resumed from a committed offset whose record had been truncated.

    ## What it checks
    The subject is a consumer's first fetch in a leader epoch, at an offset that its group's coordinator returned together
    with the leader epoch of the record before it. If a later leader epoch starts below the offset, that record was
    truncated, and the consumer must ask by OffsetForLeaderEpoch before it fetches.

    ## Why it matters
    In the new history the offset is another place: the group never gets the records of the new log between the truncation
    and the offset. It happens to consumers that were down during an unclean election. The severity is critical unless the
    election is known to have been unclean.

    ## Evidence needed
    The request logs of the coordinator (OffsetFetch 5 or later) and of the broker that served the fetch, and the leaders'
    "starts at leader epoch" lines.

    ## What is allowed
    The client detected the truncation: an OffsetForLeaderEpoch answered before the fetch, an out-of-range answer, a new
    position from ListOffsets, or lastFetchedEpoch in the request. A start exactly at the offset loses nothing, and nothing
    is below offset 0. It is exposed if the client could not validate the offset: Fetch below 9, brokers before 2.3, or
    ListOffsets returned the same offset to it, as clients skip the validation of such a position, or it had read on from
    the offset before: a seek back to it has no leader epoch, and no broker log distinguishes it from the resumption. TR-01
    judges an offset that was committed or returned without a leader epoch (CO-05 counts such commits), if the client that
    committed it is known to have read up to it.

    ## What to do
    Stop the group, reset it to the first skipped offset that the finding reports with `kafka-consumer-groups.sh
    --reset-offsets --to-offset`, and process from there again. The application has processed records that no longer
    exist, and must correct their effects. Exposed means Fetch below 9 or a broker before 2.3: brokers and Java clients
    of 2.7 validate a committed offset. With librdkafka, reset the groups by hand after each unclean election.

    ## Example
    Group g committed 30 in leader epoch 1. After an unclean election epoch 3 starts at 10 and the log grows to 50. The
    restarted consumer gets (30, epoch 1) and fetches at 30 at once, as librdkafka 2.1 and later do.

    ## References
    KIP-320, Consumer Handling; ConsumerUtils.refreshCommittedOffsets, SubscriptionState.maybeValidatePosition.
    """

    caused_by = ("TR-01",)
    evidence = {
        "the first answered fetch at the committed offset": "fetch_ref",
        "the committed offset, as the coordinator returned it": "committed_ref",
        "the leader's line that starts the newer epoch": "crossed_ref",
        "the election of the newer epoch": "crossed_election_ref",
        "the ListOffsets answer that returned the offset": "reset_ref",
    }
    expected = "OffsetForLeaderEpoch for leader epoch {position_epoch} before the fetch at {fetch_offset}"
    observed = (
        "Fetch {api_version} at the committed offset {fetch_offset} was answered {NONE} in leader epoch {leader_epoch}; offsets"
        " {divergence_offset} to {last_lost_offset} of the new log were never delivered to group {group_id}"
    )
    because = (
        "the coordinator answered {client_id} that group {group_id} had committed {fetch_offset} with {committed_with}",
        "leader epoch {crossed_epoch} starts at offset {divergence_offset}: the record before the committed offset, of leader epoch"
        " {position_epoch} or older, is not in its log",
        "the election of leader epoch {crossed_epoch} was {crossed_how}",
        "before its fetch no OffsetForLeaderEpoch or ListOffsets of the client in leader epoch {crossed_epoch} or later is recorded, and"
        " no out-of-range answer to it",
    )

    def lost(self) -> tuple[Column, Column]:
        return col("divergence_offset"), col("last_lost_offset")

    def applies(self) -> Column:
        judged_as_read = ~col("position_epoch_stated") & col("crossed")  # TR-01's, by what had been read
        # Null where the topic was created again: no subject, TI-08 and TI-09 judge those.
        return col("resumed") & ~judged_as_read

    def verdict(self) -> tuple[Branch, ...]:
        committed, truncated, election = self.because[:3]
        resumed = "{client_id} resumed at the committed offset {fetch_offset} in leader epoch {leader_epoch}"
        validated = "the record before the committed offset {fetch_offset} is still in the log, or the client notices that it is not"
        noticed = col("crossed") & col("detected").isNotNull()
        without_epoch = "the committed offset names no leader epoch"

        def with_committed_only(branch: Branch) -> Branch:
            """An unverifiable branch with its own sentences: nothing shows that the record was truncated, or that the client missed it."""
            if branch.verdict != UNVERIFIABLE:
                return branch
            reasons = (committed, truncated) if branch.reason == SHARED_CLIENT_ID else (committed,)
            return unverifiable(
                branch.condition, str(branch.reason), expected=validated, observed=resumed, because=reasons
            )

        return first_of(
            passed(
                nothing_is_below(),
                expected="any start at offset 0, as no record is before it",
                observed=resumed,
                because=(committed,),
            ),
            unverifiable(
                col("ambiguous_name"),
                AMBIGUOUS_TOPIC,
                expected=validated,
                observed=resumed,
                because=(committed,),
            ),
            unverifiable(
                col("position_epoch").isNull(),
                without_epoch,
                expected=validated,
                observed=resumed,
                because=(committed,),
            ),
            passed(
                noticed,
                expected=validated,
                observed="{client_id} noticed that the record before the committed offset {fetch_offset} was truncated, by {detected}",
                because=(committed, truncated, election),
            ),
            *map(
                with_committed_only,
                crossing(
                    can_validate(),
                    "the protocol versions in use do not let the client validate its position",
                    (committed, truncated, election),
                ),
            ),
            otherwise=passed(expected=validated, observed=resumed, because=(committed,)),
        )

    def severity_of(self) -> Column | None:
        return severity_of_crossing()
