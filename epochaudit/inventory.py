"""What an audit has read: nodes, files, lines and the counts by API that a capture's own truth can be held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REQUEST_LOG: Final = "request_log"
STATE_CHANGE_LOG: Final = "state_change_log"
SERVER_LOG: Final = "server_log"
METADATA_LOG: Final = "metadata_log"
LOGS: Final[Mapping[str, str]] = {
    REQUEST_LOG: "request log", STATE_CHANGE_LOG: "state-change.log", SERVER_LOG: "server.log",
}  # fmt: skip
"""What each node writes of its own, by the source that its events name."""
RECORD: Final = "_RECORD"  # metadata record types end so; control records of the raft log do not
UNKNOWN: Final = "UNKNOWN_RECORD_"  # so begins a record type that only its key is known of
KAFKA_VERSION: Final = "KAFKA_VERSION"
CONTROLLER_ELECTED: Final = "CONTROLLER_ELECTED"
CONFIG_VALUE: Final = "CONFIG_VALUE"
PROCESS_ROLES: Final = "process.roles"
ZOOKEEPER: Final = "zookeeper.connect"
ROLES: Final = ("broker", "controller")

Row = Mapping[str, Any]
Process = tuple[str, int]  # cluster and node id
Present = Mapping[tuple[str, int | None], Mapping[str, AbstractSet[str]]]


@dataclass(frozen=True)
class NodeRead:
    """One process of the capture.

    versions: those that it printed, in order: several after an upgrade. missing_logs: those of LOGS, by source, of which no
    event is here; a controller by itself writes no state-change.log.
    """

    cluster: str
    node: int
    roles: tuple[str, ...]
    versions: tuple[str, ...] = ()
    missing_logs: tuple[str, ...] = ()

    @property
    def kafka(self) -> str | None:
        """The version that it ran last, null when no log says."""
        return self.versions[-1] if self.versions else None


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


@dataclass(frozen=True)
class Inventory:
    """Totals of the capture.

    requests: request-log lines by API. partition_rows: rows of the partitions that requests list, by API. error_codes:
    answered partitions by API and code, the rows of a fetch session included. metadata_records: committed records by
    type. left_out: files by kind that are not read: unknown ones, duplicates, and formats that give no events. missing_nodes: brokers
    and controllers that others name and of which no event is here.
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

    @property
    def incomplete(self) -> bool:
        """A node's own account is missing, so that what it did can't be found wrong."""
        return bool(self.missing_nodes) or any(node.missing_logs for node in self.nodes)

    @property
    def bytes(self) -> int:
        """Size of the files as they lie on disk."""
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


@dataclass(frozen=True)
class EventCounts:
    """The counts that come from event rows, as told at `Inventory`, what nodes say of themselves, and what there is of each.

    present: event types by source, by process; the node is null where files tell none.
    """

    partition_rows: Mapping[str, int]
    error_codes: Mapping[tuple[str, int], int]  # by API and code
    metadata_records: Mapping[str, int]
    versions: Mapping[Process, tuple[str, ...]]  # as printed, in order
    roles: Mapping[Process, frozenset[str]]
    present: Present


def event_groups(events: DataFrame) -> DataFrame:
    """One small row per kind of event, from which all counts follow: a single aggregate over the events.

    Needs event_type, source, cluster, node, partition, in_request, error_code, name, value, file, file_order,
    byte_offset, metadata_offset, in_snapshot. Grain: one row for (source, event_type, cluster, node, of a request error_code
    and requested, and of what a node states about itself name and value), with `rows` and the last log position of the
    statements. A record of the metadata log counts once, however many copies of the log there are; it is of no node.
    """
    from pyspark.sql import functions as F

    statement = F.col("event_type").isin(KAFKA_VERSION, CONTROLLER_ELECTED) | (
        (F.col("event_type") == CONFIG_VALUE) & F.col("name").isin(PROCESS_ROLES, ZOOKEEPER)
    )
    is_request, is_record = (F.col("source") == source for source in (REQUEST_LOG, METADATA_LOG))
    kind = {
        **{name: F.col(name) for name in ("source", "event_type", "cluster")},
        "node": F.when(~is_record, F.col("node")),
        "error_code": F.when(is_request, F.col("error_code")),
        "requested": is_request & F.coalesce("in_request", F.lit(False)) & F.col("partition").isNotNull(),
        **{name: F.when(statement, F.col(name)) for name in ("name", "value")},
    }
    snapshot = F.when(F.col("in_snapshot"), F.col("file")).alias("snapshot")
    record = F.when(is_record, F.struct(snapshot, "metadata_offset"))
    place = F.when(statement, F.struct("file_order", "byte_offset"))
    each = events.groupBy(*(column.alias(name) for name, column in kind.items()), record.alias("record")).agg(
        F.count("*").alias("copies"), F.max(place).alias("last")
    )
    rows = F.sum(F.when(F.col("record").isNull(), F.col("copies")).otherwise(1)).alias("rows")
    return each.groupBy(*kind).agg(rows, F.max("last").alias("last"))


def event_counts(groups: Iterable[Row]) -> EventCounts:
    """The rows of `event_groups`, summed up under their APIs and record types."""
    partition_rows: dict[str, int] = defaultdict(int)
    error_codes: dict[tuple[str, int], int] = defaultdict(int)
    metadata_records: dict[str, int] = defaultdict(int)
    present: dict[tuple[str, int | None], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    statements = []
    for group in groups:
        name, rows = group["event_type"], group["rows"]
        present[group["cluster"], group["node"]][group["source"]].add(name)
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
    )


def named_nodes(events: DataFrame) -> DataFrame:
    """Grain: (cluster, named): every node id that a request, a line or a record names as a broker or leader."""
    from pyspark.sql import functions as F

    named = F.array_union(
        F.array_union(F.coalesce("live_brokers", F.array().cast("array<int>")), F.coalesce("replicas", F.array().cast("array<int>"))),
        F.array(F.coalesce("leader", F.lit(-1)), F.when(F.col("replica_id") >= 0, F.col("replica_id")).otherwise(-1)),
    )  # fmt: skip
    return (
        events.where(F.col("live_brokers").isNotNull() | F.col("replicas").isNotNull() | (F.col("replica_id") >= 0))
        .select("cluster", F.explode(named).alias("named"))
        .where("named >= 0")
        .distinct()
    )


def _versions(statements: Iterable[Row]) -> dict[Process, tuple[str, ...]]:
    printed: dict[Process, list[tuple[int, int, str]]] = defaultdict(list)
    for said in statements:
        if said["event_type"] == KAFKA_VERSION and said["value"]:
            last = said["last"]
            printed[said["cluster"], said["node"]].append((last["file_order"], last["byte_offset"], said["value"]))
    return {process: tuple(version for _, _, version in sorted(told)) for process, told in printed.items()}


def _roles(statements: Iterable[Row]) -> dict[Process, frozenset[str]]:
    """process.roles where it is set (KRaft); a node that names ZooKeeper is a broker, a controller too if elected."""
    roles: dict[Process, set[str]] = defaultdict(set)
    for said in statements:
        held = roles[said["cluster"], said["node"]]
        if said["event_type"] == CONTROLLER_ELECTED:
            held.add("controller")
        elif said["name"] == PROCESS_ROLES:
            held.update(role for role in ROLES if role in (said["value"] or ""))
        elif said["name"] == ZOOKEEPER and (said["value"] or "null") != "null":
            held.add("broker")
    return {process: frozenset(held) for process, held in roles.items()}
