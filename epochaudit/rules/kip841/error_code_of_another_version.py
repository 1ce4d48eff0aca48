"""IS-10."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.isr_changes import ELIGIBILITY_CHECK_VERSION, NEW_LEADER_ELECTED
from epochaudit.rules.kip841.eligibility import INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED
from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation

UNKNOWN_TOPIC_ID = 100


@rule("IS-10", frame="isr_changes", kip="KIP-841", severity=LOW, since="2.7")
class ErrorCodeOfAnotherVersion(Rule):
    """AlterPartition was answered with an error code that its version does not have.

    ## What it checks
    AlterPartition 2 brought 107 (INELIGIBLE_REPLICA), 108 (NEW_LEADER_ELECTED) and, with topic ids, 100
    (UNKNOWN_TOPIC_ID). A leader that speaks version 0 or 1 must get 55 (OPERATION_NOT_ATTEMPTED), 74 and 3 in their
    place, and 55 has no meaning from version 2 on.

    ## Why it matters
    A leader takes a code it doesn't know for a failure to be retried, and sends the same ISR again without end while its
    high watermark waits.

    ## Evidence needed
    The controller's request log.

    ## What is allowed
    Codes that all versions have. 3 from version 2 on: the topic exists, the partition doesn't.

    ## Example
    A broker of 3.2 asks by AlterPartition 1 for an ISR with a fenced member and is answered 107.

    ## References
    KIP-841, AlterPartition RPC; ReplicationControlManager.alterPartition; KafkaController.processAlterPartition.
    """

    evidence = {"the AlterPartition request and its answer": "request_ref"}
    expected = "a code of AlterPartition {api_version}: 107, 108 and 100 from version 2, 55 below"
    observed = "error {error_code} to version {api_version}"
    because = (
        "broker {broker_id} asked by AlterPartition {api_version} for ISR {isr} of {topic}-{partition}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        of_one_version = (OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA, NEW_LEADER_ELECTED, UNKNOWN_TOPIC_ID)
        return (col("request_error_code") == 0) & col("error_code").isin(*of_one_version)

    def verdict(self) -> tuple[Branch, ...]:
        version, old_code = col("api_version"), col("error_code") == OPERATION_NOT_ATTEMPTED
        return first_of(
            unverifiable(version.isNull(), "the request's version is not in the evidence"),
            violation((version >= ELIGIBILITY_CHECK_VERSION) & old_code),
            violation((version < ELIGIBILITY_CHECK_VERSION) & ~old_code),
            otherwise=passed(),
        )
