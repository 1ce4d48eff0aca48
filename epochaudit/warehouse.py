"""The warehouse: a directory of Delta tables that a dashboard reads, written by whole runs.

events, quarantine, verdicts, findings and runs, each with the columns of schemas/<table>.toml and the comments given there.
A run is known by what it read: auditing the same capture again replaces its rows and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from epochaudit.auditing import Audit
from epochaudit.events.schema import ColumnDoc, columns, contract, spark_schema
from epochaudit.report.contents import Report
from epochaudit.version import VERSION

# Beside an event's own columns: the day it is filed under and the run that read it.
_FILED: Final = (
    ColumnDoc("day", "date", "Day of time_ms, as the node's log prints it.", None, False),
    ColumnDoc("run_id", "string", "The run that read it; see runs.", None, True),
)


class WarehouseError(Exception):
    """The directory can't be written as a warehouse."""


def write(spark: SparkSession, directory: str, audit: Audit, report: Report) -> str:
    """Write the run's tables below `directory` and return its run id.

    The row in `runs` is written last: a run without it was not completed. Raises WarehouseError.
    """
    run_id = run_id_of(audit)
    directory = directory.rstrip("/")
    try:
        _replace(directory, "events", run_id, _filed(audit.events, run_id), _FILED)
        _replace(directory, "quarantine", run_id, _filed(audit.quarantine, run_id), _FILED[1:])
        _replace(directory, "verdicts", run_id, audit.verdicts.withColumn("run_id", F.lit(run_id)))
        _replace(directory, "findings", run_id, _findings(spark, report, run_id))
        _replace(directory, "runs", run_id, _run(spark, report, run_id))
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WarehouseError(f"can't write the warehouse {directory}: {first}") from error
    return run_id


def run_id_of(audit: Audit) -> str:
    """The id of a run over these files: 32 hexadecimal digits from the version and each file's cluster, path, kind and size."""
    files = sorted((f.cluster, f.path, f.kind, f.size) for capture in audit.captures for f in capture.files)
    return blake2b(repr((VERSION, files)).encode(), digest_size=16).hexdigest()


def _filed(rows: DataFrame, run_id: str) -> DataFrame:
    if "time_ms" in rows.columns:
        rows = rows.withColumn("day", F.date_from_unix_date(F.floor(F.col("time_ms") / 86_400_000).cast("int")))
    return rows.withColumn("run_id", F.lit(run_id))


def _findings(spark: SparkSession, report: Report, run_id: str) -> DataFrame:
    schema = spark_schema("findings")
    rows = [
        tuple(
            run_id
            if name == "run_id"
            else [(e.role, e.node, e.file, e.line, e.byte_offset, e.time, e.text) for e in finding.evidence]
            if name == "evidence"
            else list(finding.because)
            if name == "because"
            else getattr(finding, name)
            for name in schema.names
        )
        for finding in report.findings
    ]
    return spark.createDataFrame(rows, schema)


def _run(spark: SparkSession, report: Report, run_id: str) -> DataFrame:
    read, counts = report.inventory, [finding.verdict for finding in report.findings]
    row = (
        run_id, VERSION, datetime.now(UTC).isoformat(timespec="seconds"), list(read.clusters), read.bytes, read.lines, read.events,
        read.ignored, read.quarantined, counts.count("violation"), counts.count("exposed"),
    )  # fmt: skip
    return spark.createDataFrame([row], spark_schema("runs"))


def _replace(directory: str, table: str, run_id: str, rows: DataFrame, filed: Iterable[ColumnDoc] = ()) -> None:
    """Replace the run's rows of one table in one transaction."""
    described = (*columns(table), *filed)
    path = f"{directory}/{table}"
    rows.sparkSession.sql(_create(path, table, described))
    selected = rows.select(*(F.col(c.name).cast(c.type) for c in described))
    selected.write.format("delta").mode("overwrite").option("replaceWhere", f"run_id = '{run_id}'").save(path)


def _create(path: str, table: str, described: Iterable[ColumnDoc]) -> str:
    fields = ", ".join(f"`{c.name}` {c.type} COMMENT {_quoted(c.doc)}" for c in described)
    about = contract(table)
    partitioned = ", ".join(f"`{name}`" for name in about.partitioned_by)
    clause = f" PARTITIONED BY ({partitioned})" if partitioned else ""
    location = path.replace("`", "``")
    return (
        f"CREATE TABLE IF NOT EXISTS delta.`{location}` ({fields}) USING delta{clause} COMMENT {_quoted(about.grain)}"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
