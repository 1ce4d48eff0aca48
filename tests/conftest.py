"""One Spark session, one run over a file's cases and one unpacked copy of each recorded capture for all tests."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import DataFrame, SparkSession
from xdist.scheduler import LoadFileScheduling

from epochaudit.rules.catalogue import catalogue
from epochaudit.spark.session import LARGE_RUN, OPTIONS, SMALL_PLANS, archived_classes, session
from tests.rules.case_files import Case
from tests.rules.judging import Verdicts, all_cases, events_of, verdicts_of
from tests.shell import CAPTURE, Shell

# no deadline: an example that waits for a busy machine is no failure
settings.register_profile("default", max_examples=25, deadline=None)
settings.register_profile("thorough", max_examples=600, deadline=None)
settings.load_profile("default")

pytest_plugins = ["tests.sample_report"]

CAPTURES = Path(__file__).parent / "captures"
# Two JVMs share the cores: threads that collect garbage in parallel would wait for each other.
JVM_OPTIONS = LARGE_RUN[OPTIONS].replace("-XX:+UseParallelGC", "-XX:+UseSerialGC -XX:NewRatio=1 -Xms1g")
# Files whose tests share an events table, or an audit of what scripts audit: how their paths begin.
SHARING = (("tests/replay/",), ("tests/test_captures.py", "tests/test_scripts.py"))
METADATA_DUMP = "metadata/cluster-metadata.dump.txt"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need Spark: `make quick` runs the others. Put the tests that take minutes first.

    Two processes share the files: a long one at the end would leave one of them idle.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("cluster"):
            item.add_marker("spark")
    items.sort(key=lambda item: not any(map(item.get_closest_marker, ("thorough", "minutes"))))


class FileScheduling(LoadFileScheduling):
    """Gives all tests of a file to one process, and all files that share an events table or an audit."""

    def _split_scope(self, nodeid: str) -> str:
        return next((files[0] for files in SHARING if nodeid.startswith(files)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling:
    """How pytest-xdist distributes tests, whatever `--dist` names."""
    return FileScheduling(config, log)


def capture_names() -> list[str]:
    """The recorded captures that are bundled with the tests."""
    return sorted(path.name.removesuffix(".tar.xz") for path in CAPTURES.glob("*.tar.xz"))


def names_with_dump() -> list[str]:
    """Those of a KRaft cluster with its metadata log as segment and as dump."""
    return [name for name in capture_names() if name.startswith("kraft-") and _has(name, METADATA_DUMP)]


def _has(name: str, member: str) -> bool:
    with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
        return f"{name}/{member}" in archive.getnames()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session as the command line starts it, with Delta Lake: a process has one set of Spark extensions."""
    conf = {**SMALL_PLANS, OPTIONS: JVM_OPTIONS + archived_classes()}
    spark = session("local[2]", conf, warehouse=True)
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def shell(spark: SparkSession) -> Shell:
    """Runs scripts whose `epochaudit` commands share the session."""
    return Shell(spark)


@pytest.fixture
def workspace(tmp_path: Path, capture: Callable[[str], Path]) -> Path:
    """A folder with a copy of a capture, in which scripts run."""
    shutil.copytree(capture(CAPTURE), tmp_path / "captures" / CAPTURE)
    return tmp_path


def selected_cases(request: pytest.FixtureRequest) -> list[Case]:
    """The cases that the selected tests of this file are about; all cases if the tests are about none in particular."""
    of_file = [item for item in request.session.items if item.path == request.path]
    tests = [item for item in of_file if "verdicts" in getattr(item, "fixturenames", ())]
    cases = (item.callspec.params.get("case") for item in tests if hasattr(item, "callspec"))
    return [case for case in cases if case is not None] or all_cases()


@pytest.fixture(scope="module")
def case_events(request: pytest.FixtureRequest, spark: SparkSession) -> DataFrame:
    """The events of the selected cases, of the rules or of the histories: two processes may run the two files."""
    return events_of(spark, selected_cases(request))


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest, case_events: DataFrame) -> Verdicts:
    """What one run of the rules finds in each selected case: of all rules, if a bug's history is among them."""
    cases = selected_cases(request)
    of_rules = {case.rule for case in cases}
    return verdicts_of(case_events, cases, of_rules if of_rules <= {rule.id for rule in catalogue()} else None)


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
    """expected(name) -> the truth about a capture, which is not part of what is audited."""
    return lambda name: json.loads((CAPTURES / f"{name}.expected.json").read_text())
