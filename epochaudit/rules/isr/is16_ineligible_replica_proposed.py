"""IS-16."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.cluster_history import FIRST_CHECKING_ELIGIBILITY
from epochaudit.rules.isr.eligibility import refused_as_ineligible
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("IS-16", frame="isr_changes", kip="KIP-841", severity=INFO, since="3.3")
class IneligibleReplicaProposed(Rule):
    """Observation: leaders proposed ISRs that were refused as ineligible.

    ## What it checks
    Since 3.3 a leader checks its own metadata before it proposes an ISR, and leaves out replicas that are fenced or in
    controlled shutdown. Each proposal that the controller still had to refuse with 107 (INELIGIBLE_REPLICA), or 55 below
    version 2, counts as one `pass`. This rule never gives a violation.

    ## Why it matters
    A few are the normal lag of the leader's metadata. Many, or one leader with far more than the others, mean a broker that
    doesn't keep up with the metadata log: its leaders and configurations are outdated, too.

    ## Evidence needed
    The controller's request log, and the leader's version line.

    ## What is allowed
    Every such proposal is allowed. Leaders before 3.3 do not check, and are not counted.

    ## What to do
    A few need nothing; if one leader is refused far more often than the others, its metadata lags. Check its load and
    its connection to the controllers: `kafka-metadata-quorum.sh describe --replication` shows its lag. Restart it if
    the lag does not shrink.

    ## Example
    In the second in which broker 3 is fenced, two leaders propose it again and are answered 107.

    ## References
    KIP-841, Proposed Changes (leader side); Partition.canAddReplicaToIsr.
    """

    evidence = {"the AlterPartition request and its answer": "request_ref"}
    expected = "few proposals that the controller refuses, while the leader's metadata lags"
    observed = "error {error_code} for ISR {isr}"
    because = ("broker {broker_id} proposed ISR {isr} of {topic}-{partition} and was answered {error_code}",)

    def applies(self) -> Column:
        return (
            (col("request_error_code") == Errors.NONE)
            & refused_as_ineligible()
            & (col("sender_release").isNull() | (col("sender_release") >= FIRST_CHECKING_ELIGIBILITY))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("sender_release").isNull(), "the leader's Kafka version is not in the evidence"),
            otherwise=passed(),
        )
