"""IS-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("IS-09", frame="broker_records", kip="KIP-841", severity=CRITICAL, since="2.8")
class NewIncarnationKeptInIsr(Rule):
    """A broker that died and came back was registered anew while it stood in ISRs, and stayed there.

    ## What it checks
    A RegisterBrokerRecord with a new incarnation id over a registration that was not fenced: the broker crashed and came
    back before its session was cleared away. When the event is over the new incarnation may not be in any ISR. One
    subject per registration; the finding names the first partition and counts them all.

    ## Why it matters
    A crash may cost the unflushed end of the log. A replica that stays in the ISR over a crash is taken for complete; if it
    is elected, acknowledged records are gone (KAFKA-18106, KAFKA-18635).

    ## Evidence needed
    The metadata log, from its start or from a snapshot.

    ## What is allowed
    The last man: [b] with leader -1. A registration over a fenced incarnation: that one had to leave the ISRs when it was
    fenced (IS-07). The same incarnation registering again. Controllers before 3.3: exposed. From 3.7 to 3.9 the broker is
    taken out only with eligible leader replicas on, from 4.0 always.

    ## Example
    Broker 3 is killed and back within its session time-out. Its new registration at offset 350 finds it in the ISR of
    orders-0, and no record takes it out.

    ## References
    ReplicationControlManager.handleBrokerUncleanShutdown; ClusterControlManager.registerBroker; KIP-841; KIP-966.
    """

    evidence = {
        "the registration": "record_ref",
        "the registration before": "previous_ref",
        "the state that the first partition was left in": "kept_ref",
    }
    expected = "no ISR with the new incarnation of broker {broker_id}"
    observed = "{kept_in} partitions keep it, the first with leader {kept_leader}, ISR {kept_isr}"
    because = (
        "before the record at offset {metadata_offset} broker {broker_id} was {standing_before}, as another incarnation",
        "it registers incarnation {incarnation_id} with broker epoch {broker_epoch}",
        "when the batch ends, {kept_in} partitions have the broker in their ISR; the first is {topic}-{partition} with ISR {kept_isr}",
    )

    def applies(self) -> Column:
        return F.coalesce("supersedes", F.lit(False))

    def verdict(self) -> tuple[Branch, ...]:
        kept = col("kept_in") > 0
        return first_of(
            exposed(kept & ~col("checks_eligibility")),
            violation(kept),
            unverifiable(~col("log_complete"), "the metadata log does not reach back to all partitions"),
            otherwise=passed(),
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("checks_eligibility"), HIGH)
