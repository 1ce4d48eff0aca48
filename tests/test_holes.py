"""Evidence that is missing in the middle of a log accuses nobody: of a healthy cluster's logs, parts are taken out at random.

Held to it are the rules that judge by what a broker held, or a controller knew, for as long as its log stated nothing else.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from epochaudit.pipeline import audit
from tests.side_by_side import named

PIECES = 8
JUDGED_BY_STATE = (
    "FF-01",
    "FF-02",
    "FF-03",
    "FF-04",
    "OE-01",
    "OE-02",
    "OE-03",
    "LO-01",
    "LO-02",
    "TR-03",
    "TR-04",
    "IS-05",
    "BE-03",
    "AW-01",
    "PE-01",
    "PE-02",
    "PE-03",
    "PE-05",
    "LI-01",
    "LI-02",
    "LI-06",
    "TI-01",
    "TI-04",
    "TI-07",
    "LD-04",
    "BE-06",
    "LO-04",
    "TR-06",
)


def without_pieces(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log as files that were rotated by size, by their suffix; each is missing with that probability."""
    size = max(1, -(-len(lines) // PIECES))
    pieces = [lines[start : start + size] for start in range(0, len(lines), size)]
    numbered = {f".{age}" if age else "": piece for age, piece in enumerate(reversed(pieces))}
    return {suffix: piece for suffix, piece in numbered.items() if chance.random() >= share}


def without_lines(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log without some of its lines, as an appender leaves it that drops what it can't write in time."""
    return {"": [line for line in lines if chance.random() >= share]}


def with_holes(
    source: Path,
    target: Path,
    harmed: Callable[[list[bytes], float, random.Random], dict[str, list[bytes]]],
    share: float,
    seed: int,
) -> int:
    """A copy of a capture whose brokers' logs are harmed; returns how many of their bytes are missing."""
    chance, missing = random.Random(seed), 0  # noqa: S311
    for path in sorted(file for file in source.rglob("*") if file.is_file()):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".log" or not path.parent.name.startswith(("broker-", "controller-")):
            shutil.copy(path, copy)
            continue
        left = harmed(path.read_bytes().splitlines(keepends=True), share, chance)
        for suffix, lines in left.items():
            copy.with_name(copy.name + suffix).write_bytes(b"".join(lines))
        missing += path.stat().st_size - sum(len(line) for lines in left.values() for line in lines)
    return missing


HARMED = (
    ("kraft-k1-healthy", without_pieces, 0.3, 1),
    ("kraft-k1-healthy", without_pieces, 0.1, 3),
    ("kraft-k1-healthy", without_lines, 0.02, 2),
    ("kraft-transactions-4.1", without_lines, 0.05, 4),
    ("zk-healthy-3.9", without_pieces, 0.1, 2),
    ("zk-healthy-3.9", without_pieces, 0.3, 5),
    ("zk-healthy-3.9", without_lines, 0.02, 1),
)
"""Captures, how they are harmed, by how much, and the seed."""


def test_missing_evidence_is_no_breach(spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path) -> None:
    """One audit of all the copies."""
    captures = []
    for name, harmed, share, seed in HARMED:
        copy = tmp_path / f"{name} {harmed.__name__} {share} {seed}"
        assert with_holes(capture(name), copy, harmed, share, seed) > 10_000
        captures.append(named(copy.name, copy))
    audited = audit(spark, *captures, select=JUDGED_BY_STATE)
    found = [(row["cluster"], row["rule"], row["observed"]) for row in audited.findings.collect()]
    audited.release()
    assert audited.failures == {}
    assert found == []
    assert sum(tally.counts["pass"] for tally in audited.tallies) > 1_000 * len(HARMED)
