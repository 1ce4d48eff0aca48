"""Lines of brokers that refused a control request for its epoch, where no request log has the request (ZooKeeper mode)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    LEADER_AND_ISR,
    LEADER_AND_ISR_IGNORED,
    STALE_BROKER_EPOCH,
    STOP_REPLICA,
    STOP_REPLICA_IGNORED,
    UPDATE_METADATA,
    UPDATE_METADATA_IGNORED,
)
from epochaudit.events.views import of_types, ref
from epochaudit.kafka.errors import Errors

REFUSALS: Final = (LEADER_AND_ISR_IGNORED, STOP_REPLICA_IGNORED, UPDATE_METADATA_IGNORED, STALE_BROKER_EPOCH)

BY_LEADER_EPOCH: Final = "stale_leader_epoch"
BY_CONTROLLER_EPOCH: Final = "stale_controller_epoch"
BY_BROKER_EPOCH: Final = "stale_broker_epoch"

_REQUEST: Final = ("cluster", "node", "refused_api", "controller_id", "correlation_id")
_ANSWER: Final = ("cluster", "node", "refused_api", "request_error_code")


def refusal_lines(events: DataFrame) -> DataFrame:
    """One row per line by which a broker refused a control request, or a partition of it, as its epoch was below the broker's own.

    Needs: the events table. Clock: none, the line states both epochs. Lines about requests that the same node's request log has are left
    out, found by controller id and correlation id. Lines that state none (StopReplica up to 2.5, stale broker epochs) are left out if
    the log has a request of that API with the same code. A broker answers as it writes the line (ReplicaManager, KafkaApis).
    Columns: the subject columns, event_type of the line, controller_id, controller_epoch, broker_epoch, delete_partition, and
      refused_api, refused_for      the request's API; one of the three constants above
      current_leader_epoch, current_controller_epoch, current_broker_epoch   the broker's own, as the line states it
      refusal_ref                   the line
    """
    by_broker_epoch = F.col("event_type") == STALE_BROKER_EPOCH
    api = (
        F.when(~by_broker_epoch, F.regexp_replace("event_type", "_IGNORED$", ""))
        .when(F.col("name") == "LeaderAndIsr", LEADER_AND_ISR)
        .when(F.col("name") == "StopReplica", STOP_REPLICA)
        .when(F.col("name") == "UpdateMetadata", UPDATE_METADATA)
    )
    stated = F.coalesce("current_leader_epoch", "current_controller_epoch", "current_broker_epoch").isNotNull()
    code = F.when(by_broker_epoch, Errors.STALE_BROKER_EPOCH).otherwise(Errors.STALE_CONTROLLER_EPOCH)
    none = F.lit(None)
    lines = of_types(events, *REFUSALS).where(F.col("node").isNotNull() & stated).select(
        "cluster", "node", "event_type", "topic", "topic_id", "partition", "leader_epoch", "controller_id", "controller_epoch",
        "correlation_id", "broker_epoch", "delete_partition", "current_leader_epoch", "current_controller_epoch",
        "current_broker_epoch", api.alias("refused_api"),
        F.when(by_broker_epoch, BY_BROKER_EPOCH).otherwise(F.col("reason")).alias("refused_for"),
        code.alias("request_error_code"), ref().alias("refusal_ref"),
        *(none.cast("string").alias(name) for name in ("client_id", "group_id")),
    )  # fmt: skip
    requests = of_types(events, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA).withColumn(
        "refused_api", F.col("event_type")
    )
    numbered = F.col("correlation_id").isNotNull()
    of_requests = lines.where(numbered).join(requests.select(*_REQUEST).distinct(), list(_REQUEST), "left_anti")
    of_any = lines.where(~numbered).join(requests.select(*_ANSWER).distinct(), list(_ANSWER), "left_anti")
    return of_requests.unionByName(of_any).drop("request_error_code")
