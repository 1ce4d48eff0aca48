"""Another line of Spark gives the same report, byte for byte. `nox` compares all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.clusters.conftest import SELECT
from tests.clusters.packed import ROOT
from tests.other_spark import report

OTHER = "4.0.2"  # of the oldest line, whose API lacks most

pytestmark = [pytest.mark.cluster, pytest.mark.thorough]


@pytest.fixture(scope="module")
def other_spark() -> Path:
    """A directory with that Spark, fetched once."""
    folder = ROOT / ".venv" / f"spark-{OTHER}"
    if not (folder / ".ready").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([*command, f"pyspark=={OTHER}"], check=True)
        (folder / ".ready").touch()
    return folder


def test_the_oldest_line_of_spark_gives_the_same_report(
    other_spark: Path, recorded: Path, local_report: str, tmp_path: Path
) -> None:
    given = report(Path(sys.executable), recorded, tmp_path, *SELECT, packages=f"{other_spark}:{ROOT}")
    assert given == local_report
