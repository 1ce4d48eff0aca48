"""BE-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import REGISTER_BROKER_RECORD
from epochaudit.events.views import holds
from epochaudit.kafka.releases import release
from epochaudit.replay.state.cluster_history import UNREGISTERED
from epochaudit.replay.state.metadata_log import in_snapshot
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

FIRST_KEEPING_EPOCH = release("3.9")

_BECAUSE = (
    "broker {broker_id} was registered before with broker epoch {previous_broker_epoch}, incarnation {previous_incarnation_id}",
    "the record at offset {metadata_offset} registers incarnation {incarnation_id} with broker epoch {broker_epoch}",
)


@rule("BE-04", frame="broker_records", kip="KIP-841", severity=HIGH, since="2.8")
class BrokerEpochFell(Rule):
    """A broker was registered with a broker epoch that does not rise.

    ## What it checks
    Successive RegisterBrokerRecords of a broker: the broker epoch never falls, a new incarnation has a larger one, and no
    epoch is larger than the offset of its own record. Since 3.9 a broker that registers again with the same incarnation id
    keeps its epoch.

    ## Why it matters
    The broker epoch distinguishes the incarnations of a broker: it fences AlterPartition, heartbeats and fetches. If an
    epoch repeats, the controller takes a dead incarnation's requests for the live one's. If it changes for the same
    incarnation, the broker's own requests are refused with 77 (KAFKA-16952).

    ## Evidence needed
    The metadata log.

    ## What is allowed
    An epoch may be smaller than its record's offset: it is the offset at which the registration began, and clean-up records
    may precede the record. Up to 3.8 the same incarnation got a new epoch (KAFKA-16952), and so it does once the broker was
    unregistered: to the controller it is then a new one. Records in a snapshot are ignored,
    because their offsets are not offsets of the log.

    ## What to do
    Check first that the metadata log is one log: a copy restored from a backup, or copies of two clusters, look the
    same (EP-05, EP-06). Restart the broker: it registers again and gets a new epoch. If its requests are refused with
    77 after its registration was amended, upgrade the controllers to 3.9, where the incarnation keeps its epoch
    (KAFKA-16952).

    ## Example
    Broker 3 was registered with epoch 350; a record at offset 420 registers a new incarnation with epoch 350.

    ## References
    ClusterControlManager.registerBroker; KIP-631, Broker registration; KIP-841; KAFKA-16952.
    """

    evidence = {"the registration": "record_ref", "the registration before": "previous_ref"}
    expected = "a broker epoch above that of the incarnation before, and not above offset {metadata_offset}"
    observed = "broker epoch {broker_epoch} for incarnation {incarnation_id}"
    because = _BECAUSE

    def applies(self) -> Column:
        return col("event_type") == REGISTER_BROKER_RECORD

    def verdict(self) -> tuple[Branch, ...]:
        epoch, before = col("broker_epoch"), col("previous.broker_epoch")
        unregistered = col("standing_before") == UNREGISTERED  # to the controller, it is then a new broker
        same = (col("incarnation_id") == col("previous.incarnation_id")) & ~holds(unregistered)
        above = "a broker epoch above {previous_broker_epoch}, that of the incarnation before"
        return first_of(
            unverifiable(
                epoch.isNull(),
                "the record's broker epoch is not in the evidence",
                expected="a broker epoch that rises with each incarnation",
                observed="no broker epoch for incarnation {incarnation_id}",
                because=(),
            ),
            violation(
                ~in_snapshot() & (epoch > col("metadata_offset")),
                expected="a broker epoch not above offset {metadata_offset}, at which it was given",
                because=_BECAUSE[1:],
            ),
            passed(
                before.isNull(), expected="any broker epoch: no registration before is recorded", because=_BECAUSE[1:]
            ),
            violation(epoch < before, expected="broker epoch {previous_broker_epoch} or above"),
            passed(
                same & (epoch == before),
                expected="broker epoch {previous_broker_epoch} or above for the same incarnation",
            ),
            unverifiable(
                same & col("kafka_version").isNull(),
                "whether the controller keeps the epoch of an incarnation depends on its version, which is not in the evidence",
                expected="broker epoch {previous_broker_epoch} for the same incarnation since 3.9, a higher one before",
            ),
            violation(
                same & (col("kafka_version") >= FIRST_KEEPING_EPOCH),
                expected="broker epoch {previous_broker_epoch}, which the same incarnation keeps since 3.9",
            ),
            passed(epoch > before, expected=above),
            unverifiable(
                same.isNull(),
                "the incarnation is not in the evidence",
                expected=above,
                observed="broker epoch {broker_epoch}",
                because=_BECAUSE[:1],
            ),
            otherwise=violation(expected=above),
        )
