"""Rules of another package: found through its entry point, judged with the others, unable to do them harm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from epochaudit.cli.exit_codes import COULD_NOT_RUN, FINDINGS

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
    because = ("broker {node} was told to delete {topic}-{partition}",)

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


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a package with rules has been installed."""
    source, target = tmp_path_factory.mktemp("house-rules"), tmp_path_factory.mktemp("installed")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "house_rules").mkdir()
    (source / "house_rules" / "__init__.py").write_text(RULES)
    install = [*("install", "--quiet", "--no-deps", "--no-build-isolation", "--target"), str(target), str(source)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, cwd=source)
    return target


def epochaudit(installed: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "epochaudit", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=installed)


def test_its_rules_are_listed_and_explained(installed: Path) -> None:
    listed = json.loads(epochaudit(installed, "rules", "--format", "json").stdout)
    assert [rule["name"] for rule in listed if rule["family"] == "XX"] == ["replica-deleted", "broken"]
    assert "Nobody deletes replicas here." in epochaudit(installed, "explain", "XX-01").stdout


def test_its_rules_judge_and_a_broken_one_spoils_no_other(installed: Path, capture: Callable[[str], Path]) -> None:
    chosen = ("--select", "XX", "--select", "SR-01", "--format", "json")
    ran = epochaudit(installed, "audit", str(capture("zk-stale-control-fenced-3.9")), *chosen)
    assert ran.returncode == FINDINGS, ran.stderr
    report = json.loads(ran.stdout)
    rules = {rule["rule"]: rule for rule in report["rules"]}
    assert rules["XX-01"]["violation"] == len(report["findings"]) > 0
    assert all('"deletePartition":true' in one["evidence"][0]["text"] for one in report["findings"])
    assert rules["SR-01"]["fenced"] > 0
    assert rules["XX-02"]["unverifiable"] == 1
    assert "no_such_column" in next(iter(rules["XX-02"]["unverifiable_reasons"]))


def test_a_clean_result_is_not_told_where_a_rule_failed(installed: Path, capture: Callable[[str], Path]) -> None:
    ran = epochaudit(installed, "audit", str(capture("zk-stale-control-fenced-3.9")), "--select", "XX-02")
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
