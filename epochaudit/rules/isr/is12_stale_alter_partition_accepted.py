"""IS-12."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.api_versions import ELIGIBILITY_CHECK_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.rules.isr.eligibility import ASKED, REFUSED_AS_INELIGIBLE, SUCCEEDED
from epochaudit.rules.reasons import REFUSAL_UNEXPLAINED
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

UNKNOWN_TOPIC = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID)

STATE = "{topic}-{partition} was in leader epoch {state_leader_epoch}, partition epoch {state_partition_epoch}, with leader {state_leader}"
STATE_BY_LINES = (
    "by the controller's lines {topic}-{partition} was in leader epoch {state_leader_epoch}, with leader {state_leader}"
)
AT = "the controller was at ({state_leader_epoch}, {state_partition_epoch})"
CHANGED = "answered {error_code}: the ISR was changed"


@rule("IS-12", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="2.7")
class StaleAlterPartitionAccepted(Rule):
    """The controller accepted an AlterPartition that was decided in another leader or partition epoch.

    ## What it checks
    AlterPartition carries the leader epoch and the partition epoch that the leader knows. A KRaft controller must answer 74
    (FENCED_LEADER_EPOCH) if the leader epoch is older than its own, 95 (INVALID_UPDATE_VERSION) if the partition epoch is,
    and 41 (NOT_CONTROLLER) if one is newer. Before 3.3 it answers 74 or 95 for any difference. A ZooKeeper controller is
    judged by the leader epoch. The same validation refuses partitions that do not exist (3, 100), and requests from a node
    that is not the leader or with an invalid ISR (42): these count as fenced if the metadata log shows the reason.

    ## Why it matters
    A deposed leader that does not know of its successor would overwrite the successor's ISR: replicas that lack
    acknowledged records become electable.

    ## Evidence needed
    KRaft: the controller's request log and the metadata log. ZooKeeper: the controller's request log and its
    state-change.log. A request without a record of its change is located between the records that the same controller
    wrote before its arrival and after its answer: others have the clock of another host. For that the node's log needs a
    known time zone, which the times of its accepted changes and of their records give. Who wrote a record is known from
    LeaderChange records, which name the leader in raw logs and in dumps since 4.1, or from accepted changes.

    ## What is allowed
    A request passes if its epochs were current at any moment between arrival and answer. A ZooKeeper controller answers 0
    to a request for its current state, even with a stale partition epoch, and 41 to the whole request right after a
    fail-over. 108 (below version 2: 74) means that the change was made, completed a reassignment and thereby elected a new
    leader. A KRaft controller that was frozen, and has not noticed that another one has replaced it, answers 41 to epochs
    of its successor. Requests refused as a whole with 41 or 77 are not judged here.

    ## What to do
    Restart the broker that sent the request: it acts on a leadership or an ISR that has passed. Keep the present leader
    running until all members of the ISR have caught up (metric `FetcherLagMetrics`, `ConsumerLag`, of their brokers).
    The controller must refuse such a request in every release: report the lines with its version.

    ## Example
    Broker 2 replaced broker 1 as leader of orders-0 in leader epoch 5. Broker 1 resumes after a pause, requests ISR [1, 2]
    in epoch 4 and is answered 0.

    ## References
    KIP-841, AlterPartition RPC; KIP-497; ReplicationControlManager.validateAlterPartitionData,
    KafkaController.processAlterPartition.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state that the controller had": "state_ref",
        "the record that the controller wrote": "committed_ref",
    }
    expected = "a request in epochs that were current between its arrival and its answer, or its refusal"
    observed = "answered {error_code}"
    because = (STATE, ASKED)

    def applies(self) -> Column:
        by_validation = col("error_code").isin(
            *SUCCEEDED,
            *UNKNOWN_TOPIC,
            Errors.NOT_CONTROLLER,
            Errors.INVALID_REQUEST,
            Errors.FENCED_LEADER_EPOCH,
            Errors.INVALID_UPDATE_VERSION,
        )
        too_late = col("error_code").isin(*REFUSED_AS_INELIGIBLE) & ~col("zookeeper") & col("certainly_stale")
        return (col("request_error_code") == Errors.NONE) & holds(by_validation | too_late)

    def verdict(self) -> tuple[Branch, ...]:
        zookeeper, succeeded = col("zookeeper"), col("error_code").isin(*SUCCEEDED)
        return first_of(
            fenced(
                col("error_code").isin(*UNKNOWN_TOPIC) & col("topic_deleted"),
                expected="error {UNKNOWN_TOPIC_OR_PARTITION} or {UNKNOWN_TOPIC_ID}, as the topic did not exist",
                observed="error {error_code}",
                because=(ASKED,),
            ),
            fenced(
                (col("error_code") == Errors.UNKNOWN_TOPIC_OR_PARTITION) & col("without_partition"),
                expected="error {UNKNOWN_TOPIC_OR_PARTITION}, as {topic} had no partition {partition}",
                observed="error {error_code}",
                because=(ASKED,),
            ),
            unverifiable(
                col("error_code").isin(*UNKNOWN_TOPIC),
                "whether the topic existed is not in the evidence",
                because=(ASKED,),
            ),
            unverifiable(~zookeeper & ~col("has_metadata_log"), "no metadata log"),
            unverifiable(
                ~(F.coalesce(F.size("candidate_states"), F.lit(0)) > 0),
                "the partition's state before the request is not in the evidence",
            ),
            passed(
                succeeded & col("current").isNotNull() & (_placed() | zookeeper),
                expected="epochs ({leader_epoch}, {partition_epoch}) were current between arrival and answer",
                observed="the epochs were current, and the answer was {error_code}",
                because=(
                    "{topic}-{partition} was in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
                    ASKED,
                ),
            ),
            *_accepted_by_zookeeper(zookeeper & succeeded),
            violation(
                succeeded & col("certainly_stale"),
                expected=f"a refusal of epochs ({{leader_epoch}}, {{partition_epoch}}): {AT}",
                observed=CHANGED,
            ),
            violation(
                succeeded & _certain(),
                expected=f"a refusal of epochs ({{leader_epoch}}, {{partition_epoch}}): {AT}",
                observed=CHANGED,
            ),
            unverifiable(succeeded, "the evidence does not tell the epochs at that moment"),
            violation(
                col("error_code").isin(*REFUSED_AS_INELIGIBLE),
                expected=f"error {{FENCED_LEADER_EPOCH}} or {{INVALID_UPDATE_VERSION}} for epochs"
                f" ({{leader_epoch}}, {{partition_epoch}}), before the members are looked at: {AT}",
                observed="error {error_code}",
            ),
            *_refused(),
            otherwise=unverifiable(None, REFUSAL_UNEXPLAINED),
        )


def _accepted_by_zookeeper(accepted: Column) -> tuple[Branch, ...]:
    """Its lines have leader epochs; partition epochs rise with every ISR change and are not in them."""
    same_epoch = ~col("leader_epoch_behind") & ~col("leader_epoch_ahead")
    return (
        violation(
            accepted & col("certainly_stale") & col("in_tenure"),
            expected="a refusal of leader epoch {leader_epoch}: the controller was at {state_leader_epoch}",
            observed=CHANGED,
            because=(STATE_BY_LINES, ASKED),
        ),
        passed(
            accepted & same_epoch,
            expected="the leader epoch that the controller has",
            observed="leader epoch {leader_epoch}, answered {error_code}",
            because=(STATE_BY_LINES, ASKED),
        ),
        unverifiable(
            accepted, "the controller's lines do not tell the leader epoch it had", because=(STATE_BY_LINES, ASKED)
        ),
    )


def _refused() -> tuple[Branch, ...]:
    code, before_3_3 = col("error_code"), ~col("zookeeper") & ~col("checks_eligibility")
    stale_epoch = col("leader_epoch_behind") | (before_3_3 & col("leader_epoch_ahead"))
    stale_partition_epoch = col("partition_epoch_behind") | (before_3_3 & col("partition_epoch_ahead"))
    ahead = col("leader_epoch_ahead") | col("partition_epoch_ahead")
    certain = _certain() & ~col("zookeeper") & col("checks_eligibility").isNotNull()
    return (
        unverifiable(
            code.isin(Errors.FENCED_LEADER_EPOCH, Errors.INVALID_UPDATE_VERSION, Errors.NOT_CONTROLLER) & ~_placed(),
            "no accepted change of this node shows how its log's clock relates to the metadata log's",
        ),
        passed(
            (code == Errors.FENCED_LEADER_EPOCH) & (col("api_version") < ELIGIBILITY_CHECK_VERSION) & col("reassigned"),
            expected="error {FENCED_LEADER_EPOCH}, below AlterPartition 2 the answer to a change that ends a"
            " reassignment with a new leader",
            observed="error {FENCED_LEADER_EPOCH}, and the change was made",
        ),
        fenced(
            (code == Errors.FENCED_LEADER_EPOCH) & stale_epoch,
            expected="error {FENCED_LEADER_EPOCH} for leader epoch {leader_epoch}: the controller was at {state_leader_epoch}",
            observed="error {FENCED_LEADER_EPOCH}",
        ),
        fenced(
            (code == Errors.INVALID_UPDATE_VERSION) & stale_partition_epoch,
            expected="error {INVALID_UPDATE_VERSION} for partition epoch {partition_epoch}: the controller was at {state_partition_epoch}",
            observed="error {INVALID_UPDATE_VERSION}",
        ),
        fenced(
            (code == Errors.NOT_CONTROLLER) & ahead & ~holds(before_3_3),
            expected="error {NOT_CONTROLLER} for epochs ({leader_epoch}, {partition_epoch}), which the"
            " controller had not reached when they came",
            observed="error {NOT_CONTROLLER}",
        ),
        fenced(
            (code == Errors.INVALID_REQUEST) & col("malformed"),
            expected="error {INVALID_REQUEST} for an ISR that only the leader may ask for, with itself, within the replicas, and no"
            " member twice",
            observed="error {INVALID_REQUEST}",
            because=(f"{STATE}, and replicas {{state_replicas}}", ASKED),
        ),
        violation(
            certain & (code == Errors.FENCED_LEADER_EPOCH) & ~stale_epoch,
            expected=f"no error {{FENCED_LEADER_EPOCH}}, as leader epoch {{leader_epoch}} is not behind: {AT}",
            observed="error {FENCED_LEADER_EPOCH}",
        ),
        violation(
            certain & (code == Errors.INVALID_UPDATE_VERSION) & ~stale_partition_epoch,
            expected=f"no error {{INVALID_UPDATE_VERSION}}, as partition epoch {{partition_epoch}} is not behind: {AT}",
            observed="error {INVALID_UPDATE_VERSION}",
        ),
        violation(
            certain & (code == Errors.NOT_CONTROLLER),
            expected=f"no error {{NOT_CONTROLLER}} for epochs ({{leader_epoch}}, {{partition_epoch}}): {AT}",
            observed="error {NOT_CONTROLLER}",
        ),
    )


def _placed() -> Column:
    """The request stands at the record it wrote, or between two times of the records' clock."""
    return col("committed").isNotNull() | col("from_ms").isNotNull()


def _certain() -> Column:
    """The request is placed by time, the evidence reaches beyond it, and has the epochs of all states of that time."""
    known = F.forall("candidate_states", lambda state: state["leader_epoch"].isNotNull())
    return col("covered") & known
