"""IS-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import LOG_BEGINS_LATE, log_incomplete
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("IS-07", frame="broker_records", kip="KIP-841", severity=HIGH, since="2.8")
class DepartedBrokerKeptInIsr(Rule):
    """A broker was fenced, shut down or unregistered, and a partition kept it in its ISR.

    ## What it checks
    When the KRaft controller fences a broker, grants its controlled shutdown or unregisters it, it removes the broker from
    every ISR and moves its leaderships, in the same event. After the event no partition may have the broker in its ISR. One
    subject per event; the finding names the first partition and the number of all.

    ## Why it matters
    The remaining partitions wait for a broker that is not running. If it led them, they have no leader until someone elects
    one manually.

    ## Evidence needed
    The metadata log, from its start or from a snapshot.

    ## What is allowed
    The last member: [b] with leader -1. Fencing writes partitions before the broker, controlled shutdown after it, and both
    may take several batches: records within a second belong to the event. A broker that was not active before the record
    had to leave the ISRs earlier, and is not judged.

    ## What to do
    Start the broker again: it then leads and follows as the metadata log says. If it cannot be started, list what it
    led with `kafka-topics.sh --describe --unavailable-partitions`, and hold an election with `kafka-leader-election.sh
    --election-type preferred`, which takes the first replica if it is in the ISR. An unclean election loses records and
    is the last resort. KRaft controllers of 2.8 and 3.0 overwrite the changes of brokers that expire together: upgrade
    to 3.1 (KAFKA-13173).

    ## Example
    Brokers 2 and 3 time out together. Fencing 3 overwrites the changes of fencing 2: orders-0 keeps ISR [1, 2].

    ## References
    ReplicationControlManager.handleBrokerFenced, handleBrokerInControlledShutdown, handleBrokerUnregistered; KIP-841,
    invariant 1; KAFKA-13173.
    """

    evidence = {
        "the record that made the broker ineligible": "record_ref",
        "the state that the first partition was left in": "remaining_ref",
    }
    expected = "no ISR with broker {broker_id} after the event"
    observed = "none is recorded"
    because = ("the record at offset {metadata_offset} makes broker {broker_id}, active before, {standing_in_words}",)

    def applies(self) -> Column:
        return col("leaves")

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            violation(
                col("remaining_in").isNotNull(),
                observed="partitions that keep it: {remaining_in}, the first with leader {remaining_leader}, ISR {remaining_isr}",
                because=(
                    *self.because,
                    "when the event is over, {topic}-{partition} has leader {remaining_leader}, ISR {remaining_isr}",
                ),
            ),
            unverifiable(~col("log_complete"), LOG_BEGINS_LATE),
            log_incomplete(),
            otherwise=passed(observed="no ISR has it"),
        )
