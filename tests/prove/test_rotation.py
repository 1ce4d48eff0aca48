"""Logs that are rotated lose no line, and a count that differs is reported."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from prove.rotation import Counts, differences, rotated


@pytest.mark.parametrize("seed", range(20))
def test_the_files_of_a_log_have_all_of_its_lines_in_order(seed: int) -> None:
    lines = [b"[2026-01-01 10:00:%02d,%03d] INFO %d\n" % (n // 2, n, n) for n in range(4 + seed)]
    files = rotated(lines, 1.0, random.Random(seed))  # noqa: S311  a seed to repeat it
    assert len(files) > 1
    assert sorted(files, reverse=True) == [f".{age}" for age in range(len(files) - 1, 0, -1)] + [""]
    assert [line for suffix in sorted(files, reverse=True) for line in files[suffix]] == lines
    assert all(files.values())
    first_seconds = [files[suffix][0][:20] for suffix in files]
    assert all(one[:20] not in first_seconds for piece in files.values() for one in piece[2:])


def test_a_log_without_times_stays_whole() -> None:
    assert rotated([b"one\n", b"two\n"], 1.0, random.Random(1)) == {"": [b"one\n", b"two\n"]}  # noqa: S311


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
