"""In which leader epochs a broker can have answered before the first line that its log has of a replica.

Fetches that it served state some of these epochs (`given_out`). The epoch of a replica only rises.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.times import REQUEST_LINE_LAG_MS
from epochaudit.events.views import holds, of_types
from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.replay.data_plane.given_out import given_out
from epochaudit.replay.state.held_epochs import STARTS, replica_starts
from epochaudit.replay.state.incarnations import topic_key
from epochaudit.replay.state.log_gaps import lines_recorded, process_log_gaps, state_change_log_gaps

ANY_EPOCH: Final = 2**31 - 1
"""Above every leader epoch: of answers that may have come in any epoch from the lowest stated one on."""
_PARTITION: Final = ("cluster", "topic_key", "partition")
_REPLICA: Final = ("cluster", "node", "topic_key", "partition")


def with_stated_epochs(rows: DataFrame, offset: Column, led: Column, events: DataFrame, epochs: DataFrame) -> DataFrame:
    """Completes known_epoch and leader_epoch of answers whose leader epoch no line shows. Grain unchanged.

    Needs: cluster, node, topic_key, partition, last_ms (time of the last answer), known_epoch and leader_epoch (null: no line shows
    it); the highest offset that the answers state; whether the node led then (a follower answers consumers, too, KIP-392); `epochs` as
    `lineage.epochs_of`. Clock: the host of the node.
      known_epoch    the lowest epoch that served Fetches state; null without any
      leader_epoch   the highest recorded epoch in which the answers can have come: the node served a Fetch in it afterwards, or went on
                     from it by its next line, or its log has no line of the replica from the first such Fetch to the answers. Later
                     ones, all recorded, that other brokers led are left out.
                     ANY_EPOCH without these, or if a later epoch up to this one may have removed the records up to the offset
    """
    rows = rows.join(F.broadcast(_stated(events, epochs)), list(_REPLICA), "left")
    last = F.col("last_ms")
    highest = F.array_max("stated")
    rows = _with_lines_recorded(rows, highest["from_ms"], last, events)
    afterwards = F.filter("stated", lambda one: one["until_ms"] - REQUEST_LINE_LAG_MS >= last)
    later_lines = F.filter("lines", lambda line: line["from_ms"] >= last)
    went_on_from = F.transform(
        later_lines,
        lambda line: F.when(line["is_leader"], F.nullif(line["previous_epoch"], F.lit(NO_EPOCH))).otherwise(
            line["leader_epoch"] - led.cast("int")  # another broker leads in that epoch
        ),
    )
    meanwhile = F.exists("lines", lambda line: line["from_ms"].between(highest["from_ms"], last))
    # followers write no line before 2.6; to lead again, a broker does
    unchanged = led & F.col("lines_recorded") & ~holds(meanwhile)
    limit = F.least(
        F.array_min(F.transform(afterwards, lambda one: one["leader_epoch"])),
        F.array_min(F.array_compact(went_on_from)),
        F.when(unchanged, highest["leader_epoch"]),
    )  # least passes over a null
    lowest = F.array_min("stated")["leader_epoch"]
    reached = F.filter("recorded", lambda one: one["leader_epoch"] <= limit)
    own = F.array_max(F.filter(reached, lambda one: _may_have_led(one["leader"], led)))["leader_epoch"]
    after_own = F.filter(reached, lambda one: one["leader_epoch"] > own)
    latest = F.when(F.size(after_own) == limit - own, own).otherwise(F.array_max(reached)["leader_epoch"])
    removes = F.exists(reached, lambda one: (one["leader_epoch"] > lowest) & (one["least_start"] <= offset))
    latest = F.when(holds(removes), F.lit(ANY_EPOCH)).otherwise(latest)
    completes = F.col("known_epoch").isNull() & lowest.isNotNull() & F.coalesce(lowest <= limit, F.lit(True))
    completed = {"known_epoch": lowest, "leader_epoch": F.coalesce(latest, F.lit(ANY_EPOCH))}
    return rows.withColumns(
        {name: F.when(completes, value).otherwise(F.col(name)) for name, value in completed.items()}
    ).drop("stated", "lines", "recorded", "lines_recorded")


def _with_lines_recorded(rows: DataFrame, from_ms: Column, until_ms: Column, events: DataFrame) -> DataFrame:
    """Adds lines_recorded: a line of a leader epoch that the node wrote between these times would be recorded. Grain unchanged.

    Such lines are in state-change.log, up to 2.5 in server.log. Where state-change.log has none, both logs are needed. A log counts as
    server.log if it has a start of the process: controller.log has none.
    """
    starts = of_types(events, *STARTS).groupBy("cluster", "node")
    in_states = starts.agg(F.min(F.col("source") == "state_change_log").alias("in_states"))
    rows = rows.join(F.broadcast(in_states), ["cluster", "node"], "left")
    server_logs = (
        process_log_gaps(events).groupBy("cluster", "node").agg(F.min(F.struct("first_ms", "gaps")).alias("log"))
    )
    server_log = server_logs.select("cluster", "node", "log.*")
    for name, log in (("in_state_log", state_change_log_gaps(events).drop("last_ms")), ("in_server_log", server_log)):
        rows = rows.join(F.broadcast(log), ["cluster", "node"], "left")
        rows = rows.withColumn(name, lines_recorded(from_ms, until_ms)).drop("first_ms", "gaps")
    recorded = F.col("in_state_log") & (holds(F.col("in_states")) | F.col("in_server_log"))
    return rows.withColumn("lines_recorded", recorded).drop("in_states", "in_state_log", "in_server_log")


def _may_have_led(leader: Column, led: Column) -> Column:
    """The node may have answered in an epoch of this leader, null: not known. A follower may, too, unless the node led."""
    return ~led | F.coalesce(leader == F.col("node"), F.lit(True))


def _stated(events: DataFrame, epochs: DataFrame) -> DataFrame:
    """One row per replica that served Fetches before the first line that its node's log has of it.

    Columns: cluster, node, topic_key, partition, stated (array of struct(leader_epoch, from_ms, until_ms): `given_out`), lines (array
    of struct(from_ms, is_leader, leader_epoch, previous_epoch): its lines), and recorded (array of the partition's leader epochs:
    struct(leader_epoch, leader, least_start), with the lowest offset at which its leader is known to have begun or restarted).
    """
    by_epoch = given_out(events).where("by_request").groupBy(*_REPLICA, "leader_epoch").agg(
        F.min("from_ms").alias("from_ms"), F.max("until_ms").alias("until_ms")
    )  # fmt: skip
    epoch = F.struct("leader_epoch", "from_ms", "until_ms")
    stated = by_epoch.groupBy(*_REPLICA).agg(F.collect_list(epoch).alias("stated"))
    of_replicas, of_partitions = (F.broadcast(stated.select(*key)) for key in (_REPLICA, _PARTITION))
    line = F.struct("from_ms", "is_leader", "leader_epoch", "previous_epoch")
    lines = replica_starts(events).where("proven").withColumn("topic_key", topic_key())
    lines = (
        lines.join(of_replicas, list(_REPLICA), "left_semi").groupBy(*_REPLICA).agg(F.collect_list(line).alias("lines"))
    )
    recorded = F.struct("leader_epoch", "leader", F.least("start_offset", "restart_offset").alias("least_start"))
    of_partition = epochs.join(of_partitions, list(_PARTITION), "left_semi").groupBy(*_PARTITION)
    stated = stated.join(F.broadcast(lines), list(_REPLICA), "left")
    return stated.join(
        F.broadcast(of_partition.agg(F.collect_list(recorded).alias("recorded"))), list(_PARTITION), "left"
    )
