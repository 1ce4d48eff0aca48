"""The inventory of an audit: nodes, files, lines, and counts by API, which can be compared with the capture."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from epochaudit.events.event_types import (
    BROKER_REGISTERED,
    CONFIG_VALUE,
    CONTROLLER_ACTIVE,
    CONTROLLER_ELECTED,
    KAFKA_VERSION,
    PROCESS_SHUTTING_DOWN,
    PROCESS_STARTING,
    REQUEST_LOG_FILTERED,
    ZK_MIGRATION_STATE_RECORD,
)
from epochaudit.events.views import holds
from epochaudit.kafka.field_values import BROKER, CONTROLLER, ROLES, ZkMigrationState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REQUEST_LOG: Final = "request_log"
STATE_CHANGE_LOG: Final = "state_change_log"
SERVER_LOG: Final = "server_log"
METADATA_LOG: Final = "metadata_log"
LOGS: Final[Mapping[str, str]] = {
    REQUEST_LOG: "request log", STATE_CHANGE_LOG: "state-change.log", SERVER_LOG: "server.log",
}  # fmt: skip
"""The logs that each node writes, by the source of their events."""
RECORD: Final = "_RECORD"  # suffix of metadata record types, which control records of the raft log lack
UNKNOWN: Final = "UNKNOWN_RECORD_"  # prefix of record types of which only the key is known
PROCESS_ROLES: Final = "process.roles"
ZOOKEEPER: Final = "zookeeper.connect"
STATES: Final[Mapping[str, str]] = {
    ZkMigrationState.PRE_MIGRATION: "before the migration",
    ZkMigrationState.MIGRATION: "dual-write",
    ZkMigrationState.POST_MIGRATION: "KRaft",
}

Row = Mapping[str, Any]
Process = tuple[str, int]  # cluster and node id
Present = Mapping[tuple[str, int | None], Mapping[str, AbstractSet[str]]]


@dataclass(frozen=True)
class NodeRead:
    """One node of the capture.

    versions: the Kafka versions that it logged, in order; several after an upgrade. missing_logs: sources of LOGS without any
    event of the node, except state-change.log of a node that is only a controller and so writes none.
    """

    cluster: str
    node: int
    roles: tuple[str, ...]
    versions: tuple[str, ...] = ()
    missing_logs: tuple[str, ...] = ()

    @property
    def kafka(self) -> str | None:
        """The last logged version, None without one."""
        return self.versions[-1] if self.versions else None


@dataclass(frozen=True)
class Missing:
    """Evidence that other evidence names or implies, and that is not in the capture.

    node: null if only files imply it. what: its name, completing `… is missing`. remedy: what to do. answers: estimated number
    of partitions in the missing responses, from the rest of the log or, with as_others, from the average of other nodes; null
    for other logs than request logs, and without a basis for an estimate. logs: sources of the logs of which lines are missing; empty if
    unknown.
    """

    cluster: str
    node: int | None
    what: str
    remedy: str | None = None
    answers: int | None = None
    as_others: bool = False
    logs: tuple[str, ...] = ()

    def __str__(self) -> str:
        basis = ", if it answered as many as others on average" if self.as_others else ""
        return self.what + (f" (about {self.answers:,} answers{basis})" if self.answers else "")


@dataclass(frozen=True)
class FileRead:
    """One file of the capture; lines = events + ignored + quarantined, `events` counting lines that gave event rows."""

    path: str
    kind: str
    node: int | None
    bytes: int
    lines: int
    events: int
    ignored: int
    quarantined: int
    cluster: str = ""


@dataclass(frozen=True)
class Mode:
    """The mode of one process of a node: `zookeeper`, `zookeeper_in_migration`, `kraft` (a broker), `kraft_controller`.

    since_ms: its start by its host's clock, in milliseconds; null if its log does not have it.
    """

    node: int
    mode: str
    since_ms: int | None


@dataclass(frozen=True)
class Migration:
    """A cluster's migration from ZooKeeper to KRaft. states: those of the metadata log, with the CreateTime of their records.

    modes: the modes of each node, in order; a process in the same mode as the previous one is left out.
    """

    cluster: str
    states: tuple[tuple[str, int], ...]
    modes: tuple[Mode, ...]


@dataclass(frozen=True)
class Inventory:
    """Totals of the capture.

    requests: request-log lines by API. partition_rows: rows of the partitions that requests list, by API. error_codes:
    answered partitions by API and code, the rows of a fetch session included. metadata_records: committed records by
    type. left_out: number of files that are not read, by kind: unknown formats, duplicates, and formats without events.
    missing_nodes: brokers and controllers without events that other nodes name. missing: evidence that other evidence names
    or implies, including those nodes. absent_logs: sources of LOGS that no node has. unknown_files: paths of files of no known
    format. migrations: of clusters that migrate from ZooKeeper to KRaft. light_nodes: nodes whose request log intentionally
    omits ordinary responses, by its own lines or capture.toml. first_time, last_time: of the nodes' logs, ISO 8601 by the
    nodes' clocks; None without a time.
    """

    clusters: tuple[str, ...] = ()
    nodes: tuple[NodeRead, ...] = ()
    files: tuple[FileRead, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, int] = field(default_factory=dict)
    partition_rows: Mapping[str, int] = field(default_factory=dict)
    error_codes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    metadata_records: Mapping[str, int] = field(default_factory=dict)
    missing_nodes: tuple[Process, ...] = ()
    missing: tuple[Missing, ...] = ()
    absent_logs: tuple[str, ...] = ()
    unknown_files: tuple[str, ...] = ()
    migrations: tuple[Migration, ...] = ()
    light_nodes: tuple[Process, ...] = ()
    first_time: str | None = None
    last_time: str | None = None

    @property
    def incomplete(self) -> bool:
        """Evidence is missing, so breaches in it can't be found."""
        return bool(self.missing)

    @property
    def bytes(self) -> int:
        """Stored size of the files."""
        return sum(file.bytes for file in self.files)

    @property
    def lines(self) -> int:
        """Lines read."""
        return sum(file.lines for file in self.files)

    @property
    def events(self) -> int:
        """Lines that gave at least one event row."""
        return sum(file.events for file in self.files)

    @property
    def ignored(self) -> int:
        """Lines that are no events: other log lines, stack traces, APIs of no interest."""
        return sum(file.ignored for file in self.files)

    @property
    def quarantined(self) -> int:
        """Bad lines: cut off, binary, invalid."""
        return sum(file.quarantined for file in self.files)


def joined(inventories: Iterable[Inventory]) -> Inventory:
    """One inventory of inventories of different clusters."""
    whole = tuple(inventories)
    error_codes: dict[str, Counter[int]] = defaultdict(Counter)
    for api, codes in (item for one in whole for item in one.error_codes.items()):
        error_codes[api].update(codes)
    first = [one.first_time for one in whole if one.first_time is not None]
    last = [one.last_time for one in whole if one.last_time is not None]
    return Inventory(
        clusters=tuple(sorted(cluster for one in whole for cluster in one.clusters)),
        nodes=tuple(node for one in whole for node in one.nodes),
        files=tuple(file for one in whole for file in one.files),
        left_out=_added(one.left_out for one in whole),
        requests=_added(one.requests for one in whole),
        partition_rows=_added(one.partition_rows for one in whole),
        error_codes={api: dict(codes) for api, codes in error_codes.items()},
        metadata_records=_added(one.metadata_records for one in whole),
        missing_nodes=tuple(node for one in whole for node in one.missing_nodes),
        missing=tuple(what for one in whole for what in one.missing),
        absent_logs=tuple(log for log in LOGS if all(log in one.absent_logs for one in whole)),
        unknown_files=tuple(path for one in whole for path in one.unknown_files),
        migrations=tuple(migration for one in whole for migration in one.migrations),
        light_nodes=tuple(node for one in whole for node in one.light_nodes),
        first_time=min(first, default=None),
        last_time=max(last, default=None),
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


@dataclass(frozen=True)
class EventCounts:
    """Counts of event rows, as described at `Inventory`, and the statements of nodes about themselves.

    present: event types by source, by process; the node is null if the files name none. rows: number of events, for requests
    of answered partitions, by the same keys. migrations: as at `Inventory`. shutdown_ms: when a process began its shutdown that
    did not start again afterwards.
    """

    partition_rows: Mapping[str, int]
    error_codes: Mapping[tuple[str, int], int]  # by API and code
    metadata_records: Mapping[str, int]
    versions: Mapping[Process, tuple[str, ...]]  # as printed, in order
    roles: Mapping[Process, frozenset[str]]
    present: Present
    rows: Mapping[tuple[str, int | None], Mapping[str, int]] = field(default_factory=dict)
    migrations: tuple[Migration, ...] = ()
    shutdown_ms: Mapping[Process, int] = field(default_factory=dict)

    def light_nodes(self, nodes: Iterable[Process]) -> tuple[Process, ...]:
        """The nodes with a filtered request log, by a row of the log itself, or by a row of capture.toml for all nodes."""
        filtered = {
            place
            for place, sources in self.present.items()
            if any(REQUEST_LOG_FILTERED in types for types in sources.values())
        }
        return tuple(sorted(node for node in nodes if node in filtered or (node[0], None) in filtered))


def event_groups(events: DataFrame) -> DataFrame:
    """One row per kind of event, from which all counts are computed: a single aggregation of the events.

    Needs run_rows, event_type, source, cluster, node, partition, in_request, error_code, name, value, time_ms, file, file_order,
    byte_offset, metadata_offset, in_snapshot. Grain: (source, event_type, cluster, node, error_code, requested, name, value, time_ms).
    error_code and requested are null except for requests, name and value except for statements of a node about itself, time_ms
    except for events that show its mode. Adds `rows` and the last log position of the statements. A record of the metadata log
    counts once, whatever the number of copies, and has no node.
    """
    from pyspark.sql import functions as F

    from epochaudit.events.views import run_rows

    statement = F.col("event_type").isin(KAFKA_VERSION, CONTROLLER_ELECTED) | (
        (F.col("event_type") == CONFIG_VALUE) & F.col("name").isin(PROCESS_ROLES, ZOOKEEPER)
    )
    of_mode = F.col("event_type").isin(
        PROCESS_STARTING, PROCESS_SHUTTING_DOWN, BROKER_REGISTERED, CONTROLLER_ACTIVE, ZK_MIGRATION_STATE_RECORD
    )
    is_request, is_record = (F.col("source") == source for source in (REQUEST_LOG, METADATA_LOG))
    kind = {
        **{name: F.col(name) for name in ("source", "event_type", "cluster")},
        "node": F.when(~is_record, F.col("node")),
        "error_code": F.when(is_request, F.col("error_code")),
        "requested": is_request & holds(F.col("in_request")) & F.col("partition").isNotNull(),
        **{name: F.when(statement | of_mode, F.col(name)) for name in ("name", "value")},
        "time_ms": F.when(of_mode, F.col("time_ms")),
    }
    snapshot = F.when(F.col("in_snapshot"), F.col("file")).alias("snapshot")
    record = F.when(is_record, F.struct(snapshot, "metadata_offset"))
    place = F.when(statement, F.struct("file_order", "byte_offset"))
    each = events.groupBy(*(column.alias(name) for name, column in kind.items()), record.alias("record")).agg(
        F.sum(run_rows()).alias("copies"), F.max(place).alias("last")
    )
    rows = F.sum(F.when(F.col("record").isNull(), F.col("copies")).otherwise(1)).alias("rows")
    return each.groupBy(*kind).agg(rows, F.max("last").alias("last"))


def event_counts(groups: Iterable[Row]) -> EventCounts:
    """The rows of `event_groups`, summed by API and record type."""
    partition_rows: dict[str, int] = defaultdict(int)
    error_codes: dict[tuple[str, int], int] = defaultdict(int)
    metadata_records: dict[str, int] = defaultdict(int)
    present: dict[tuple[str, int | None], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    by_source: dict[tuple[str, int | None], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    statements, mode_rows = [], []
    start_ms, shutdown_ms = defaultdict[Process, int](int), defaultdict[Process, int](int)
    for group in groups:
        name, rows, process = group["event_type"], group["rows"], (group["cluster"], group["node"])
        if group["source"] != REQUEST_LOG or group["error_code"] is not None:
            by_source[group["cluster"], group["node"]][group["source"]] += rows
        present[group["cluster"], group["node"]][group["source"]].add(name)
        if name == PROCESS_SHUTTING_DOWN:
            shutdown_ms[process] = max(shutdown_ms[process], group["time_ms"])
        elif group["time_ms"] is not None:
            mode_rows.append(group)
        if name == PROCESS_STARTING:
            start_ms[process] = max(start_ms[process], group["time_ms"])
        if group["source"] == METADATA_LOG:
            if name.endswith(RECORD) or name.startswith(UNKNOWN):
                metadata_records[name] += rows
        elif group["source"] == REQUEST_LOG:
            if group["requested"]:
                partition_rows[name] += rows
            if group["error_code"] is not None:
                error_codes[name, group["error_code"]] += rows
        elif group["node"] is not None and group["last"] is not None:
            statements.append(group)
    return EventCounts(
        partition_rows=dict(partition_rows),
        error_codes=dict(error_codes),
        metadata_records=dict(sorted(metadata_records.items())),
        versions=_versions(statements),
        roles=_roles(statements),
        present=present,
        rows=by_source,
        migrations=tuple(_migrations(mode_rows)),
        shutdown_ms={process: at for process, at in shutdown_ms.items() if at > start_ms[process]},
    )


def named_nodes(events: DataFrame) -> DataFrame:
    """Grain: (cluster, named): every node id that a request, a line or a record names as a broker or leader.

    last_fetch_ms: when a broker last logged a Fetch of that replica, by the broker's clock; null if none did.
    """
    from pyspark.sql import functions as F

    named = F.array_union(
        F.array_union(F.coalesce("live_brokers", F.array().cast("array<int>")), F.coalesce("replicas", F.array().cast("array<int>"))),
        F.array(F.coalesce("leader", F.lit(-1)), F.when(F.col("replica_id") >= 0, F.col("replica_id")).otherwise(-1)),
    )  # fmt: skip
    return (
        events.where(F.col("live_brokers").isNotNull() | F.col("replicas").isNotNull() | (F.col("replica_id") >= 0))
        .select("cluster", F.explode(named).alias("named"), "replica_id", "time_ms")
        .where("named >= 0")
        .groupBy("cluster", "named")
        .agg(F.max(F.when(F.col("replica_id") == F.col("named"), F.col("time_ms"))).alias("last_fetch_ms"))
    )


def _versions(statements: Iterable[Row]) -> dict[Process, tuple[str, ...]]:
    printed: dict[Process, list[tuple[int, int, str]]] = defaultdict(list)
    for row in statements:
        if row["event_type"] == KAFKA_VERSION and row["value"]:
            last = row["last"]
            printed[row["cluster"], row["node"]].append((last["file_order"], last["byte_offset"], row["value"]))
    return {process: tuple(version for _, _, version in sorted(versions)) for process, versions in printed.items()}


def _roles(statements: Iterable[Row]) -> dict[Process, frozenset[str]]:
    """process.roles if set (KRaft). A node with zookeeper.connect is a broker, and a controller if it was elected."""
    roles: dict[Process, set[str]] = defaultdict(set)
    for row in statements:
        of_process = roles[row["cluster"], row["node"]]
        if row["event_type"] == CONTROLLER_ELECTED:
            of_process.add(CONTROLLER)
        elif row["name"] == PROCESS_ROLES:
            of_process.update(role for role in ROLES if role in (row["value"] or ""))
        elif row["name"] == ZOOKEEPER and (row["value"] or "null") != "null":
            of_process.add(BROKER)
    return {process: frozenset(of_process) for process, of_process in roles.items()}


def _migrations(mode_rows: Iterable[Row]) -> Iterable[Migration]:
    """Of clusters with a process in the mode zookeeper_in_migration, or whose metadata log states a migration."""
    by_cluster: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(mode_rows, key=lambda row: row["time_ms"]):
        by_cluster[row["cluster"]].append(row)
    for cluster, rows in sorted(by_cluster.items()):
        states = {
            row["value"]: row["time_ms"] for row in reversed(rows) if row["event_type"] == ZK_MIGRATION_STATE_RECORD
        }
        known = tuple(
            sorted(((STATES[value], at) for value, at in states.items() if value in STATES), key=lambda s: s[1])
        )
        nodes = sorted(
            {row["node"] for row in rows if row["event_type"] != ZK_MIGRATION_STATE_RECORD and row["node"] is not None}
        )
        modes = tuple(mode for node in nodes for mode in _modes(node, [row for row in rows if row["node"] == node]))
        if known or any(mode.mode == "zookeeper_in_migration" for mode in modes):
            yield Migration(cluster, known, modes)


def _modes(node: int, rows: Iterable[Row]) -> Iterable[Mode]:
    """The modes of a node. A process registers after its start; a broker in migration with ZooKeeper, then with KRaft."""
    processes: list[tuple[int | None, set[str]]] = [(None, set())]
    for row in rows:
        if row["event_type"] == PROCESS_STARTING:
            processes.append((row["time_ms"], set()))
        elif row["event_type"] == CONTROLLER_ACTIVE:
            processes[-1][1].add("kraft_controller")
        else:
            processes[-1][1].add(row["name"] or "zookeeper")
    before = None
    for since, registered in processes:
        both = {"zookeeper", "kraft"} <= registered  # up to 3.4 the line does not name the broker's mode
        mode = (
            "zookeeper_in_migration"
            if both or "zookeeper_in_migration" in registered
            else next(iter(sorted(registered)), before)
        )
        if mode is not None and mode != before:
            yield Mode(node, mode, since)
        before = mode
