"""The warehouse's directory: creates its Delta tables from their contracts, and is the only module that writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from epochaudit.events.schema import ColumnDoc, columns, contract
from epochaudit.events.times import DAY_MS
from epochaudit.sources.files.opening import listing

LAYOUT: Final = 6  # version of the directory; raised when older programs can no longer read or write it
LAYOUT_PROPERTY: Final = "epochaudit.layout"
COLUMNS_PROPERTY: Final = "epochaudit.columns"  # digest of the columns of all tables; if it differs, columns are added
VERSION_PROPERTY: Final = "epochaudit.schema"
ROWS: Final = ("events", "quarantine", "splits")  # filled by reading; horizon lists their committed parts
# horizon last: a directory without it is no warehouse
TABLES: Final = (*ROWS, "findings", "verdicts", "runs", "horizon")

_PART: Final = ColumnDoc(
    "part", "bigint", "Number of the part that the row is of. It counts if horizon lists it.", None, True
)
_DAY: Final = ColumnDoc("day", "date", "Day of time_ms, as the node's log prints it.", None, False)
_OF_REQUESTS: Final = ColumnDoc(
    "of_requests", "boolean", "The row is of a request log. A run reads these of the last days only.", None, False
)
# Derived from horizon and the row's part when rows are read, as later evidence changes them.
_BY_PART: Final = {"event_id", "file_order", "gaps_before", "newer_missing", "split"}
_AS_READ: Final = {"node", "file"}

# Delta stores minimum and maximum of these columns only, by which queries and the removal of uncommitted parts skip files.
# The default is the first 32 columns.
_STATISTICS: Final[Mapping[str, str]] = {
    "events": "part,node,event_type,topic,partition,time_ms",
    "quarantine": "part",
    "splits": "part",
}


class WarehouseError(Exception):
    """The directory can't be used as a warehouse, or another run uses it; the message states what to do."""


@dataclass(frozen=True)
class Directory:
    """A warehouse's directory, by path or URI."""

    spark: SparkSession
    location: str

    def path(self, table: str) -> str:
        """Path or URI of a table."""
        return f"{self.location}/{table}"

    def name(self, table: str) -> str:
        """A table's name in SQL."""
        return f"delta.`{self.path(table).replace('`', '``')}`"

    def table(self, table: str) -> DataFrame:
        """A table's current rows."""
        return self.spark.read.format("delta").load(self.path(table))

    def append(self, table: str, rows: DataFrame) -> None:
        """Add rows to a table, in one transaction."""
        _as_described(table, rows).write.format("delta").mode("append").save(self.path(table))

    def replace_cluster(self, table: str, cluster: str, rows: DataFrame, *, application: str, version: int) -> None:
        """Replace a cluster's rows of a table in one transaction; no effect if this version of the application has committed."""
        writer = _as_described(table, rows).write.format("delta").mode("overwrite")
        once = {"txnAppId": application, "txnVersion": str(version)}
        writer.option("replaceWhere", f"cluster = {quoted(cluster)}").options(**once).save(self.path(table))


def plain_bytes_in(location: str) -> int | None:
    """Approximate bytes of logs in a warehouse, 0 if there is none, None if that is not known.

    Needs no Spark: the session is sized by it.
    """
    try:
        return sum(file.plain_size("zstd") for file in listing(f"{location}/events"))
    except FileNotFoundError:
        return 0
    except (OSError, ValueError):  # `opened` reports what is wrong
        return None


def opened(spark: SparkSession, location: str) -> Directory:
    """The warehouse in a directory, created if there is none, with missing columns added. Raises WarehouseError."""
    directory = _directory(spark, location)
    properties = _usable(directory)
    if properties is None:
        for table in TABLES:
            spark.sql(_create(directory, table))
    elif properties.get(COLUMNS_PROPERTY) != _columns_digest():
        _add_columns(directory)
    return directory


def _add_columns(directory: Directory) -> None:
    """Add the columns that the tables of an older version lack. Existing rows have null there."""
    for table in TABLES:
        existing_columns = set(directory.table(table).columns)
        if lacking := [column for column in described(table) if column.name not in existing_columns]:
            directory.spark.sql(f"ALTER TABLE {directory.name(table)} ADD COLUMNS ({_fields(lacking)})")
        _set(directory, table, {VERSION_PROPERTY: str(contract(table).version)})
    _set(directory, "horizon", {COLUMNS_PROPERTY: _columns_digest()})


def _set(directory: Directory, table: str, properties: Mapping[str, str]) -> None:
    directory.spark.sql(f"ALTER TABLE {directory.name(table)} SET TBLPROPERTIES ({_assignments(properties)})")


def _assignments(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(key)} = {quoted(value)}" for key, value in properties.items())


def _columns_digest() -> str:
    all_columns = repr(
        [(table, contract(table).version, [column.name for column in described(table)]) for table in TABLES]
    )
    return blake2b(all_columns.encode(), digest_size=8).hexdigest()


def _fields(listed: Iterable[ColumnDoc]) -> str:
    return ", ".join(f"`{c.name}` {c.type} COMMENT {quoted(c.doc)}" for c in listed)


def existing(spark: SparkSession, location: str) -> Directory:
    """The warehouse in a directory. Raises WarehouseError if there is none."""
    directory = _directory(spark, location)
    if _usable(directory) is None:
        raise WarehouseError(f"{location} is no warehouse; `epochaudit audit CAPTURE --warehouse {location}` makes one")
    return directory


def _directory(spark: SparkSession, location: str) -> Directory:
    """The directory by its absolute path or URI: Delta would take a relative path for the name of a table."""
    absolute = location if "://" in location else str(Path(location).absolute())
    return Directory(spark, absolute.rstrip("/"))


def _usable(directory: Directory) -> Mapping[str, str] | None:
    """The properties of a warehouse's horizon; None if there is no warehouse. Raises WarehouseError if this program can't use it."""
    properties = _properties(directory, "horizon")
    if properties is None:
        if _properties(directory, "runs") is not None and _properties(directory, "splits") is None:
            raise WarehouseError(
                f"{directory.location} was written by epochaudit 0.1.0, as whole runs, and can't be continued; name a new "
                "directory for --warehouse and audit there what is still to be judged"
            )
        return None
    if LAYOUT_PROPERTY not in properties:
        raise WarehouseError(
            f"{directory.location}/horizon does not tell its layout: it was not written by epochaudit; name another directory"
        )
    layout = int(properties[LAYOUT_PROPERTY])
    if layout > LAYOUT:
        raise _newer(directory, f"layout {layout}, where this one knows {LAYOUT}")
    if layout < LAYOUT:
        raise WarehouseError(
            f"{directory.location} has layout {layout} and this version of epochaudit uses layout {LAYOUT}; "
            "use the version that wrote it, or a new directory"
        )
    if properties.get(COLUMNS_PROPERTY) != _columns_digest():
        for table in TABLES:
            version = int((_properties(directory, table) or {}).get(VERSION_PROPERTY, 0))
            if version > contract(table).version:
                raise _newer(directory, f"version {version} of {table}, where this one knows {contract(table).version}")
    return properties


def _newer(directory: Directory, what: str) -> WarehouseError:
    return WarehouseError(
        f"{directory.location} was written by a newer version of epochaudit ({what}); upgrade epochaudit, or name another directory"
    )


def _properties(directory: Directory, table: str) -> dict[str, str] | None:
    """A table's properties; None if there is no such table."""
    try:
        [detail] = directory.spark.sql(f"DESCRIBE DETAIL {directory.name(table)}").select("properties").collect()
    except Exception as error:
        if any(
            condition in str(error)
            for condition in ("PATH_NOT_FOUND", "MISSING_DELTA_TABLE", "doesn't exist", "NOT_FOUND")
        ):
            return None
        raise failed(f"can't open the warehouse {directory.location}", error) from error
    return dict(detail["properties"] or {})


def failed(what: str, error: Exception) -> WarehouseError:
    """An error of Spark as one line for an operator: the last cause of a Java exception, else the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    others = [line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")]
    return WarehouseError(f"{what}: {[*causes[-1:], *others, type(error).__name__][0]}")


def described(table: str) -> tuple[ColumnDoc, ...]:
    """The columns of a table as the warehouse stores it."""
    if table not in ROWS:
        return columns(table)
    stored = [_stored(column) for column in columns(table) if column.name not in _BY_PART]
    return (_PART, *([_DAY, _OF_REQUESTS] if table == "events" else []), *stored)


def _stored(column: ColumnDoc) -> ColumnDoc:
    if column.name not in _AS_READ:
        return column
    return replace(
        column, doc=f"{column.doc} As it was known when the row was read; horizon has it as it is known now."
    )


def _as_described(table: str, rows: DataFrame) -> DataFrame:
    return rows.select(*(F.col(c.name).cast(c.type) for c in described(table)))


def _create(directory: Directory, table: str) -> str:
    fields = _fields(described(table))
    about = contract(table)
    partitioning = f" PARTITIONED BY ({', '.join(about.partitioned_by)})" if about.partitioned_by else ""
    properties = {LAYOUT_PROPERTY: str(LAYOUT), VERSION_PROPERTY: str(about.version)}
    if table in _STATISTICS:
        properties["delta.dataSkippingStatsColumns"] = _STATISTICS[table]
    if table == "horizon":
        properties[COLUMNS_PROPERTY] = _columns_digest()
    return (
        f"CREATE TABLE IF NOT EXISTS {directory.name(table)} ({fields}) USING delta{partitioning} "
        f"COMMENT {quoted(about.grain)} TBLPROPERTIES ({_assignments(properties)})"
    )


def quoted(text: str) -> str:
    """A string in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def one_of(values: Iterable[str]) -> str:
    """A list of strings in SQL, for IN."""
    return f"({', '.join(quoted(value) for value in values)})"


def day_of(time_ms: Column) -> Column:
    """The day of a time in milliseconds since the epoch."""
    return F.date_from_unix_date(F.floor(time_ms / DAY_MS).cast("int"))
