"""The ISR just before an election, if the controller that logs the election has no line of that ISR.

Up to 2.6 the leader writes a changed ISR to ZooKeeper itself, and the controller logs nothing. From 2.7 on the leader sends
AlterPartition to the controller, which does not log the state either. Each write of the znode increments the partition epoch.
An election is such a write, so the ISR before it is that of the previous partition epoch, whichever node states it.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALTER_PARTITION,
    ISR_EXPANDING,
    ISR_SHRINKING,
    ISR_UPDATE_SKIPPED,
    ISR_UPDATED,
    LEADER_AND_ISR,
    LEADER_STARTS,
    UPDATE_METADATA,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import LEADER_DURING_DELETE
from epochaudit.replay.state.incarnations import key_of_name, topic_key
from epochaudit.replay.state.partition_states import OF_CONTROLLER

_ANSWERED: Final = (ALTER_PARTITION, LEADER_AND_ISR)
_STATEMENTS: Final = (*_ANSWERED, UPDATE_METADATA, ISR_UPDATED, LEADER_STARTS)
_CHANGES: Final = (ISR_EXPANDING, ISR_SHRINKING)
_LINE: Final = ("cluster", "node", "file", "byte_offset")


def with_isr_before_election(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds stated_isr and stated_ref, the ISR of the previous partition epoch and its statement. Grain unchanged.

    Only for an election in a controller's line, if the row before has another partition epoch or states none. Null if nothing states the
    ISR, or statements differ. A statement by a name of several topics counts only if the controller's own node received it after
    began_ms and before the line.
    Needs: the rows of `partition_states` with the columns of `topic_incarnations`, and began_ms. Clock: partition epoch.
    """
    stated = _statements(events).join(
        F.broadcast(_elections_without_isr(rows)), ["cluster", "topic_key", "partition", "stated_partition_epoch"]
    )
    in_time = (F.col("stated_by") == F.col("node")) & F.col("stated_ms").between(F.col("began_ms"), F.col("line_ms"))
    epochs_fit = F.coalesce(F.col("stated_leader_epoch") == F.col("leader_epoch") - 1, F.lit(True))
    stated = stated.where(epochs_fit & (~F.col("by_name_of_several") | in_time))
    isrs = F.collect_set(F.array_sort("stated_isr"))
    agreed = stated.groupBy(*_LINE).agg(isrs.alias("isrs"), F.min("stated_ref").alias("stated_ref"))
    agreed = agreed.where(F.size("isrs") == 1).select(*_LINE, F.get("isrs", F.lit(0)).alias("stated_isr"), "stated_ref")
    return rows.join(F.broadcast(agreed), list(_LINE), "left")


def _elections_without_isr(rows: DataFrame) -> DataFrame:
    """One row per election without the previous ISR and key by which a statement may name its partition."""
    elects = (F.col("scope") == OF_CONTROLLER) & (F.col("leader") >= 0) & (F.col("leader") != F.col("before.leader"))
    # before 3.1, except in 2.7.2, 2.8.1 and 2.8.2, some lines have no ZkVersion: the row before may be of any partition epoch
    skips = ~holds(F.col("partition_epoch") == F.col("before.partition_epoch") + 1)
    former = F.col("before")
    sightings_here = F.filter("sightings", lambda s: (s["node"] == F.col("node")) & (s["since"] <= F.col("time_ms")))
    latest = F.array_max(F.transform(sightings_here, lambda s: F.struct(s["since"], s["topic_id"])))
    by_id = F.coalesce("topic_id", latest["topic_id"])
    ambiguous = F.col("recreated") | (F.col("ambiguous_name") & ~F.col("created_once"))
    epoch = F.col("partition_epoch") - 1
    keys = F.array(
        _key(by_id, epoch, F.lit(False)),
        _key(key_of_name(F.col("topic")), epoch, ambiguous),
        _key(_key_of_writes(former["leader"], former["leader_epoch"]), epoch - former["partition_epoch"], ambiguous),
    )
    elections = rows.where(elects & skips).select(
        *_LINE, "partition", "leader_epoch", "began_ms", F.col("time_ms").alias("line_ms"),
        F.explode(keys).alias("key"),
    )  # fmt: skip
    return elections.select("*", "key.*").drop("key").where(F.col("topic_key").isNotNull())


def _key(key: Column, epoch: Column, by_name_of_several: Column) -> Column:
    return F.struct(
        key.alias("topic_key"), epoch.alias("stated_partition_epoch"), by_name_of_several.alias("by_name_of_several")
    )


def _key_of_writes(leader: Column, leader_epoch: Column) -> Column:
    """Key of ISR changes whose lines have no partition epoch: they are counted from the start of the leader."""
    return F.concat_ws("/", F.lit("writes"), leader, leader_epoch, "topic")


def _writes(events: DataFrame) -> DataFrame:
    """One row per ISR that a leader up to 2.5 wrote to ZooKeeper: stated_partition_epoch counts from the leader's start."""
    event_type = F.col("event_type")
    of_partition = ("cluster", "node", "topic", "partition")
    in_order = Window.partitionBy(*of_partition).orderBy("file_order", "byte_offset")
    lines = of_types(events, *_CHANGES, ISR_UPDATE_SKIPPED, LEADER_STARTS).where(F.col("source") == "server_log")
    starts = event_type == LEADER_STARTS
    lines = lines.withColumns(
        {
            "started_epoch": F.last(F.when(starts, F.col("leader_epoch")), ignorenulls=True).over(in_order),
            "term": F.count(F.when(starts, 1)).over(in_order),
            "written": event_type.isin(*_CHANGES) & ~F.lead(event_type == ISR_UPDATE_SKIPPED, 1, False).over(in_order),
        }
    ).where("written")
    in_term = Window.partitionBy(*of_partition, "term").orderBy("file_order", "byte_offset")
    return lines.select(
        "cluster", _key_of_writes(F.col("node"), F.col("started_epoch")).alias("topic_key"), "partition",
        F.row_number().over(in_term).alias("stated_partition_epoch"), F.col("started_epoch").alias("stated_leader_epoch"),
        F.col("isr").alias("stated_isr"), F.col("node").alias("stated_by"), F.col("time_ms").alias("stated_ms"),
        ref().alias("stated_ref"),
    ).where(F.col("stated_leader_epoch").isNotNull())  # fmt: skip


def _statements(events: DataFrame) -> DataFrame:
    """One row per ISR in an accepted request or a leader's line, with its partition epoch."""
    event_type, none = F.col("event_type"), F.lit(0)
    refused = (F.coalesce("request_error_code", none) != Errors.NONE) | (
        event_type.isin(*_ANSWERED) & (F.coalesce("error_code", F.lit(-1)) != Errors.NONE)
    )
    deleting = holds(F.col("leader") == LEADER_DURING_DELETE)
    answered = event_type == ALTER_PARTITION
    stated = of_types(events, *_STATEMENTS).where(~refused & ~deleting)

    def effective(name: str) -> Column:
        return F.when(answered, F.col(f"response_{name}")).otherwise(F.col(name))

    return stated.select(
        "cluster", topic_key().alias("topic_key"), "partition", effective("partition_epoch").alias("stated_partition_epoch"),
        effective("leader_epoch").alias("stated_leader_epoch"), effective("isr").alias("stated_isr"), F.col("node").alias("stated_by"),
        F.coalesce("arrival_ms", "time_ms").alias("stated_ms"), ref().alias("stated_ref"),
    ).where(F.col("stated_isr").isNotNull()).unionByName(_writes(events))  # fmt: skip
