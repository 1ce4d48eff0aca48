"""BE-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.broker_records import REGISTRATION
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

KEEPS_EPOCH_RELEASE = 309


@rule("BE-04", frame="broker_records", kip="KIP-841", severity=HIGH, since="2.8")
class BrokerEpochFell(Rule):
    """A broker was registered with a broker epoch that does not rise.

    ## What it checks
    Successive RegisterBrokerRecords of a broker: the broker epoch never falls, a new incarnation has a larger one, and no
    epoch is larger than the offset of its own record. A broker that registers again with the same incarnation keeps its
    epoch since 3.9.

    ## Why it matters
    The broker epoch tells the incarnations of a broker apart: AlterPartition, heartbeats and fetches are fenced by it. If it
    repeats, what a dead incarnation sent is taken for the living one's; if it changes for the same incarnation, the broker's
    own requests are refused with 77 (KAFKA-16952).

    ## Evidence needed
    The metadata log.

    ## What is allowed
    An epoch smaller than the record's offset: it is the offset at which the event began, and clean-up records may come
    first. Up to 3.8 the same incarnation got a new epoch (KAFKA-16952). Offsets of records in a snapshot are none of the log.

    ## Example
    Broker 3 was registered with epoch 350; a record at offset 420 registers a new incarnation with epoch 350.

    ## References
    ClusterControlManager.registerBroker; KIP-631, Broker registration; KIP-841; KAFKA-16952.
    """

    evidence = {"the registration": "record_ref", "the registration before": "previous_ref"}
    expected = "a broker epoch above that of the incarnation before, and not above offset {metadata_offset}"
    observed = "broker epoch {broker_epoch} for incarnation {incarnation_id}"
    because = (
        "broker {broker_id} was registered before as {previous}",
        "the record at offset {metadata_offset} registers incarnation {incarnation_id} with broker epoch {broker_epoch}",
    )

    def applies(self) -> Column:
        return col("event_type") == REGISTRATION

    def verdict(self) -> tuple[Branch, ...]:
        epoch, before = col("broker_epoch"), col("previous.broker_epoch")
        in_snapshot = F.coalesce("in_snapshot", F.lit(False))
        same = col("incarnation_id") == col("previous.incarnation_id")
        return first_of(
            unverifiable(epoch.isNull(), "the record's broker epoch is not in the evidence"),
            violation(~in_snapshot & (epoch > col("metadata_offset"))),
            passed(before.isNull()),
            violation(epoch < before),
            passed(same & (epoch == before)),
            unverifiable(
                same & col("release").isNull(),
                "whether the controller keeps the epoch of an incarnation depends on its version, which is not in the evidence",
            ),
            violation(same & (col("release") >= KEEPS_EPOCH_RELEASE)),
            passed(epoch > before),
            unverifiable(same.isNull(), "the incarnation is not in the evidence"),
            otherwise=violation(),
        )
