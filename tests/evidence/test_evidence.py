"""The page docs/evidence.md states what audits of captures without some of their files judge."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from epochaudit.rules.catalogue import catalogue
from tests.evidence.measured import Judged, Tallied, measured
from tests.evidence.page import ALL, NONE, PAGE, PART, page, title


def cells(text: str) -> dict[tuple[str, str], str]:
    """Rule and recording -> cell of the page's first table."""
    table = text.split("## From default logs alone")[1].split("\n## ")[0]
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    return {(row[0], name): cell for row in rows for name, cell in zip(header[1:], row[1:], strict=True)}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["zk-unclean-truncation-2.0", "kraft-ineligible-isr-4.1"])
def test_the_page_states_what_default_logs_give(name: str, spark: SparkSession, capture: Callable[[str], Path]) -> None:
    variants = ("all", "default logs")
    documented = cells(PAGE.read_text("utf-8"))
    now = cells(page(measured(spark, capture, [name], variants), [name], []))
    assert {rule: documented.get((rule, title(name)), "") for rule, _ in now} == {
        rule: cell for (rule, _), cell in now.items()
    }
    assert {ALL, NONE} <= set(now.values())


def test_a_cell_compares_with_the_whole_recording() -> None:
    first, second, third, fourth = (rule.id for rule in catalogue()[:4])
    whole: Tallied = {first: Judged(5, 6, 0), second: Judged(2, 2, 1), third: Judged(3, 3, 0), fourth: Judged(0, 1, 0)}
    left: Tallied = {first: Judged(5, 6, 0), second: Judged(0, 2, 0), third: Judged(1, 3, 0)}
    found = cells(page({("zk-a-3.9", "all"): whole, ("zk-a-3.9", "default logs"): left}, ["zk-a-3.9"], []))
    assert found == {(first, "zk 3.9 a"): ALL, (second, "zk 3.9 a"): NONE, (third, "zk 3.9 a"): PART}


def test_recordings_are_named_by_mode_release_and_what_happened() -> None:
    assert title("zk-unclean-truncation-2.0") == "zk 2.0 unclean-truncation"
    assert title("kraft-k1-healthy") == "kraft k1-healthy"
