"""Frame `client_epochs`: the leader epochs that clients believe in, as they state them to brokers and write in their logs.

Clock: the client's own order: lines of its log, each of which tells the epoch before; requests of one connection, by their
correlation ids. Requests at two brokers, or on two connections, are in no order: clients may share a client id, and
librdkafka counts per connection.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref, ref_in
from epochaudit.replay.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.lineage import epoch_starts
from epochaudit.replay.positions import CONSUMER, consumer_histories

SEEN: Final = "CLIENT_EPOCH_SEEN"
IGNORED: Final = "CLIENT_EPOCH_IGNORED"
TRUNCATED: Final = "CLIENT_TRUNCATION_DETECTED"
OUT_OF_RANGE: Final = "CONSUMER_OUT_OF_RANGE"
LINES: Final = (SEEN, IGNORED, TRUNCATED, OUT_OF_RANGE)
SERVED: Final = "served"
REFUSED: Final = "refused"

_SUBJECT: Final = (
    "cluster", "node", "topic", "topic_id", "partition", "leader_epoch", "client_id", "group_id", "correlation_id",
)  # fmt: skip


def states_epochs() -> Column:
    """Without such events the frame has no rows."""
    by_consumer = F.coalesce("replica_id", F.lit(CONSUMER)) == CONSUMER
    stated = (F.col("event_type") == "FETCH") & (F.col("current_leader_epoch") >= 0) & by_consumer
    return stated | F.col("event_type").isin(*LINES)


def client_epochs(events: DataFrame) -> DataFrame:
    """One row per line of a client's log about a leader epoch or a truncation; see `_lines`.

    And one per (client instance, partition, connection, leader epoch) that the client stated in a Fetch; see `_stated`.
    Columns of both: the subject columns (node = the broker, null for a line), kind (the line's event type; served or refused),
    how (the same in words), previous_epoch (the one that the client knew before), own_ref, several_incarnations.
    """
    return _lines(events).unionByName(_stated(events), allowMissingColumns=True)


def _lines(events: DataFrame) -> DataFrame:
    """Lines of clients' logs. A row per line; nothing is shuffled.

    leader_epoch: the one taken over (CLIENT_EPOCH_SEEN) or turned down (CLIENT_EPOCH_IGNORED), that of the position else.
    Columns: reason, position (offset at which the client noticed), new_offset (where it went, if the line tells), and of the
    position's partition: diverged_epoch, diverged_start, diverged_ref: the lowest later leader epoch that starts below it.
    """
    rows = with_identity(of_types(events, *LINES).withColumn("own_ref", ref()), topic_incarnations(events))
    kind = F.col("event_type")
    of_position = kind.isin(TRUNCATED, OUT_OF_RANGE)
    rows = rows.withColumns(
        {
            "kind": kind,
            "how": F.when(kind == SEEN, "taken over from metadata").when(kind == IGNORED, "turned down"),
            "new_offset": F.when(of_position, F.col("offset")),
            "position": F.when(of_position, F.col("previous_offset")),
            "previous_epoch": F.when(kind == IGNORED, F.col("current_leader_epoch")).otherwise(F.col("previous_epoch")),
            "leader_epoch": F.when(of_position, F.col("previous_epoch")).otherwise(F.col("leader_epoch")),
            "topic_key": topic_key(),
        }
    )
    starts = epoch_starts(events).drop("several_incarnations")
    rows = rows.join(F.broadcast(starts), ["cluster", "topic_key", "partition"], "left")
    later = F.filter(
        "epochs", lambda e: (e["leader_epoch"] > F.col("leader_epoch")) & (e["start_offset"] < F.col("position"))
    )
    diverged = F.array_min(F.transform(later, lambda e: F.struct(e["start_offset"], e["leader_epoch"], e["start_ref"])))
    return rows.withColumn("diverged", diverged).select(
        *_SUBJECT, "kind", "how", "previous_epoch", "own_ref", "several_incarnations", "reason", "position", "new_offset",
        F.col("diverged.leader_epoch").alias("diverged_epoch"), F.col("diverged.start_offset").alias("diverged_start"),
        F.col("diverged.start_ref").alias("diverged_ref"),
    )  # fmt: skip


def _stated(events: DataFrame) -> DataFrame:
    """Leader epochs that consumers stated in Fetch, by connection, from the histories of the frame `positions`.

    kind: served (answered 0) or refused (74, 75). previous_epoch: a newer one that the broker had served on the same connection
    before, null: none; newer_ref: the first request with it. own_ref: the first request with the epoch that lists the partition.
    api_version and correlation_id of that request.
    """
    histories = with_identity(consumer_histories(events), topic_incarnations(events))
    served = F.transform(
        F.filter("reads", lambda r: r["current_leader_epoch"] == r["leader_epoch"]),
        lambda r: F.struct(
            F.lit(SERVED).alias("kind"), r["leader_epoch"], r["connection"], r["node"], r["correlation_id"],
            r["last_correlation_id"], r["api_version"], ref_in(r).alias("ref"),
        ),
    )  # fmt: skip
    refused = F.transform(
        F.filter("marks", lambda m: m["kind"] == "refused"),
        lambda m: F.struct(
            F.lit(REFUSED).alias("kind"), m["leader_epoch"], m["connection"], m["node"], m["correlation_id"],
            m["correlation_id"].alias("last_correlation_id"), m["api_version"], m["ref"],
        ),
    )  # fmt: skip
    rows = histories.withColumn("served", served).withColumn("one", F.explode(F.concat("served", refused)))
    one = F.col("one")
    before = F.filter(
        "served",
        lambda s: (
            (s["leader_epoch"] > one["leader_epoch"])
            & (s["node"] == one["node"])
            & (s["connection"] == one["connection"])
            & (s["correlation_id"] < one["last_correlation_id"])
        ),
    )
    newer = F.array_min(F.transform(before, lambda s: F.struct(s["leader_epoch"], s["correlation_id"], s["ref"])))
    return rows.withColumn("newer", newer).select(
        "cluster", one["node"].alias("node"), "topic", "topic_id", "partition", one["leader_epoch"].alias("leader_epoch"),
        "client_id", F.lit(None).cast("string").alias("group_id"), one["correlation_id"].alias("correlation_id"),
        one["kind"].alias("kind"), F.concat(F.lit("stated in Fetch and "), one["kind"]).alias("how"),
        F.col("newer.leader_epoch").alias("previous_epoch"), one["ref"].alias("own_ref"),
        "several_incarnations", one["api_version"].alias("api_version"), F.col("newer.ref").alias("newer_ref"),
    )  # fmt: skip
