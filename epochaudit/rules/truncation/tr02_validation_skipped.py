"""TR-02."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.rules.reasons import AMBIGUOUS_TOPIC, SHARED_CLIENT_ID
from epochaudit.rules.rule import LOW, Branch, OwnSentences, Rule, first_of, passed, rule, unverifiable, violation
from epochaudit.rules.truncation.position_validation import JAVA, REQUESTS_MISSING, can_validate

FIRST: Final = "its first fetch at broker {node} states leader epoch {current_leader_epoch}"


@rule("TR-02", frame="positions", kip="KIP-320", severity=LOW, since="2.3")
class ValidationSkipped(Rule):
    """A consumer fetched in a newer leader epoch without having validated its position.

    ## What it checks
    The subject is a Java consumer's first fetch in a leader epoch that is newer than the record before its position. If the
    consumer knew that record's epoch, it must first ask by OffsetForLeaderEpoch.

    ## Why it matters
    Nothing was lost here, but had the election truncated the log, the consumer would not have noticed.

    ## Evidence needed
    The request logs of the group's coordinator and of the broker that served the fetch. A consumer's knowledge is certain
    only if it resumes from a committed offset with a leader epoch, and has neither read up to the offset nor on from it: a position
    from its own reads loses its epoch by a seek, which no broker log shows.

    ## What is allowed
    Any OffsetForLeaderEpoch in the new epoch, whatever its answer, an out-of-range answer, and a new position from
    ListOffsets. Fetch below 9, fetches without leader epoch, brokers before 2.3. librdkafka and the Python client do not
    validate an offset that they resume from: the rule claims nothing about them, unless records were lost (CO-04).

    ## What to do
    Nothing was lost here. Check the consumer's version: Java clients up to 2.6 have known faults in the validation
    (KAFKA-9840), so upgrade to 2.7. If a later client skips it, report its DEBUG log of the partition to the Kafka
    project.

    ## Example
    A restarted consumer gets (30, epoch 1) from its coordinator and fetches at 30 in leader epoch 2 without an
    OffsetForLeaderEpoch.

    ## References
    KIP-320, Consumer Handling; SubscriptionState.maybeValidatePositionForCurrentLeader, OffsetFetcher.validateOffsetsIfNeeded.
    """

    caused_by = ("TR-01", "CO-04")
    evidence = {
        "the first fetch in the newer epoch": "fetch_ref",
        "the committed offset, as the coordinator returned it": "committed_ref",
    }
    expected = "OffsetForLeaderEpoch for leader epoch {position_epoch} before fetching in leader epoch {leader_epoch}"
    observed = "Fetch {api_version} at offset {fetch_offset} in leader epoch {leader_epoch} answered, without OffsetForLeaderEpoch before"
    because = (
        "the coordinator answered {client_id} that {group_id} had committed offset {fetch_offset} with {committed_with}",
        FIRST,
        "before it no OffsetForLeaderEpoch or ListOffsets of the client in that epoch is recorded, and no out-of-range answer to it",
    )

    def applies(self) -> Column:
        # Null where the topic was created again: no subject, TI-08 and TI-09 judge those.
        newer = col("leader_epoch") > col("position_epoch")
        return newer & can_validate()

    def verdict(self) -> tuple[Branch, ...]:
        position = "{client_id} had the position {fetch_offset}, of leader epoch {position_epoch}"
        at_offset = "Fetch {api_version} at offset {fetch_offset} in leader epoch {leader_epoch}"
        if_known = "OffsetForLeaderEpoch before the fetch, if the client knew the leader epoch of its position"
        open_question: OwnSentences = {"expected": if_known, "observed": at_offset, "because": (position, FIRST)}
        return first_of(
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC, **open_question),
            passed(col("detected").isNotNull(), observed=at_offset + ", after {detected}", because=(position, FIRST)),
            passed(
                col("epoch_unknown"),
                observed=at_offset + ", after an OffsetForLeaderEpoch of the client",
                because=(position, FIRST),
            ),
            unverifiable(
                ~holds(col("lowest_offset_fetch_epoch") >= 0) | col("reached_itself") | col("read_on_in").isNotNull(),
                "whether the client still knew the epoch of its position is not in the evidence: a seek forgets it",
                **open_question,
            ),
            unverifiable(col("shared_client_id"), SHARED_CLIENT_ID, **open_question),
            unverifiable(
                ~col("software_name").eqNullSafe(JAVA), "the client is not known to be a Java consumer", **open_question
            ),
            unverifiable(col("kafka_version").isNull(), "the broker's release is not recorded", **open_question),
            unverifiable(col("requests_missing"), REQUESTS_MISSING, **open_question),
            otherwise=violation(),
        )
