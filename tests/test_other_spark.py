"""Another line of Spark gives the same report, byte for byte. `nox` compares all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.other_spark import COMPARED, report

ROOT = Path(__file__).parents[1]
OTHER = "4.0.2"  # the oldest line, whose API lacks most


@pytest.fixture(scope="module")
def other_spark() -> Path:
    """A directory with that Spark, fetched once."""
    folder = ROOT / ".venv" / f"spark-{OTHER}"
    if not (folder / ".ready").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(folder)]
        subprocess.run([*command, f"pyspark=={OTHER}"], check=True)
        (folder / ".ready").touch()
    return folder


@pytest.mark.cluster
def test_the_oldest_line_of_spark_gives_the_same_report(other_spark: Path, tmp_path: Path) -> None:
    name = COMPARED[0]
    with_its_spark = f"{other_spark}:{ROOT}"
    reports = []
    for number, packages in enumerate((with_its_spark, str(ROOT))):
        folder = tmp_path / str(number)
        folder.mkdir()
        reports.append(report(Path(sys.executable), folder, name, packages))
    assert reports[0] == reports[1]
