"""What a cluster's logs state about its brokers, its metadata.version and its releases, one row per cluster.

The metadata log is short and has one order: its offsets. One row per cluster holds all that the partition frames need to know
about brokers. The frames join it by broadcast and read it with array functions.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALTER_PARTITION_FAILED,
    ALTER_PARTITION_REJECTED,
    BROKER_EPOCHS_CACHE,
    BROKER_REGISTRATION,
    BROKER_REGISTRATION_CHANGE_RECORD,
    BROKER_SHUTTING_DOWN,
    BROKERS_CHANGED,
    CONTROLLER_ACTIVE,
    CONTROLLER_ELECTED,
    CONTROLLER_READY,
    CONTROLLER_RESIGNED,
    FEATURE_LEVEL_RECORD,
    FENCE_BROKER_RECORD,
    ISR_EXPANDING,
    ISR_SHRINKING,
    ISR_UPDATED,
    LEADER_AND_ISR,
    LEADER_CHANGE,
    LEADER_EPOCH_UPDATED,
    PARTITION_STATE_CHANGED,
    REGISTER_BROKER_RECORD,
    UNFENCE_BROKER_RECORD,
    UNREGISTER_BROKER_RECORD,
    UPDATE_METADATA,
    ZK_MIGRATION_STATE_RECORD,
)
from epochaudit.events.times import FOREVER
from epochaudit.events.views import holds, no_ref, of_types, ref
from epochaudit.kafka.field_values import ZkMigrationState
from epochaudit.kafka.releases import MetadataVersion, release
from epochaudit.replay.state.metadata_log import SOURCE, holes_before, in_snapshot, metadata_log, state_snapshot
from epochaudit.replay.state.releases import STATED, releases, releases_at
from epochaudit.spark.columns import let
from epochaudit.spark.memo import checkpointed

BROKER_RECORDS: Final = (
    REGISTER_BROKER_RECORD, UNREGISTER_BROKER_RECORD, FENCE_BROKER_RECORD, UNFENCE_BROKER_RECORD,
    BROKER_REGISTRATION_CHANGE_RECORD,
)  # fmt: skip
ZOOKEEPER_MODE: Final = (CONTROLLER_ELECTED, PARTITION_STATE_CHANGED, LEADER_AND_ISR)
KRAFT_CONTROLLER: Final = (CONTROLLER_ACTIVE, BROKER_REGISTRATION)
LISTS: Final = (BROKERS_CHANGED, BROKER_EPOCHS_CACHE)
LIVE_BROKERS: Final = (*LISTS, BROKER_SHUTTING_DOWN)
# Lines that a ZooKeeper controller writes to the log that has those about live brokers.
CONTROLLER_LINES: Final = (
    *LIVE_BROKERS, CONTROLLER_ELECTED, CONTROLLER_READY, CONTROLLER_RESIGNED, LEADER_EPOCH_UPDATED, ALTER_PARTITION_REJECTED,
)  # fmt: skip
ISR_LINES: Final = (ISR_UPDATED, ISR_EXPANDING, ISR_SHRINKING, ALTER_PARTITION_FAILED)
NO_MIGRATION: Final = (ZkMigrationState.NONE, ZkMigrationState.POST_MIGRATION)

METADATA_VERSION: Final = "metadata.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
FIRST_CHECKING_ELIGIBILITY: Final = release("3.3")
FIRST_TAKING_OUT_INCARNATIONS: Final = release("4.0")
FIRST_CHECKING_LAST_KNOWN: Final = release("4.1")  # KAFKA-19522
RESET_ANSWERS: Final = ("INELIGIBLE_REPLICA", "OPERATION_NOT_ATTEMPTED")

ACTIVE: Final = "active"
FENCED: Final = "fenced"
SHUTTING_DOWN: Final = "shutting_down"
UNREGISTERED: Final = "unregistered"
UNKNOWN: Final = "unknown"
LIVE: Final = (ACTIVE, SHUTTING_DOWN)
INELIGIBLE: Final = (FENCED, SHUTTING_DOWN, UNREGISTERED)
WITHOUT_RECORD: Final = "without_record"
NOT_RECORDED: Final = "not_recorded"  # in a part of the metadata log that is missing


@checkpointed
def cluster_history(events: DataFrame) -> DataFrame:
    """One row per cluster. Clock: position in the metadata log; the node's own clock for releases and elections.

    Columns:
      brokers       map of broker id to its states in order: array of struct(since, until, since_ms, until_ms, standing,
                    broker_epoch, ref, superseded_live); positions since <= p < until. ref: the record that began the
                    standing of this broker epoch; later ones may have stated it again. superseded_live: the incarnation
                    superseded a live one, and has not been live itself; null: the state before is not recorded
      levels        metadata.version levels: array of struct(since, level, ref), in order; the level of capture.toml holds
                    before the first record
      elr_levels    eligible.leader.replicas.version levels, likewise
      raft_leaders  array of struct(raft_epoch, leader)
      tenures       who wrote which part of the metadata log, in order: array of struct(since, until, leader, since_ms, last_ms),
                    positions since <= p < until. since_ms, last_ms: the first and the latest CreateTime; null where no record is,
                    before the log's beginning and in its holes. leader: null if the evidence does not name it
      releases      of all nodes, as in `releases`
      elections     ZooKeeper controllers: array of struct(node, time_ms, controller_epoch, until_ms); until_ms as of known_live_brokers
      known_live_brokers   lines of ZooKeeper controllers about live brokers, in the order of their logs: array of struct(node,
                    time_ms, file_order, byte_offset, live (null: the line lists none), removed (brokers that were added, stopped or
                    registered anew: a shutdown before it no longer counts), epochs (of live), shutting_down, until_ms, ref).
                    until_ms: time of the controller's last line before a missing file of its log; FOREVER without one
      live_sent     live brokers in the UpdateMetadata requests of a ZooKeeper controller to its own broker, one entry per
                    change, and the first one after each line that lists them: array of struct(node, time_ms, live)
      isr_loggers   nodes whose lines about ISR changes are recorded
      isr_resets    leaders that withdrew an ISR after error code 107 or 55: array of struct(node, topic, partition,
                    leader_epoch)
      migrates      the metadata log has a migration from ZooKeeper that is under way
      log_begins    struct(position, time_ms) of the metadata log's first record
      has_metadata_log, from_offset_0 (it begins there), log_complete (or with a snapshot), log_whole (no offset between its first and
                    last is missing), log_holes (where some are: array of struct(since, until, since_ms), see
                    `metadata_log`), snapshots (of the cluster's state: array of struct(position, time_ms) in order), log_end_ms
                    (CreateTime of its last record), zookeeper (rows of
                    ZooKeeper mode, but no metadata log)
      zookeeper_nodes   brokers that were ZooKeeper controllers or received requests of a controller
      kraft_controllers active KRaft controllers; a migration has both kinds
    """
    log = metadata_log(events)
    from_lines = F.col("event_type").isin(*ZOOKEEPER_MODE, *KRAFT_CONTROLLER, *ISR_LINES)
    others = events.where(from_lines | _stated_level()).select(*_LOG_LINE_COLUMNS)
    rows = log.unionByName(others, allowMissingColumns=True)
    facts = rows.select("cluster", F.lit(None).cast(_BROKER).alias("broker"), *_facts())
    ran = releases(events).select("cluster", F.explode("releases").alias("release"))
    other_sources = (_broker_states(log), _raft_epochs(log), ran, _zookeeper_controllers(events))
    all_facts = reduce(lambda united, added: united.unionByName(added, allowMissingColumns=True), other_sources, facts)
    histories = all_facts.groupBy("cluster").agg(
        F.map_from_entries(F.collect_list("broker")).alias("brokers"),
        F.array_sort(F.collect_set("level")).alias("levels"),
        F.array_sort(F.collect_set("elr_level")).alias("elr_levels"),
        F.array_sort(F.collect_set("raft_leader")).alias("raft_leaders"),
        F.collect_list("tenure").alias("tenures"),
        F.array_sort(F.collect_set("release")).alias("releases"),
        F.array_sort(F.collect_set("election")).alias("elections"),
        F.array_sort(F.collect_list("known_live_brokers")).alias("known_live_brokers"),
        F.array_sort(F.collect_list("live_sent")).alias("live_sent"),
        F.array_sort(F.collect_set("isr_logger")).alias("isr_loggers"),
        F.array_sort(F.collect_set("isr_reset")).alias("isr_resets"),
        holds(F.max("migrates")).alias("migrates"),
        F.min(
            F.when(
                F.col("log_position").isNotNull(),
                F.struct(F.col("log_position").alias("position"), F.col("log_ms").alias("time_ms")),
            )
        ).alias("log_begins"),
        F.max("log_ms").alias("log_end_ms"),
        F.max("log_ms").isNotNull().alias("has_metadata_log"),
        holds(F.min("log_position") <= 1).alias("from_offset_0"),
        F.array_sort(F.collect_set("snapshot")).alias("snapshots"),
        F.coalesce(F.first("holes", ignorenulls=True), F.array().cast(_HOLES)).alias("holes"),
        (F.max("log_ms").isNull() & F.max("zookeeper_row")).alias("zookeeper"),
        F.array_sort(F.collect_set("zookeeper_node")).alias("zookeeper_nodes"),
        F.array_sort(F.collect_set("kraft_controller")).alias("kraft_controllers"),
    )
    histories = histories.withColumn("gaps", _gaps())
    return (
        histories.withColumns(
            {
                "brokers": _with_gaps(),
                "tenures": _tenures(),
                "log_complete": F.col("from_offset_0") | (F.size("snapshots") > 0),
                "log_whole": F.size("holes") == 0,
            }
        )
        .withColumnRenamed("holes", "log_holes")
        .drop("gaps")
    )


def raft_leader() -> Column:
    """The leader of the record's Raft epoch; null: not in the evidence. Needs: raft_leaders, raft_epoch."""
    return _leader_in(F.col("raft_epoch"))


def _leader_in(raft_epoch: Column) -> Column:
    leading = F.filter("raft_leaders", lambda one: one["raft_epoch"] == raft_epoch)
    return F.try_element_at(leading, F.lit(1))["leader"]


def _raft_epochs(log: DataFrame) -> DataFrame:
    """One row per (cluster, Raft epoch), and per part of it between holes of the log.

    Column tenure: struct(since, raft_epoch, since_ms, last_ms).
    """
    parts = (
        log.where(~in_snapshot())
        .groupBy("cluster", "raft_epoch", holes_before(F.col("position")))
        .agg(F.min(F.struct("position", "time_ms")).alias("first"), F.max("time_ms").alias("last_ms"))
    )
    tenure = F.struct(
        F.col("first.position").alias("since"), "raft_epoch", F.col("first.time_ms").alias("since_ms"), "last_ms"
    )
    return parts.select("cluster", tenure.alias("tenure"))


def _tenures() -> Column:
    """Needs: tenures as in `_raft_epochs`, holes, raft_leaders."""

    def not_recorded(since: Column) -> Column:
        nothing = (F.lit(None).alias(name) for name in ("raft_epoch", "since_ms", "last_ms"))
        return F.struct(since.alias("since"), *nothing).cast(_TENURE)

    before_log = F.array(not_recorded(F.lit(-1)))
    holes = F.transform("holes", lambda hole: not_recorded(hole["since"]))

    def ended(tenures: Column) -> Column:
        return F.transform(
            tenures,
            lambda t, i: F.struct(
                t["since"].alias("since"),
                F.coalesce(F.get(tenures, i + 1)["since"], F.lit(FOREVER)).alias("until"),
                _leader_in(t["raft_epoch"]).alias("leader"),
                t["since_ms"].alias("since_ms"),
                t["last_ms"].alias("last_ms"),
            ),
        )

    return let(F.array_sort(F.concat(before_log, holes, "tenures")), ended)


def whole_up_to(position: Column) -> Column:
    """Whether no record of the metadata log is missing before this position. Needs: log_holes.

    A snapshot after a hole does not close it: what was removed in between is not in the snapshot.
    """
    return ~F.exists("log_holes", lambda hole: hole["since"] <= position)


def resumed_at(position: Column) -> Column:
    """The end of the last hole of the metadata log before this position; null: it has none. Needs: log_holes."""
    return F.array_max(F.filter("log_holes", lambda hole: hole["since"] <= position)["until"])


def settings_known_since(position: Column) -> Column:
    """Since where the metadata log has all settings, up to this position; null: at the position they are not all known.

    That is its first record, or the first snapshot after its last hole: a snapshot has a ConfigRecord of each setting. One whose file is
    not named after an offset does not count, as its place is not known. Needs: from_offset_0, snapshots, log_holes.
    """
    first = F.coalesce(resumed_at(position), F.lit(1))
    following = F.filter("snapshots", lambda one: (one["position"] >= first) & (one["position"] <= position))
    from_the_beginning = F.col("from_offset_0") & whole_up_to(position)
    return F.when(from_the_beginning, F.lit(-1)).otherwise(F.get(following, F.lit(0))["position"])


def recorded_between(since: Column, until: Column, holes: str = "log_holes") -> Column:
    """Whether no record of the metadata log is missing between two positions. holes: the column that has its holes."""
    return ~F.exists(holes, lambda hole: (hole["since"] > since) & (hole["since"] <= until))


def _gaps() -> Column:
    """Where the metadata log's records are not known: before a log that begins late, and in its holes, up to the next snapshot.

    Array of struct(since, until, since_ms, until_ms) of positions, in order. Needs: from_offset_0, snapshots, holes.
    """
    beginning = F.struct(
        F.lit(-1).cast("bigint").alias("since"),
        F.lit(0).cast("bigint").alias("until"),
        F.lit(0).cast("bigint").alias("since_ms"),
    )
    begins_late = F.when(F.col("from_offset_0"), F.array().cast(_HOLES)).otherwise(F.array(beginning))

    def up_to_snapshot(gap: Column) -> Column:
        following = F.get(F.filter("snapshots", lambda snapshot: snapshot["position"] > gap["since"]), F.lit(0))
        return F.struct(
            gap["since"].alias("since"),
            F.coalesce(following["position"], F.lit(FOREVER)).alias("until"),
            gap["since_ms"].alias("since_ms"),
            F.coalesce(following["time_ms"], F.lit(FOREVER)).alias("until_ms"),
        )

    return F.transform(F.concat(begins_late, "holes"), up_to_snapshot)


def _with_gaps() -> Column:
    """brokers, with NOT_RECORDED states from where a gap begins, and the states of any broker without records. Needs: gaps."""
    forever = F.lit(FOREVER)
    any_other = F.create_map(F.lit(_ANY_OTHER), F.array(never_registered(forever, forever)))

    def with_gap(state: Column, gaps: Column) -> Column:
        """The state up to the first gap, and NOT_RECORDED after it. After a snapshot, without a record, it is as before."""
        gap, has_record = gaps[0], state["standing"] != WITHOUT_RECORD
        to_the_end = has_record | (F.size(gaps) > 1) | (gap["until"] >= state["until"])
        unknown = F.struct(
            gap["since"].alias("since"),
            F.when(to_the_end, state["until"]).otherwise(gap["until"]).alias("until"),
            gap["since_ms"].alias("since_ms"),
            F.when(to_the_end, state["until_ms"]).otherwise(gap["until_ms"]).alias("until_ms"),
            F.lit(NOT_RECORDED).alias("standing"),
            F.lit(None).cast("bigint").alias("broker_epoch"),
            no_ref().alias("ref"),
            F.lit(False).alias("superseded_live"),
        )
        before = F.when(
            gap["since"] > state["since"],
            state.withField("until", gap["since"]).withField("until_ms", gap["since_ms"]),
        )
        after = F.when(~to_the_end, state.withField("since", gap["until"]).withField("since_ms", gap["until_ms"]))
        return F.array_compact(F.array(before, unknown, after))

    def pieces(state: Column) -> Column:
        own = F.filter(
            "gaps",
            lambda gap: (
                (gap["since"] < state["until"])
                & (
                    (gap["since"] > state["since"])
                    | ((gap["since"] == state["since"]) & (state["standing"] == WITHOUT_RECORD))
                )
            ),
        )
        return let(own, lambda gaps: F.when(F.size(gaps) > 0, with_gap(state, gaps)).otherwise(F.array(state)))

    all_states = F.map_concat("brokers", any_other)
    with_gaps = F.transform_values(all_states, lambda _, states: F.flatten(F.transform(states, pieces)))
    return F.when(F.size("gaps") > 0, with_gaps).otherwise(all_states)


HISTORY_COLUMNS: Final = (
    "brokers", "levels", "elr_levels", "raft_leaders", "tenures", "releases", "elections", "known_live_brokers", "live_sent", "isr_loggers",
    "isr_resets", "zookeeper_nodes", "kraft_controllers", "log_holes", "snapshots", "log_begins",
)  # fmt: skip
_NODES: Final = ("zookeeper_nodes", "kraft_controllers")
_LOG_LINE_COLUMNS: Final = (
    "cluster", "node", "source", "event_type", "file", "file_order", "split", "byte_offset", "line_in_split", "time_ms",
    "controller_epoch", "topic", "partition", "leader_epoch", "broker_id", "name", "value",
)  # fmt: skip
_STATE: Final = (
    "struct<since:bigint,until:bigint,since_ms:bigint,until_ms:bigint,standing:string,broker_epoch:bigint,"
    "ref:struct<node:int,file:string,split:int,byte_offset:bigint,line_in_split:int,time_ms:bigint>,superseded_live:boolean>"
)
_ANY_OTHER: Final = -1  # no broker's id
_HOLES: Final = "array<struct<since:bigint,until:bigint,since_ms:bigint>>"
_TENURE: Final = "struct<since:bigint,raft_epoch:int,since_ms:bigint,last_ms:bigint>"
_BROKER: Final = f"struct<broker_id:int,states:array<{_STATE}>>"


def of_the_node() -> dict[str, Column]:
    """zookeeper, has_metadata_log and log_complete, for `node` alone: a migration from ZooKeeper has controllers of both kinds.

    Needs: node; zookeeper_nodes, kraft_controllers, zookeeper, has_metadata_log, log_complete of `cluster_history`.
    Replaces zookeeper, has_metadata_log and log_complete. The last two are false for a ZooKeeper controller: its answers have no
    position in the metadata log.
    """
    listed, kraft = (holds(F.array_contains(name, F.col("node"))) for name in _NODES)
    zookeeper = listed | (holds(F.col("zookeeper")) & ~kraft)
    logged = {name: holds(F.col(name)) & ~zookeeper for name in ("has_metadata_log", "log_complete")}
    return {"zookeeper": zookeeper, **logged}


def _facts() -> list[Column]:
    """What a row of the metadata log, or another event, adds to the columns of `cluster_history`; null for nothing."""
    event_type, in_log = F.col("event_type"), F.col("source") == SOURCE
    of_log = in_log & ~in_snapshot()
    since = F.coalesce("position", F.lit(-1).cast("bigint"))
    level = F.when(
        event_type == FEATURE_LEVEL_RECORD,
        F.struct(since.alias("since"), F.col("value").try_cast("int").alias("level"), ref().alias("ref")),
    )
    return [
        F.when(F.col("name") == METADATA_VERSION, level).alias("level"),
        F.when(F.col("name") == ELR_VERSION, level).alias("elr_level"),
        F.when((event_type == LEADER_CHANGE) & F.col("leader").isNotNull(), F.struct("raft_epoch", "leader")).alias(
            "raft_leader"
        ),
        F.when(in_log, F.col("time_ms")).alias("log_ms"),
        F.when(of_log, F.col("position")).alias("log_position"),
        F.when(in_log, state_snapshot()).alias("snapshot"),
        F.col("holes"),
        event_type.isin(*ZOOKEEPER_MODE).alias("zookeeper_row"),
        F.when(event_type.isin(*ZOOKEEPER_MODE), F.col("node")).alias("zookeeper_node"),
        F.when(event_type.isin(*KRAFT_CONTROLLER), F.col("node")).alias("kraft_controller"),
        *_log_line_facts(),
    ]


def _zookeeper_controllers(events: DataFrame) -> DataFrame:
    """What ZooKeeper controllers logged of elections and live brokers, and sent to their own brokers.

    One row per line about an election or live brokers, and per change of the live brokers that were sent, or were repeated after a
    list. Columns: cluster, election, known_live_brokers, live_sent.
    """
    event_type, live_brokers = F.col("event_type"), F.col("live_brokers")
    own = (F.col("controller_id") == F.col("node")) & (F.col("partition_row") == 0) & live_brokers.isNotNull()
    sent = holds((event_type == UPDATE_METADATA) & own)
    rows = of_types(events, UPDATE_METADATA, *CONTROLLER_LINES).where(sent | (event_type != UPDATE_METADATA))
    rows = rows.withColumns(
        {
            "sent": sent,
            "logs_live": event_type.isin(*LIVE_BROKERS),
            "states_live": sent | (event_type.isin(*LISTS) & live_brokers.isNotNull()),
            "at": F.when(sent, F.col("arrival_ms")).otherwise(F.col("time_ms")),
            "live": F.array_sort("live_brokers"),
            "run": F.coalesce("gaps_before", F.lit(0)),
        }
    )
    in_order = Window.partitionBy("cluster", "node").orderBy("at", "file", "file_order", "byte_offset")
    preceding = in_order.rowsBetween(Window.unboundedPreceding, -1)
    of_run = Window.partitionBy("cluster", "node", "sent", "run")
    before = F.last(F.when(F.col("states_live"), F.struct("sent", "live")), ignorenulls=True).over(preceding)
    cut_off = F.max(holds(F.col("newer_missing"))).over(of_run)
    rows = rows.withColumns(
        {
            "changes": F.col("sent") & ~F.when(before["sent"], before["live"]).eqNullSafe(F.col("live")),
            "until_ms": F.when(cut_off, F.max("time_ms").over(of_run)).otherwise(F.lit(FOREVER)),
        }
    )
    live_sent = F.struct("node", F.col("at").alias("time_ms"), "live")
    elected = event_type == CONTROLLER_ELECTED
    election = F.struct("node", "time_ms", "controller_epoch", "until_ms")
    return rows.where(F.col("changes") | F.col("logs_live") | elected).select(
        "cluster",
        F.when(elected, election).alias("election"),
        F.when(F.col("logs_live"), _line_about_live_brokers()).alias("known_live_brokers"),
        F.when(F.col("changes"), live_sent).alias("live_sent"),
    )


def _line_about_live_brokers() -> Column:
    """An entry of known_live_brokers. Needs: until_ms."""
    removed = F.concat(
        *(F.coalesce(name, _no_ids()) for name in ("deleted_brokers", "bounced_brokers", "added_brokers"))
    )
    return F.struct(
        "node", "time_ms", "file_order", "byte_offset", F.col("live_brokers").alias("live"), removed.alias("removed"),
        F.col("live_broker_epochs").alias("epochs"),
        F.when(F.col("event_type") == BROKER_SHUTTING_DOWN, F.col("broker_id")).alias("shutting_down"), "until_ms",
        ref().alias("ref"),
    )  # fmt: skip


def _log_line_facts() -> list[Column]:
    """What lines of server.log and controller.log add."""
    event_type = F.col("event_type")
    reset = (event_type == ALTER_PARTITION_FAILED) & F.col("value").isin(*RESET_ANSWERS)
    return [
        F.when(event_type.isin(*ISR_LINES), F.col("node")).alias("isr_logger"),
        F.when(reset, F.struct("node", "topic", "partition", "leader_epoch")).alias("isr_reset"),
        _migrates().alias("migrates"),
    ]


def _migrates() -> Column:
    """The record states a migration. Controllers of 3.4 and later write it to each log, also for no migration at all."""
    state = F.coalesce("value", F.lit(""))
    return (F.col("event_type") == ZK_MIGRATION_STATE_RECORD) & ~state.isin(*NO_MIGRATION)


def _stated_level() -> Column:
    """The level that capture.toml states."""
    return (F.col("event_type") == FEATURE_LEVEL_RECORD) & (F.col("source") == STATED)


def _no_ids() -> Column:
    return F.array().cast("array<int>")


def _broker_states(log: DataFrame) -> DataFrame:
    """One row per (cluster, broker): its states in log order. The first is the state before its first record."""
    event_type = F.col("event_type")
    registers, leaves = event_type == REGISTER_BROKER_RECORD, event_type == UNREGISTER_BROKER_RECORD
    fenced = (
        F.when(registers, F.coalesce("fenced", F.lit(True)))
        .when(leaves | (event_type == UNFENCE_BROKER_RECORD), F.lit(False))
        .when(event_type == FENCE_BROKER_RECORD, F.lit(True))
        .otherwise(F.col("fenced"))
    )
    shuts_down = F.when(registers | leaves, registers & holds(F.col("in_controlled_shutdown")))
    in_order = Window.partitionBy("cluster", "broker_id").orderBy("position", "file", "byte_offset", "partition_row")
    records = of_types(log, *BROKER_RECORDS).where(F.col("broker_id") >= 0)
    is_fenced = F.last(fenced, ignorenulls=True).over(in_order)
    is_shutting_down = F.last(F.coalesce(shuts_down, F.col("in_controlled_shutdown")), ignorenulls=True).over(in_order)
    standing = (
        F.when(leaves, UNREGISTERED)
        .when(is_fenced, FENCED)
        .when(is_shutting_down, SHUTTING_DOWN)
        .when(~is_fenced, ACTIVE)
        .otherwise(UNKNOWN)
    )
    states = records.withColumn("standing", standing)
    states = states.withColumn("before", F.lag(F.struct("standing", "broker_epoch", "position")).over(in_order))
    same = F.struct("before.standing", "before.broker_epoch") == F.struct("standing", "broker_epoch")
    same &= recorded_between(F.col("before.position"), F.col("position"), "holes")
    states = states.withColumn("begins_at", F.when(~holds(same), ref()))
    state = F.struct(
        F.col("position").alias("since"),
        F.coalesce(F.lead("position").over(in_order), F.lit(FOREVER)).alias("until"),
        F.col("time_ms").alias("since_ms"),
        F.coalesce(F.lead("time_ms").over(in_order), F.lit(FOREVER)).alias("until_ms"),
        "standing",
        "broker_epoch",
        F.last("begins_at", ignorenulls=True).over(in_order).alias("ref"),
        _superseded_live().alias("superseded_live"),
    )
    listed = (
        states.select("cluster", "broker_id", state.alias("state"))
        .groupBy("cluster", "broker_id")
        .agg(F.array_sort(F.collect_list("state")).alias("states"))
    )
    first = F.col("states")[0]
    before = never_registered(first["since"], first["since_ms"])
    return listed.select(
        "cluster", F.struct("broker_id", F.concat(F.array(before), F.col("states")).alias("states")).alias("broker")
    )


def _superseded_live() -> Column:
    """See `cluster_history`. Registered again by the same incarnation, a broker stays fenced (ClusterControlManager.registerBroker).

    Null if records are missing between the registration and the broker's record before.
    """
    of_epoch = (
        Window.partitionBy("cluster", "broker_id", "broker_epoch")
        .orderBy("position", "file", "byte_offset", "partition_row")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    before, registered = F.first("before").over(of_epoch), F.first("position").over(of_epoch)
    before_position = F.coalesce(before["position"], F.lit(-1).cast("bigint"))
    recorded = recorded_between(before_position, registered, "holes")
    superseded = before["standing"].isin(*LIVE) & (before["broker_epoch"] < F.col("broker_epoch"))
    has_been_live = F.max(F.col("standing").isin(*LIVE)).over(of_epoch)
    return F.when(has_been_live, F.lit(False)).when(recorded, holds(superseded))


def never_registered(until: Column, until_ms: Column) -> Column:
    """State of a broker before its first record, which is at position `until` and has the CreateTime `until_ms`."""
    return F.struct(
        F.lit(-1).cast("bigint").alias("since"),
        until.alias("until"),
        F.lit(0).cast("bigint").alias("since_ms"),
        until_ms.alias("until_ms"),
        F.lit(WITHOUT_RECORD).alias("standing"),
        F.lit(None).cast("bigint").alias("broker_epoch"),
        no_ref().alias("ref"),
        F.lit(False).alias("superseded_live"),
    )


def states_of(broker_id: Column) -> Column:
    """States of a broker, in order. Needs: brokers. A broker without records has those before a first record."""
    forever = F.lit(FOREVER)
    return F.coalesce(
        F.col("brokers")[broker_id], F.col("brokers")[F.lit(_ANY_OTHER)], F.array(never_registered(forever, forever))
    )


def in_words(standing: Column) -> Column:
    """A standing as words of a sentence: `shutting down`."""
    return F.translate(standing, "_", " ")


def standing_of(state: Column) -> Column:
    """Standing in a state. Needs: log_complete. Without a record, the broker was not registered if the log is complete."""
    without_record = F.when(F.col("log_complete"), UNREGISTERED).otherwise(UNKNOWN)
    standing = state["standing"]
    return (
        F.when(standing == WITHOUT_RECORD, without_record).when(standing == NOT_RECORDED, UNKNOWN).otherwise(standing)
    )


def level_at(place: Column, levels: str = "levels") -> Column:
    """metadata.version level in force at a position. Needs: levels. Null before the first FeatureLevelRecord.

    levels: the column with the levels, for another feature.
    """
    return stated_level_at(place, levels)["level"]


def stated_level_at(place: Column, levels: str = "levels") -> Column:
    """As `level_at`, a struct(since, level, ref): with the record of the level, or the line of capture.toml."""
    return F.try_element_at(F.filter(levels, lambda level: level["since"] <= place), F.lit(-1))


def releases_of(node: Column, at_ms: Column | None = None, raft_epoch: Column | None = None) -> Column:
    """Releases of a node as numbers (3003000 for Kafka 3.3.0); of all nodes if it is null. Needs: releases.

    at_ms: a time of the node's own clock. raft_epoch: a raft epoch that it led. See `releases_at`.
    """
    return releases_at(node, at_ms, raft_epoch)["version"]


def takes_out_incarnations(node: Column, level: Column, raft_epoch: Column | None = None) -> Column:
    """Whether the controller removes a broker from the ISRs if it registers over its own unfenced incarnation (4.0+).

    True, false, or null if its release is not in the evidence. Needs: releases. Parameters as in `checks_eligibility`.
    """
    node_releases = releases_of(node, raft_epoch=raft_epoch)
    return _has_since(level >= MetadataVersion.IBP_4_0_IV0, node_releases, FIRST_TAKING_OUT_INCARNATIONS)


def checks_last_known(node: Column, level: Column, raft_epoch: Column | None = None) -> Column:
    """Whether the controller elects the last known leader only if it is active (4.1+).

    True, false, or null if its release is not in the evidence. Needs: releases. Parameters as in `checks_eligibility`.
    """
    node_releases = releases_of(node, raft_epoch=raft_epoch)
    return _has_since(level >= MetadataVersion.IBP_4_1_IV0, node_releases, FIRST_CHECKING_LAST_KNOWN)


def checks_eligibility(
    node: Column, level: Column, at_ms: Column | None = None, raft_epoch: Column | None = None
) -> Column:
    """Whether the controller has KIP-841's check (3.3+): true, false, or null if its release is not in the evidence.

    Needs: releases. The metadata.version in force decides; else the release that the node ran at a time of its own clock or in a
    raft epoch that it led. If the node is unknown, all nodes have to agree.
    """
    node_releases = releases_of(node, at_ms, raft_epoch)
    return _has_since(level >= MetadataVersion.IBP_3_3_IV0, node_releases, FIRST_CHECKING_ELIGIBILITY)


def _has_since(by_level: Column, node_releases: Column, first: int) -> Column:
    """Whether the metadata.version shows what releases since `first` do, or else all releases of the node agree; null: neither."""
    return (
        F.when(by_level, F.lit(True))
        .when(F.array_min(node_releases) >= first, F.lit(True))
        .when(F.array_max(node_releases) < first, F.lit(False))
    )
