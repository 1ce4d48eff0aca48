"""The ISR just before an election, where the controller that tells of the election has no line of it.

Up to 2.6 the leader writes a changed ISR to ZooKeeper itself, and the controller logs nothing; from 2.7 on AlterPartition
asks the controller, which logs no state either. Each write of the znode raises the partition epoch by one, and an election
is such a write: the ISR before it is that of the partition epoch before. Whoever states it, it is the same.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.incarnations import key_of_name, topic_key
from epochaudit.replay.partition_states import CONTROLLER, LEADER_DURING_DELETE

_ANSWERED: Final = ("ALTER_PARTITION", "LEADER_AND_ISR")
_STATING: Final = (*_ANSWERED, "UPDATE_METADATA", "ISR_UPDATED", "LEADER_STARTS")
_CHANGES: Final = ("ISR_EXPANDING", "ISR_SHRINKING")
_SKIPPED: Final = "ISR_UPDATE_SKIPPED"
_LINE: Final = ("cluster", "node", "file", "byte_offset")


def with_told_isrs(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds told_isr and told_ref: of an election in a controller's line whose state before has another partition epoch.

    Needs: the rows of `partition_states` with what `topic_incarnations` adds, and began_ms. Clock: partition epoch.
    Null where nothing states it, or statements differ. Statements by a name that stood for several topics count only if the
    controller's own node took them, after `began_ms` and before the line.
    """
    told = _statements(events).join(F.broadcast(_wanted(rows)), ["cluster", "topic_key", "partition", "told_epoch"])
    in_time = (F.col("told_by") == F.col("node")) & F.col("told_ms").between(F.col("began_ms"), F.col("line_ms"))
    epochs_fit = F.coalesce(F.col("told_leader_epoch") == F.col("leader_epoch") - 1, F.lit(True))
    told = told.where(epochs_fit & (~F.col("by_name_of_several") | in_time))
    isrs = F.collect_set(F.array_sort("told_isr"))
    agreed = told.groupBy(*_LINE).agg(isrs.alias("isrs"), F.min("told_ref").alias("told_ref"))
    agreed = agreed.where(F.size("isrs") == 1).select(*_LINE, F.get("isrs", F.lit(0)).alias("told_isr"), "told_ref")
    return rows.join(F.broadcast(agreed), list(_LINE), "left")


def _wanted(rows: DataFrame) -> DataFrame:
    """One row per such election and key by which its partition may be stated."""
    elects = (F.col("scope") == CONTROLLER) & (F.col("leader") >= 0) & (F.col("leader") != F.col("before.leader"))
    skips = F.col("partition_epoch") != F.col("before.partition_epoch") + 1
    former = F.col("before")
    here = F.filter("sightings", lambda s: (s["node"] == F.col("node")) & (s["since"] <= F.col("time_ms")))
    latest = F.array_max(F.transform(here, lambda s: F.struct(s["since"], s["topic_id"])))
    by_id = F.coalesce("topic_id", latest["topic_id"])
    several = F.col("recreated") | (F.col("several_incarnations") & ~F.col("created_once"))
    epoch = F.col("partition_epoch") - 1
    keys = F.array(
        _key(by_id, epoch, F.lit(False)),
        _key(key_of_name(F.col("topic")), epoch, several),
        _key(_key_of_writes(former["leader"], former["leader_epoch"]), epoch - former["partition_epoch"], several),
    )
    wanted = rows.where(elects & skips & (F.col("partition_epoch") > 0)).select(
        *_LINE, "partition", "leader_epoch", "began_ms", F.col("time_ms").alias("line_ms"),
        F.explode(keys).alias("key"),
    )  # fmt: skip
    return wanted.select("*", "key.*").drop("key").where(F.col("topic_key").isNotNull())


def _key(key: Column, epoch: Column, by_name_of_several: Column) -> Column:
    return F.struct(key.alias("topic_key"), epoch.alias("told_epoch"), by_name_of_several.alias("by_name_of_several"))


def _key_of_writes(leader: Column, leader_epoch: Column) -> Column:
    """What the ISR changes go by whose lines tell no partition epoch, but only how many writes of a leader came before."""
    return F.concat_ws("/", F.lit("writes"), leader, leader_epoch, "topic")


def _writes(events: DataFrame) -> DataFrame:
    """Lines up to 2.5 of leaders that write their ISR to ZooKeeper: told_epoch counts from the leader's start."""
    event_type = F.col("event_type")
    of_partition = ("cluster", "node", "topic", "partition")
    in_order = Window.partitionBy(*of_partition).orderBy("file_order", "byte_offset")
    lines = of_types(events, *_CHANGES, _SKIPPED, "LEADER_STARTS").where(F.col("source") == "server_log")
    starts = event_type == "LEADER_STARTS"
    lines = lines.withColumns(
        {
            "begun": F.last(F.when(starts, F.col("leader_epoch")), ignorenulls=True).over(in_order),
            "term": F.count(F.when(starts, 1)).over(in_order),
            "written": event_type.isin(*_CHANGES) & ~F.lead(event_type == _SKIPPED, 1, False).over(in_order),
        }
    ).where("written")
    in_term = Window.partitionBy(*of_partition, "term").orderBy("file_order", "byte_offset")
    return lines.select(
        "cluster", _key_of_writes(F.col("node"), F.col("begun")).alias("topic_key"), "partition",
        F.row_number().over(in_term).alias("told_epoch"), F.col("begun").alias("told_leader_epoch"),
        F.col("isr").alias("told_isr"), F.col("node").alias("told_by"), F.col("time_ms").alias("told_ms"),
        ref().alias("told_ref"),
    ).where(F.col("told_leader_epoch").isNotNull())  # fmt: skip


def _statements(events: DataFrame) -> DataFrame:
    """What was accepted, or logged by the leader when it was, with the partition epoch that it is of."""
    event_type, none = F.col("event_type"), F.lit(0)
    refused = (F.coalesce("request_error_code", none) != 0) | (
        event_type.isin(*_ANSWERED) & (F.coalesce("error_code", F.lit(-1)) != 0)
    )
    deleting = F.coalesce(F.col("leader") == LEADER_DURING_DELETE, F.lit(False))
    answered = event_type == "ALTER_PARTITION"
    stated = of_types(events, *_STATING).where(~refused & ~deleting)

    def stands(name: str) -> Column:
        return F.when(answered, F.col(f"response_{name}")).otherwise(F.col(name))

    return stated.select(
        "cluster", topic_key().alias("topic_key"), "partition", stands("partition_epoch").alias("told_epoch"),
        stands("leader_epoch").alias("told_leader_epoch"), stands("isr").alias("told_isr"), F.col("node").alias("told_by"),
        F.coalesce("arrival_ms", "time_ms").alias("told_ms"), ref().alias("told_ref"),
    ).where(F.col("told_isr").isNotNull()).unionByName(_writes(events))  # fmt: skip
