"""Whether unclean elections of a topic were permitted: what its controller knew of unclean.leader.election.enable.

The topic's own setting counts, else the default of all topics. A KRaft controller reads both from the metadata log, and the default
that no record states from its own properties (ConfigurationControlManager.getTopicConfig). A ZooKeeper controller reads them from
ZooKeeper. There requests and lines of several hosts state changes, and these have no common clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALTER_CONFIGS,
    CONFIG_CHANGED,
    CONFIG_RECORD,
    CONFIG_VALUE,
    CREATE_TOPICS,
    INCREMENTAL_ALTER_CONFIGS,
    REMOVE_TOPIC_RECORD,
    TOPIC_RECORD,
)
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import CONTROLLER
from epochaudit.replay.state.cluster_history import resumed_at, settings_known_since
from epochaudit.replay.state.metadata_log import metadata_log
from epochaudit.replay.state.partition_states import OF_RECORD

_NAME: Final = "unclean.leader.election.enable"
_ROLES: Final = "process.roles"
_CHANGES: Final = (CREATE_TOPICS, ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, CONFIG_CHANGED)
_LINE: Final = ("cluster", "node", "event_type", "file", "byte_offset", "topic", "broker_id")
_CHANGE: Final = "array<struct<at:bigint,takes:boolean,node:int>>"
_ADDED: Final = (
    "of_topic", "in_doubt", "of_all", "default_in_doubt",
    "of_servers", "controller_nodes", "broker_nodes", "own_changes", "known_since", "controllers",
    "unclean_setting",
)  # fmt: skip


def with_unclean_setting(rows: DataFrame, events: DataFrame) -> DataFrame:
    """Adds unclean_permitted (three values), and unclean_permitted_ref: the setting that permits or forbids. Grain unchanged.

    Needs: cluster, scope, node (of the controller), clock, time_ms, topic; from_offset_0, snapshots, log_holes, has_metadata_log,
    raft_leaders and kraft_controllers of `cluster_history`; recreated and deletions of `topic_incarnations`. Clock: of records, their
    position; of requests and lines, the controller's own.

    KRaft: the last ConfigRecord before the row's position that gives the topic a value; a null value and a RemoveTopicRecord take it
    away. Without one, the controller's own record counts, then that of all brokers, then the properties of nodes that are controllers.
    These forbid only if the log has all settings, from its first record or a snapshot on. After a hole the records before it count no
    more.

    ZooKeeper, and KRaft where the log does not tell: any `true` permits. A `false` forbids until the setting is removed or the topic
    is deleted; then only a default of true counts. If the controller's own host recorded a removal or a deletion, its last statement
    before the row decides. If only other hosts did, the setting is not known, unless they state `false` later and no default permits.

    A ZooKeeper controller answers CreateTopics with 7 (REQUEST_TIMED_OUT) once it has created the topic with its settings, if a
    partition has no leader yet (DelayedCreatePartitions). In KRaft and in migrations, brokers answer 7 if the controller does not
    answer a forwarded request, which may have been carried out: it leaves in doubt what it contradicts (ForwardingManager.onTimeout).
    """
    settings = _settings(events)
    rows = rows.join(F.broadcast(_of_topics(settings)), ["cluster", "topic"], "left")
    rows = rows.join(F.broadcast(_of_clusters(settings, events)), "cluster", "left")
    rows = rows.withColumns(
        {
            "of_topic": F.filter("of_topic", _carried_out),
            "in_doubt": F.filter("of_topic", lambda one: ~_carried_out(one)),
            "of_all": F.filter("of_all", _carried_out),
            "default_in_doubt": F.filter("of_all", lambda one: ~_carried_out(one)),
        }
    )
    rows = rows.withColumns(
        {"own_changes": _own_changes(), "known_since": _known_since(), "controllers": _controllers()}
    )
    rows = rows.withColumn("unclean_setting", _setting())
    setting = F.col("unclean_setting")
    added = {"unclean_permitted": setting["permitted"], "unclean_permitted_ref": setting["ref"]}
    return rows.withColumns(added).drop(*_ADDED)


def _settings(events: DataFrame) -> DataFrame:
    """One row per statement of the setting of a topic, of a broker, or (without either) of all topics.

    Columns: cluster, topic, broker_id, permitted (null: the statement takes the setting away), since (the position of a record, else
    null), at (the node's time of others; of a removal, that of its request), node, ref, timed_out (the event type of a request that was
    answered 7, else null).
    """
    value = (F.lower("value") == "true").alias("permitted")
    columns = ("cluster", "topic", "broker_id", "since", "at", "node", "permitted", "ref", "timed_out")
    return _records(events, value).select(*columns).unionByName(_changes(events, value).select(*columns))


def _records(events: DataFrame, value: Column) -> DataFrame:
    """ConfigRecords, and RemoveTopicRecords: the controller forgets the topic's settings without a ConfigRecord."""
    event_type = F.col("event_type")
    log = of_types(metadata_log(events), CONFIG_RECORD, TOPIC_RECORD, REMOVE_TOPIC_RECORD)
    named = F.max("topic").over(Window.partitionBy("cluster", "topic_id"))
    log = log.withColumn("topic", F.when(event_type == CONFIG_RECORD, F.col("topic")).otherwise(named))
    removes = (event_type == REMOVE_TOPIC_RECORD) & F.col("topic").isNotNull()
    return log.where(removes | ((event_type == CONFIG_RECORD) & (F.col("name") == _NAME))).select(
        "cluster", "topic", "broker_id", F.col("position").alias("since"), F.lit(None).cast("bigint").alias("at"),
        F.lit(None).cast("int").alias("node"), F.when(event_type == CONFIG_RECORD, value).alias("permitted"), ref().alias("ref"),
        F.lit(None).cast("string").alias("timed_out"),
    )  # fmt: skip


def _changes(events: DataFrame, value: Column) -> DataFrame:
    """Requests and lines. AlterConfigs, and lines that list all settings of a topic, take away what they do not name.

    Refused requests are left out. One that was answered 7 (REQUEST_TIMED_OUT) is not refused.
    """
    event_type = F.col("event_type")
    is_it = holds(F.col("name") == _NAME)
    refused = F.coalesce(F.nullif("request_error_code", F.lit(Errors.NONE)), F.nullif("error_code", F.lit(Errors.NONE)))
    # a KRaft controller's line names the one setting that a record sets
    lists_all = (event_type == ALTER_CONFIGS) | ((event_type == CONFIG_CHANGED) & F.col("name").isNull())
    takes = lists_all & F.col("topic").isNotNull()
    timed_out = refused == Errors.REQUEST_TIMED_OUT
    lines = of_types(events, *_CHANGES).where((is_it | takes) & (refused.isNull() | timed_out))
    stated = F.max(F.when(is_it, value))
    return lines.groupBy(*_LINE).agg(
        stated.alias("permitted"),
        F.when(stated.isNull(), F.min(F.coalesce("arrival_ms", "time_ms"))).otherwise(F.min("time_ms")).alias("at"),
        F.min(ref()).alias("ref"),
        F.max(F.when(timed_out, event_type)).alias("timed_out"),
    ).withColumn("since", F.lit(None).cast("bigint"))  # fmt: skip


def _of_topics(settings: DataFrame) -> DataFrame:
    """One row per topic that ever had a setting of its own: of_topic, its statements in the order of their positions."""
    of_topic = F.array_sort(F.collect_list(F.struct("since", "at", "node", "permitted", "ref", "timed_out")))
    topics = settings.where(F.col("topic").isNotNull()).groupBy("cluster", "topic").agg(of_topic.alias("of_topic"))
    return topics.where(F.exists("of_topic", lambda one: one["permitted"].isNotNull()))


def _of_clusters(settings: DataFrame, events: DataFrame) -> DataFrame:
    """One row per cluster: of_all, statements for all topics; of_servers, those of properties; controller_nodes, broker_nodes.

    These are the nodes that printed their roles, with and without `controller`.
    """
    defaults = settings.where(F.col("topic").isNull()).select(
        "cluster", F.struct("since", "broker_id", "permitted", "ref", "timed_out").alias("of_all")
    )
    printed = of_types(events, CONFIG_VALUE).where(F.col("name").isin(_NAME, _ROLES) & F.col("value").isNotNull())
    permits, has_role = F.lower("value") == "true", F.array_contains(F.split("value", r"\s*,\s*"), CONTROLLER)
    is_roles = F.col("name") == _ROLES
    # each start prints the same once more: the first is enough
    once = printed.groupBy(
        "cluster", "node", is_roles.alias("is_roles"), F.when(is_roles, has_role).otherwise(permits).alias("yes")
    )
    servers = once.agg(F.min(ref()).alias("ref")).select(
        "cluster",
        F.when(~F.col("is_roles"), F.struct("node", F.col("yes").alias("permitted"), "ref")).alias("of_servers"),
        F.when(F.col("is_roles") & F.col("yes"), F.col("node")).alias("controller_node"),
        F.when(F.col("is_roles") & ~F.col("yes"), F.col("node")).alias("broker_node"),
    )
    return (
        defaults.unionByName(servers, allowMissingColumns=True)
        .groupBy("cluster")
        .agg(
            F.array_sort(F.collect_list("of_all")).alias("of_all"),
            F.array_sort(F.collect_list("of_servers")).alias("of_servers"),
            F.collect_set("controller_node").alias("controller_nodes"),
            F.collect_set("broker_node").alias("broker_nodes"),
        )
    )


def _setting() -> Column:
    """The setting that counted, struct(permitted, ref); null: not in the evidence."""
    own = _last_record("of_topic")
    return (
        F.when(_is_record() & own["permitted"].isNotNull(), _found(own))
        .when(_in_whole_log(), _default())
        .when(_is_record() & own["since"].isNotNull(), _permitting_default())
        .otherwise(_stated())
    )


def _is_record() -> Column:
    return F.col("scope") == OF_RECORD


def _carried_out(statement: Column) -> Column:
    """The statement is of no request that was answered 7, or of one by which a ZooKeeper controller created the topic.

    Only in KRaft, and in a migration to it, do brokers forward requests.
    """
    forwards = _is_record() | holds(F.col("has_metadata_log") | (F.size("kraft_controllers") > 0))
    timed_out = statement["timed_out"]
    return timed_out.isNull() | ((timed_out == CREATE_TOPICS) & ~forwards)


def _in_whole_log() -> Column:
    """The metadata log has all settings as of the row."""
    return _is_record() & settings_known_since(F.col("clock")).isNotNull()


def _known_since() -> Column:
    """The end of the last hole of the metadata log before the row: settings of before may have been removed in it."""
    return F.coalesce(resumed_at(F.col("clock")), F.lit(0))


def _controllers() -> Column:
    return F.concat("controller_nodes", "raft_leaders.leader", "kraft_controllers")


def _last_record(settings: str, of: Callable[[Column], Column] | None = None) -> Column:
    """The last record before the row, of those since the last hole of the metadata log."""

    def counts(one: Column) -> Column:
        known = (one["since"] <= F.col("clock")) & (one["since"] >= F.col("known_since"))
        return known if of is None else known & of(one)

    return F.try_element_at(F.filter(settings, counts), F.lit(-1))


def _default() -> Column:
    """What a KRaft controller takes where the topic has no setting of its own."""
    of_controller = _last_record("of_all", lambda one: one["broker_id"] == F.col("node"))
    of_brokers = _last_record("of_all", lambda one: one["broker_id"].isNull())
    return F.coalesce(
        _found(of_controller), _found(of_brokers), _of_servers(permitted=True), _of_servers(permitted=False)
    )


def _permitting_default() -> Column:
    """Any default that permits unclean elections."""
    return F.coalesce(_found(_last("of_all", permitted=True)), _of_servers(permitted=True))


def _default_may_permit() -> Column:
    """A default permits unclean elections, or a request to permit them was answered 7."""
    asked = F.exists("default_in_doubt", lambda one: one["permitted"])
    return _permitting_default().isNotNull() | holds(asked)


def _of_servers(*, permitted: bool) -> Column:
    """A default in the properties of controllers. Of a node whose roles are not known, only one that permits counts."""

    def counts(one: Column) -> Column:
        if permitted:
            return one["permitted"] & ~holds(F.array_contains("broker_nodes", one["node"]))
        return ~one["permitted"] & F.array_contains("controllers", one["node"])

    return _found(F.get(F.filter("of_servers", counts), F.lit(0)))


def _stated() -> Column:
    """What requests and lines state, and for a ZooKeeper controller the records of a migration."""
    takes_here = F.exists("own_changes", lambda change: _here(change) & change["takes"])
    so_far = F.filter("own_changes", lambda change: _here(change) & (change["at"] <= F.col("time_ms")))
    taken = holds(F.array_max(so_far)["takes"])
    elsewhere = F.filter("own_changes", lambda change: ~_here(change) & change["takes"])
    left = F.exists(elsewhere, lambda change: ~_followed(change)) | holds(F.col("recreated"))
    # without a common clock, the election may have come before the `false` that follows elsewhere
    between = (F.size(elsewhere) > 0) & _default_may_permit()
    permits, forbids = (_found(_last("of_topic", permitted=permitted)) for permitted in (True, False))
    return (
        F.when(permits.isNotNull(), permits)
        .when(forbids.isNull() | taken, F.when(~_may_have_stated(permitted=False), _permitting_default()))
        .when((takes_here | ~(left | between)) & ~_may_have_stated(permitted=True), forbids)
    )


def _may_have_stated(*, permitted: bool) -> Column:
    """By a request of which it is not known whether it was carried out. A removal may have left a default that permits."""

    def may_have(one: Column) -> Column:
        return F.coalesce(one["permitted"], F.lit(True)) == F.lit(permitted)

    return holds(F.exists("in_doubt", may_have))


def _own_changes() -> Column:
    """Where the topic's setting was taken away (`takes`) or set to false, by requests and lines: array of struct(at, takes, node)."""
    stated = F.filter("of_topic", lambda one: one["since"].isNull() & ~holds(one["permitted"]))
    changes = F.transform(stated, lambda one: _change(one["at"], one["permitted"].isNull(), one["node"]))
    deletions = F.filter("deletions", lambda one: ~one["of_log"])
    taken = F.transform(deletions, lambda one: _change(one["since"], F.lit(True), one["node"]))
    none = F.array().cast(_CHANGE)
    return F.concat(F.coalesce(changes, none), F.coalesce(taken, none))


def _change(at: Column, takes: Column, node: Column) -> Column:
    return F.struct(at.alias("at"), takes.alias("takes"), node.alias("node"))


def _here(change: Column) -> Column:
    """The controller's own host states it."""
    return holds(change["node"] == F.col("node"))


def _followed(taken: Column) -> Column:
    """The same host states later that the setting is false."""
    return F.exists("own_changes", lambda c: ~c["takes"] & (c["node"] == taken["node"]) & (c["at"] > taken["at"]))


def _last(settings: str, *, permitted: bool) -> Column:
    def counts(one: Column) -> Column:
        states_it = one["permitted"] == F.lit(permitted)
        return states_it & (one["since"].isNull() | ~_is_record())

    return F.try_element_at(F.filter(settings, counts), F.lit(-1))


def _found(setting: Column) -> Column:
    """struct(permitted, ref); null if the statement takes the setting away, or there is none."""
    return F.when(
        setting["permitted"].isNotNull(), F.struct(setting["permitted"].alias("permitted"), setting["ref"].alias("ref"))
    )
