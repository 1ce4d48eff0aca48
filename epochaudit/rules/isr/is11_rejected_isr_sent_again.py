"""IS-11."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.cluster_history import FIRST_CHECKING_ELIGIBILITY
from epochaudit.rules.isr.eligibility import refused_as_ineligible
from epochaudit.rules.rule import MEDIUM, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-11", frame="isr_changes", kip="KIP-841", severity=MEDIUM, since="3.3")
class RejectedIsrSentAgain(Rule):
    """A leader whose ISR was rejected as ineligible did not go back to the committed one.

    ## What it checks
    After 107 (INELIGIBLE_REPLICA) or 55 a leader must discard the requested ISR, return to the last committed state and log
    that the "Partition state has been reset". It may request again after the follower's next fetch, but then it has logged
    the reset. If it sends the same request again on the connection (leader epoch, partition epoch and ISR) without such a
    line in that leader epoch, it still has the rejected ISR.

    ## Why it matters
    While an ISR is pending, the leader waits for all its members before it advances the high watermark. A leader that keeps
    an ineligible member stalls every acks=all producer of the partition.

    ## Evidence needed
    The controller's request log and the leader's server.log with the lines of kafka.cluster.Partition at INFO. As the two
    hosts share no clock, lines of the leader about the partition show when it had sent the request: one in or before the
    request's epochs (also "starts at leader epoch" in state-change.log), and one in later epochs. Between them no file
    of its server.log may be missing.

    ## What is allowed
    A new request after a reset, even for the same ISR. Leaders before 3.3 have no such reset and are not judged. No log
    shows which acknowledgements depended on a rejected ISR.

    ## What to do
    Move the leadership to another member of the ISR, or restart the leader: that drops the rejected ISR, and acks=all
    producers go on. See why the member is ineligible (IS-01 to IS-04 list the states), and bring that broker back.
    Report the controller's and the leader's lines to the Kafka project.

    ## Example
    Broker 1 is answered 107 for ISR [1, 2, 3] and sends the same ISR again. Its server.log has no line about a reset.

    ## References
    KIP-841, Proposed Changes (leader side); Partition.handleAlterPartitionError.
    """

    evidence = {"the rejected AlterPartition": "request_ref", "the same request again": "resent_ref"}
    expected = "broker {broker_id} does not send the rejected ISR again before it has gone back to the committed one"
    observed = "ISR {isr} was sent again in partition epoch {partition_epoch}"
    because = (
        "broker {broker_id} asked for ISR {isr} of {topic}-{partition} in leader epoch {leader_epoch}, partition epoch {partition_epoch} "
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        old_leader = holds(col("sender_release") < FIRST_CHECKING_ELIGIBILITY)
        return (col("request_error_code") == Errors.NONE) & refused_as_ineligible() & ~old_leader

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                holds(F.col("isr_reset_recorded")),
                observed="its server.log has a line about the reset in leader epoch {leader_epoch}",
            ),
            passed(
                col("resent_ref").isNull(), observed="its next request on the connection, if there is one, is another"
            ),
            unverifiable(
                ~holds(F.col("sender_lines_recorded")),
                "no lines about ISR changes of the leader (server.log at INFO)",
            ),
            unverifiable(
                ~holds(F.col("sender_log_recorded")),
                "the leader's server.log is not known to be recorded for that time",
            ),
            unverifiable(col("sender_release").isNull(), "the leader's Kafka version is not in the evidence"),
            otherwise=violation(
                observed="ISR {isr} was sent again in partition epoch {partition_epoch}, without a line about a reset",
                because=(
                    *self.because,
                    "its next request on the connection was the same",
                    "its server.log has lines about ISR changes, but none about a reset in this leader epoch",
                ),
            ),
        )
