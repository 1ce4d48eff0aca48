"""Whether a coordinator's log, or that of a partition, can have lost records.

Coordinators keep producers' epochs and transactions' outcomes in __transaction_state, groups' generations in __consumer_offsets, and
share groups' states in __share_group_state.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.times import ANY_ZONE_MS, SLACK_MS
from epochaudit.events.views import holds
from epochaudit.replay.data_plane.lineage import epochs_of
from epochaudit.replay.state.incarnations import topic_key

KEPT: Final = "kept"
LOSSY: Final = "lossy"
UNKNOWN: Final = "unknown"

TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
SHARE_GROUP_STATE: Final = "__share_group_state"


def with_coordinator_log(rows: DataFrame, events: DataFrame, topic: str) -> DataFrame:
    """Adds coordinator_log, lossy_election_ref and lossy_isr_ref, about this topic. Grain unchanged. Needs: cluster.

    Clock: leader epoch of the topic's partitions. coordinator_log is one of these:
    kept: every recorded election of a leader was clean, and no leader had been the only member of the ISR.
    lossy: an election was unclean, or of the only member of the ISR, whose disk may lack records. One from the ELR is not: its members
    have all that was committed, as an ISR below min.insync.replicas commits nothing, and who stopped uncleanly leaves it (KIP-966).
    unknown: the kind of an election is not known, nothing is recorded, or the first recorded leader begins an epoch
    above 0, so that an earlier leader may be missing.
    lossy_election_ref: if lossy, the first such election of the lowest partition that has one. lossy_isr_ref: if that was from an ISR
    of one member, the statement of that ISR.
    """
    rows = rows.join(
        F.broadcast(_losses(epochs_of(events).where(F.col("topic") == topic), "cluster")), "cluster", "left"
    )
    return rows.withColumn("log_state", F.coalesce("log_state", F.lit(UNKNOWN))).withColumnRenamed(
        "log_state", "coordinator_log"
    )


def with_partition_log(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds partition_log, lossy_election_ref and lossy_isr_ref, about the row's partition. Grain unchanged.

    Needs: cluster, topic, topic_id, partition. The columns are those of `with_coordinator_log`, of the one partition.
    """
    losses = _losses(epochs_of(events), "cluster", "topic_key", "partition")
    rows = rows.withColumn("topic_key", topic_key()).join(
        F.broadcast(losses), ["cluster", "topic_key", "partition"], "left"
    )
    return rows.withColumn("partition_log", F.coalesce("log_state", F.lit(UNKNOWN))).drop("log_state", "topic_key")


def _losses(epochs: DataFrame, *keys: str) -> DataFrame:
    """One row per key of recorded leader epochs: log_state, lossy_election_ref and lossy_isr_ref, see `with_coordinator_log`."""
    elected = (F.col("leader") >= 0) & F.col("previous_leader_epoch").isNotNull()
    alone = F.col("previous_isr") == F.array("leader")
    lossy = (F.col("election") == "unclean") | ((F.col("election") == "clean") & alone)
    follows_unknown = F.col("previous_leader_epoch").isNull() & (F.col("leader_epoch") > 0)
    severity = (
        F.when(follows_unknown, F.lit(1))
        .when(~elected, F.lit(0))
        .when(lossy, F.lit(2))
        .when(F.col("election") == "clean", F.lit(0))
    )
    worst = F.max(F.coalesce(severity, F.lit(1))).alias("worst")
    isr_ref = F.when(F.col("election") == "clean", F.col("previous_isr_ref"))
    loss = F.struct("partition", "leader_epoch", "election_ref", isr_ref.alias("isr_ref"))
    first_loss = F.min(F.when(severity == F.lit(2), loss)).alias("first_loss")
    state = F.get(F.array(F.lit(KEPT), F.lit(UNKNOWN), F.lit(LOSSY)), F.col("worst"))
    return epochs.groupBy(*keys).agg(worst, first_loss).select(
        *keys, state.alias("log_state"), F.col("first_loss.election_ref").alias("lossy_election_ref"),
        F.col("first_loss.isr_ref").alias("lossy_isr_ref"),
    )  # fmt: skip


def with_returns(rows: DataFrame, events: DataFrame, topic: str) -> DataFrame:
    """Adds returns, about this topic. Grain unchanged. Needs: cluster, node. Clock: leader epoch of the topic's partitions.

    returns: array of struct(begun_ms, begun_by_ms). The node led a partition of the topic, then another may have, and then the node again:
    since begun_ms by its own line, or without that line since begun_by_ms at the latest. Both are null if nothing shows the time. The
    first recorded leader of a partition has an entry, too, if its epoch is above 0. The other leader may have deleted what the node
    coordinates, and created it anew. returns is null if nothing shows that the node led a partition.
    """
    in_order = Window.partitionBy("cluster", "topic_key", "partition").orderBy("leader_epoch")
    gap = holds(F.col("leader_epoch") - F.lag("leader_epoch").over(in_order) > 1)
    epochs = (
        epochs_of(events).where(F.col("topic") == topic).withColumns({"gap": gap, "by": F.coalesce("leader", "node")})
    )
    epochs = epochs.withColumn("gaps", F.sum(F.col("gap").cast("int")).over(in_order)).where(F.col("by") >= 0)
    state = F.struct("by", "gaps")
    begins = epochs.withColumn("begins", ~F.lag(state).over(in_order).eqNullSafe(state)).where("begins")
    of_node = Window.partitionBy("cluster", "topic_key", "partition", "by").orderBy("leader_epoch")
    is_first = F.col("previous_leader_epoch").isNull() & (F.col("leader_epoch") > 0)
    again = (F.col("times_led") > 1) | is_first
    # a record has UTC, the node's lines may have any zone
    stated_ms = F.when(is_first & F.col("start_ref").isNull(), F.col("election_ref.time_ms") + ANY_ZONE_MS)
    begun = F.struct(F.col("start_ref.time_ms").alias("begun_ms"), stated_ms.alias("begun_by_ms"))
    led = begins.withColumn("times_led", F.row_number().over(of_node)).groupBy("cluster", F.col("by").alias("node"))
    returns = led.agg(F.collect_list(F.when(again, begun)).alias("returns"))
    return rows.join(F.broadcast(returns), ["cluster", "node"], "left")


def returned_between(earlier: Column, later: Column) -> Column:
    """Whether the node may have begun to lead again between two of its lines. earlier, later: their references. Needs: `with_returns`."""
    begun = F.exists(
        "returns",
        lambda one: (
            (one["begun_ms"].isNull() & F.coalesce(one["begun_by_ms"] > earlier["time_ms"], F.lit(True)))
            | ((one["begun_ms"] > earlier["time_ms"] - SLACK_MS) & (one["begun_ms"] <= later["time_ms"]))
        ),
    )
    return holds(begun)
