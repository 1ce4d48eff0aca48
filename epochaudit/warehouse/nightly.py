"""A nightly run: reads what is new in the captures, then evaluates the rules over all rows of their clusters in the warehouse.

The result does not depend on how the files were cut into nights: two nights give the findings of one audit of both. One
commit on the table horizon makes the night's rows of a cluster visible. A run that is killed leaves rows that no later run
reads, or a horizon that has not been evaluated yet. The next run continues from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from secrets import token_hex
from typing import BinaryIO, Final

from pyspark.sql import SparkSession

from epochaudit.pipeline import evaluate_rules, plain_bytes_of
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.rules.catalogue import selected
from epochaudit.sources.discovery.discovery import Inspected, capture_of
from epochaudit.sources.discovery.manifest import read_manifest
from epochaudit.sources.files.capture import Capture, CaptureFile
from epochaudit.sources.formats import MANIFEST, is_read
from epochaudit.sources.scan.ranges import ByteRange
from epochaudit.spark.run_metrics import of_run
from epochaudit.spark.session import tuned_for
from epochaudit.warehouse.horizon import Part, Remembered, Tracked, remembered_after, to_read, tracked
from epochaudit.warehouse.ledger import Evaluation, Run, earlier_report, last_report, record, with_stored_texts
from epochaudit.warehouse.rows import Placed, Written, generations, reading_of, remember, remembered, write
from epochaudit.warehouse.tables import Directory, WarehouseError, existing, failed, opened

COMPARED: Final = 1 << 12
CONFLICTS: Final = (
    "Concurrent",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ALREADY_EXISTS",
)


@dataclass(frozen=True)
class MissingFile(CaptureFile):
    """A file that is not in tonight's capture. It may still exist at its URI, or another file does."""

    beginning: bytes = b""

    def open(self) -> BinaryIO:
        """The decompressed bytes. Raises FileNotFoundError if the file begins otherwise than the one that was read."""
        with super().open() as stream:
            if stream.read(min(len(self.beginning), COMPARED)) != self.beginning[:COMPARED]:
                raise FileNotFoundError(f"{self.uri} holds another file now")
        return super().open()


@dataclass(frozen=True)
class _Cluster:
    """A cluster before tonight's reading.

    capture: all its files, of this and earlier nights. generation, before: its horizon. files: by path, whether each file
    is in tonight's capture. ranges: the bytes to read.
    """

    capture: Capture
    generation: int
    before: Sequence[Remembered]
    files: Mapping[str, Tracked]
    ranges: Sequence[ByteRange]


def audited(
    spark: SparkSession,
    location: str,
    seen: Sequence[Inspected],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    show: Collection[str] = (),
) -> Report:
    """Read new bytes of these directories into the warehouse, and report on all rows of their clusters in it.

    If nothing is new and the last run evaluated the same rules, this returns that run's report and writes nothing. Raises
    WarehouseError, for example if another run wrote to the warehouse at the same time.
    """
    rules = selected(select, ignore)
    run, metrics = Run.now(token_hex(4)), of_run()
    with metrics.stage("looking"), explained(location):
        directory = opened(spark, location)
        clusters = [_cluster(directory, inspected) for inspected in _one_per_cluster(seen)]
    with tuned_for(spark, plain_bytes_of(cluster.capture for cluster in clusters)):
        with metrics.stage("reading"), explained(location):
            written, parts, now = _read(directory, run, clusters)
        evaluation = Evaluation.of(now, rules, show)
        read = _totals(written, clusters)
        with explained(location):
            earlier = earlier_report(directory, evaluation)
        if earlier is not None:
            metrics.read = read
            return earlier
        with metrics.stage("judging"):
            captures = [_with_rows(cluster, parts) for cluster in clusters]
            audit = evaluate_rules(reading_of(directory, captures, parts), rules, show)
        with metrics.stage("gathering"), explained(location):
            report = with_stored_texts(directory, report_of(audit))
        metrics.read = read  # of this night only, unlike the rows that the rules evaluated
        with metrics.stage("writing"), explained(location):
            if generations(directory, now) != now:
                raise overtaken(location)
            record(directory, run, evaluation, audit, report, metrics, show)
        audit.release()
        return report


def _totals(written: Written, clusters: Sequence[_Cluster]) -> dict[str, int]:
    files = len({(part.file.cluster, part.file.path) for cluster in clusters for part in cluster.ranges})
    counts = {"bytes": written.bytes, "lines": written.lines, "rows": written.rows}
    return {"files": files, **counts, "quarantined": written.quarantined}


def reported(spark: SparkSession, location: str) -> Report:
    """The report of the warehouse's last run, without reading logs. Raises WarehouseError."""
    with explained(location):
        return last_report(existing(spark, location))


def _one_per_cluster(seen: Sequence[Inspected]) -> Sequence[Inspected]:
    names = [inspected.cluster for inspected in seen]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise WarehouseError(
            f"two of the captures are of cluster {twice}: audit them one after another, or name their clusters in capture.toml"
        )
    return seen


def _cluster(directory: Directory, seen: Inspected) -> _Cluster:
    generation, placed = remembered(directory, seen.cluster)
    before = [file.remembered for file in placed]
    files = {found.file.stored.path: found for found in tracked(seen, before)}
    earlier = [found.file for found in files.values() if found.file.kind == MANIFEST and not found.present]
    if earlier:  # a manifest applies until another one is delivered
        seen = replace(seen, manifest=read_manifest(earlier[0].beginning))
    capture = capture_of(replace(seen, files=tuple(found.file for found in files.values())))
    ranges = [part for file in capture.files for part in to_read(files[file.path], file)]
    return _Cluster(capture, generation, before, files, ranges)


def _with_rows(cluster: _Cluster, parts: Mapping[tuple[str, str], Sequence[Part]]) -> Capture:
    """The cluster's capture without the files whose rows maintenance has removed."""
    files = cluster.capture.files
    retained = [file for file in files if not is_read(file) or parts[file.cluster, file.path]]
    openable = (
        file if cluster.files[file.path].present else _missing(file, cluster.files[file.path]) for file in retained
    )
    return replace(cluster.capture, files=tuple(openable))


def _missing(file: CaptureFile, found: Tracked) -> MissingFile:
    return MissingFile(**{f.name: getattr(file, f.name) for f in fields(CaptureFile)}, beginning=found.file.beginning)


def _read(
    directory: Directory, run: Run, clusters: Sequence[_Cluster]
) -> tuple[Written, dict[tuple[str, str], tuple[Part, ...]], dict[str, int]]:
    """Read the clusters' ranges, write their rows, then commit them to horizon.

    Returns the totals, the committed parts by (cluster, path), and the generation of each cluster's horizon.
    """
    ranges = [part for cluster in clusters for part in cluster.ranges]
    written = write(directory, ranges)
    read: dict[tuple[str, str], dict[int, Part]] = {}
    for of_file, part in zip(ranges, written.parts, strict=True):
        read.setdefault((of_file.file.cluster, of_file.file.path), {})[part.split] = part
    parts: dict[tuple[str, str], tuple[Part, ...]] = {}
    committed = {}
    for cluster in clusters:
        name, found = cluster.capture.cluster, cluster.files
        files = [
            Placed(
                remembered_after(found[file.path], file, read.get((name, file.path), {})), file.node, file.file_order
            )
            for file in cluster.capture.files
            if is_read(file)
        ]
        now = [file.remembered for file in files]
        changed = {r.path: r for r in now} != {r.path: r for r in cluster.before}
        if changed and not remember(directory, run.run_id, name, cluster.generation, files):
            raise overtaken(directory.location)
        committed[name] = cluster.generation + changed
        parts |= {(name, r.path): r.parts for r in now}
    return written, parts, committed


def overtaken(location: str) -> WarehouseError:
    """The error of a run that lost a race."""
    return WarehouseError(
        f"another run wrote to the warehouse {location} at the same time, and what it wrote holds; "
        "run this again when it has finished"
    )


@contextmanager
def explained(location: str) -> Iterator[None]:
    """Turn errors of Spark and Delta Lake into a WarehouseError of one sentence."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith("epochaudit"):
            raise
        if any(conflict in type(error).__name__ + str(error) for conflict in CONFLICTS):
            raise overtaken(location) from error
        raise failed(f"can't use the warehouse {location}", error) from error
