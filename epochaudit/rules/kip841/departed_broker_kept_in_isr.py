"""IS-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-07", frame="broker_records", kip="KIP-841", severity=HIGH, since="2.8")
class DepartedBrokerKeptInIsr(Rule):
    """A broker was fenced, shut down or unregistered, and a partition kept it in its ISR.

    ## What it checks
    When the KRaft controller fences a broker, grants its controlled shutdown or unregisters it, it takes the broker out of
    every ISR and moves its leaderships, in the same event. When the event is over, no partition may have the broker in
    its ISR. One subject per event; the finding names the first partition and counts them all.

    ## Why it matters
    The partitions that were forgotten go on waiting for a broker that is not there. If it led them, they have no leader
    until someone elects one by hand.

    ## Evidence needed
    The metadata log, from its start or from a snapshot.

    ## What is allowed
    The last man: [b] with leader -1. Fencing writes partitions before the broker, controlled shutdown after it; both may
    take several batches: what follows within a second is part of the event. A broker that was not active before the record
    had to leave earlier: nothing is judged.

    ## Example
    Brokers 2 and 3 time out together. Fencing 3 overwrites what fencing 2 had changed: orders-0 keeps ISR [1, 2].

    ## References
    ReplicationControlManager.handleBrokerFenced, handleBrokerInControlledShutdown, handleBrokerUnregistered; KIP-841,
    invariant 1; KAFKA-13173.
    """

    evidence = {
        "the record that made the broker ineligible": "record_ref",
        "the state that the first partition was left in": "kept_ref",
    }
    expected = "no ISR with broker {broker_id} after the event"
    observed = "{kept_in} partitions keep it, the first with leader {kept_leader}, ISR {kept_isr}"
    because = (
        "the record at offset {metadata_offset} makes broker {broker_id}, active before, {standing}",
        "when its batch ends, {kept_in} partitions have the broker in their ISR; the first is {topic}-{partition} with ISR {kept_isr}",
    )

    def applies(self) -> Column:
        return F.coalesce("leaves", F.lit(False))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            violation(col("kept_in") > 0),
            unverifiable(~col("log_complete"), "the metadata log does not reach back to all partitions"),
            otherwise=passed(),
        )
