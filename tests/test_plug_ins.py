"""Rules and formats of another package: found through its entry points, used with the others, unable to do them harm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from epochaudit.cli.exit_codes import CLEAN, COULD_NOT_RUN, FINDINGS

pytestmark = [pytest.mark.slow, pytest.mark.minutes]

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "house-rules"
version = "1.0"

[project.entry-points."epochaudit.rules"]
house-rules = "house_rules"
"""
RULES = '''
from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, violation


@rule("XX-01", frame="control", kip="house", severity=LOW, since="2.6")
class ReplicaDeleted(Rule):
    """Replica deleted

    Nobody deletes replicas here.
    """

    evidence = {"the StopReplica request": "request_ref"}
    expected = "no deletion"
    observed = "error {error_code}"
    because = ("broker {node} had a request to delete {topic}-{partition}",)

    def applies(self) -> Column:
        return col("event_type") == "STOP_REPLICA"

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(violation(col("delete_partition") & (col("error_code") == 0)), otherwise=passed())


@rule("XX-02", frame="control", kip="house", severity=LOW, since="2.6")
class Broken(ReplicaDeleted):
    """Broken rule"""

    def applies(self) -> Column:
        return col("no_such_column") == 1
'''
FORMAT_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "house-formats"
version = "1.0"

[project.entry-points."epochaudit.formats"]
deletion-log = "house_formats:DELETION_LOG"

[project.entry-points."epochaudit.rules"]
house-formats = "house_formats.rules"
"""
FORMAT = """
import re

from epochaudit.sources.formats import CollectedAs, Format, Identity
from epochaudit.sources.lines.log4j import IDENTITY
from epochaudit.sources.node_hints import NodeHints
from epochaudit.sources.sink import LineOutcome

HEADING = re.compile(rb"# StopReplica requests of broker ([0-9]+)")
DELETION = re.compile(rb"([0-9]+) deleted ([a-z]+)-([0-9]+) at leader epoch ([0-9]+)")
COLUMNS = (*IDENTITY, "arrival_ms", "topic", "partition", "leader_epoch", "delete_partition", "error_code", "in_request")


def node_hints(head):
    return NodeHints(ids=frozenset({int(HEADING.match(head)[1])}))


class DeletionLog:
    kind = "house-deletion-log"
    splittable = True

    def __init__(self, file, sink):
        self.rows, self.quarantine = sink.rows(COLUMNS), sink.quarantine

    def line(self, text, byte_offset, line_in_split):
        if HEADING.fullmatch(text):
            return LineOutcome.IGNORED
        match = DELETION.fullmatch(text)
        if match is None:
            self.quarantine(byte_offset, line_in_split, "is no deletion", text)
            return LineOutcome.QUARANTINED
        ms, topic, partition, epoch = int(match[1]), match[2].decode(), int(match[3]), int(match[4])
        identity = ("STOP_REPLICA", byte_offset, line_in_split, 0, ms)
        self.rows.append((*identity, ms, topic, partition, epoch, True, 0, True))
        return LineOutcome.EVENT


DELETION_LOG = Format(
    DeletionLog.kind,
    lambda head: HEADING.match(head) is not None,
    "house_deletion_log",
    DeletionLog,
    node_hints=node_hints,
    identity=Identity.CONTENT,
    deduplicated=True,
    sufficient=True,
    collected_as=CollectedAs.LOG_LINES,
)
"""
DELETIONS = "# StopReplica requests of broker 7\n1763686800000 deleted orders-0 at leader epoch 3\nwhat is this\n"
READ = """
import json, sys
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import cut

files = discover(sys.argv[1]).files
rows = [row for part in cut(files) for batch in decoded(part) for row in batch.to_pylist()]
print(json.dumps({"files": [(file.path, file.kind, file.node, file.duplicate_of) for file in files], "rows": rows}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a package with rules has been installed."""
    return installation(tmp_path_factory, PROJECT, {"house_rules/__init__.py": RULES})


@pytest.fixture(scope="module")
def with_format(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a package with a format has been installed, and a rule about its events."""
    package = {"house_formats/__init__.py": FORMAT, "house_formats/rules.py": RULES}
    return installation(tmp_path_factory, FORMAT_PROJECT, package)


def installation(folders: pytest.TempPathFactory, project: str, package: dict[str, str]) -> Path:
    source, target = folders.mktemp("source"), folders.mktemp("installed")
    for path, content in {"pyproject.toml": project, **package}.items():
        (source / path).parent.mkdir(exist_ok=True)
        (source / path).write_text(content)
    install = [*("install", "--quiet", "--no-deps", "--no-build-isolation", "--target"), str(target), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, cwd=source)
    return target


def stated_only(folder: Path, entry_point: str, module: str) -> Path:
    """A folder with the metadata of a package with one format, and the module that its entry point names."""
    (folder / "house-1.0.dist-info").mkdir()
    (folder / "house-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (folder / "house-1.0.dist-info" / "entry_points.txt").write_text(f"[epochaudit.formats]\nhouse = {entry_point}\n")
    (folder / "house.py").write_text(module)
    return folder


def python(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(installed), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=installed)


def epochaudit(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(installed, "-m", "epochaudit", *arguments)


def deletions(folder: Path) -> Path:
    """A capture with a log of the plug-in's format, and a copy of it."""
    for name in ("broker-1/deletions.log", "broker-1/old/deletions.log.1"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(DELETIONS)
    return folder


def test_its_rules_are_listed_and_explained(installed: Path) -> None:
    listed = json.loads(epochaudit(installed, "rules", "--format", "json").stdout)
    assert [rule["name"] for rule in listed if rule["family"] == "XX"] == ["replica-deleted", "broken"]
    assert "Nobody deletes replicas here." in epochaudit(installed, "explain", "XX-01").stdout


@pytest.mark.spark
def test_its_rules_judge_logs_of_all_formats_and_a_broken_one_spoils_no_other(
    with_format: Path, capture: Callable[[str], Path], tmp_path: Path
) -> None:
    shutil.copytree(capture("zk-stale-control-fenced-3.9"), tmp_path / "capture")
    deletions(tmp_path / "capture" / "house")
    chosen = ("--select", "XX", "--select", "SR-01", "--format", "json")
    ran = epochaudit(with_format, "audit", str(tmp_path / "capture"), *chosen)
    assert ran.returncode == FINDINGS, ran.stderr
    report = json.loads(ran.stdout)
    rules = {rule["rule"]: rule for rule in report["rules"]}
    assert rules["XX-01"]["violation"] == len(report["findings"]) > 1
    (own,) = [finding for finding in report["findings"] if finding["topic"] == "orders"]
    assert (own["rule"], own["verdict"], own["node"]) == ("XX-01", "violation", 7)
    assert [(line["text"], line["line"]) for line in own["evidence"]] == [
        ("1763686800000 deleted orders-0 at leader epoch 3", 2)
    ]
    assert [file["kind"] for file in report["capture"]["files"] if file["node"] == 7] == ["house-deletion-log"]
    of_requests = [one for one in report["findings"] if one is not own]
    assert all('"deletePartition":true' in one["evidence"][0]["text"] for one in of_requests)
    assert rules["SR-01"]["fenced"] > 0
    assert rules["XX-02"]["unverifiable"] == 1
    assert "no_such_column" in next(iter(rules["XX-02"]["unverifiable_reasons"]))


@pytest.mark.spark
def test_a_clean_result_is_not_stated_where_a_rule_failed(with_format: Path, tmp_path: Path) -> None:
    ran = epochaudit(with_format, "audit", str(deletions(tmp_path)), "--select", "XX-02")
    assert ran.returncode == COULD_NOT_RUN
    assert "rules failed, what they judge is unknown: XX-02: AnalysisException" in ran.stderr


def test_one_that_cannot_be_loaded_is_named(installed: Path, tmp_path: Path) -> None:
    for path in installed.glob("*.dist-info"):
        (tmp_path / path.name).mkdir()
        (tmp_path / path.name / "METADATA").write_text((path / "METADATA").read_text())
        (tmp_path / path.name / "entry_points.txt").write_text("[epochaudit.rules]\nhouse-rules = gone\n")
    ran = epochaudit(tmp_path, "rules")
    assert ran.returncode == COULD_NOT_RUN
    assert ran.stderr.startswith("epochaudit: plug-in house-rules can't be loaded: ModuleNotFoundError")


def test_files_of_its_format_are_found_and_decoded(with_format: Path, tmp_path: Path) -> None:
    ran = python(with_format, "-c", READ, str(deletions(tmp_path)))
    assert ran.returncode == 0, ran.stderr
    read = json.loads(ran.stdout)
    assert read["files"] == [
        ["broker-1/deletions.log", "house-deletion-log", 7, None],
        ["broker-1/old/deletions.log.1", "house-deletion-log", 7, "broker-1/deletions.log"],
    ]
    event, quarantined, statistics = read["rows"]
    assert (event["source"], event["event_type"], event["node"]) == ("house_deletion_log", "STOP_REPLICA", 7)
    assert (event["topic"], event["partition"], event["leader_epoch"]) == ("orders", 0, 3)
    assert quarantined["quarantined"] == {
        "kind": "house-deletion-log",
        "reason": "is no deletion",
        "text": "what is this",
    }
    lines = {name: statistics["statistics"][f"{name}_lines"] for name in ("event", "ignored", "quarantined")}
    assert lines == {"event": 1, "ignored": 1, "quarantined": 1}


def test_files_of_its_format_are_collected(with_format: Path, tmp_path: Path) -> None:
    ran = epochaudit(with_format, "collect", str(deletions(tmp_path / "host")), "--output", str(tmp_path / "collected"))
    assert ran.returncode == CLEAN, ran.stderr
    assert (tmp_path / "collected" / "broker-1" / "deletions.log").read_text() == DELETIONS


def test_without_the_package_such_files_are_of_no_known_kind(installed: Path, tmp_path: Path) -> None:
    ran = python(installed, "-c", READ, str(deletions(tmp_path)))
    assert "holds nothing that can be audited: found 2 unknown (" in ran.stderr


@pytest.mark.parametrize(
    ("entry_point", "module", "message"),
    [
        ("missing", "", "plug-in house can't be loaded: ModuleNotFoundError: No module named 'missing'"),
        ("house:FORMAT", "FORMAT = 3", "plug-in house can't be used: house:FORMAT is no Format, but 3"),
        (
            "house:FORMAT",
            "from epochaudit.sources.formats import Format\nFORMAT = Format('server-log', bool)",
            "two formats share the kind server-log",
        ),
        (
            "house:FORMAT",
            "from epochaudit.sources.formats import Format\nFORMAT = Format('house', lambda head: head.no_such_name)",
            "the format house fails on broker-1/deletions.log: AttributeError: 'bytes' object has no attribute "
            "'no_such_name'; correct or remove its plug-in",
        ),
        (
            "house:FORMAT",
            "from epochaudit.sources.formats import Format\nFORMAT = Format('house', bool, node_hints=lambda head: 1 / 0)",
            "the format house fails on broker-1/deletions.log: ZeroDivisionError: division by zero; correct or remove its plug-in",
        ),
    ],
)
def test_a_format_that_cannot_be_used_is_named(tmp_path: Path, entry_point: str, module: str, message: str) -> None:
    (tmp_path / "house").mkdir()
    house = stated_only(tmp_path / "house", entry_point, module)
    ran = epochaudit(house, "collect", str(deletions(tmp_path / "host")), "--output", str(tmp_path / "collected"))
    assert (ran.returncode, ran.stderr) == (COULD_NOT_RUN, f"epochaudit: {message}\n")
