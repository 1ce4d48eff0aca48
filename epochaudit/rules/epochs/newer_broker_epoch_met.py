"""BE-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("BE-02", frame="control", kip="KIP-570", severity=INFO, since="2.2")
class NewerBrokerEpochMet(Rule):
    """Observation: a control request was meant for a newer incarnation of the broker than it knew itself.

    ## What it checks
    A broker that registers anew may get a request under its new broker epoch before it has heard of that epoch itself. From
    2.5.1 on it accepts such a request. 2.2.0 to 2.5.0 throw an exception and answer -1 (KAFKA-9839). Each such request
    counts as one `pass` here. This rule never gives a violation.

    ## Why it matters
    On 2.2.0 to 2.5.0 the broker goes on with old metadata and old leaders until the controller sends the state again, which
    may be never. That is a loss of availability, not of fencing.

    ## Evidence needed
    The broker's request log, and of its server.log the registration line and the Kafka version.

    ## What is allowed
    All of it. A request for an older incarnation is judged by BE-01.

    ## Example
    Broker 2 of 2.4.1 registers anew with broker epoch 126; UpdateMetadata for 126 comes first and is answered -1.

    ## References
    KafkaApis.isBrokerEpochStale at 2.4.1 and 2.5.1; KAFKA-9839; KIP-380.
    """

    per_request = True
    evidence = {
        "the request and its answer": "request_ref",
        "the registration that the broker knew of": "own_broker_epoch_ref",
        "the broker's own line": "line_ref",
    }
    expected = "0 from 2.5.1 on, -1 (UNKNOWN_SERVER_ERROR) from 2.2.0 to 2.5.0"
    observed = "error {request_error_code} for broker epoch {broker_epoch}"
    because = (
        "broker {node} had registered with broker epoch {own_broker_epoch}",
        "{event_type} {correlation_id} of controller {controller_id} was meant for broker epoch {broker_epoch}",
    )

    def applies(self) -> Column:
        return (
            (col("partition_row") == 0)
            & col("request_error_code").isNotNull()
            & (col("broker_epoch") > col("own_broker_epoch"))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("kafka_version").isNull(), "the broker's Kafka version is not in the evidence (server.log)"
            ),
            otherwise=passed(),
        )
