"""python -m prove.holes: take parts out of healthy clusters' logs at random, and audit what is left: nothing may be found.

Of recorded captures, copies lack rotated files, which shows in their numbers, or single lines, which shows nowhere (docs/limits.md), or
the older lines of all but request logs, or the ends of request logs, or all that some of the nodes have. In others nothing is missing:
rotated files are joined by their names, a log is appended to itself, or two files share lines. Captures are healthy if their truth has no
finding. Of simulated histories without a planted breach (`--histories`), whole logs are missing, too, or the beginnings, ends or middles
of logs. There a breach may not be found; what an unclean election lost is exposed, with and without holes.

`--breaches` takes captures, or histories, in which something is found. A copy may have fewer findings than the whole, but no other
subject may be found by a rule, and no subject that is found in the whole may pass: what is missing makes it unverifiable.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click
from pyspark.sql import functions as F

from epochaudit.findings.finding import BREACHES
from epochaudit.pipeline import Audit, audit
from epochaudit.rules.messages import SUBJECT
from epochaudit.rules.rule import PASS
from epochaudit.sources.clock.log_time import LogClock
from epochaudit.sources.discovery.discovery import capture_of, inspected
from epochaudit.sources.files.capture import CaptureError
from epochaudit.spark.session import SMALL_PLANS, session
from prove.histories import history_of
from prove.oracle.catalogue import RULES_OF
from prove.rendering.files import write

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

CAPTURES: Final = Path(__file__).parents[1] / "tests" / "captures"
DUMP: Final = ".dump.txt"
SEGMENT: Final = b"Dumping metadata/__cluster_metadata-0/%020d.log\nLog starting offset: %d\n"
OFFSETS: Final = re.compile(rb"baseOffset: (\d+) lastOffset: (\d+)")
PIECES: Final = 8
NODES: Final = ("broker-", "controller-", "node-")
"""How the folders of nodes begin."""
# a copy may lack what states the topic's id
_SUBJECT: Final = tuple(name for name in SUBJECT if name not in ("cluster", "topic_id"))
SHARES: Final = {
    "files": (0.1, 0.3, 0.5), "lines": (0.002, 0.02, 0.1), "older lines": (0.3, 0.7, 1.0), "ends of request logs": (0.3, 0.7, 1.0),
    "nodes": (0.2, 0.5),
    "joined": (0.3, 1.0), "again": (0.3, 1.0), "overlap": (0.3, 1.0),
}  # fmt: skip
"""What is done to the logs of captures, and to which parts of all. The last three are files that are put together in other ways."""
SHARES_OF_HISTORIES: Final = {
    "files": (0.1, 0.3, 0.5), "logs": (0.1, 0.3, 0.5), "beginnings": (0.3, 0.7), "older lines": (0.3, 0.7, 1.0), "ends": (0.3, 0.7),
    "middles": (0.3, 0.7), "ends of request logs": (0.3, 0.7, 1.0), "nodes": (0.2, 0.5),
    "joined": (0.3, 1.0), "again": (0.3, 1.0), "overlap": (0.3, 1.0),
}  # fmt: skip
"""The same of histories. A log's beginning or end is at most that part of it."""
MOST_STEPS: Final = 20
LONGER: Final = 60
"""Steps of histories whose files are joined: fewer give files of a few lines."""
SHORTEST_FILE: Final = 25
"""Lines of a file that is joined with others. A few lines that are printed late may also have been delayed."""
SHORTEST_SPAN_MS: Final = 3_000
"""Time that such a file covers: if a log goes back by less than two seconds, its lines count as written late (docs/limits.md)."""
MOST_PRINTED: Final = 40


def without_pieces(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log as files that were rotated by size, by their suffix; each is missing with that probability."""
    size = max(1, -(-len(lines) // PIECES))
    pieces = [lines[start : start + size] for start in range(0, len(lines), size)]
    return {suffix: piece for suffix, piece in numbered(pieces).items() if chance.random() >= share}


def numbered(pieces: list[list[bytes]]) -> dict[str, list[bytes]]:
    """Parts of a log, the oldest first, by the suffix that rotation by size gives to their files."""
    return {f".{age}" if age else "": piece for age, piece in enumerate(reversed(pieces))}


def without_lines(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log without some of its lines, as an appender leaves it that drops what it can't write in time."""
    return {"": [line for line in lines if chance.random() >= share]}


def without_log(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log, or none at all with that probability."""
    return {} if chance.random() < share else {"": lines}


def without_beginning(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log without its first lines, as old files are deleted."""
    return {"": lines[int(len(lines) * share * chance.random()) :]}


def without_older_lines(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """As `without_beginning`, but request logs stay whole: what they show goes back further than what brokers log of their states."""
    return {"": lines} if _of_requests(lines) else without_beginning(lines, share, chance)


def without_last_requests(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """As `without_end`, but only request logs: their logger was switched off, or they were copied before the others."""
    return without_end(lines, share, chance) if _of_requests(lines) else {"": lines}


def _of_requests(lines: list[bytes]) -> bool:
    return any(b"Completed request:" in line for line in lines)


def without_end(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log without its last lines, as it was copied before the others."""
    return {"": lines[: len(lines) - int(len(lines) * share * chance.random())]}


def without_middle(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log without lines that follow each other, as if a segment of the metadata log was not collected."""
    first = int(len(lines) * chance.random())
    return {"": lines[:first] + lines[first + int(len(lines) * share * chance.random()) :]}


def joined_by_name(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """With that probability, rotated files in one, in the order of their names: `cat server.log*`, the newest first."""
    most = min(PIECES, len(lines) // SHORTEST_FILE)
    if chance.random() >= share or most < 2:
        return {"": lines}
    printed = LogClock().printed
    times = [printed(line) for line in lines]
    dated = any(time is not None for time in times)
    for count in range(chance.randint(2, most), 1, -1):
        size = len(lines) // count
        ends = [*range(size, len(lines) - size + 1, size), len(lines)]
        spans = [slice(start, end) for start, end in pairwise([0, *ends])]
        if not dated or min(covered_ms(times[span]) for span in spans) >= SHORTEST_SPAN_MS:
            pieces = [lines[span] for span in spans]
            by_date = chance.random() < 0.5  # else by number, the oldest last
            older = pieces[:-1] if by_date else reversed(pieces[:-1])
            return {"": [line for piece in (pieces[-1], *older) for line in piece]}
    return {"": lines}


def covered_ms(times: list[int | None]) -> int:
    """The time between the first and the last dated line; 0 if there is no such line."""
    dated = [time for time in times if time is not None]
    return dated[-1] - dated[0] if dated else 0


def appended_again(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """With that probability, the log up to some line and then all of it: `kubectl logs >> server.log`, done twice."""
    if chance.random() >= share or len(lines) < SHORTEST_FILE:
        return {"": lines}
    return {"": lines[: chance.randint(SHORTEST_FILE, len(lines))] + lines}


def overlapping_files(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """With that probability, two files that share lines: `kubectl logs --since=25h`, done every day."""
    if chance.random() >= share:
        return {"": lines}
    first, end = sorted(int(len(lines) * chance.random()) for _ in range(2))
    return {"": lines[first:], ".1": lines[:end]}


Harm = Callable[[list[bytes], float, random.Random], dict[str, list[bytes]]]
"""A log's lines, the share that is to be missing, and chance -> the files that are left, by the suffix of their names."""
HARMS: Final[dict[str, Harm]] = {
    "files": without_pieces, "lines": without_lines, "logs": without_log, "beginnings": without_beginning,
    "older lines": without_older_lines, "ends": without_end, "middles": without_middle, "joined": joined_by_name, "again": appended_again,
    "overlap": overlapping_files, "ends of request logs": without_last_requests,
}  # fmt: skip


def copy_of(source: Path, target: Path, what: str, share: float, seed: int) -> None:
    """A copy of a capture with one of the harms of SHARES or SHARES_OF_HISTORIES."""
    if what == "nodes":
        without_nodes(source, target, share, random.Random(seed))
    else:
        with_holes(source, target, HARMS[what], share, seed)


def without_nodes(source: Path, target: Path, share: float, chance: random.Random) -> None:
    """A copy of a capture that lacks all files of this share of its nodes, of one at least, but not of all."""
    nodes = sorted(folder.name for folder in source.iterdir() if folder.name.startswith(NODES))
    count = min(max(1, round(share * len(nodes))), len(nodes) - 1)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*chance.sample(nodes, count)))


def with_holes(source: Path, target: Path, harmed: Harm, share: float, seed: int) -> int:
    """A copy of a capture whose nodes' logs are harmed; returns how many of their bytes are missing."""
    chance, missing = random.Random(seed), 0
    for path in sorted(file for file in source.rglob("*") if file.is_file()):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.name.endswith(DUMP):
            left_of_dump = dump_with_holes(path.read_bytes(), harmed, share, chance)
            missing += path.stat().st_size - len(left_of_dump)
            if left_of_dump:
                copy.write_bytes(left_of_dump)
            continue
        is_segment = path.stem.isdigit()  # of a partition's log: it has no lines
        of_node = path.relative_to(source).parts[0].startswith(NODES)
        if path.suffix != ".log" or is_segment or not of_node:
            shutil.copy(path, copy)
            continue
        left = harmed(path.read_bytes().splitlines(keepends=True), share, chance)
        for suffix, lines in left.items():
            copy.with_name(copy.name + suffix).write_bytes(b"".join(lines))
        missing += path.stat().st_size - sum(len(line) for lines in left.values() for line in lines)
    return missing


def dump_with_holes(dump: bytes, harmed: Harm, share: float, chance: random.Random) -> bytes:
    """A dump of the metadata log whose batches are harmed: dumps of the segments that are left, one after the other."""
    _, *batches = re.split(rb"^(?=baseOffset: )", dump, flags=re.MULTILINE)
    left = {batch for files in harmed(batches, share, chance).values() for batch in files}
    parts, next_offset = list[bytes](), -1
    for batch in batches:
        if batch in left:
            first, last = (int(offset) for offset in OFFSETS.findall(batch)[0])
            if first != next_offset:
                parts.append(SEGMENT % (first, first))
            parts.append(batch)
            next_offset = last + 1
    return b"".join(parts)


@dataclass(frozen=True)
class Found:
    """A finding of a copy. subject: what the rule judged, by the columns of _SUBJECT."""

    copy: str
    rule: str
    subject: tuple[object, ...]
    observed: str
    verdict: str

    def of_capture(self) -> Found:
        """The same finding of the capture that was copied: `3007 zk-healthy-3.9 without 0.1 of files` is a copy of `zk-healthy-3.9`."""
        capture = self.copy.partition(" without ")[0].partition(" ")[2]
        return replace(self, copy=capture, observed="", verdict="")

    def without_epoch(self) -> Found:
        """The same finding where the leader epoch is not known."""
        known = zip(_SUBJECT, self.subject, strict=True)
        return replace(self, subject=tuple(None if name == "leader_epoch" else value for name, value in known))


def bundled_names(*, breaches: bool) -> list[str]:
    """The bundled captures of clusters in which nothing is to be found, or those in which something is."""
    truths = {
        path.name.removesuffix(".expected.json"): json.loads(path.read_text())
        for path in CAPTURES.glob("*.expected.json")
    }
    return sorted(name for name, truth in truths.items() if (truth["must_flag"] != []) == breaches)


def bundled(folder: Path, *, breaches: bool) -> dict[str, Path]:
    """The bundled captures by name (`bundled_names`), unpacked into this folder."""
    for name in bundled_names(breaches=breaches):
        with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    return captures_in(folder)


def captures_in(folder: Path) -> dict[str, Path]:
    """The captures in this folder by name. Those of the lab are in the folder of their run."""
    runs = sorted(path for path in folder.iterdir() if path.is_dir())
    return {run.name: run / "capture" if (run / "capture").is_dir() else run for run in runs}


def copies(
    captures: Mapping[str, Path], seeds: Sequence[int], folder: Path, shares: Mapping[str, Sequence[float]]
) -> Iterator[Path]:
    """One copy with holes per seed, named after what was done to it."""
    for seed in seeds:
        chance = random.Random(seed)
        name, what = chance.choice(sorted(captures)), chance.choice(sorted(shares))
        share = chance.choice(shares[what])
        copy = folder / f"{seed} {name} without {share} of {what}"
        copy_of(captures[name], copy, what, share, seed)
        yield copy


def written_histories(seeds: Sequence[int], folder: Path) -> dict[str, Path]:
    """One simulated history per seed, with planted breaches and losses by unclean elections, by name."""
    found = {}
    for seed in seeds:
        history = history_of(seed, LONGER, faulty=True)
        name = f"{history.release.kind} {history.release.version} {seed}"
        write(history, folder / name)
        found[name] = folder / name
    return found


def histories(
    seeds: Sequence[int], folder: Path, harms: Collection[str] = SHARES_OF_HISTORIES.keys()
) -> dict[Path, Collection[str]]:
    """One simulated history without a planted breach per seed, with one of the harms -> the rules that its simulator keeps to."""
    rules: dict[Path, Collection[str]] = {}
    for seed in seeds:
        chance = random.Random(seed)
        what = chance.choice(sorted(harms))
        history = history_of(seed, LONGER if what in ("joined", "again") else MOST_STEPS, faulty=False)
        share = chance.choice(SHARES_OF_HISTORIES[what])
        copy = folder / f"{seed} {history.release.kind} {history.release.version} without {share} of {what}"
        with TemporaryDirectory() as whole:
            write(history, Path(whole))
            copy_of(Path(whole), copy, what, share, seed)
        rules[copy] = RULES_OF[history.release.kind]
    return rules


def found_in(
    spark: SparkSession,
    paths: Sequence[Path],
    verdicts: Collection[str] = BREACHES,
    passing: Collection[str] | None = (),
) -> tuple[list[Found], int]:
    """The subjects with these verdicts in one audit of all copies, and how many passed.

    passing: those that pass, too, of these rules; of None, of the rules that found something.
    """
    with audit_of(spark, paths, () if passing == () else (PASS,)) as audited:
        found = _subjects(audited, F.col("verdict").isin(*verdicts))
        rules = {one.rule for one in found} if passing is None else passing
        if rules:
            found += _subjects(audited, (F.col("verdict") == PASS) & F.col("rule").isin(*rules))
    return found, sum(tally.counts["pass"] for tally in audited.tallies)


def _subjects(audited: Audit, chosen: Column) -> list[Found]:
    rows = audited.findings.where(chosen).select("cluster", "rule", "observed", "verdict", *_SUBJECT).collect()
    return [
        Found(row["cluster"], row["rule"], tuple(row[name] for name in _SUBJECT), row["observed"], row["verdict"])
        for row in rows
    ]


@contextmanager
def audit_of(spark: SparkSession, paths: Sequence[Path], show: Collection[str] = ()) -> Iterator[Audit]:
    """One audit of these captures, each a cluster named after its directory. Ends the program if a rule fails.

    A copy of which nothing is left that can be audited is passed over.
    """
    captures = []
    for path in paths:
        with suppress(CaptureError):
            captures.append(capture_of(replace(inspected(str(path)), cluster=path.name)))
    audited = audit(spark, *captures, show=show)
    if audited.failures:
        sys.exit(f"rules failed: {audited.failures}")
    yield audited
    audited.release()
    spark.catalog.clearCache()


def linked(captures: Mapping[str, Path], folder: Path) -> list[Path]:
    """Links in this folder to the captures, with their names."""
    links = [folder / name for name in captures]
    for link in links:
        link.symlink_to(captures[link.name].resolve())
    return links


@dataclass(frozen=True)
class Whole:
    """What whole captures have: the subjects that are found there, and those of their rules that pass, both by `Found.of_capture`."""

    breaches: Collection[Found]
    right: Collection[Found]

    @property
    def rules(self) -> Collection[str]:
        """The rules that found something."""
        return sorted({one.rule for one in self.breaches})

    def differs(self, one: Found) -> bool:
        """Whether a copy has a finding that the whole does not have, or passes what was wrong there.

        A rule may judge several requests of one subject, of which some are right. A copy may lack what shows the leader epoch.
        """
        known = one.of_capture()
        if one.verdict == PASS:
            return known in self.breaches and known not in self.right
        return known not in self.breaches and known not in {other.without_epoch() for other in self.breaches}


def whole(spark: SparkSession, captures: Mapping[str, Path]) -> Whole:
    """What the captures have as long as nothing is missing."""
    with TemporaryDirectory() as folder:
        found, _ = found_in(spark, linked(captures, Path(folder)), passing=None)
    plain = [(one.verdict, replace(one, observed="", verdict="")) for one in found]
    return Whole({one for verdict, one in plain if verdict != PASS}, {one for verdict, one in plain if verdict == PASS})


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seeds", default=1000, show_default=True, help="How many copies.")
@click.option("--seed", default=1, show_default=True, help="The first copy's seed; the others count from it.")
@click.option("--batch", default=40, show_default=True, help="Copies per audit.")
@click.option("--histories", "simulated", is_flag=True, help="Simulated histories instead of recorded captures.")
@click.option(
    "--captures",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A directory of captures, or the lab's `runs`, instead of the bundled captures.",
)
@click.option(
    "--breaches",
    is_flag=True,
    help="Captures or histories in which something is found: copies may have fewer findings, but no others.",
)
def main(seeds: int, seed: int, batch: int, simulated: bool, captures: Path | None, breaches: bool) -> None:
    """Audit copies of captures with holes. Exit code 1: something was found that the whole captures do not have."""
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS})
    blamed: Counter[tuple[str, str]] = Counter()
    with TemporaryDirectory() as unpacked:
        recorded = (
            {} if simulated else captures_in(captures) if captures else bundled(Path(unpacked), breaches=breaches)
        )
        known = whole(spark, recorded) if breaches and recorded else Whole((), ())
        for first in range(seed, seed + seeds, batch):
            with TemporaryDirectory() as folder, TemporaryDirectory() as others:
                of_batch = range(first, min(first + batch, seed + seeds))
                if simulated and not breaches:
                    rules = histories(of_batch, Path(folder))
                    found, passed = found_in(spark, [*rules], ("violation",))
                    judged = {copy.name: of_copy for copy, of_copy in rules.items()}
                    found = [one for one in found if one.rule in judged[one.copy]]
                else:
                    if simulated:
                        recorded = written_histories(of_batch, Path(others))
                        known = whole(spark, recorded)
                    harmed = copies(recorded, of_batch, Path(folder), SHARES_OF_HISTORIES if simulated else SHARES)
                    found, passed = found_in(spark, [*harmed], passing=known.rules)
                    found = [one for one in found if known.differs(one)]
            blamed.update((one.rule, one.copy.rpartition(" without ")[2].partition(" of ")[2]) for one in found)
            print(
                f"{of_batch.stop - seed} copies, {passed:,} subjects of the last {len(of_batch)} pass; found: {len(found)}",
                flush=True,
            )
            lines = Counter(f"{one.rule} {one.verdict} in {one.copy}: {one.observed}" for one in found)
            print(*(f"  {count} {line}" for line, count in lines.most_common(MOST_PRINTED)), sep="\n", flush=True)
    print(*(f"{rule}: {count} where {what} are missing" for (rule, what), count in sorted(blamed.items())), sep="\n")
    sys.exit(1 if blamed else 0)


if __name__ == "__main__":
    main()
