"""IS-08."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.state.cluster_history import UNKNOWN, UNREGISTERED
from epochaudit.rules.reasons import CONTROLLER_VERSION_UNKNOWN
from epochaudit.rules.rule import HIGH, Branch, Rule, exposed, first_of, passed, rule, unverifiable, violation


@rule("IS-08", frame="metadata", kip="KIP-841", severity=HIGH, since="3.3")
class PartitionCreatedOnIneligible(Rule):
    """A partition was created with a fenced or leaving broker in its ISR.

    ## What it checks
    The ISR of a new partition consists of the assigned brokers that are registered, unfenced and not in controlled
    shutdown. If there are none, the creation must fail (INVALID_REPLICATION_FACTOR or INVALID_REPLICA_ASSIGNMENT), so a
    PartitionRecord never starts with an empty ISR.

    ## Why it matters
    A partition that starts with a dead member accepts no acks=all write until that member is fenced again, and an election
    may choose a replica that never had the log.

    ## Evidence needed
    The metadata log, from its start or from a snapshot. The controller's Kafka version, if the log has no metadata.version.

    ## What is allowed
    Assigned brokers that are fenced, if they are not in the ISR. Records of a snapshot create no partitions. During a
    recorded migration from ZooKeeper (states 1 and 2) a first record may be a copy: unverifiable. Controllers before 3.3
    may choose fenced brokers, too, and take each broker that they choose into the ISR. If the request assigns the
    brokers, they take those in controlled shutdown into it. Both are exposed.

    ## What to do
    Check that the partition has a running leader (`kafka-topics.sh --describe`); if not, start the broker. Create
    topics when no broker is fenced or shutting down. Exposed means a controller before 3.3, which takes such brokers into
    new ISRs: upgrade (KIP-841).

    ## Example
    Broker 3 is in controlled shutdown. The PartitionRecord of orders-0 has ISR [1, 2, 3].

    ## References
    KIP-841, Proposed Changes (partition creation); ReplicationControlManager.createTopic; StripedReplicaPlacer.
    """

    evidence = {
        "the record that creates the partition": "state_ref",
        "the record that made the replica ineligible": "ineligible_ref",
    }
    expected = "an ISR of registered, unfenced brokers that are not shutting down"
    observed = "ISR {isr}"
    because = (
        "the record at offset {metadata_offset} creates {topic}-{partition} with ISR {isr} on replicas {replicas}",
    )

    def applies(self) -> Column:
        return col("created")

    def verdict(self) -> tuple[Branch, ...]:
        ineligible = F.size("ineligible_members") > 0
        registered = ~F.array_contains("standings", UNREGISTERED)
        named = "ISR {isr}, of which not eligible: {ineligible_members}"
        because_states = (
            "by the metadata log, at offset {metadata_offset} these members were not eligible: {ineligible_members}",
            *self.because,
        )
        return first_of(
            unverifiable(
                col("isr").isNull(), "the record's ISR is not in the evidence", observed="a new partition", because=()
            ),
            violation(F.size("isr") == 0, expected="an ISR with at least one member", observed="an empty ISR"),
            unverifiable(
                ~ineligible & F.array_contains("standings", UNKNOWN),
                "the registration of a member is not in the evidence",
            ),
            passed(~ineligible, observed="ISR {isr}: all members are eligible"),
            unverifiable(
                col("migrates"),
                "the partition may have been copied from ZooKeeper with the ISR it had there",
                observed=named,
            ),
            exposed(
                registered & ~col("checks_eligibility"),
                "controllers before 3.3 take fenced and leaving brokers into new ISRs",
                observed=named,
                because=because_states,
            ),
            unverifiable(
                registered & col("checks_eligibility").isNull(),
                CONTROLLER_VERSION_UNKNOWN,
                observed=named,
                because=because_states,
            ),
            otherwise=violation(observed=named, because=because_states),
        )
