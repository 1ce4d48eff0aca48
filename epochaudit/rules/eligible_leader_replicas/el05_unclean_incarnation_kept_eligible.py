"""EL-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.eligible_leader_replicas.missing import level_unknown
from epochaudit.rules.reasons import LOG_BEGINS_LATE, log_incomplete
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("EL-05", frame="registrations", kip="KIP-966", severity=CRITICAL, since="4.0")
class UncleanIncarnationKeptEligible(Rule):
    """A broker registered after an unclean shutdown and stayed an eligible leader replica (ELR).

    ## What it checks
    The subject is a RegisterBrokerRecord with a new incarnation id. The broker's BrokerRegistration states the broker epoch
    with which it shut down cleanly. If that is not the epoch of its registration before, the shutdown was unclean, and at the
    record's offset no partition may have the broker in its ELR. The finding names the first partition and the number of all.
    Registrations are judged while eligible.leader.replicas.version is 1 or above.

    ## Why it matters
    A crash may lose the unflushed end of the log. A replica in the ELR passes as complete: if the ISR becomes empty, it is
    elected as clean, and acknowledged records are lost without an unclean election.

    ## Evidence needed
    The metadata log from its beginning, or with a snapshot; the request log of the controller if an ELR has the broker.

    ## What is allowed
    After a clean shutdown a broker keeps its places in the ELRs. A broker without a registration before, or that was
    unregistered, counts as shut down uncleanly, as one does that states no epoch (BrokerRegistration below version 3). The
    same incarnation may register again. Whether a broker had to leave the ISRs, IS-09 judges.

    ## What to do
    Keep the leaders of the partitions named running until the broker is in their ISRs again: then it is complete. If it was
    elected already, look at TR-06 and AW-01 for what was lost, and copy the logs of the former leader before it follows
    and truncates. Report it with the records and the BrokerRegistration to Kafka's developers.

    ## Example
    orders-0 has no leader and ELR [1, 2]. The host of broker 2 loses power. Broker 2 registers with previousBrokerEpoch -1, no
    record takes it off the ELR, and as soon as it is unfenced it is elected, without the last acknowledged records.

    ## References
    KIP-966, Unclean shutdown; ClusterControlManager.registerBroker; ReplicationControlManager.handleBrokerShutdown;
    LogManager.readBrokerEpochFromCleanShutdownFiles; KAFKA-15586.
    """

    evidence = {
        "the registration": "record_ref",
        "the broker's request": "request_ref",
        "the registration before": "previous_ref",
        "the record that unregistered the broker": "unregistered_ref",
        "the record that set the ELR of the first partition": "eligible_ref",
    }
    expected = "no ELR with broker {broker_id}, which shut down uncleanly"
    observed = "partitions with it in the ELR: {eligible_in}, the first with ELR {eligible_elr}"
    because = (
        "at metadata offset {metadata_offset} broker {broker_id} registers as incarnation {incarnation_id}, "
        "with broker epoch {broker_epoch}",
    )

    def applies(self) -> Column:
        return col("record_ref").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        eligible = col("eligible_in").isNotNull()
        states = "its request states previousBrokerEpoch {stated_epoch}; its registration before has broker epoch {previous_broker_epoch}"
        unless_clean = "no ELR with broker {broker_id}, unless it shut down cleanly"
        return first_of(
            level_unknown(expected=unless_clean, observed="a new incarnation"),
            unverifiable(
                ~eligible & ~col("log_complete"),
                LOG_BEGINS_LATE,
                expected=unless_clean,
                observed="none is recorded",
            ),
            log_incomplete(~eligible, expected=unless_clean, observed="none is recorded"),
            passed(~eligible, expected=unless_clean, observed="no ELR has it"),
            passed(
                col("clean"),
                expected="its places in ELRs remain, as broker {broker_id} shut down cleanly",
                because=(*self.because, states),
            ),
            log_incomplete(expected=unless_clean),
            unverifiable(
                col("clean").isNull() & col("stated_epoch").isNull(),
                "the broker's registration at the controller is not recorded (request log)",
                expected=unless_clean,
            ),
            unverifiable(
                col("clean").isNull(),
                "the broker's registration before is not in the evidence (metadata log)",
                expected=unless_clean,
            ),
            violation(col("unregistered"), because=(*self.because, "it was not registered before")),
            violation(col("previous_broker_epoch").isNotNull(), because=(*self.because, states)),
            otherwise=violation(
                because=(*self.because, "its request states previousBrokerEpoch {stated_epoch}: no clean shutdown")
            ),
        )
