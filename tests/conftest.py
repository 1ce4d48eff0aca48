"""One Spark session, one run over all cases and one unpacked copy of each recorded capture for all tests."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import DataFrame, SparkSession

from epochaudit.session import SMALL_PLANS, session
from tests.rules.judging import Verdicts, all_cases, events_of, verdicts_of

settings.register_profile("default", max_examples=25)
settings.register_profile("thorough", max_examples=600)
settings.load_profile("default")

CAPTURES = Path(__file__).parent / "captures"


def capture_names() -> list[str]:
    """The recorded captures that are bundled with the tests."""
    return sorted(path.name.removesuffix(".tar.xz") for path in CAPTURES.glob("*.tar.xz"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session as the command line starts it, with Delta Lake: a process has one set of Spark extensions."""
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS}, warehouse=True)
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def case_events(spark: SparkSession) -> DataFrame:
    """The events of all cases, of the rules and of the histories."""
    return events_of(spark, all_cases())


@pytest.fixture(scope="session")
def verdicts(case_events: DataFrame) -> Verdicts:
    """What one run of all rules says of each case."""
    return verdicts_of(case_events, all_cases())


@pytest.fixture(scope="session")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """capture(name) -> the folder of that capture, unpacked once. Tests must not write into it."""
    unpacked: dict[str, Path] = {}

    def unpack(name: str) -> Path:
        if name not in unpacked:
            folder = tmp_path_factory.mktemp("captures")
            with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
                archive.extractall(folder, filter="data")
            unpacked[name] = folder / name
        return unpacked[name]

    return unpack


@pytest.fixture(scope="session")
def expected() -> Callable[[str], dict[str, Any]]:
    """expected(name) -> the truth about a capture, kept apart from what is audited."""
    return lambda name: json.loads((CAPTURES / f"{name}.expected.json").read_text())
