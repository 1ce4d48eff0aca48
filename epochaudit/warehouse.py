"""The warehouse: a directory of Delta tables that a dashboard reads, written by whole runs.

events, quarantine, verdicts, findings and runs, each with the columns of schemas/<table>.toml and the comments given there.
A run is known by what it read: auditing the same capture again replaces its rows and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from epochaudit.auditing import Audit
from epochaudit.events.schema import ColumnDoc, columns, contract, spark_schema
from epochaudit.findings import Finding
from epochaudit.report.contents import Report
from epochaudit.sources.opening import open_stored
from epochaudit.version import VERSION

BEGINNING: Final = 4096  # bytes of a file that tell it from another of the same name and size

# In front of the columns of what was read. Delta keeps statistics of the first columns only, and by those of run_id a
# run's files are found without reading the others.
_RUN_ID: Final = ColumnDoc("run_id", "string", "The run that read it; see runs.", None, True)
_DAY: Final = ColumnDoc("day", "date", "Day of time_ms, as the node's log prints it.", None, False)


class WarehouseError(Exception):
    """The directory can't be written as a warehouse."""


def write(spark: SparkSession, directory: str, audit: Audit, report: Report) -> str:
    """Write the run's tables below `directory` and return its run id.

    The row in `runs` is written last: a run without it was not completed. Raises WarehouseError.
    """
    run_id = run_id_of(audit)
    if "://" not in directory:
        directory = str(Path(directory).absolute())  # Delta takes a relative path for a table's name
    directory = directory.rstrip("/")
    try:
        _replace(directory, "events", run_id, _filed(audit.events, run_id), (_RUN_ID, _DAY))
        _replace(directory, "quarantine", run_id, _filed(audit.quarantine, run_id), (_RUN_ID,))
        _replace(directory, "verdicts", run_id, audit.verdicts.withColumn("run_id", F.lit(run_id)))
        _replace(directory, "findings", run_id, _findings(spark, report, run_id))
        _replace(directory, "runs", run_id, _run(spark, report, run_id))
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise WarehouseError(f"can't write the warehouse {directory}: {first}") from error
    return run_id


def run_id_of(audit: Audit) -> str:
    """The id of a run over these files, 32 hexadecimal digits: from each file's cluster, path, size and beginning.

    It does not depend on where the capture lies nor on this program's version, so that auditing it again with a newer one
    replaces the run. The beginning tells apart rotated files, which often have the same names and sizes.
    """
    digest = blake2b(digest_size=16)
    read = (file for capture in audit.captures for file in capture.files if file.source and not file.duplicate_of)
    for file in sorted(read, key=lambda file: (file.cluster, file.path)):
        with open_stored(file.stored) as recorded:  # as stored: a damaged archive has a beginning, too
            beginning = blake2b(recorded.read(BEGINNING)).hexdigest()
        digest.update(repr((file.cluster, file.path, file.size, beginning)).encode())
    return digest.hexdigest()


def _filed(rows: DataFrame, run_id: str) -> DataFrame:
    if "time_ms" in rows.columns:
        rows = rows.withColumn("day", F.date_from_unix_date(F.floor(F.col("time_ms") / 86_400_000).cast("int")))
    return rows.withColumn("run_id", F.lit(run_id))


def _findings(spark: SparkSession, report: Report, run_id: str) -> DataFrame:
    schema = spark_schema("findings")
    told: list[tuple[Finding, str | None]] = [(finding, None) for finding in report.findings]
    told += [(one, root.finding_id) for root in report.findings for one in root.consequences]
    rows = []
    for finding, caused_by in told:
        lines = [(e.role, e.node, e.file, e.line, e.byte_offset, e.time, e.text) for e in finding.evidence]
        own = {"run_id": run_id, "caused_by": caused_by, "because": list(finding.because), "evidence": lines}
        rows.append(tuple(own[name] if name in own else getattr(finding, name) for name in schema.names))
    return spark.createDataFrame(rows, schema)


def _run(spark: SparkSession, report: Report, run_id: str) -> DataFrame:
    read = report.inventory
    row = (
        run_id, VERSION, datetime.now(UTC).isoformat(timespec="seconds"), list(read.clusters), read.bytes, read.lines, read.events,
        read.ignored, read.quarantined, report.count("violation"), report.count("exposed"),
    )  # fmt: skip
    return spark.createDataFrame([row], spark_schema("runs"))


def _replace(directory: str, table: str, run_id: str, rows: DataFrame, filed: Iterable[ColumnDoc] = ()) -> None:
    """Replace the run's rows of one table in one transaction."""
    described = (*filed, *columns(table))
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
