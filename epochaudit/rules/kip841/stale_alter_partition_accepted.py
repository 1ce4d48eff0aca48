"""IS-12."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip841.eligibility import REFUSED_AS_INELIGIBLE, SUCCEEDED
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

NOT_CONTROLLER = 41
INVALID_REQUEST = 42
FENCED_LEADER_EPOCH = 74
INVALID_UPDATE_VERSION = 95
UNKNOWN_TOPIC = (3, 100)


@rule("IS-12", frame="isr_changes", kip="KIP-841", severity=CRITICAL, since="2.7")
class StaleAlterPartitionAccepted(Rule):
    """The controller accepted an AlterPartition that was decided in another leader or partition epoch.

    ## What it checks
    AlterPartition carries the leader epoch and the partition epoch that the leader believes in. A KRaft controller must
    answer 74 (FENCED_LEADER_EPOCH) if the leader epoch is behind its own, 95 (INVALID_UPDATE_VERSION) if the partition
    epoch is, and 41 (NOT_CONTROLLER) if one is ahead. Before 3.3 it answers 74 or 95 for any difference. A ZooKeeper
    controller is judged by the leader epoch. The same validation refuses partitions that do not exist (3, 100) and
    requests by a node that is not the leader or for an ISR that is none (42): these count as fenced where the metadata
    log shows the reason.

    ## Why it matters
    A deposed leader that does not know it yet would overwrite the ISR that its successor works with: replicas that lack
    acknowledged records become electable.

    ## Evidence needed
    KRaft: the controller's request log and the metadata log. ZooKeeper: the controller's request log and its
    state-change.log. Without the record of an accepted change the state is bracketed by arrival and answer, so the
    node's accepted changes must fit the times of their records: they tell the time zone of its log.

    ## What is allowed
    A request whose epochs were the current ones at some moment between arrival and answer passes. A ZooKeeper
    controller answers 0 to a request for the state it already has, with a stale partition epoch too, and 41 for the
    whole request right after a fail-over. 108 (below version 2: 74) says that the change was made and elected a new
    leader by completing a reassignment. A whole request refused with 41 or 77 is not judged here.

    ## Example
    Broker 1 was replaced as leader of orders-0 by broker 2 in leader epoch 5. It comes back from a pause, asks in epoch
    4 for ISR [1, 2] and is answered 0.

    ## References
    KIP-841, AlterPartition RPC; KIP-497; ReplicationControlManager.validateAlterPartitionData,
    KafkaController.processAlterPartition.
    """

    evidence = {
        "the AlterPartition request and its answer": "request_ref",
        "the partition's state that the controller had": "met_ref",
        "the record that the controller wrote": "committed_ref",
    }
    expected = "a refusal of epochs ({leader_epoch}, {partition_epoch}): the controller was at ({met_leader_epoch}, {met_partition_epoch})"
    observed = "error {error_code}"
    because = (
        "{topic}-{partition} was in leader epoch {met_leader_epoch}, partition epoch {met_partition_epoch}, with leader {met_leader}",
        "broker {broker_id} asked for ISR {isr} in leader epoch {leader_epoch}, partition epoch {partition_epoch}",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        by_validation = col("error_code").isin(
            *SUCCEEDED, *UNKNOWN_TOPIC, NOT_CONTROLLER, INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION
        )
        too_late = col("error_code").isin(*REFUSED_AS_INELIGIBLE) & ~col("zookeeper") & col("certainly_stale")
        return (col("request_error_code") == 0) & F.coalesce(by_validation | too_late, F.lit(False))

    def verdict(self) -> tuple[Branch, ...]:
        zookeeper, succeeded = col("zookeeper"), col("error_code").isin(*SUCCEEDED)
        return first_of(
            fenced(col("error_code").isin(*UNKNOWN_TOPIC) & col("topic_gone")),
            unverifiable(col("error_code").isin(*UNKNOWN_TOPIC), "whether the topic existed is not in the evidence"),
            unverifiable(~zookeeper & ~F.coalesce("has_metadata_log", F.lit(False)), "no metadata log"),
            unverifiable(
                ~(F.coalesce(F.size("met"), F.lit(0)) > 0),
                "the partition's state before the request is not in the evidence",
            ),
            passed(succeeded & col("current").isNotNull() & (_placed() | zookeeper)),
            *_accepted_by_zookeeper(zookeeper & succeeded),
            violation(succeeded & col("certainly_stale")),
            violation(succeeded & _certain()),
            unverifiable(succeeded, "the evidence does not tell the epochs at that moment"),
            violation(col("error_code").isin(*REFUSED_AS_INELIGIBLE)),
            *_refused(),
            otherwise=unverifiable(None, "the evidence does not explain the refusal"),
        )


def _accepted_by_zookeeper(accepted: Column) -> tuple[Branch, ...]:
    """Its lines tell leader epochs; partition epochs rise with every ISR change and are not in them."""
    same_epoch = ~col("leader_epoch_behind") & ~col("leader_epoch_ahead")
    return (
        violation(accepted & col("certainly_stale") & col("in_tenure")),
        passed(accepted & same_epoch),
        unverifiable(accepted, "the controller's lines do not tell the leader epoch it had"),
    )


def _refused() -> tuple[Branch, ...]:
    code, before_3_3 = col("error_code"), ~col("zookeeper") & ~col("checks_eligibility")
    stale_epoch = col("leader_epoch_behind") | (before_3_3 & col("leader_epoch_ahead"))
    stale_partition_epoch = col("partition_epoch_behind") | (before_3_3 & col("partition_epoch_ahead"))
    ahead = col("leader_epoch_ahead") | col("partition_epoch_ahead")
    certain = _certain() & ~col("zookeeper") & col("checks_eligibility").isNotNull()
    return (
        unverifiable(
            code.isin(FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, NOT_CONTROLLER) & ~_placed(),
            "no accepted change of this node tells how its log's clock relates to the metadata log's",
        ),
        passed((code == FENCED_LEADER_EPOCH) & (col("api_version") < 2) & col("reassigned")),
        fenced((code == FENCED_LEADER_EPOCH) & stale_epoch),
        fenced((code == INVALID_UPDATE_VERSION) & stale_partition_epoch),
        fenced((code == NOT_CONTROLLER) & ahead & ~F.coalesce(before_3_3, F.lit(False))),
        fenced((code == INVALID_REQUEST) & col("malformed")),
        violation(certain & (code == FENCED_LEADER_EPOCH) & ~stale_epoch),
        violation(certain & (code == INVALID_UPDATE_VERSION) & ~stale_partition_epoch),
        violation(certain & (code == NOT_CONTROLLER) & (~ahead | before_3_3)),
    )


def _placed() -> Column:
    """The request stands at the record it wrote, or between two times of the records' clock."""
    return col("committed").isNotNull() | col("from_ms").isNotNull()


def _certain() -> Column:
    """The request is placed by time, and the evidence reaches beyond it."""
    return col("from_ms").isNotNull() & F.coalesce("covered", F.lit(False))
