"""Contents of the logs of partitions: the segments of one folder, or one dump, and the checkpoint beside them.

A copy is a node's log of a partition at one time. Copies of one node from several times are never combined.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import EPOCH_CHECKPOINT, LOG_BATCHES, TOPIC_ID_CHECKPOINT
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.field_values import METADATA_TOPIC
from epochaudit.sources.data_log.batch_runs import COMPACTED
from epochaudit.spark.memo import checkpointed

PARTITION: Final = ("cluster", "topic", "partition")
COPY: Final = (*PARTITION, "node", "copy")
_RAW: Final = r"(^|/)([^/]+\.)?[0-9]{20}\.log[^/]*$"


@checkpointed
def log_segments(events: DataFrame) -> DataFrame:
    """One row per LOG_BATCHES event of a log in use: not of one that is deleted, moved in or put aside.

    Needs: the events table. Clock: offsets. Columns: those of the event, and
      copy      path of the folder; of the file for a dump
      log_dir   path of the folder above, which has the offset checkpoints; for a dump the folder of the file
      is_raw    the file is a segment, not a dump
      topic_id  as partition.metadata in the folder states it
      own_ref   the event
    """
    return copies(events, LOG_BATCHES).select(
        *PARTITION, "node", "file", "split", "byte_offset", "line_in_split", "leader_epoch", "batch_base_offset", "batch_last_offset",
        "record_count", "records_size", "timestamp", holds(F.col("reason") == COMPACTED).alias("compacted"),
        "batch_digests", "is_raw", "copy", "log_dir", "own_ref", "topic_id",
    )  # fmt: skip


def copies(events: DataFrame, event_type: str) -> DataFrame:
    """The rows of a type of events about logs in use, with the columns that `log_segments` adds. Grain unchanged."""
    folder = folder_of(F.col("file"))
    is_raw = F.col("file").rlike(_RAW)
    logs = of_types(events, event_type).where(
        F.col("name").isNull()
        & F.col("node").isNotNull()
        & F.col("topic").isNotNull()
        & (F.col("topic") != METADATA_TOPIC)
    )
    logs = logs.drop("topic_id").withColumns(
        {
            "own_ref": ref(),
            "is_raw": is_raw,
            "copy": F.when(is_raw, folder).otherwise(F.col("file")),
            "log_dir": F.when(is_raw, folder_of(folder)).otherwise(folder),
        }
    )
    ids = of_types(events, TOPIC_ID_CHECKPOINT).groupBy("cluster", "node", folder_of(F.col("file")).alias("copy"))
    return logs.join(ids.agg(F.min("topic_id").alias("topic_id")), ["cluster", "node", "copy"], "left")


def no_client() -> dict[str, Column]:
    """The subject columns that a log does not have, as nulls."""
    texts = {name: F.lit(None).cast("string") for name in ("client_id", "group_id")}
    return {**texts, "correlation_id": F.lit(None).cast("int")}


def folder_of(path: Column) -> Column:
    """Path of the folder that contains a file or folder."""
    return F.regexp_replace(path, "/?[^/]*$", "")


def _checkpoints(events: DataFrame) -> DataFrame:
    """One row per (cluster, node, copy): entries of leader-epoch-checkpoint in that folder, see `with_checkpoint`."""
    entry = F.struct("leader_epoch", "start_offset", ref().alias("entry_ref"))
    rows = of_types(events, EPOCH_CHECKPOINT).groupBy("cluster", "node", folder_of(F.col("file")).alias("copy"))
    return rows.agg(F.array_sort(F.collect_list(entry)).alias("entries"))


def with_checkpoint(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds entries, those of leader-epoch-checkpoint in the copy's folder. Grain unchanged.

    Needs: cluster, node, copy. entries: array of struct(leader_epoch, start_offset, entry_ref); null without a checkpoint.
    """
    return rows.join(_checkpoints(events), ["cluster", "node", "copy"], "left")
