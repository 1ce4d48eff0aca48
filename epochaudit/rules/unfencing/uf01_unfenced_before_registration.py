"""UF-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("UF-01", frame="heartbeats", kip="KIP-631", severity=HIGH, since="2.8")
class UnfencedBeforeRegistration(Rule):
    """The controller unfenced a broker that had not yet read its own registration in the metadata log.

    ## What it checks
    Each heartbeat states the broker epoch and the offset that the broker has reached in the metadata log. The controller may answer
    isFenced=false only once that offset has reached the record that registered the broker with this epoch. Of each broker epoch the
    heartbeat with the lowest offset is judged.

    ## Why it matters
    Only a broker that is not fenced becomes a leader and joins ISRs, and clients are sent to it. Before it has read the metadata
    log up to its own registration, it does not know which partitions it leads and which configuration holds.

    ## Evidence needed
    The controllers' request logs as JSON, and the metadata log from the registration on.

    ## What is allowed
    Heartbeats of a broker that wants to be fenced or to shut down. An epoch with which a live broker registered again without being
    fenced. A registration that is known from a snapshot only does not show its offset: it is unverifiable, and so are epochs
    of a quorum that may have been formatted anew.

    ## What to do
    Restart the broker named: it is fenced first, and its next registration has another epoch. Read the log of the controller for
    `to unfence has been granted`, and compare its release with those of the other controllers. TR-06 and LD-02 tell whether
    records were lost while the broker led.

    ## Example
    Broker 2 registers, by the record at offset 500. Its heartbeat states that it has reached offset 480, and is answered isFenced=false.

    ## References
    BrokerHeartbeatManager.calculateNextBrokerState; up to 3.2 it compares with the last committed offset, which is no lower; KIP-631.
    """

    evidence = {"the heartbeat and its answer": "heartbeat_ref", "the registration": "registered_ref"}
    expected = "isFenced=true below offset {registered_offset}"
    observed = "isFenced={fenced} at offset {current_metadata_offset}"
    because = (
        "broker {broker_id} is registered with broker epoch {broker_epoch} by the record at offset {registered_offset}",
        "its heartbeat {correlation_id} states that it has reached offset {current_metadata_offset} of the metadata log",
    )

    def applies(self) -> Column:
        return ~col("fenced") | (col("current_metadata_offset") < col("registered_offset"))

    def verdict(self) -> tuple[Branch, ...]:
        behind = col("current_metadata_offset") < col("registered_offset")
        return first_of(
            fenced(col("fenced")),
            unverifiable(
                col("registered_offset").isNull(),
                "the record that registered the broker with this epoch is not in the evidence (metadata log)",
                expected="isFenced=true below the offset of the broker's registration",
            ),
            maybe_formatted_anew(behind),
            passed(behind & col("registered_unfenced"), expected="isFenced=false: a live broker registered again"),
            violation(behind),
            otherwise=passed(expected="isFenced=true below offset {registered_offset}, any answer from there on"),
        )
