"""A small recorded cluster that is cheap to judge: server logs whose epoch caches EP-04 looks at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit import warehouse
from epochaudit.report.contents import Report
from epochaudit.sources.discovery.discovery import inspected

CLUSTER = "payments"
SELECT = ("EP-04",)
OF_FETCHES = ("AW", "CO", "FF", "HW", "LS", "TI", "TR")
"""Families of rules about Fetch and Produce requests. tests/test_folded_runs.py compares all rules."""

Put = Callable[[str, str], Path]


def audited(spark: SparkSession, location: Path | str, *folders: Path, **options: Any) -> Report:
    """The report of a completed run over the captures in these folders."""
    with warehouse.audited(spark, str(location), [inspected(str(folder)) for folder in folders], **options) as report:
        return report


def appended(second: int, epoch: int, offset: int, partition: int = 0) -> str:
    """A line of server.log: an entry into a leader epoch cache."""
    epoch_entry = f"EpochEntry(epoch={epoch}, startOffset={offset})"
    entry = f"Appended new epoch entry {epoch_entry}. Cache now contains {second} entries."
    return _line(second, f"[LeaderEpochCache t-{partition}] {entry} (kafka.server.epoch.LeaderEpochFileCache)")


def truncated(second: int, offset: int, partition: int = 0) -> str:
    """A line of server.log: a log was truncated, and its cache with it."""
    return _line(
        second, f"[UnifiedLog partition=t-{partition}, dir=/d] Truncating to offset {offset} (kafka.log.UnifiedLog)"
    )


def _line(second: int, message: str) -> str:
    return f"[2026-11-21 04:{second // 60:02}:{second % 60:02},000] INFO {message}\n"


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """put(path, text) writes a file of the capture and gives the capture's folder."""
    folder = tmp_path / "capture"

    def write(path: str, text: str) -> Path:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return folder

    write("capture.toml", f'cluster = "{CLUSTER}"\n')
    return write
