"""UF-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.state.cluster_history import FENCED, UNKNOWN, UNREGISTERED
from epochaudit.rules.metadata_quorum.formatted_anew import maybe_formatted_anew
from epochaudit.rules.reasons import log_incomplete
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("UF-02", frame="broker_records", kip="KIP-631", severity=HIGH, since="2.8")
class ShutdownGrantedUnfenced(Rule):
    """The controller let a broker shut down and did not fence it.

    ## What it checks
    A heartbeat answered shouldShutDown=true ends a controlled shutdown. The controller fences the broker in the same event, and answers
    when the records are committed. The subject is the broker's next registration, if a heartbeat of the broker epoch before
    was answered so: by then the metadata log has to state that the broker was fenced, or unregistered.

    ## Why it matters
    A broker that is not fenced remains in ISRs and is elected. After the answer it stops: the partitions that it leads have no
    running leader, and producers with acks=all wait for it, until its session expires or it comes back.

    ## Evidence needed
    The controllers' request logs as JSON, with heartbeats that are answered shouldShutDown=true, and the metadata log.

    ## What is allowed
    A broker that was fenced before it wanted to shut down. A broker that has not registered again since is not judged: the end
    of the log may be missing. Epochs of a quorum that may have been formatted anew are unverifiable.

    ## What to do
    Look for what the broker led while it was down: IS-07 and IS-09 name ISRs that still have it, `epochaudit timeline` shows the elections.
    Let brokers stop one after the other, and wait in between until no partition is under-replicated. Report the lines to the
    Kafka project, with the controller's version.

    ## Example
    Broker 2, under broker epoch 19, is answered shouldShutDown=true. It registers again with epoch 299; no record in between fences it.

    ## References
    ReplicationControlManager.processBrokerHeartbeat; BrokerHeartbeatManager.calculateNextBrokerState; KIP-631.
    """

    evidence = {
        "the registration": "record_ref",
        "the heartbeat and its answer": "granted_ref",
        "the registration before": "previous_ref",
    }
    expected = "a record that fences broker {broker_id} under broker epoch {previous_broker_epoch}"
    observed = "broker {broker_id} was {standing_before_in_words} when it registered again"
    because = (
        "a heartbeat of broker {broker_id} under broker epoch {previous_broker_epoch} was answered shouldShutDown=true",
        "the record at offset {metadata_offset} registers it again, with broker epoch {broker_epoch}",
    )

    def applies(self) -> Column:
        return col("granted_ref.file").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        standing = col("standing_before")
        unfenced = ~standing.isin(FENCED, UNREGISTERED)
        return first_of(
            unverifiable(
                standing.isNull() | (standing == UNKNOWN),
                "earlier records of the broker are not in the evidence (metadata log)",
                observed="its standing is not known",
            ),
            maybe_formatted_anew(unfenced),
            passed(~unfenced),
            log_incomplete(),
            otherwise=violation(),
        )
