"""TR-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.kip320.validation import JAVA, can_validate, topic_unknown
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TR-02", frame="positions", kip="KIP-320", severity=LOW, since="2.3")
class ValidationSkipped(Rule):
    """A consumer fetched in a newer leader epoch without having validated its position.

    ## What it checks
    A Java consumer's first fetch in a leader epoch that is newer than the record before its position. If it knew that
    record's epoch, it has to ask by OffsetForLeaderEpoch first.

    ## Why it matters
    Nothing was lost here, but had the election truncated the log, the consumer would not have noticed.

    ## Evidence needed
    The request logs of the group's coordinator and of the broker that served the fetch. What a consumer knows can be told
    where it resumes from a committed offset that names a leader epoch; a position of its own reads loses its epoch by a
    seek, which no broker sees.

    ## What is allowed
    Any question by OffsetForLeaderEpoch in the new epoch, whatever its answer, an out-of-range answer, and a new position
    from ListOffsets. Fetch below 9, fetches that state no leader epoch, brokers before 2.3. librdkafka and the Python client
    do not validate an offset that they resume from; nothing is claimed of them, unless records were lost (CO-04).

    ## Example
    A restarted consumer is told (30, epoch 1) by its coordinator and fetches at 30 in leader epoch 2 without a question.

    ## References
    KIP-320, Consumer Handling; SubscriptionState.maybeValidatePositionForCurrentLeader, OffsetFetcher.validateOffsetsIfNeeded.
    """

    caused_by = ("TR-01", "CO-04")
    evidence = {
        "the first fetch in the newer epoch": "fetch_ref",
        "the committed offset, as the coordinator told it": "committed_ref",
    }
    expected = "OffsetForLeaderEpoch for leader epoch {position_epoch} before fetching in leader epoch {leader_epoch}"
    observed = "Fetch {api_version} at offset {fetch_offset} in leader epoch {leader_epoch} answered 0, without a question before"
    because = (
        "the coordinator told {client_id} that {group_id} had committed {fetch_offset}, leader epoch {position_epoch}",
        "its first fetch at broker {node} states leader epoch {current_leader_epoch}",
        "no OffsetForLeaderEpoch, out-of-range answer or reset of the client in that epoch is recorded before it",
    )

    def applies(self) -> Column:
        newer = col("leader_epoch") > col("position_epoch")
        return col("entered").isNull() & newer & can_validate()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(topic_unknown(), "the topic name had several incarnations and no topic id tells them apart"),
            passed(col("detected").isNotNull() | col("asked")),
            unverifiable(
                ~col("position_epoch_stated") | col("reached_itself"),
                "whether the client still knew the epoch of its position is not in the evidence: a seek forgets it",
            ),
            unverifiable(col("shared_client_id"), "several consumers share the client id"),
            unverifiable(~col("software_name").eqNullSafe(JAVA), "the client is not known to be a Java consumer"),
            unverifiable(col("kafka_version").isNull(), "the broker's release is not recorded"),
            otherwise=violation(),
        )
