"""A night: what is new is read, and all that the warehouse holds of the clusters is judged.

Reading does not depend on how the files were cut into nights, so that two nights give what one audit of both would. The
rows of a night become visible with one commit on horizon for each cluster; a run that is killed leaves rows that nobody
reads, or a horizon that was not judged yet, and the next run goes on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from secrets import token_hex
from typing import BinaryIO, Final

from pyspark.sql import SparkSession

from epochaudit.auditing import judged, plain_bytes_of
from epochaudit.metrics import of_run
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.rules.catalogue import selected
from epochaudit.session import tuned_for
from epochaudit.sources.capture import Capture, RecordedFile
from epochaudit.sources.discovery import Inspected, capture_of
from epochaudit.sources.formats import MANIFEST, is_read
from epochaudit.sources.manifest import read_manifest
from epochaudit.sources.ranges import ByteRange
from epochaudit.warehouse.horizon import Part, Remembered, Tracked, remembered_after, to_read, tracked
from epochaudit.warehouse.ledger import Judged, Run, earlier_report, last_report, record, with_kept_texts
from epochaudit.warehouse.rows import Placed, Written, generations, held, remember, remembered, write
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
class Gone(RecordedFile):
    """A file that is not in tonight's capture. It may still lie where it was, or another one does."""

    beginning: bytes = b""

    def open(self) -> BinaryIO:
        """The decompressed bytes. Raises FileNotFoundError if they are not those that were read."""
        with super().open() as stream:
            if stream.read(min(len(self.beginning), COMPARED)) != self.beginning[:COMPARED]:
                raise FileNotFoundError(f"{self.uri} holds another file now")
        return super().open()


@dataclass(frozen=True)
class _Cluster:
    """A cluster before tonight's reading: all its files as one capture, what is known of each, what is to be read."""

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
    """Read into the warehouse what is new in these directories, and report on all that it holds of their clusters.

    Where nothing is new and the last run judged the same, its report is given again and nothing is written. Raises
    WarehouseError, among other things if another run wrote to the warehouse at the same time.
    """
    rules = selected(select, ignore)
    run, metrics = Run.now(token_hex(4)), of_run()
    with metrics.stage("looking"), explained(location):
        directory = opened(spark, location)
        clusters = [_cluster(directory, one) for one in _one_per_cluster(seen)]
    with tuned_for(spark, plain_bytes_of(cluster.capture for cluster in clusters)):
        with metrics.stage("reading"), explained(location):
            written, parts, now = _read(directory, run, clusters)
        judgement = Judged.of(now, rules, show)
        read = _totals(written, clusters)
        with explained(location):
            known = earlier_report(directory, judgement)
        if known is not None:
            metrics.read = read
            return known
        with metrics.stage("judging"):
            audit = judged(held(directory, [_kept(cluster, parts) for cluster in clusters], parts), rules, show)
        with metrics.stage("gathering"), explained(location):
            report = with_kept_texts(directory, report_of(audit))
        metrics.read = read  # tonight, not what is judged
        with metrics.stage("writing"), explained(location):
            if generations(directory, now) != now:
                raise overtaken(location)
            record(directory, run, judgement, audit, report, metrics, show)
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
    names = [one.cluster for one in seen]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise WarehouseError(
            f"two of the captures are of cluster {twice}: audit them one after another, or name their clusters in capture.toml"
        )
    return seen


def _cluster(directory: Directory, seen: Inspected) -> _Cluster:
    generation, placed = remembered(directory, seen.cluster)
    before = [file.remembered for file in placed]
    files = {one.file.stored.path: one for one in tracked(seen, before)}
    earlier = [one.file for one in files.values() if one.file.kind == MANIFEST and not one.present]
    if earlier:  # what it states holds until another one is delivered
        seen = replace(seen, manifest=read_manifest(earlier[0].beginning))
    capture = capture_of(replace(seen, files=tuple(one.file for one in files.values())))
    ranges = [part for file in capture.files for part in to_read(files[file.path], file)]
    return _Cluster(capture, generation, before, files, ranges)


def _kept(cluster: _Cluster, parts: Mapping[tuple[str, str], Sequence[Part]]) -> Capture:
    """What there is to judge, without the files that were let go."""
    files = cluster.capture.files
    left = [file for file in files if not is_read(file) or parts[file.cluster, file.path]]
    there = (file if cluster.files[file.path].present else _gone(file, cluster.files[file.path]) for file in left)
    return replace(cluster.capture, files=tuple(there))


def _gone(file: RecordedFile, found: Tracked) -> Gone:
    return Gone(**{f.name: getattr(file, f.name) for f in fields(RecordedFile)}, beginning=found.file.beginning)


def _read(
    directory: Directory, run: Run, clusters: Sequence[_Cluster]
) -> tuple[Written, dict[tuple[str, str], tuple[Part, ...]], dict[str, int]]:
    """Read and write what is new, then let horizon tell it.

    Beside what was written, the parts that count, by file, and the generation of each cluster's horizon that says so.
    """
    ranges = [part for cluster in clusters for part in cluster.ranges]
    written = write(directory, ranges)
    read: dict[tuple[str, str], dict[int, Part]] = {}
    for of_file, part in zip(ranges, written.parts, strict=True):
        read.setdefault((of_file.file.cluster, of_file.file.path), {})[part.split] = part
    parts: dict[tuple[str, str], tuple[Part, ...]] = {}
    told = {}
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
        told[name] = cluster.generation + changed
        parts |= {(name, r.path): r.parts for r in now}
    return written, parts, told


def overtaken(location: str) -> WarehouseError:
    return WarehouseError(
        f"another run wrote to the warehouse {location} at the same time, and what it wrote holds; "
        "run this again when it has finished"
    )


@contextmanager
def explained(location: str) -> Iterator[None]:
    """What goes wrong in Spark while the warehouse is used, in one sentence."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.startswith("epochaudit"):
            raise
        if any(word in type(error).__name__ + str(error) for word in CONFLICTS):
            raise overtaken(location) from error
        raise failed(f"can't use the warehouse {location}", error) from error
