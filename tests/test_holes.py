"""Evidence that is missing in the middle of a log accuses nobody: of a healthy cluster's logs, parts are taken out at random.

Held to it are the rules that judge by what a broker held, or a controller knew, for as long as its log stated nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.pipeline import audit
from prove.holes import copy_of, found_in, histories
from tests.side_by_side import named

pytestmark = pytest.mark.thorough

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
    "IS-12",
    "TI-06",
    "BE-03",
    "AW-01",
    "PE-01",
    "PE-02",
    "PE-03",
    "PE-04",
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


HARMED = (
    ("kraft-k1-healthy", "files", 0.3, 1),
    ("kraft-k1-healthy", "files", 0.1, 3),
    ("kraft-k1-healthy", "lines", 0.02, 2),
    ("kraft-k1-healthy", "nodes", 0.2, 6),
    ("kraft-transactions-4.1", "lines", 0.05, 4),
    ("kraft-transactions-4.1", "older lines", 1.0, 8),
    ("zk-healthy-3.9", "files", 0.1, 2),
    ("zk-healthy-3.9", "files", 0.3, 5),
    ("zk-healthy-3.9", "lines", 0.02, 1),
    ("zk-healthy-3.9", "ends of request logs", 1.0, 7),
)
"""Captures, what they lack, how much of it, and the seed."""


def test_missing_evidence_is_no_breach(spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path) -> None:
    """One audit of all the copies."""
    captures = []
    for name, what, share, seed in HARMED:
        copy = tmp_path / f"{name} without {share} of {what} {seed}"
        copy_of(capture(name), copy, what, share, seed)
        assert size(capture(name)) - size(copy) > 10_000
        captures.append(named(copy.name, copy))
    audited = audit(spark, *captures, select=JUDGED_BY_STATE)
    found = [(row["cluster"], row["rule"], row["observed"]) for row in audited.findings.collect()]
    audited.release()
    assert audited.failures == {}
    assert found == []
    assert sum(tally.counts["pass"] for tally in audited.tallies) > 1_000 * len(HARMED)


def size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


WITHOUT_SEGMENTS = (60006, 60043, 60104, 60143, 60156, 60187, 60204, 60233, 60239)
"""Seeds of histories: of each a part of the metadata log is missing after which brokers and partitions are in other states."""


TAKEN_OUT = ("beginnings", "ends", "files", "logs", "middles")


def test_a_hole_in_the_metadata_log_is_no_breach(spark: SparkSession, tmp_path: Path) -> None:
    rules = histories(WITHOUT_SEGMENTS, tmp_path, TAKEN_OUT)
    assert all(" of files" in copy.name for copy in rules)
    found, passed = found_in(spark, [*rules], ("violation",))
    judged = {copy.name: of_copy for copy, of_copy in rules.items()}
    assert [one for one in found if one.rule in judged[one.copy]] == []
    assert passed > 100 * len(rules)
