"""python -m prove.fuzz: change recorded bytes at random, guided by the code that they reach, and decode them.

A decoder must never raise, must account for each line, and must give the same rows where a file is cut into ranges and where compiled
code scans it. Needs `pip install --group fuzz` (libFuzzer by atheris).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, Final

import click

from epochaudit.sources.lines import log4j
from epochaudit.sources.request_log import text

CAPTURES: Final = Path(__file__).parents[1] / "tests" / "captures"
PATHS: Final = {"data-segment": "t-0/00000000000000000000.log", "partition-metadata": "t-0/partition.metadata"}
"""Where a file of the kind lies, if its decoder reads the path."""
LONGEST: Final = 4096  # bytes of an input
SEEDS: Final = 150  # of each kind, from all bundled captures
SECONDS_FOR_ONE: Final = 20  # an input that takes longer is a failure
MEMORY_MB: Final = 2048
LEARNING_LOGGERS: Final = ("client-log", "request-log-text")
"""Kinds whose decoder learns from the lines before whether lines end with their logger."""
UNCLOSED: Final = (log4j.UNCLOSED, text.UNCLOSED)
SETTING: Final = "('event_type', 'CONFIG_VALUE')"
NOT_COMPARED: Final = frozenset({"split", "line_in_split", "time_ms", "arrival_ms"})
"""Of rows of ranges: their place, and times, which a node's clock has from the lines before."""
_EXECUTED: Final = re.compile(r"^#(\d+)\s+\w+ +cov: (\d+)", re.MULTILINE)


def kinds() -> list[str]:
    """The kinds of files that are decoded; capture.toml is read when the capture is found, and has tests of its own."""
    from epochaudit.sources.formats import EMPTY, FORMATS, MANIFEST

    return [known.kind for known in FORMATS if known.is_read and known.kind not in (EMPTY, MANIFEST)]


def seeds(kind: str) -> list[bytes]:
    """Beginnings of recorded files of a kind, and lines of all of them."""
    from epochaudit.sources.discovery.discovery import discover

    found: list[bytes] = []
    with TemporaryDirectory() as folder:
        for archive in sorted(CAPTURES.rglob("*.tar.xz")):
            with tarfile.open(archive) as recorded:
                recorded.extractall(folder, filter="data")
        for capture in sorted(Path(folder).iterdir()):
            for file in discover(str(capture)).files:
                if file.kind == kind and file.duplicate_of is None:
                    with file.open() as stream:
                        found += parts(stream.read())
    step = max(1, len(found) // SEEDS)
    return found[::step]


def parts(data: bytes) -> list[bytes]:
    """A file's first bytes, and some of its lines: neighbours of each of twelve places."""
    lines = data.splitlines(keepends=True)
    step = max(1, len(lines) // 12)
    pieces = [data[:LONGEST], *(b"".join(lines[start : start + 3]) for start in range(0, len(lines), step))]
    return [piece for piece in pieces if 0 < len(piece) <= LONGEST]


@dataclass(frozen=True)
class Read:
    """What was made of a file. quarantined: byte offsets. unclosed: some lines lack the logger that others end with."""

    events: tuple[str, ...]
    quarantined: tuple[int, ...]
    unclosed: bool
    lines: int
    outcomes: int

    @property
    def compared(self) -> tuple[str, ...]:
        """The events that do not depend on where the file is cut.

        A range that begins within a dump of settings takes these, also if the line that begins the dump is damaged.
        """
        return tuple(event for event in self.events if SETTING not in event)

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]]) -> Read:
        """The rows of all ranges of a file, with the statistics of each."""
        statistics = [row["statistics"] for row in rows if row["row_kind"] == "split"]
        return cls(
            tuple(sorted(text for row in rows if row["row_kind"] == "event" for text in _texts(row))),
            tuple(sorted(row["byte_offset"] for row in rows if row["row_kind"] == "quarantine")),
            any(row["quarantined"]["reason"] in UNCLOSED for row in rows if row["row_kind"] == "quarantine"),
            sum(one["lines"] for one in statistics),
            sum(one["event_lines"] + one["ignored_lines"] + one["quarantined_lines"] for one in statistics),
        )


def check(kind: str, folder: Path) -> Callable[[bytes], None]:
    """check(kind, folder)(data) decodes the data as a file of that kind. Raises what the decoder raises, or AssertionError."""
    from epochaudit.sources.files.capture import CaptureFile
    from epochaudit.sources.formats import BY_KIND
    from epochaudit.sources.request_log import compiled
    from epochaudit.sources.scan.datasource import decoded
    from epochaudit.sources.scan.ranges import ByteRange

    known = BY_KIND[kind]
    place = folder / PATHS.get(kind, "log")
    place.parent.mkdir(parents=True, exist_ok=True)

    def read(file: CaptureFile, edges: Sequence[int], by_compiled_code: bool = False) -> Read:
        ranges = [ByteRange(file, split, *bound) for split, bound in enumerate(pairwise(edges))]
        batches = (batch for part in ranges for batch in decoded(part, by_compiled_code=by_compiled_code))
        return Read.of([row for batch in batches for row in batch.to_pylist()])

    def decode(data: bytes) -> None:
        if not data:
            return
        place.write_bytes(data)
        file = CaptureFile(PATHS.get(kind, "log"), str(place), kind, "c", len(data), 1, known.source)
        whole = read(file, (0, len(data)))
        assert whole.lines == whole.outcomes, f"{whole.lines} lines, {whole.outcomes} with an outcome"
        if known.decoder is None:
            return
        counted = data.count(b"\n") + (not data.endswith(b"\n"))
        # what a checkpoint announces and does not have is one line more
        assert counted <= whole.lines <= counted + hasattr(known.decoder, "finish"), f"{whole.lines} lines of {counted}"
        if known.decoder.splittable and len(data) > 1:
            edge = 1 + int.from_bytes(data[-2:], "big") % (len(data) - 1)
            cut = read(file, (0, edge, len(data)))
            if whole.unclosed and known.kind in LEARNING_LOGGERS:
                return  # a range in which no line ends with its logger takes a line that was cut off for a whole one
            # a line without a time is of the dated line before it, which a range does not have if that is of the range before
            assert (cut.compared, cut.lines) == (whole.compared, whole.lines), f"cut at {edge}, rows differ"
        if compiled.scans(file):
            assert read(file, (0, len(data)), True) == whole, "compiled code gives other rows"

    return decode


def _texts(row: dict[str, Any]) -> list[str]:
    """What must be the same of an event. Ranges may divide a row of Produce answers."""
    if row["event_type"] == "PRODUCE" and row["base_offsets"]:
        subject = [row[name] for name in ("node", "connection", "client_id", "topic", "topic_id", "partition", "acks")]
        return [f"PRODUCE {subject} {base_offset}" for base_offset in row["base_offsets"]]
    return [
        repr(sorted((name, value) for name, value in row.items() if value is not None and name not in NOT_COMPARED))
    ]


def fuzz(kind: str, seconds: float, seed: int, folder: str) -> None:
    """Decode changed bytes for that time; does not return. For a process of its own."""
    import atheris

    with atheris.instrument_imports(include=["epochaudit"]):
        from epochaudit.sources.sink import RowSink

        decode = check(kind, Path(folder))

    def failed(_: RowSink, error: Exception, *__: object) -> None:
        raise error  # else a line whose decoder fails is put in quarantine

    RowSink.failed = failed  # type: ignore[assignment,method-assign]
    options = [
        *(f"-max_total_time={seconds:.0f}", f"-seed={seed}", f"-max_len={LONGEST}", f"-timeout={SECONDS_FOR_ONE}"),
        *(f"-rss_limit_mb={MEMORY_MB}", f"-artifact_prefix={folder}/failed-", "-print_final_stats=1"),
    ]
    atheris.Setup([sys.argv[0], *options, f"{folder}/corpus"], decode)
    atheris.Fuzz()


def fuzzed(kind: str, seconds: float, seed: int, folder: Path) -> tuple[int, int, str]:
    """The number of inputs that were decoded, of the branches that they reached, and how it failed, if it did."""
    (folder / "corpus").mkdir()
    for number, data in enumerate(seeds(kind)):
        (folder / "corpus" / f"recorded-{number}").write_bytes(data)
    program = f"from prove.fuzz import fuzz; fuzz({kind!r}, {seconds}, {seed}, {str(folder)!r})"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    printed = ran.stderr.decode("utf-8", "replace")
    executed = _EXECUTED.findall(printed)
    inputs, branches = map(int, executed[-1]) if executed else (0, 0)
    return (
        inputs,
        branches,
        "" if ran.returncode == 0 else ran.stdout.decode("utf-8", "replace")[-3000:] + printed[-600:],
    )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("chosen", nargs=-1, metavar="KIND...")
@click.option("--seconds", default=1800.0, show_default=True, help="For each kind.")
@click.option("--seed", default=1, show_default=True, help="Of the changes.")
def main(chosen: tuple[str, ...], seconds: float, seed: int) -> None:
    """Decode changed recordings of each KIND, by default of all. Exit code 1: a decoder failed; its input stays."""
    known = kinds()
    if unknown := set(chosen) - set(known):
        raise click.UsageError(f"no kind {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    failed = False
    print("| kind | inputs | branches | |\n|---|---|---|---|", flush=True)
    for kind in chosen or known:
        folder = Path(mkdtemp(prefix=f"{kind}-"))
        inputs, branches, failure = fuzzed(kind, seconds, seed, folder)
        print(f"| {kind} | {inputs:,} | {branches:,} | {f'FAILED, see {folder}' if failure else ''} |", flush=True)
        if failure:
            failed = True
            print(failure, file=sys.stderr, flush=True)
        else:
            shutil.rmtree(folder)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
