"""Logs that are rotated lose no line, and a count that differs is reported."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from prove.rotation import Counts, differences, rotated


@pytest.mark.parametrize("seed", range(20))
def test_the_files_of_a_log_have_all_of_its_lines_in_order(seed: int) -> None:
    lines = [b"%d\n" % number for number in range(2 + seed)]
    files = rotated(lines, 1.0, random.Random(seed))  # noqa: S311  a seed to repeat it
    assert len(files) > 1
    assert sorted(files, reverse=True) == [f".{age}" for age in range(len(files) - 1, 0, -1)] + [""]
    assert [line for suffix in sorted(files, reverse=True) for line in files[suffix]] == lines
    assert all(files.values())


def test_a_count_that_differs_is_reported() -> None:
    whole: Counts = Counter(
        {("AW-02", "pass", None): 9, ("BE-03", "unverifiable", "no record"): 2, ("TR-01", "pass", None): 1}
    )
    of_files: Counts = Counter({("AW-02", "pass", None): 36, ("BE-03", "unverifiable", "no record"): 2})
    assert [*differences(whole, of_files)] == [
        "AW-02 pass: 9 in whole logs, 36 in rotated ones",
        "TR-01 pass: 1 in whole logs, 0 in rotated ones",
    ]
    assert [*differences(whole, whole)] == []
