"""The files around the sources: workflows, forms, metadata, and what the documentation states of the sources."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.rule import Rule
from epochaudit.spark.java import OLDEST

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FORMS = sorted(path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config")
PROSE = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "lab/README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
RULES = [rule for rule in catalogue() if type(rule).__module__.startswith("epochaudit.rules.")]  # without plug-ins
NAMED_PATH = re.compile(r"`((?:epochaudit|tests|docs|conf|schemas|jobs|benchmarks|lab|\.github)/[\w./*-]*)`")
LONGEST_FUNCTION = 60
"""Lines without the docstring."""
ENTRY_LINES = 2
ENTRY_WIDTH = 140


def read_yaml(path: str | Path) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / path).read_text("utf-8"))
    return read


def steps(workflow: str, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_yaml(f".github/workflows/{workflow}.yml")["jobs"][job]["steps"]
    return found


def oldest_python() -> str:
    oldest: str = PROJECT["requires-python"].removeprefix(">=")
    return oldest


def test_ci_runs_the_test_command_of_the_readme() -> None:
    (command,) = re.findall(
        r"^(make \w+) +# runs the linters, and the tests of .*$", (ROOT / "README.md").read_text(), re.M
    )
    assert command in [step.get("run") for step in steps("ci", "test")]
    assert f"{command}-all" in [step.get("run") for step in steps("ci", "test-all")]


def test_ci_covers_the_oldest_python_and_java_that_are_supported() -> None:
    matrix = read_yaml(".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"][0] == oldest_python()
    assert matrix["java"][0] == str(OLDEST)
    classified = {name.split(" :: ")[-1] for name in PROJECT["classifiers"] if "Python :: 3." in name}
    assert set(matrix["python"]) == classified


@pytest.mark.parametrize(
    ("tag", "section", "accepted"),
    [("v{version}", "{version}", True), ("v9.9.9", "{version}", False), ("v{version}", "Unreleased", False)],
)
def test_a_release_needs_its_version_and_its_changes(tmp_path: Path, tag: str, section: str, accepted: bool) -> None:
    (check,) = (step["run"] for step in steps("release", "wheel") if step.get("name", "").startswith("The tag"))
    version = PROJECT["version"]
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (tmp_path / "CHANGELOG.md").write_text(f"## [{section.format(version=version)}]\n")
    environment = {**os.environ, "GITHUB_REF_NAME": tag.format(version=version)}
    ran = subprocess.run(["bash", "-e", "-c", check], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (ran.returncode == 0) == accepted


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_can_be_shown_and_asks_for_the_version(path: Path) -> None:
    form = read_yaml(path)
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"input", "textarea", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in fields)
    ids = [field["id"] for field in fields]
    assert len(ids) == len(set(ids))
    assert "version" in ids


def test_pre_commit_runs_the_linters_of_make_lint() -> None:
    hooks = [hook for repo in read_yaml(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks}
    assert tools == set(re.findall(r"\$\(BIN\)/(ruff|mypy|lint-imports)\b", (ROOT / "Makefile").read_text()))


def test_the_development_container_has_the_oldest_python_and_java() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
    assert container["image"].endswith(f":{oldest_python()}")
    (java,) = (feature for name, feature in container["features"].items() if "/java:" in name)
    assert java["version"] == str(OLDEST)


def test_the_citation_has_the_keys_that_its_format_requires() -> None:
    citation = read_yaml("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["license"] == PROJECT["license"]
    assert all(author.get("name") for author in citation["authors"])


def test_the_changelog_has_short_entries_below_the_usual_headings() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    releases = re.findall(r"^## (.+)$", text, re.M)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", release) for release in releases[1:])
    usual = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= usual
    entries = re.findall(r"^\* .*(?:\n  .*)*", text, re.M)
    assert [entry for entry in entries if entry.count("\n") >= ENTRY_LINES] == []
    assert [line for entry in entries for line in entry.splitlines() if len(line) > ENTRY_WIDTH] == []


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_the_documentation_names_paths_that_exist(path: Path) -> None:
    named = set(NAMED_PATH.findall(path.read_text("utf-8")))
    assert sorted(name for name in named if not list(ROOT.glob(name.rstrip("/")))) == []


def test_an_environment_for_executors_has_what_the_wheel_requires() -> None:
    required = {re.split(r"[<>=]", name)[0] for name in PROJECT["dependencies"]} - {"pyspark", "delta-spark"}
    text = (ROOT / "docs/clusters.md").read_text("utf-8")
    (declared,) = re.findall(r"^  dependencies: `(.+?)`", text, re.M)
    (installed,) = re.findall(r"bin/pip install (pyarrow .+) venv-pack$", text, re.M)
    assert required == set(declared.split()) == set(installed.split())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_an_id_finds_its_rule_and_its_cases(rule: Rule) -> None:
    (module,) = ROOT.glob(f"epochaudit/rules/*/{rule.id.replace('-', '').lower()}_*.py")
    assert type(rule).__module__.endswith(f".{module.parent.name}.{module.stem}")
    assert (ROOT / "tests/rules" / module.parent.name / f"{rule.id}.md").is_file()


def test_a_frame_is_the_module_of_its_name() -> None:
    assert {name for name in FRAMES if len(list(ROOT.glob(f"epochaudit/replay/*/{name}.py"))) != 1} == set()


def test_the_architecture_names_the_order_of_each_frame() -> None:
    text = (ROOT / "docs/architecture.md").read_text("utf-8")
    table = re.findall(r"^\| (?:control|data|) ?\| (`[^|]*`) \|", text, re.M)
    assert sorted(re.findall(r"`(\w+)`", " ".join(table))) == sorted(FRAMES)


def test_no_function_is_longer_than_the_house_rules_allow() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert f"* A function has at most {LONGEST_FUNCTION} lines, without its docstring." in text
    modules = [path for folder in ("epochaudit", "prove", "lab", "jobs") for path in ROOT.glob(f"{folder}/**/*.py")]
    lengths = [(f"{path}: {name}", length) for path in modules for name, length in function_lengths(path)]
    assert len(lengths) > 1000
    assert [function for function, length in lengths if length > LONGEST_FUNCTION] == []


def function_lengths(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a module, and how many lines each has, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            docstring = ast.get_docstring(node, clean=False)
            documented = 0 if docstring is None else docstring.count("\n") + 1
            yield node.name, node.end_lineno - node.lineno + 1 - documented
