"""IS-11."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.cluster_history import RELEASE_3_3
from epochaudit.rules.kip841.eligibility import refused_as_ineligible
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-11", frame="isr_changes", kip="KIP-841", severity=MEDIUM, since="3.3")
class RejectedIsrSentAgain(Rule):
    """A leader whose ISR was rejected as ineligible did not go back to the committed one.

    ## What it checks
    After 107 (INELIGIBLE_REPLICA) or 55 a leader must give the ISR it asked for up, return to the last committed state and
    log that the "Partition state has been reset". It may ask again after the next fetch of the follower, but then it has
    logged the reset. The same request once more on the connection (leader epoch, partition epoch and ISR) without any such
    line in that leader epoch means that the leader kept what was rejected.

    ## Why it matters
    While an ISR is pending the leader waits for all its members before it moves the high watermark. A leader that doesn't
    let go of an ineligible member stalls every acks=all producer of the partition.

    ## Evidence needed
    The controller's request log and the leader's server.log with the lines of kafka.cluster.Partition at INFO.

    ## What is allowed
    A fresh attempt after a reset, also for the same ISR. Leaders before 3.3 have no such reset and are not judged. What
    acknowledgements rested on a rejected ISR is in no log.

    ## Example
    Broker 1 is answered 107 for ISR [1, 2, 3], sends the same ISR again, and its server.log says nothing of a reset.

    ## References
    KIP-841, Proposed Changes (leader side); Partition.handleAlterPartitionError.
    """

    evidence = {
        "the rejected AlterPartition": "request_ref",
        "the same request again": "resent_ref",
    }
    expected = "a line about the reset of {topic}-{partition} in leader epoch {leader_epoch} at broker {broker_id}"
    observed = "ISR {isr} was sent again in partition epoch {partition_epoch}, without a reset"
    because = (
        "broker {broker_id} asked for ISR {isr} in leader epoch {leader_epoch}, partition epoch {partition_epoch} and was answered "
        "{error_code}",
        "its next request on the connection was the same",
        "its server.log has lines about ISR changes, but none about a reset in this leader epoch",
    )

    def applies(self) -> Column:
        old_leader = F.coalesce(col("sender_release") < RELEASE_3_3, F.lit(False))
        return (col("request_error_code") == 0) & refused_as_ineligible() & ~old_leader

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(F.coalesce("reset_told", F.lit(False))),
            passed(col("resent_ref").isNull()),
            unverifiable(
                ~F.coalesce("sender_told", F.lit(False)),
                "no lines about ISR changes of the leader (server.log at INFO)",
            ),
            unverifiable(col("sender_release").isNull(), "the leader's Kafka version is not in the evidence"),
            otherwise=violation(),
        )
