"""Frame `transaction_markers`: transaction markers, with those of newer coordinator and producer epochs that a log had before them.

A transaction coordinator ends a transaction by a marker in each of its partitions. The marker has the coordinator epoch, which is the
leader epoch of the coordinator's partition of __transaction_state, and the producer epoch. A partition's leader remembers the highest
ones of each producer id, and refuses lower ones (ProducerAppendInfo.checkCoordinatorEpoch, checkProducerEpoch). Clocks: a log's offsets;
the leader's host.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    CONFIG_RECORD,
    CONFIG_VALUE,
    OLDER_COORDINATOR_EPOCH,
    OLDER_PRODUCER_EPOCH,
    TRANSACTION_MARKER,
    WRITE_TXN_MARKERS,
)
from epochaudit.events.times import DAY_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import with_partition_log
from epochaudit.replay.state.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.late_lines import binding_times
from epochaudit.replay.state.log_segments import COPY, copies

LINES: Final = (OLDER_COORDINATOR_EPOCH, OLDER_PRODUCER_EPOCH)
MARKERS: Final = (WRITE_TXN_MARKERS, TRANSACTION_MARKER, *LINES)

_EXPIRATION: Final = "producer.id.expiration.ms"
_EXPIRATION_UP_TO_3_3: Final = "transactional.id.expiration.ms"
_SUBJECT: Final = (
    "cluster", "node", "event_type", "topic", "topic_id", "partition", "client_id", "correlation_id",
)  # fmt: skip
_EPOCHS: Final = ("coordinator_epoch", "producer_epoch")
_NEWER: Final = (
    "newer_coordinator_epoch", "newer_coordinator_ref", "newer_producer_epoch", "newer_producer_ref", "newer_ms",
)  # fmt: skip


def transaction_markers(events: DataFrame) -> DataFrame:
    """One row per partition of a marker in a WriteTxnMarkers request, per marker at an end of a run in a replica's log
    (TRANSACTION_MARKER), and per line of a replica about a batch of an older epoch.

    Needs: the events table. Of two markers in requests to one node, a marker certainly came later if it arrived a second after the line of
    the other was written. Columns: the subject columns (node = the leader, or the replica), event_type, producer_id, producer_epoch,
    coordinator_epoch, last_epoch (of a line: the newer epoch), offset (in a log, or of a line), error_code (of a request; null: not
    recorded), marker_ref, and
      newer_coordinator_epoch   a higher coordinator epoch of a marker that the log had before; null: none. newer_coordinator_ref
      newer_producer_epoch, newer_producer_ref   the same of producer epochs
      newer_just_before  of a request: the lines of all newer markers were written less than a second before it arrived, so that they
                         may have come later
      expired            the newer marker is as old as the shortest time after which a broker of the cluster forgets a producer
      ambiguous_name     of a request: the topic's name does not identify the topic
      partition_log, lossy_election_ref, lossy_isr_ref   of a request: see `with_partition_log`
    """
    kinds = (_requested(events), _logged(events), _lines(events))
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), kinds)


def _marker(rows: DataFrame, *more: str | Column) -> DataFrame:
    return rows.select(
        *_SUBJECT, F.lit(None).cast("string").alias("group_id"), "producer_id", "producer_epoch", "coordinator_epoch", *more,
    )  # fmt: skip


def _requested(events: DataFrame) -> DataFrame:
    """One row per partition of a marker in a request."""
    named = with_identity(of_types(events, WRITE_TXN_MARKERS), topic_incarnations(events))
    rows = _marker(
        named, F.lit(None).cast("int").alias("leader_epoch"), "error_code", "ambiguous_name", "arrival_ms", "time_ms",
        topic_key().alias("marked_topic"), ref().alias("marker_ref"),
    )  # fmt: skip
    asked = rows.select("*", F.col("arrival_ms").alias("at_ms"), F.lit(True).alias("asks"))
    accepted = rows.where(F.col("error_code") == Errors.NONE)
    known = accepted.select("*", binding_times(), F.lit(False).alias("asks"))
    points = asked.unionByName(known, allowMissingColumns=True)
    of_producer = Window.partitionBy("cluster", "node", "marked_topic", "partition", "producer_id")
    before = of_producer.orderBy("at_ms", F.desc("asks")).rowsBetween(Window.unboundedPreceding, -1)
    points = _with_newer(points, before, ~F.col("recent") & ~F.col("asks"), F.col("time_ms")).withColumnsRenamed(
        _certain(_NEWER)
    )
    points = _with_newer(points, before, ~F.col("asks"), F.col("time_ms")).where("asks")
    is_certain = reduce(Column.__or__, (F.col(f"certain_newer_{name}").isNotNull() for name in _EPOCHS))
    rows = points.withColumns(
        {name: F.when(is_certain, F.col(certain)).otherwise(F.col(name)) for name, certain in _certain(_NEWER).items()}
        | {"newer_just_before": F.col("newer_ms").isNotNull() & ~is_certain}
    )
    rows = _with_expired(rows, events, F.col("arrival_ms"))
    return with_partition_log(rows, events).drop(
        "asks", "recent", *_certain(_NEWER).values(), "at_ms", "time_ms", "arrival_ms", "marked_topic"
    )


def _certain(names: Iterable[str]) -> dict[str, str]:
    return {name: f"certain_{name}" for name in names}


def _logged(events: DataFrame) -> DataFrame:
    """One row per end of a run of markers in a log that is in use."""
    rows = copies(events, TRANSACTION_MARKER)
    rows = _marker(
        rows, "leader_epoch", F.col("batch_base_offset").alias("offset"), "timestamp", "copy", "file", "byte_offset",
        F.col("own_ref").alias("marker_ref"),
    )  # fmt: skip
    in_order = Window.partitionBy(*COPY, "producer_id").orderBy("file", "byte_offset")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    rows = _with_newer(rows, before, F.lit(True), F.col("timestamp"))
    return _with_expired(rows, events, F.col("timestamp")).drop("timestamp", "copy", "file", "byte_offset")


def _lines(events: DataFrame) -> DataFrame:
    """One row per line of a replica about a batch of an older epoch.

    From 4.2 on a line may name an equal epoch, which is older under transaction version 2 only: leaders of older releases take it.
    """
    rows = of_types(events, *LINES).where(F.coalesce("coordinator_epoch", "producer_epoch") < F.col("last_epoch"))
    return _marker(
        rows, F.lit(None).cast("int").alias("leader_epoch"), "last_epoch", "offset", ref().alias("marker_ref")
    )


def _with_newer(rows: DataFrame, before: WindowSpec, counts: Column, at: Column) -> DataFrame:
    """Adds the columns newer_ and newer_ms, the time of the last marker with such an epoch. Grain unchanged.

    before: the window of rows before the row. counts: which of them had been accepted. at: their time.
    """
    for name in _EPOCHS:
        highest = F.max(F.when(counts, F.struct(name, at.alias("ms"), F.col("marker_ref").alias("ref")))).over(before)
        rows = rows.withColumn(f"highest_{name}", highest)
    found: dict[str, Column] = {}
    for name in _EPOCHS:
        is_newer = F.col(f"highest_{name}.{name}") > F.col(name)
        found[f"newer_{name}"] = F.when(is_newer, F.col(f"highest_{name}.{name}"))
        found[f"newer_{name.removesuffix('_epoch')}_ref"] = F.when(is_newer, F.col(f"highest_{name}.ref"))
        found[f"ms_{name}"] = F.when(is_newer, F.col(f"highest_{name}.ms"))
    rows = rows.withColumns(found).drop(*(f"highest_{name}" for name in _EPOCHS))
    return rows.withColumn("newer_ms", F.greatest(*(f"ms_{name}" for name in _EPOCHS))).drop(
        *(f"ms_{name}" for name in _EPOCHS)
    )


def _with_expired(rows: DataFrame, events: DataFrame, at: Column) -> DataFrame:
    """Adds expired, see `transaction_markers`, and drops newer_ms. Grain unchanged. at: the row's time.

    A broker forgets a producer producer.id.expiration.ms after its last batch, a day by default. Up to 3.3 that was
    transactional.id.expiration.ms, a week by default: releases are not compared, so that it counts only where it is shorter than a day.
    """
    value = F.col("value").try_cast("bigint")
    shortest = {name: F.min(F.when(F.col("name") == name, value)) for name in (_EXPIRATION, _EXPIRATION_UP_TO_3_3)}
    lasts_ms = F.coalesce(shortest[_EXPIRATION], F.least(shortest[_EXPIRATION_UP_TO_3_3], F.lit(DAY_MS)))
    stated = of_types(events, CONFIG_VALUE, CONFIG_RECORD).groupBy("cluster").agg(lasts_ms.alias("lasts_ms"))
    rows = rows.join(F.broadcast(stated), "cluster", "left")
    expired = at - F.col("newer_ms") >= F.coalesce("lasts_ms", F.lit(DAY_MS))
    return rows.withColumn("expired", holds(expired)).drop("lasts_ms", "newer_ms")
