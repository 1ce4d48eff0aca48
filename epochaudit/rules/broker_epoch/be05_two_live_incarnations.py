"""BE-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import BROKER_REGISTRATION
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

_UNLESS_ALIVE = "error {NONE}, unless the former incarnation is alive and goes on being answered {NONE}"


@rule("BE-05", frame="broker_requests", kip="KIP-841", severity=CRITICAL, since="2.8")
class TwoLiveIncarnations(Rule):
    """A broker id was registered a second time while its first incarnation was alive, and both were obeyed.

    ## What it checks
    While a broker's session is valid, the controller must refuse another incarnation's registration of its id with 101
    (DUPLICATE_BROKER_REGISTRATION). Two processes were the same broker if a registration succeeded although the previous
    one was not fenced, and the controller still answered 0 to later requests with the old broker epoch.

    ## Why it matters
    Two processes with one id lead the same partitions, each with its own log. What a client reads depends on which of them
    it reaches.

    ## Evidence needed
    The controller's request log with registrations and heartbeats, and the metadata log.

    ## What is allowed
    A registration over a session that has expired but is not yet removed, if no later request comes from the old
    incarnation (IS-09 checks the ISRs that it leaves). A refusal for some seconds after a granted controlled shutdown. A
    broker that was frozen and continues with its old epoch. The same incarnation registering again.

    ## What to do
    Stop one of the two processes at once; `connection` in the evidence shows the addresses of both. Keep both log
    directories, because each may hold records that the other lacks, and compare them before you delete either: an audit
    of both does (EP-07). Start the remaining process anew, and give every host a `node.id` of its own.

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
    expected = "error {DUPLICATE_BROKER_REGISTRATION}, or no more answers of {NONE} to the former incarnation"
    observed = "error {request_error_code}, broker epoch {current_broker_epoch}"
    because = (
        "before, broker {broker_id} was {superseded_standing} under broker epoch {superseded_epoch}",
        "BrokerRegistration {correlation_id} of incarnation {incarnation_id} was answered {request_error_code} with broker epoch "
        "{current_broker_epoch}",
        "a request under broker epoch {served_epoch} arrived after that and was answered {NONE}",
    )

    def applies(self) -> Column:
        return (col("event_type") == BROKER_REGISTRATION) & col("request_error_code").isin(
            Errors.NONE, Errors.DUPLICATE_BROKER_REGISTRATION
        )

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("request_error_code") == Errors.DUPLICATE_BROKER_REGISTRATION
        registered = F.exists("held_epochs", lambda epoch: epoch >= 0)
        answered = "error {request_error_code}, broker epoch {current_broker_epoch}"
        return first_of(
            unverifiable(~col("has_metadata_log"), "no metadata log", expected=_UNLESS_ALIVE, because=()),
            fenced(
                refused & registered,
                expected="error {DUPLICATE_BROKER_REGISTRATION} while the former incarnation is registered",
                observed="error {DUPLICATE_BROKER_REGISTRATION} for incarnation {incarnation_id}",
                because=("controller {node} held broker {broker_id} under broker epoch {held_epochs}",),
            ),
            unverifiable(
                refused,
                "no registration of the broker is in the evidence",
                expected=_UNLESS_ALIVE,
                observed="error {DUPLICATE_BROKER_REGISTRATION} for incarnation {incarnation_id}",
                because=(),
            ),
            passed(
                holds(F.col("same_incarnation")),
                expected="error {NONE} for the incarnation that is registered already",
                observed=answered,
                because=("incarnation {incarnation_id} had registered before",),
            ),
            unverifiable(
                col("superseded").isNull(),
                "the record of the registration is not in the evidence (metadata log)",
                expected=_UNLESS_ALIVE,
                because=(),
            ),
            violation(col("superseded_live") & col("served_after").isNotNull()),
            otherwise=passed(expected=_UNLESS_ALIVE),
        )
