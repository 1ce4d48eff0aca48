"""A nightly run: reads what is new in the captures, evaluates the rules over what is not settled, and adds what is (settling.py).

The result does not depend on how the files were cut into nights: two nights give the findings of one audit of both. One
commit on the table horizon makes the night's rows of a cluster visible. A run that is killed leaves rows that no later run
reads, or a horizon that has not been evaluated yet. The next run continues from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from secrets import token_hex
from typing import Final

from pyspark.sql import Row, SparkSession

from epochaudit.events.views import RangeId
from epochaudit.pipeline import (
    REPORTED,
    Reading,
    evaluate_rules,
    with_runs_between_edges,
    with_settled_tallies,
)
from epochaudit.replay.state.line_order import needs_each_row
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.rules.catalogue import selected
from epochaudit.sources.discovery.discovery import Inspected, capture_of
from epochaudit.sources.discovery.manifest import read_manifest
from epochaudit.sources.files.capture import Capture
from epochaudit.sources.formats import MANIFEST, is_read
from epochaudit.sources.scan.datasource import Scan, scan, tables
from epochaudit.sources.scan.ranges import ByteRange, blocks
from epochaudit.spark.run_metrics import of_run
from epochaudit.spark.session import is_tuned_for_small_plans, tuned_for
from epochaudit.warehouse.horizon import Part, Remembered, Tracked, remembered_after, to_read, tracked
from epochaudit.warehouse.ledger import (
    Evaluation,
    Run,
    complete,
    earlier_report,
    last_report,
    record,
    selection_of,
    with_known,
    with_stored_texts,
)
from epochaudit.warehouse.rows import (
    Placed,
    Written,
    generations,
    has_runs,
    reading_of,
    remember,
    remembered,
    rows_read,
    write,
)
from epochaudit.warehouse.settling import (
    SETTLE_AFTER_MS,
    FileKey,
    including,
    late_files,
    settled_by,
    span_of,
    stored,
)
from epochaudit.warehouse.tables import Directory, WarehouseError, existing, failed, opened

CONFLICTS: Final = (
    "Concurrent",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "ALREADY_EXISTS",
)


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

    @property
    def name(self) -> str:
        """Its name, the first part of the key of its parts."""
        return self.capture.cluster

    def parts(self) -> dict[FileKey, tuple[Part, ...]]:
        """The parts of its files that remain as they are if only `ranges` are read."""
        new = {part.id for part in self.ranges}
        return {
            (self.name, file.path): tuple(
                part for part in before.parts if (self.name, file.path, part.split) not in new
            )
            for file in self.capture.files
            if (before := self.files[file.path].before) is not None
        }

    def readable(self) -> Iterator[ByteRange]:
        """The ranges that can be read again: their files are in tonight's capture, cut as they were."""
        for file in self.capture.files:
            found = self.files[file.path]
            before = None if found.before is None else found.before.file
            if is_read(file) and found.present and (before is None or before.compression == file.compression):
                yield from blocks(file)


@contextmanager
def audited(
    spark: SparkSession,
    location: str,
    seen: Sequence[Inspected],
    *,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    show: Collection[str] = (),
    settle_after_ms: int | None = SETTLE_AFTER_MS,
    rejudge_ms: int | None = None,
) -> Iterator[Report]:
    """Read new bytes of these directories into the warehouse, and report on all that it holds of their clusters.

    The run is completed when the context ends without an exception: deliver the report inside it. The findings of a run that was not
    completed are new in the next one, so that nobody misses an alarm because a disk was full or a process killed.

    `known` has the findings that earlier completed runs reported. If nothing is new and the last run evaluated the same rules, the
    report is that run's, all of it known, and nothing is written.
    settle_after_ms: what is older than the newest lines by more than this is judged for the last time, and later runs read none of
    its requests; None: nothing is. rejudge_ms: judges again what was settled after that time.
    Raises WarehouseError, for example if another run wrote to the warehouse at the same time.
    """
    rules, selection = selected(select, ignore), selection_of(select, ignore, show)
    run, metrics = Run.now(token_hex(4)), of_run()
    with metrics.stage("looking"), explained(location):
        directory = opened(spark, location)
        clusters = [_cluster(directory, inspected) for inspected in _one_per_cluster(seen)]
        names = [cluster.name for cluster in clusters]
        before = settled_by(directory, names, selection, rejudge_ms)
    with metrics.stage("reading"), explained(location):
        night = _Night(directory, run, clusters, before.requests_from_ms)
        read = night.read_new(fold=not {*show} - {*REPORTED})
        evaluation = Evaluation.of(night.generations, rules, show, selection)
        earlier = earlier_report(directory, evaluation) if night.is_unchanged() and rejudge_ms is None else None
    if earlier is not None:
        metrics.read = read
        yield earlier
        return
    with metrics.stage("reading"), explained(location):
        span = span_of(night.ranges(), night.read, before, settle_after_ms)
        late = late_files(directory, before, night.new_parts(), night.earlier_parts())
    while True:
        with metrics.stage("judging"), tuned_for(spark, night.row_count()):
            committed = night.reading()
            if is_tuned_for_small_plans(spark):
                committed.events.persist()  # planning the tables anew for each frame would take longer than reading them
            audit = evaluate_rules(committed, rules, show, span)
        with metrics.stage("reading"), explained(location):
            if not night.read_in_full(audit.listed_runs):
                break
        audit.release()
    with tuned_for(spark, night.row_count()):
        with metrics.stage("gathering"), explained(location):
            report = with_stored_texts(directory, replace(report_of(audit), roots={}))
            included = including(directory, report, audit, before, span, late, {*REPORTED, *show})
        metrics.read = read  # of this night only, unlike the rows that the rules evaluated
        with metrics.stage("writing"), explained(location):
            if generations(directory, night.generations) != night.generations:
                raise overtaken(location)
            evaluation = Evaluation.of(night.generations, rules, show, selection)
            settles = span.settled_until_ms is not None and not audit.failures
            settled = stored(included.settled) if settles else None
            results = with_settled_tallies(audit, included.tallies)
            record(directory, run, results, included.report, show)
            report = with_known(directory, included.report, recorded_by=run)
    audit.release()
    yield report
    with metrics.stage("writing"), explained(location):
        complete(directory, run, evaluation, included.report, metrics, span, settled)


def reported(spark: SparkSession, location: str, cluster: str | None = None, new: bool | datetime = False) -> Report:
    """The report of the warehouse's last run of each cluster, or of one cluster, without reading logs.

    new: findings that a run before that one reported are `known`; with a time (UTC), those reported before that time.
    Raises WarehouseError, for example if the last run over one cluster covered another one that a later run covers.
    """
    with explained(location):
        return last_report(existing(spark, location), cluster, new)


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
    absent = frozenset(path for path, found in files.items() if not found.present)
    capture = capture_of(replace(seen, files=tuple(found.file for found in files.values()), absent=absent))
    ranges = [part for file in capture.files for part in to_read(files[file.path], file)]
    return _Cluster(capture, generation, before, files, ranges)


class _Night:
    """A run's reading: scans ranges, and commits their rows.

    parts: the committed parts of each file; before `read_new`, of those that remain. generations: of each cluster's horizon.
    read: the parts that `read_new` committed. requests_from_ms: earlier rows of request logs are left out; None: none are.
    """

    def __init__(
        self, directory: Directory, run: Run, clusters: Sequence[_Cluster], requests_from_ms: int | None
    ) -> None:
        self._directory, self._run, self._clusters = directory, run, clusters
        self._requests_from_ms = requests_from_ms
        self.read: Mapping[RangeId, Part] = {}
        self.generations = {cluster.name: cluster.generation for cluster in clusters}
        self.parts = {key: parts for cluster in clusters for key, parts in cluster.parts().items()}
        self._tracked = {(cluster.name, path): found for cluster in clusters for path, found in cluster.files.items()}
        self._tracked_before = dict(self._tracked)
        self._committed = {cluster.name: {r.path: r for r in cluster.before} for cluster in clusters}
        self._readable = {part.id: part for cluster in clusters for part in cluster.readable()}
        self._reading: Reading | None = None

    def reading(self) -> Reading:
        """The committed rows, of captures without the files whose rows maintenance has removed."""
        if self._reading is None:
            captures = [self._with_rows(cluster) for cluster in self._clusters]
            self._reading = reading_of(self._directory, captures, self.parts, self._requests_from_ms)
        return self._reading

    def earlier_parts(self) -> dict[FileKey, list[int]]:
        """Cluster and path -> the parts that the file had before tonight, whether or not they were read again."""
        return {
            (name, path): [part.number for part in found.before.parts]
            for (name, path), found in self._tracked_before.items()
            if found.before is not None
        }

    def new_parts(self) -> dict[FileKey, list[int]]:
        """Cluster and path -> the parts that `read_new` committed."""
        new = defaultdict[FileKey, list[int]](list)
        for (name, path, _), part in self.read.items():
            new[name, path].append(part.number)
        return new

    def is_unchanged(self) -> bool:
        """Whether horizon is as it was before tonight."""
        return all(self.generations[cluster.name] == cluster.generation for cluster in self._clusters)

    def ranges(self) -> list[Row]:
        """The rows of the table splits of `reading`."""
        return self.reading().splits.collect()

    def row_count(self) -> int:
        """The number of committed events that are read, or somewhat more."""
        return rows_read(self.ranges(), self._requests_from_ms)

    def read_new(self, *, fold: bool) -> dict[str, int]:
        """Commit the new ranges, and earlier ones with runs across edges that the new rows have. Returns `Metrics.read`.

        fold: runs of like rows may be folded (schemas/events.toml, run_rows).
        """
        ranges = [part for cluster in self._clusters for part in cluster.ranges]
        files = len({(part.file.cluster, part.file.path) for part in ranges})
        written = self._commit(self._scanned(ranges, fold) if ranges else Scan(()))
        self.read = written.parts
        counts = {"bytes": written.bytes, "lines": written.lines, "rows": written.rows}
        return {"files": files, **counts, "quarantined": written.quarantined}

    def _scanned(self, ranges: Sequence[ByteRange], fold: bool) -> Scan:
        spark, earlier, rows = self._directory.spark, None, 0
        if any(self.parts.values()):
            earlier, rows = self.reading(), self.row_count()
            fold = fold and not needs_each_row(earlier.events, earlier.splits)
        scanned = scan(spark, ranges, fold)
        if scanned.directory is None or not (scanned.folded or (earlier is not None and has_runs(earlier.events))):
            return scanned
        with tuned_for(spark, rows + (scanned.row_count or 0)):
            read = tables(spark, scanned)
            events, splits = read.events, read.splits
            if earlier is not None:
                events, splits = earlier.events.unionByName(events), earlier.splits.unionByName(splits)
            new = {part.id for part in ranges}
            others = {id: part for id, part in self._readable.items() if id not in new}
            return with_runs_between_edges(spark, scanned, events, splits, others)

    def read_in_full(self, ranges: Iterable[RangeId]) -> bool:
        """Commit these ranges without folded runs, as far as their files can be read. Returns whether there are any."""
        found = [self._readable[id] for id in ranges if id in self._readable]
        if found:
            self._commit(scan(self._directory.spark, found))
        return bool(found)

    def _commit(self, scanned: Scan) -> Written:
        """Write the rows of ranges, then make them visible: one commit on horizon per cluster whose files changed."""
        written = write(self._directory, scanned)
        read: dict[FileKey, dict[int, Part]] = defaultdict(dict)
        for (name, path, split), part in written.parts.items():
            read[name, path][split] = part
        for cluster in self._clusters:
            name, found = cluster.name, [file for file in cluster.capture.files if is_read(file)]
            now = {
                file.path: remembered_after(self._tracked[name, file.path], file, read[name, file.path])
                for file in found
            }
            if now != self._committed[name]:
                placed = [Placed(now[file.path], file.node, file.file_order) for file in found]
                if not remember(self._directory, self._run.run_id, name, self.generations[name], placed):
                    raise overtaken(self._directory.location)
                self.generations[name] += 1
                self._committed[name] = now
            for path, file in now.items():
                self._tracked[name, path] = replace(self._tracked[name, path], before=file, grown=False)
                self.parts[name, path] = file.parts
        self._reading = None
        return written

    def _with_rows(self, cluster: _Cluster) -> Capture:
        files = cluster.capture.files
        retained = [file for file in files if not is_read(file) or self.parts.get((file.cluster, file.path))]
        return replace(cluster.capture, files=tuple(retained))


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
