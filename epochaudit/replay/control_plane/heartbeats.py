"""Frame `heartbeats`: what controllers answered to the heartbeats of each broker incarnation, and where it had registered."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import BROKER_HEARTBEAT, REGISTER_BROKER_RECORD
from epochaudit.events.views import of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.metadata_log import in_snapshot, position
from epochaudit.replay.state.places import PLACE_OF_NODE, of_first, then_by_place, with_refs
from epochaudit.replay.state.quorum import quorum_restarts

_INCARNATION: Final = ("cluster", "broker_id", "broker_epoch")
_LOWEST: Final = (*PLACE_OF_NODE, "client_id", "correlation_id", "current_metadata_offset")


def heartbeats(events: DataFrame) -> DataFrame:
    """One row per (controller, broker id, broker epoch, fenced): the answer with the lowest offset that the broker had reached.

    Needs: the events table. Heartbeats are aggregated where they are read. Left out are refused ones, and those of brokers that want
    to be fenced or to shut down. Clock: none: a broker epoch belongs to one incarnation, which only moves forward in the metadata log.
    Columns: the subject columns (node = the controller; client_id and correlation_id of the heartbeat), broker_id, broker_epoch, and
      fenced            isFenced of the answers
      current_metadata_offset   the lowest offset of the metadata log that the broker had reached; heartbeat_ref: that heartbeat
      registered_offset   the offset of the first record that registers the broker with this epoch; null: not in the evidence, or
                        a snapshot has it, which does not show its offset; registered_ref: that record
      registered_unfenced   that record registers the broker as not fenced: it already was a live broker; null: not in the evidence
      begins_again      as in `quorum_restarts`
    """
    rows = of_types(events, BROKER_HEARTBEAT).where(
        (F.col("request_error_code") == Errors.NONE)
        & F.col("fenced").isNotNull()
        & F.col("current_metadata_offset").isNotNull()
        & ~F.col("want_fence")
        & ~F.col("want_shut_down")
    )
    lowest = then_by_place(F.col("current_metadata_offset"))
    found = rows.groupBy("node", *_INCARNATION, "fenced").agg(*of_first(_LOWEST, lowest, "heartbeat_"))
    found = with_refs(found, events, "heartbeat")
    records = of_types(events, REGISTER_BROKER_RECORD)
    offset = F.when(~in_snapshot(), F.col("metadata_offset"))
    record = F.struct(
        position().alias("position"), offset.alias("offset"), ref().alias("ref"), (~F.col("fenced")).alias("unfenced")
    )
    first = F.min(record)
    registered = records.groupBy(*_INCARNATION).agg(
        first["offset"].alias("registered_offset"),
        F.when(first["offset"].isNotNull(), first["ref"]).alias("registered_ref"),
        first["unfenced"].alias("registered_unfenced"),
    )
    found = found.join(F.broadcast(registered), list(_INCARNATION), "left")
    found = found.join(F.broadcast(quorum_restarts(events)), "cluster", "left")
    return found.select(
        "node", *_INCARNATION, "fenced", "heartbeat_ref", "registered_offset",
        F.col("heartbeat_current_metadata_offset").alias("current_metadata_offset"),
        F.col("heartbeat_client_id").alias("client_id"), F.col("heartbeat_correlation_id").alias("correlation_id"),
        "registered_ref",
        "registered_unfenced",
        "begins_again",
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id", "group_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip
