"""BE-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("BE-02", frame="control", kip="KIP-570", severity=INFO, since="2.2")
class NewerBrokerEpochRequested(Rule):
    """Observation: a control request was meant for a newer incarnation of the broker than it knew itself.

    ## What it checks
    A broker that registers again may get a request with its new broker epoch before it knows that epoch. Since 2.5.1 the
    broker accepts such a request. 2.2.0 to 2.5.0 throw an exception and answer -1 (KAFKA-9839). Each such request counts as
    one `pass`. This rule never gives a violation.

    ## Why it matters
    A broker of 2.2.0 to 2.5.0 continues with old metadata and old leaders until the controller sends the state again, which
    may never happen. That costs availability, not consistency.

    ## Evidence needed
    The broker's request log, and its server.log with the registration and the Kafka version.

    ## What is allowed
    Every such request is allowed. BE-01 judges requests for an older incarnation. During a migration from ZooKeeper the
    broker has two epochs, and the rule takes the one that the sending controller uses.

    ## What to do
    Nothing needs repair if the request was answered 0. If it was answered -1, the broker of 2.2.0 to 2.5.0 may keep old
    metadata: restart it, so that the controller sends its state again. 2.5.1 and 2.6.0 accept such requests
    (KAFKA-9839).

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
    expected = "{NONE} from 2.5.1 on, {UNKNOWN_SERVER_ERROR} from 2.2.0 to 2.5.0"
    observed = "error {request_error_code} for broker epoch {broker_epoch}"
    because = (
        "broker {node} knew of its broker epoch {own_broker_epoch}",
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
