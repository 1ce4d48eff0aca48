"""BE-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import HIGH, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation


@rule("BE-01", frame="control", kip="KIP-570", severity=HIGH, since="2.2")
class StaleBrokerEpochAccepted(Rule):
    """A control request meant for a broker's previous incarnation was accepted.

    ## What it checks
    LeaderAndIsr 2+, StopReplica 1+ and UpdateMetadata 5+ name the broker epoch they are meant for. A request with a
    smaller epoch than the broker's own must be answered 77 (STALE_BROKER_EPOCH).

    ## Why it matters
    After a restart a broker has forgotten all leader epochs, so a delayed LeaderAndIsr or StopReplica of before the
    restart passes every other fence. It can make the broker lead with an old ISR or delete a replica.

    ## Evidence needed
    The broker's request log, and from its server.log the line "Registered broker N … czxid (broker epoch): E".

    ## What is allowed
    A broker epoch of -1, or none in the request, skips the check. Since 2.5.1 a larger epoch is accepted: the controller
    may know of the registration before the broker does.

    ## Example
    Broker 2 registers with epoch 126; a LeaderAndIsr sent to its incarnation 61 is answered 0.

    ## References
    KafkaApis.isBrokerEpochStale (KIP-380), used by the requests of KIP-570 and KIP-516.
    """

    per_request = True
    evidence = {
        "the request and its answer": "request_ref",
        "the broker's registration": "own_broker_epoch_ref",
        "the broker's own line": "line_ref",
    }
    expected = "error 77 (STALE_BROKER_EPOCH) for a broker epoch below {own_broker_epoch}"
    observed = "error {request_error_code} for broker epoch {broker_epoch}"
    because = (
        "broker {node} had registered with broker epoch {own_broker_epoch}",
        "{event_type} {correlation_id} of controller {controller_id} was meant for broker epoch {broker_epoch}",
        "and was answered {request_error_code}",
    )

    def applies(self) -> Column:
        return (col("partition_row") == 0) & col("request_error_code").isNotNull() & (col("broker_epoch") >= 0)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == 77
        stale = col("broker_epoch") < col("own_broker_epoch")
        return first_of(
            unverifiable(
                col("own_broker_epoch").isNull(), "the broker's own epoch is not in the evidence (server.log)"
            ),
            fenced(stale & refused),
            violation(stale | refused),
            otherwise=passed(),
        )
