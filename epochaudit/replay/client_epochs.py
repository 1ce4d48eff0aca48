"""Frame `client_epochs`: the leader epochs that clients believe in, as they state them to brokers and write in their logs.

Clock: the client's own order: lines of its log, each of which tells the epoch before; requests of one connection, by their
correlation ids. Requests at two brokers, or on two connections, are in no order: clients may share a client id, and
librdkafka counts per connection.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.views import of_types, ref
from epochaudit.replay.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.lineage import epoch_starts
from epochaudit.replay.positions import CONSUMER, consumer_histories

SEEN: Final = "CLIENT_EPOCH_SEEN"
IGNORED: Final = "CLIENT_EPOCH_IGNORED"
TRUNCATED: Final = "CLIENT_TRUNCATION_DETECTED"
OUT_OF_RANGE: Final = "CONSUMER_OUT_OF_RANGE"
LINES: Final = (SEEN, IGNORED, TRUNCATED, OUT_OF_RANGE)
HINT_TAKEN: Final = "CLIENT_HINT_TAKEN"
HINT_IGNORED: Final = "CLIENT_HINT_IGNORED"
HINTS: Final = (HINT_TAKEN, HINT_IGNORED)
FORGOTTEN: Final = "CLIENT_EPOCH_FORGOTTEN"
RESET: Final = "CLIENT_TOPIC_ID_CHANGED"
KNEW_NONE: Final = -1
SERVED: Final = "served"
REFUSED: Final = "refused"

_SUBJECT: Final = (
    "cluster", "node", "topic", "topic_id", "partition", "leader_epoch", "client_id", "group_id", "correlation_id",
)  # fmt: skip


def states_epochs() -> Column:
    """Without such events the frame has no rows."""
    by_consumer = F.coalesce("replica_id", F.lit(CONSUMER)) == CONSUMER
    stated = (F.col("event_type") == "FETCH") & (F.col("current_leader_epoch") >= 0) & by_consumer
    return stated | F.col("event_type").isin(*LINES, *HINTS)


def client_epochs(events: DataFrame) -> DataFrame:
    """One row per line of a client's log about a leader epoch or a truncation; see `_lines`; and about a hint: see `_hints`.

    And one per (client instance, partition, connection, leader epoch) that the client stated in a Fetch; see `_stated`.
    Columns of all: the subject columns (node = the broker, null for a line), kind (the line's event type; served or refused),
    how (the same in words), previous_epoch (the one that the client knew before), own_ref, several_incarnations.
    """
    rows = _lines(events).unionByName(_hints(events), allowMissingColumns=True)
    return rows.unionByName(_stated(events), allowMissingColumns=True)


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


def _hints(events: DataFrame) -> DataFrame:
    """Lines about the leaders that Fetch and Produce answers hint at (KIP-951). A row per line; only clients' lines are shuffled.

    Clock: the order of one file's lines of one client id. leader, leader_epoch: those of the hint. previous_epoch: what the client
    knew, KNEW_NONE: it knew that it knew none, null: no line tells; of a hint that was turned down the line itself tells.
    known_ref: the line that told it. one_client: the file has the client's lines of the partition from the first that it learned,
    each of which knows what the one before had left: it is one client's, and none is missing. reason: as in the line.
    """
    kind = F.col("event_type")
    began = (kind == SEEN) & F.col("previous_epoch").isNull()
    told_none = (kind == IGNORED) & F.col("current_leader_epoch").isNull()
    knew = (
        F.when(told_none, KNEW_NONE)
        .when(kind == SEEN, F.col("previous_epoch"))
        .when(kind.isin(IGNORED, HINT_IGNORED), F.col("current_leader_epoch"))
    )
    takes = kind.isin(SEEN, HINT_TAKEN, RESET)
    knows = F.when(takes, F.col("leader_epoch")).when(kind == FORGOTTEN, KNEW_NONE).otherwise(knew)
    lines = Window.partitionBy("cluster", "file", "client_id", "topic", "partition").orderBy(
        "byte_offset", "partition_row"
    )
    before = lines.rowsBetween(Window.unboundedPreceding, -1)
    rows = of_types(events, SEEN, IGNORED, *HINTS, FORGOTTEN, RESET).withColumns(
        {"began": began, "knew": knew, "knows": knows, "own_ref": ref()}
    )
    told = F.when(F.col("knows").isNotNull(), F.struct("knows", F.col("own_ref").alias("ref")))
    rows = rows.withColumn("known", F.last(told, ignorenulls=True).over(before))
    strange = F.coalesce(F.col("knew") != F.col("known.knows"), F.lit(False))
    rows = rows.withColumn("strange", strange).withColumn(
        "one_client",
        F.first("began").over(before)
        & (F.sum(F.col("began").cast("int")).over(before) == 1)
        & ~F.max("strange").over(before)
        & F.col("client_id").isNotNull(),
    )
    taken = kind == HINT_TAKEN
    rows = with_identity(rows.where(kind.isin(*HINTS)), topic_incarnations(events))
    return rows.select(
        *_SUBJECT, kind.alias("kind"), F.when(taken, "taken from a hint").otherwise("hinted at").alias("how"),
        F.when(taken, F.col("known.knows")).otherwise(F.col("knew")).alias("previous_epoch"), "own_ref", "several_incarnations",
        "reason", "leader", F.when(taken, F.col("known.ref")).alias("known_ref"),
        F.coalesce("one_client", F.lit(False)).alias("one_client"),
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
            r["last_correlation_id"], r["api_version"], r["ref"],
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
