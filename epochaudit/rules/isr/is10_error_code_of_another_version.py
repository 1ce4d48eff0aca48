"""IS-10."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.api_versions import ELIGIBILITY_CHECK_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-10", frame="isr_changes", kip="KIP-841", severity=LOW, since="2.7")
class ErrorCodeOfAnotherVersion(Rule):
    """AlterPartition was answered with an error code that its version does not have.

    ## What it checks
    AlterPartition 2 introduced 107 (INELIGIBLE_REPLICA), 108 (NEW_LEADER_ELECTED) and, with topic ids, 100
    (UNKNOWN_TOPIC_ID). A leader that uses version 0 or 1 must get 55 (OPERATION_NOT_ATTEMPTED), 74 and 3 instead. From
    version 2 on 55 has no meaning.

    ## Why it matters
    A leader retries after a code that it doesn't know: it sends the same ISR endlessly while its high watermark does not
    advance.

    ## Evidence needed
    The controller's request log.

    ## What is allowed
    Codes that all versions have. From version 2 on, 3 means that the topic exists but the partition doesn't.

    ## What to do
    Check the leader's partitions: if the ISR does not change although followers come and go, restart that broker. The
    controller answers in a version that the leader did not use: compare both versions, and finish a rolling upgrade
    that stopped halfway. If both are unpatched, report the request line to the Kafka project.

    ## Example
    A broker of 3.2 requests an ISR with a fenced member by AlterPartition 1 and is answered 107.

    ## References
    KIP-841, AlterPartition RPC; ReplicationControlManager.alterPartition; KafkaController.processAlterPartition.
    """

    evidence = {"the AlterPartition request and its answer": "request_ref"}
    expected = (
        "a code that the request's version has: {INELIGIBLE_REPLICA}, {NEW_LEADER_ELECTED} and"
        " {UNKNOWN_TOPIC_ID} from AlterPartition 2 on, {OPERATION_NOT_ATTEMPTED} below"
    )
    observed = "error {error_code} to AlterPartition {api_version}"
    because = (
        "broker {broker_id} asked by AlterPartition {api_version} for ISR {isr} of {topic}-{partition}, and was answered {error_code}",
    )

    def applies(self) -> Column:
        of_one_version = (
            Errors.OPERATION_NOT_ATTEMPTED,
            Errors.INELIGIBLE_REPLICA,
            Errors.NEW_LEADER_ELECTED,
            Errors.UNKNOWN_TOPIC_ID,
        )
        return (col("request_error_code") == Errors.NONE) & col("error_code").isin(*of_one_version)

    def verdict(self) -> tuple[Branch, ...]:
        version, old_code = col("api_version"), col("error_code") == Errors.OPERATION_NOT_ATTEMPTED
        return first_of(
            unverifiable(
                version.isNull(),
                "the request's version is not in the evidence",
                observed="error {error_code}",
                because=(
                    "broker {broker_id} asked for ISR {isr} of {topic}-{partition}",
                    "and was answered {error_code}",
                ),
            ),
            violation((version >= ELIGIBILITY_CHECK_VERSION) & old_code),
            violation((version < ELIGIBILITY_CHECK_VERSION) & ~old_code),
            otherwise=passed(),
        )
