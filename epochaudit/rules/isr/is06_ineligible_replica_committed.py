"""IS-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import PARTITION_RECORD
from epochaudit.events.views import holds
from epochaudit.kafka.field_values import NO_LEADER
from epochaudit.replay.state.cluster_history import INELIGIBLE, UNKNOWN
from epochaudit.replay.state.metadata_log import in_snapshot
from epochaudit.replay.state.partition_states import OF_RECORD
from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN, EARLIER_RECORDS_MISSING
from epochaudit.rules.rule import CRITICAL, HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("IS-06", frame="metadata", kip="KIP-841", severity=CRITICAL, since="3.3")
class IneligibleReplicaCommitted(Rule):
    """A committed ISR names a replica that was fenced, in controlled shutdown or not registered.

    ## What it checks
    Every partition record of the metadata log: each member of the resulting ISR must be registered, unfenced and not in
    controlled shutdown at the record's offset.

    ## Why it matters
    The next leader is elected from the ISR, and acks=all waits for it. A member that is not running delays writes, counts
    as a copy that may not exist, and can be elected. The severity is high if the controller does not check members (before
    3.3), or does not take out members that register again (before 4.0).

    ## Evidence needed
    The metadata log, from its start or from a snapshot.

    ## What is allowed
    The last member: without eligible leader replicas an ISR is never emptied, so [b] with leader -1 remains when b leaves;
    with them the ISR becomes empty. Events are judged by offset: fencing writes the partitions first and the fencing last,
    controlled shutdown and unfencing write the broker's record first, and one batch may hold several events. Partitions
    copied from ZooKeeper (a first record with epochs above 0) keep their ISR from there: unverifiable. The log has
    controlled shutdown since metadata.version 3.3-IV3. IS-08 reports a partition that is created with such a member, and
    LD-02 such a member that is elected leader, if it is the only one. Controllers before 3.3 do not check, and controllers
    before 4.0 leave a broker that registers over its own unfenced incarnation in its ISRs (IS-09): exposed.

    ## What to do
    Keep the leader running until the broker has left the ISR (`kafka-topics.sh --describe`), or runs and has caught up
    (its metric `FetcherLagMetrics`, `ConsumerLag`). A leader removes a dead member after `replica.lag.time.max.ms`.
    Exposed means a controller before 3.3, which does not check the members (KIP-841), or before 4.0 if the broker came
    back over its own unfenced registration (KAFKA-18106): upgrade.

    ## Example
    Offset 49 fences broker 3; the record at offset 50 sets ISR [1, 2, 3] for orders-0.

    ## References
    KIP-841, invariant 1; ReplicationControlManager.generateLeaderAndIsrUpdates, PartitionChangeBuilder; KAFKA-13916,
    KAFKA-14140.
    """

    caused_by = ("IS-01", "IS-02", "IS-03", "IS-04", "IS-05", "IS-08", "IS-09", "LD-02")
    evidence = {
        "the committed record": "state_ref",
        "the record that made the replica ineligible": "ineligible_ref",
        "the partition's record before": "previous_ref",
    }
    expected = "an ISR of registered, unfenced brokers that are not shutting down"
    observed = "ISR {isr}"
    because = (
        "the record at offset {metadata_offset} leaves {topic}-{partition} with leader {leader}, leader epoch {leader_epoch}, partition "
        "epoch {partition_epoch} and ISR {isr}",
    )

    def applies(self) -> Column:
        count = F.size("ineligible_members")
        at_creation = col("created") & (count > 0)
        leader_alone = col("elects") & (count == 1) & col("leader_standing").isin(*INELIGIBLE)
        return (col("scope") == OF_RECORD) & ~holds(at_creation | leader_alone)

    def verdict(self) -> tuple[Branch, ...]:
        ineligible = F.size("ineligible_members") > 0
        imported = (col("event_type") == PARTITION_RECORD) & ~in_snapshot()
        named = "ISR {isr}, of which not eligible: {ineligible_members}"
        known = (
            "by the metadata log, at offset {metadata_offset} these members were not eligible: {ineligible_members}",
            *self.because,
        )
        return first_of(
            unverifiable(
                col("isr").isNull(),
                EARLIER_RECORDS_MISSING,
                observed="a change that leaves the ISR of an earlier record",
            ),
            passed(
                (F.size("isr") == 1) & (col("leader") == NO_LEADER),
                expected="the last member stays in the ISR, without being leader",
                observed="ISR {isr} without a leader",
            ),
            unverifiable(
                ~ineligible & F.array_contains("standings", UNKNOWN),
                "the registration of a member is not in the evidence",
            ),
            passed(F.size("isr") == 0, observed="an empty ISR"),
            passed(~ineligible, observed="ISR {isr}: all members are eligible"),
            unverifiable(imported, "the partition was copied from ZooKeeper with the ISR it had there"),
            exposed(
                col("superseded_live") & ~col("takes_out"),
                "controllers before 4.0 leave a broker that registers over its unfenced incarnation in the ISRs",
                observed=named,
                because=known,
            ),
            exposed(
                ~col("checks_eligibility"),
                "controllers before 3.3 do not look at the members",
                observed=named,
                because=known,
            ),
            unverifiable(
                col("superseded_live") & col("takes_out").isNull(),
                CONTROLLER_VERSION_UNKNOWN,
                observed=named,
                because=known,
            ),
            unverifiable(
                col("superseded_live").isNull() & ~holds(F.col("takes_out")),
                EARLIER_RECORDS_MISSING,
                observed=named,
                because=known,
            ),
            violation(col("checks_eligibility"), observed=named, because=known),
            otherwise=unverifiable(None, CONTROLLER_VERSION_UNKNOWN, observed=named, because=known),
        )

    def severity_of(self) -> Column:
        return F.when(~col("checks_eligibility") | (col("superseded_live") & ~col("takes_out")), HIGH)
