"""Whether a coordinators' log can have lost records.

Coordinators keep producers' epochs and transactions' outcomes in __transaction_state, groups' generations in __consumer_offsets, and
share groups' states in __share_group_state.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.data_plane.lineage import epochs_of

KEPT: Final = "kept"
LOSSY: Final = "lossy"
UNKNOWN: Final = "unknown"

TRANSACTION_STATE: Final = "__transaction_state"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
SHARE_GROUP_STATE: Final = "__share_group_state"


def with_coordinator_log(rows: DataFrame, events: DataFrame, topic: str) -> DataFrame:
    """Adds coordinator_log, about this topic. Grain unchanged. Needs: cluster. Clock: leader epoch of the topic's partitions.

    kept: each recorded election of a leader was clean and from an ISR of several. lossy: one was unclean, or from an ISR of one, whose
    disk need not hold all. unknown: neither is known of one, or nothing is recorded.
    """
    elected = (F.col("leader") >= 0) & F.col("previous_leader_epoch").isNotNull()
    alone = F.size("previous_isr") <= 1
    lossy = (F.col("election") == "unclean") | ((F.col("election") == "clean") & alone)
    severity = F.when(~elected, F.lit(0)).when(lossy, F.lit(2)).when(F.col("election") == "clean", F.lit(0))
    worst = F.max(F.coalesce(severity, F.lit(1))).alias("worst")
    by_cluster = epochs_of(events).where(F.col("topic") == topic).groupBy("cluster").agg(worst)
    state = F.get(F.array(F.lit(KEPT), F.lit(UNKNOWN), F.lit(LOSSY)), F.col("worst"))
    rows = rows.join(F.broadcast(by_cluster), "cluster", "left")
    return rows.withColumn("coordinator_log", F.coalesce(state, F.lit(UNKNOWN))).drop("worst")
