"""CO-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.kip320.validation import can_validate, crossing, severity_of_crossing, topic_unknown
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable


@rule("CO-04", frame="positions", kip="KIP-320", severity=HIGH, since="2.3")
class TruncatedCommitResumed(Rule):
    """A consumer resumed from a committed offset whose record had been truncated.

    ## What it checks
    A consumer's first fetch under a leader epoch, at an offset that its group's coordinator had told it together with the
    leader epoch of the record before. If a later leader epoch starts below the offset, that record is gone. The consumer has
    to ask by OffsetForLeaderEpoch before it fetches.

    ## Why it matters
    The offset means another place in the new history: what the new log holds between the truncation and the offset is never
    delivered to the group. It happens to consumers that were down while a leader was elected uncleanly.

    ## Evidence needed
    The request logs of the coordinator (OffsetFetch 5 or later) and of the broker that served the fetch, and the leaders'
    "starts at leader epoch" lines.

    ## What is allowed
    The client noticed: OffsetForLeaderEpoch answered before the fetch, an out-of-range answer, a new position from
    ListOffsets, or lastFetchedEpoch in the request. A start exactly at the offset loses nothing. An offset without a leader
    epoch can't be validated: CO-05 counts those, and TR-01 reports what is skipped. Exposed where the client or the broker
    has no validation: Fetch below 9, brokers before 2.3.

    ## Example
    Group g committed 30 in leader epoch 1. After an unclean election epoch 3 starts at 10 and the log grows to 50. The
    restarted consumer is told (30, epoch 1) and fetches at 30 at once, as librdkafka 2.1 and later do.

    ## References
    KIP-320, Consumer Handling; ConsumerUtils.refreshCommittedOffsets, SubscriptionState.maybeValidatePosition.
    """

    caused_by = ("TR-01",)
    evidence = {
        "the first fetch at the committed offset": "fetch_ref",
        "the committed offset, as the coordinator told it": "committed_ref",
        "the leader's line that starts the newer epoch": "crossed_ref",
    }
    expected = "OffsetForLeaderEpoch for leader epoch {position_epoch} before the fetch at {fetch_offset}"
    observed = (
        "Fetch {api_version} at the committed offset {fetch_offset} answered 0 in leader epoch {leader_epoch}; offsets"
        " {divergence_offset} to {last_lost_offset} of the new log were never delivered to group {group_id}"
    )
    because = (
        "the coordinator told {client_id} that {group_id} had committed {fetch_offset}, leader epoch {position_epoch}",
        "leader epoch {crossed_epoch} starts at offset {divergence_offset} (the election was {crossed_election}): the record before"
        " the committed offset is gone",
        "no OffsetForLeaderEpoch, out-of-range answer or reset of the client is recorded before its fetch",
    )

    def lost(self) -> tuple[Column, Column]:
        return col("divergence_offset"), col("last_lost_offset")

    def applies(self) -> Column:
        return col("entered").isNull() & col("resumed")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(~col("position_epoch_stated"), "the committed offset names no leader epoch"),
            unverifiable(topic_unknown(), "the topic name had several incarnations and no topic id tells them apart"),
            *crossing(can_validate(), "the protocol versions in use do not let the client validate its position"),
            otherwise=passed(),
        )

    def severity_of(self) -> Column | None:
        return severity_of_crossing()
