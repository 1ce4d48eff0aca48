"""BE-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.broker_requests import REGISTRATION
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

DUPLICATE_BROKER_REGISTRATION = 101


@rule("BE-05", frame="broker_requests", kip="KIP-841", severity=CRITICAL, since="2.8")
class TwoLiveIncarnations(Rule):
    """A broker id was registered a second time while its first incarnation was alive, and both were obeyed.

    ## What it checks
    While a broker's session is valid, a registration of its id by another incarnation must be refused with 101
    (DUPLICATE_BROKER_REGISTRATION). If the registration succeeded although the one before was not fenced, and the controller
    still answered 0 to requests under the old broker epoch that came after it, two processes were the same broker.

    ## Why it matters
    Two processes with one id lead the same partitions, each with a log of its own. Which of them a client meets decides what
    it reads.

    ## Evidence needed
    The controller's request log with registrations and heartbeats, and the metadata log.

    ## What is allowed
    A registration over a session that has expired but was not yet cleared away, as long as the old incarnation is not heard
    again (IS-09 looks at what it leaves). A refusal for some seconds after a granted controlled shutdown. A broker that was
    only frozen and goes on with its old epoch. The same incarnation registering again.

    ## Example
    Two hosts are started with node.id 3. Both registrations are answered 0, and heartbeats with both broker epochs too.

    ## References
    ClusterControlManager.registerBroker; BrokerHeartbeatManager.hasValidSession; KIP-631, Broker registration; KIP-841.
    """

    evidence = {
        "the registration and its answer": "request_ref",
        "the registration before": "superseded_ref",
        "the last request of the former incarnation that was obeyed": "served_ref",
    }
    expected = "error 101 (DUPLICATE_BROKER_REGISTRATION), or no more answers of 0 to the former incarnation"
    observed = "error {request_error_code}, broker epoch {current_broker_epoch}"
    because = (
        "before, broker {broker_id} was registered: {superseded}",
        "BrokerRegistration {correlation_id} of incarnation {incarnation_id} was answered {request_error_code} with broker epoch "
        "{current_broker_epoch}",
        "a request under the former epoch came later and was answered 0: {served_after}",
    )

    def applies(self) -> Column:
        return (col("event_type") == REGISTRATION) & col("request_error_code").isin(0, DUPLICATE_BROKER_REGISTRATION)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == DUPLICATE_BROKER_REGISTRATION
        registered = F.exists("held_epochs", lambda epoch: epoch >= 0)
        return first_of(
            unverifiable(~F.coalesce("has_metadata_log", F.lit(False)), "no metadata log"),
            fenced(refused & registered),
            unverifiable(refused, "no registration of the broker is in the evidence"),
            passed(F.coalesce("same_incarnation", F.lit(False))),
            unverifiable(
                col("superseded").isNull(), "the record of the registration is not in the evidence (metadata log)"
            ),
            violation(col("superseded_live") & col("served_after").isNotNull()),
            otherwise=passed(),
        )
