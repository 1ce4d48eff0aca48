"""Frame `client_epochs`: the leader epochs that clients know, as they state them in requests and in their logs.

Clock: the client's own order: lines of its log, each of which states the epoch before; requests of one connection by correlation id.
Requests at two brokers, or on two connections, have no order: clients may share a client id, and librdkafka counts correlation ids
per connection.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    CLIENT_EPOCH_FORGOTTEN,
    CLIENT_EPOCH_IGNORED,
    CLIENT_EPOCH_SEEN,
    CLIENT_HINT_IGNORED,
    CLIENT_HINT_TAKEN,
    CLIENT_TOPIC_ID_CHANGED,
    CLIENT_TRUNCATION_DETECTED,
    CONSUMER_OFFSET_RESET,
    CONSUMER_OUT_OF_RANGE,
    FETCH,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.field_values import CONSUMER_REPLICA_ID
from epochaudit.replay.data_plane.lineage import epoch_starts
from epochaudit.replay.data_plane.positions import consumer_histories
from epochaudit.replay.state.incarnations import topic_incarnations, topic_key, with_identity
from epochaudit.replay.state.log_starts import log_starts

LINES: Final = (CLIENT_EPOCH_SEEN, CLIENT_EPOCH_IGNORED, CLIENT_TRUNCATION_DETECTED, CONSUMER_OUT_OF_RANGE)
HINTS: Final = (CLIENT_HINT_TAKEN, CLIENT_HINT_IGNORED)
KNEW_NONE: Final = -1
SERVED: Final = "served"
REFUSED: Final = "refused"

_SUBJECT: Final = (
    "cluster", "node", "topic", "topic_id", "partition", "leader_epoch", "client_id", "group_id", "correlation_id",
)  # fmt: skip


def states_epochs() -> Column:
    """The events of which the frame is made. It has no rows without them."""
    by_consumer = F.coalesce("replica_id", F.lit(CONSUMER_REPLICA_ID)) == CONSUMER_REPLICA_ID
    stated = (F.col("event_type") == FETCH) & (F.col("current_leader_epoch") >= 0) & by_consumer
    return stated | F.col("event_type").isin(*LINES, *HINTS, CLIENT_TOPIC_ID_CHANGED)


def client_epochs(events: DataFrame) -> DataFrame:
    """One row per line of a client's log about a leader epoch or a truncation (`_lines`), or a hint or a topic id (`_with_known`).

    And one per (client instance, partition, connection, leader epoch) that the client stated (`_stated`).
    Needs: the events table. Columns of all rows: the subject columns (node = the broker, null for a line), kind (the line's event
    type, or served or refused), how (the same in words), previous_epoch (the one that the client knew before), own_ref,
    ambiguous_name.
    """
    rows = _lines(events).unionByName(_with_known(events), allowMissingColumns=True)
    return rows.unionByName(_stated(events), allowMissingColumns=True)


def _lines(events: DataFrame) -> DataFrame:
    """One row per line of a client's log. Only clients' lines are shuffled.

    Clock: the order of one file's lines of one client id.
    leader_epoch: the one that the client accepted (CLIENT_EPOCH_SEEN) or ignored (CLIENT_EPOCH_IGNORED), else that of its position.
    Columns: reason, client (its id, or `the client`), and of lines about a position
      position         the offset at which the client detected the truncation; position_read: the same with its leader epoch, in
                       words
      new_offset       the offset at which it went on, if this line or its next one about the partition states it; new_offset_ref:
                       that next line; went_to: in words
      diverged_epoch   the later leader epoch with the lowest start below the position; diverged_start, diverged_ref
      log_start_ref    a broker's line by which the log began at new_offset, above the position
    """
    kind = F.col("event_type")
    of_position = kind.isin(CLIENT_TRUNCATION_DETECTED, CONSUMER_OUT_OF_RANGE)
    lines = of_types(events, *LINES, CONSUMER_OFFSET_RESET).withColumn("own_ref", ref())
    following = (
        Window.partitionBy("cluster", "file", "client_id", "topic", "partition")
        .orderBy("byte_offset", "partition_row")
        .rowsBetween(1, Window.unboundedFollowing)
    )
    turn = F.when(kind == CONSUMER_OFFSET_RESET, F.struct("offset", "own_ref")).when(
        of_position, F.struct(F.lit(None).cast("bigint").alias("offset"), "own_ref")
    )
    went = F.when(of_position, F.first(turn, ignorenulls=True).over(following))
    lines = lines.withColumn("went", F.when(F.col("offset").isNull() & went["offset"].isNotNull(), went))
    rows = with_identity(lines.where(kind.isin(*LINES)), topic_incarnations(events))
    rows = rows.withColumn("offset", F.coalesce("offset", "went.offset")).withColumns(
        {
            "kind": kind,
            "how": F.when(kind == CLIENT_EPOCH_SEEN, "taken over from metadata").when(
                kind == CLIENT_EPOCH_IGNORED, "turned down"
            ),
            "new_offset": F.when(of_position, F.col("offset")),
            "position": F.when(of_position, F.col("previous_offset")),
            "previous_epoch": F.when(kind == CLIENT_EPOCH_IGNORED, F.col("current_leader_epoch")).otherwise(
                F.col("previous_epoch")
            ),
            "leader_epoch": F.when(of_position, F.col("previous_epoch")).otherwise(F.col("leader_epoch")),
            "topic_key": topic_key(),
        }
    )
    starts = epoch_starts(events).drop("ambiguous_name")
    rows = rows.join(F.broadcast(starts), ["cluster", "topic_key", "partition"], "left")
    later = F.filter(
        "epochs", lambda e: (e["leader_epoch"] > F.col("leader_epoch")) & (e["start_offset"] < F.col("position"))
    )
    diverged = F.array_min(F.transform(later, lambda e: F.struct(e["start_offset"], e["leader_epoch"], e["start_ref"])))
    begun = F.filter("log_starts", lambda s: (s["offset"] == F.col("new_offset")) & (s["offset"] > F.col("position")))
    rows = rows.join(F.broadcast(log_starts(events)), ["cluster", "topic_key", "partition"], "left")
    read_in = F.concat(F.lit(", of leader epoch "), F.col("leader_epoch").cast("string"))
    went_to = F.concat(F.lit("it went to offset "), F.col("new_offset").cast("string"))
    return rows.withColumns({"diverged": diverged, "begun": F.get(begun, F.lit(0))}).select(
        *_SUBJECT, "kind", "how", "previous_epoch", "own_ref", "ambiguous_name", "reason", "position", "new_offset",
        F.concat(F.col("position").cast("string"), F.coalesce(read_in, F.lit(""))).alias("position_read"),
        F.coalesce(went_to, F.lit("its log does not say where it went")).alias("went_to"),
        F.coalesce("client_id", F.lit("the client")).alias("client"),
        F.col("went.own_ref").alias("new_offset_ref"), F.col("begun.ref").alias("log_start_ref"),
        F.col("diverged.leader_epoch").alias("diverged_epoch"), F.col("diverged.start_offset").alias("diverged_start"),
        F.col("diverged.start_ref").alias("diverged_ref"),
    )  # fmt: skip


def _with_known(events: DataFrame) -> DataFrame:
    """One row per line about a leader that a Fetch or Produce answer hints at (KIP-951). Only clients' lines are shuffled.

    And one per line by which a client that knew no topic id takes one over, and any leader epoch with it
    (CLIENT_TOPIC_ID_CHANGED). Its topic_id is null unless the evidence has that id, and no other, of the name.
    Clock: the order of one file's lines of one client id.
    Columns: leader, leader_epoch (of the hint, or that the client took over), reason (of the line), and
      previous_epoch  the leader epoch that the client knew; KNEW_NONE: it knew none; null: no line states it. The line of an
                      ignored hint states it itself.
      known_ref       the line before that states what the client knew
      one_client      the file has all lines of one client about the partition: they begin with the first epoch that it learned, and
                      each states the epoch that the line before left
    """
    kind = F.col("event_type")
    began = (kind == CLIENT_EPOCH_SEEN) & F.col("previous_epoch").isNull()
    knew_none = (kind == CLIENT_EPOCH_IGNORED) & F.col("current_leader_epoch").isNull()
    knew = (
        F.when(knew_none, KNEW_NONE)
        .when(kind == CLIENT_EPOCH_SEEN, F.col("previous_epoch"))
        .when(kind.isin(CLIENT_EPOCH_IGNORED, CLIENT_HINT_IGNORED), F.col("current_leader_epoch"))
    )
    takes = kind.isin(CLIENT_EPOCH_SEEN, CLIENT_HINT_TAKEN, CLIENT_TOPIC_ID_CHANGED)
    knows = F.when(takes, F.col("leader_epoch")).when(kind == CLIENT_EPOCH_FORGOTTEN, KNEW_NONE).otherwise(knew)
    lines = Window.partitionBy("cluster", "file", "client_id", "topic", "partition").orderBy(
        "byte_offset", "partition_row"
    )
    before = lines.rowsBetween(Window.unboundedPreceding, -1)
    rows = of_types(
        events, CLIENT_EPOCH_SEEN, CLIENT_EPOCH_IGNORED, *HINTS, CLIENT_EPOCH_FORGOTTEN, CLIENT_TOPIC_ID_CHANGED
    ).withColumns({"began": began, "knew": knew, "knows": knows, "own_ref": ref()})
    stated = F.when(F.col("knows").isNotNull(), F.struct("knows", F.col("own_ref").alias("ref")))
    rows = rows.withColumn("known", F.last(stated, ignorenulls=True).over(before))
    contradicts = holds(F.col("knew") != F.col("known.knows"))
    rows = rows.withColumn("contradicts", contradicts).withColumn(
        "one_client",
        F.first("began").over(before)
        & (F.sum(F.col("began").cast("int")).over(before) == 1)
        & ~F.max("contradicts").over(before)
        & F.col("client_id").isNotNull(),
    )
    taken, named = kind == CLIENT_HINT_TAKEN, kind == CLIENT_TOPIC_ID_CHANGED
    rows = rows.where(kind.isin(*HINTS) | (named & F.col("value").isNull() & F.col("leader_epoch").isNotNull()))
    rows = rows.withColumns(
        {"named_id": F.when(named, F.col("topic_id")), "topic_id": F.when(~named, F.col("topic_id"))}
    )
    rows = with_identity(rows, topic_incarnations(events))
    rows = rows.withColumn("topic_id", F.when(~named | (F.col("topic_id") == F.col("named_id")), F.col("topic_id")))
    how = F.when(taken, "taken from a hint").when(named, "taken over from metadata").otherwise("hinted at")
    return rows.select(
        *_SUBJECT, kind.alias("kind"), how.alias("how"),
        F.when(taken | named, F.col("known.knows")).otherwise(F.col("knew")).alias("previous_epoch"), "own_ref", "ambiguous_name",
        "reason", "leader", F.col("known.ref").alias("known_ref"),
        holds(F.col("one_client")).alias("one_client"),
    )  # fmt: skip


def _stated(events: DataFrame) -> DataFrame:
    """One row per leader epoch that a consumer stated on a connection, from `consumer_histories` of the frame `positions`.

    kind: served (a Fetch answered 0) or refused (a Fetch, ListOffsets or OffsetForLeaderEpoch, answered 74 FENCED_LEADER_EPOCH or 75
    UNKNOWN_LEADER_EPOCH). own_ref, api_version, correlation_id:
    the first request that lists the partition with the epoch. previous_epoch: a newer epoch that the broker had served on the same
    connection before, null if there is none; newer_ref: the first request with it.
    """
    histories = with_identity(consumer_histories(events), topic_incarnations(events), "created_once")
    served = F.transform(
        F.filter("reads", lambda r: r["current_leader_epoch"] == r["leader_epoch"]),
        lambda r: F.struct(
            F.lit(SERVED).alias("kind"), r["leader_epoch"], r["connection"], r["node"], r["correlation_id"],
            r["last_correlation_id"], r["api_version"], r["ref"],
        ),
    )  # fmt: skip
    refused = F.transform(
        F.filter("other_answers", lambda m: m["kind"] == "refused"),
        lambda m: F.struct(
            F.lit(REFUSED).alias("kind"), m["leader_epoch"], m["connection"], m["node"], m["correlation_id"],
            m["correlation_id"].alias("last_correlation_id"), m["api_version"], m["ref"],
        ),
    )  # fmt: skip
    rows = histories.withColumn("served", served).withColumn("stated", F.explode(F.concat("served", refused)))
    stated = F.col("stated")
    before = F.filter(
        "served",
        lambda s: (
            (s["leader_epoch"] > stated["leader_epoch"])
            & (s["node"] == stated["node"])
            & (s["connection"] == stated["connection"])
            & (s["correlation_id"] < stated["last_correlation_id"])
        ),
    )
    newer = F.array_min(F.transform(before, lambda s: F.struct(s["leader_epoch"], s["correlation_id"], s["ref"])))
    how = F.when(stated["kind"] == SERVED, "in a Fetch that was served, stated")
    how = how.otherwise("in a request that was refused, stated")
    return rows.withColumn("newer", newer).select(
        "cluster", stated["node"].alias("node"), "topic", "topic_id", "partition", stated["leader_epoch"].alias("leader_epoch"),
        "client_id", F.lit(None).cast("string").alias("group_id"), stated["correlation_id"].alias("correlation_id"),
        stated["kind"].alias("kind"), how.alias("how"),
        F.col("newer.leader_epoch").alias("previous_epoch"), stated["ref"].alias("own_ref"),
        "ambiguous_name", "created_once", stated["api_version"].alias("api_version"), F.col("newer.ref").alias("newer_ref"),
    )  # fmt: skip
