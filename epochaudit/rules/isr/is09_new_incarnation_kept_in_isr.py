"""IS-09."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN, LOG_BEGINS_LATE, log_incomplete
from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("IS-09", frame="broker_records", kip="KIP-841", severity=CRITICAL, since="2.8")
class NewIncarnationKeptInIsr(Rule):
    """A broker that died and came back registered again while it was in ISRs, and stayed in them.

    ## What it checks
    The subject is a RegisterBrokerRecord with a new incarnation id over a registration that was not fenced: the broker
    crashed and came back before its session expired. After the event the new incarnation may not be in any ISR. The finding
    names the first partition and the number of all.

    ## Why it matters
    A crash may lose the unflushed end of the log. A replica that stays in the ISR passes as complete; if it is elected,
    acknowledged records are lost (KAFKA-18106, KAFKA-18635). The severity is high before 4.0, and where a controller before
    4.1 elects the member as the last known leader.

    ## Evidence needed
    The metadata log, from its start or from a snapshot.

    ## What is allowed
    The last member: [b] with leader -1. A registration over a fenced incarnation, which had to leave the ISRs when it was
    fenced (IS-07). The same incarnation registering again. Controllers before 4.0 remove the broker from no ISR: exposed.
    From 3.7 on they could do so, but only with eligible leader replicas, which none of them offers for production.
    A partition that has lost its ISR and its eligible leader replicas: controllers of 4.0 elect the last known leader at
    once, also the broker that registers: exposed.

    ## What to do
    If the broker does not lead, keep the leaders of its partitions running until it has caught up (its metric
    `FetcherLagMetrics`, `ConsumerLag`). If it leads, look at TR-06 for what was lost. Until the upgrade, let
    supervisors wait longer than `broker.session.timeout.ms` before they start a killed broker: it is then fenced, and
    leaves the ISRs. Exposed means controllers before 4.0, which remove it from no ISR (KAFKA-18106), or of 4.0, which elect
    it (KAFKA-19522): upgrade.

    ## Example
    Broker 3 is killed and returns within its session time-out. It registers at offset 350 while it is in the ISR of
    orders-0, and no record removes it.

    ## References
    ReplicationControlManager.handleBrokerUncleanShutdown; ClusterControlManager.registerBroker;
    PartitionChangeBuilder.canElectLastKnownLeader; KIP-841; KIP-966.
    """

    evidence = {
        "the registration": "record_ref",
        "the registration before": "previous_ref",
        "the state that the first partition was left in": "remaining_ref",
    }
    expected = "no ISR with the new incarnation of broker {broker_id}"
    observed = "none is recorded"
    because = (
        "before the record at offset {metadata_offset} broker {broker_id} was {standing_before_in_words}, as another incarnation",
        "it registers incarnation {incarnation_id} with broker epoch {broker_epoch}",
    )

    def applies(self) -> Column:
        return col("supersedes")

    def verdict(self) -> tuple[Branch, ...]:
        remains = col("remaining_in").isNotNull()
        elected = col("remaining_elected") & ~col("checks_last_known")
        keeps = "partitions that keep it: {remaining_in}, the first with leader {remaining_leader}, ISR {remaining_isr}"
        because_registered = (
            *self.because,
            "when the event is over, {topic}-{partition} has leader {remaining_leader}, ISR {remaining_isr}",
        )
        return first_of(
            exposed(
                remains & ~col("takes_out"),
                "controllers before 4.0 leave a broker that registers over its unfenced incarnation in the ISRs",
                observed=keeps,
                because=because_registered,
            ),
            exposed(
                remains & elected,
                "controllers of 4.0 do not look whether the last known leader is there",
                observed="partitions that elect it as the last known leader: {remaining_in},"
                " the first with leader {remaining_leader}, ISR {remaining_isr}",
                because=because_registered,
            ),
            violation(remains & col("takes_out") & ~elected, observed=keeps, because=because_registered),
            unverifiable(remains, CONTROLLER_VERSION_UNKNOWN, observed=keeps, because=because_registered),
            unverifiable(~col("log_complete"), LOG_BEGINS_LATE),
            log_incomplete(),
            otherwise=passed(observed="no ISR has it"),
        )

    def severity_of(self) -> Column | None:
        return F.when(~col("takes_out") | (col("remaining_elected") & ~col("checks_last_known")), HIGH)
