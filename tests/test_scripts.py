"""Scripts that others run: those of the GitHub action and the GitLab job, and the commands that the documentation prints."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import junitparser
import pytest
import yaml
from jsonschema import Draft7Validator
from pyspark.sql import SparkSession
from sarif_kit.validate import validation_errors

from tests.shell import CAPTURE, Ran, Shell

pytestmark = pytest.mark.minutes

ROOT = Path(__file__).parents[1]
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


# --- the documentation

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(r'^sh title="Needs [^"]+"$')  # what can't run here, with the reason that the page shows
INDENTED = re.compile(r"^    (?:\.venv/bin/)?(?:epochaudit|spark-submit|make) .*", re.MULTILINE)
OF_READERS = {  # what stands in pages for something of the reader's own
    "/var/log/kafka /var/lib/kafka/data": "CAPTURE/broker-1",
    "/mnt/": "CAPTURE/",
    "/logs/payments": "CAPTURE",
    "/tables/kafka": "tables",
    "/var/log/": "./",
    "/var/lib/node_exporter/": "./",
    ".venv/bin/epochaudit": "epochaudit",
    "orders-3": "u-0",
}
FEW_RULES = {"collecting", "warehouse"}  # pages that audit what no other does, for what they do with it
# Exit codes 1 and 3 are results of an audit; any other failure of a command ends the script.
STRICT = """\
mail() { cat > /dev/null; }
check() {
  case "$1 $2" in "1 epochaudit "*|"3 epochaudit "*) ;; *) echo "status $1: $2" >&2; exit 99;; esac
}
trap 'check $? "$BASH_COMMAND"' ERR
"""


class Block(NamedTuple):
    """A script, and the lines that the page shows as its output."""

    script: str
    shown: list[str]


def blocks(page: Path) -> list[Block]:
    """The scripts of a page that run here, in order. A `text` fence that follows a script shows lines of its output, `…` for the rest."""
    fences = [*FENCE.finditer(page.read_text("utf-8"))]
    found: list[Block] = []
    for before, fence in zip([None, *fences], fences, strict=False):
        if fence["info"] == "sh":
            found.append(Block(fence["content"], []))
        elif fence["info"] == "text" and before is not None and before["info"] == "sh":
            found[-1].shown.extend(fence["content"].splitlines())
    return found


def with_scripts() -> list[Path]:
    return [page for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_of_a_page_is_in_a_fence_that_runs_or_says_what_it_needs(page: Path) -> None:
    text = page.read_text("utf-8")
    shells = [fence["info"] for fence in FENCE.finditer(text) if fence["info"].startswith(("sh", "bash", "console"))]
    assert [info for info in shells if info != "sh" and not ELSEWHERE.match(info)] == []
    assert INDENTED.findall(FENCE.sub("", text)) == []


def test_most_pages_with_commands_run_them() -> None:
    assert len(with_scripts()) >= 7
    assert sum(len(blocks(page)) for page in with_scripts()) >= 18


@pytest.mark.parametrize("page", with_scripts(), ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_as_printed(
    page: Path, shell: Shell, tmp_path: Path, capture: Callable[[str], Path]
) -> None:
    (tmp_path / "CAPTURE").symlink_to(capture(CAPTURE))
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    if page.stem in FEW_RULES:
        (tmp_path / "epochaudit.toml").write_text('select = ["TR-06"]')
    for block in blocks(page):
        script = block.script
        for theirs, here in OF_READERS.items():
            script = script.replace(theirs, here)
        ran = shell.run(STRICT + script, tmp_path)
        assert ran.returncode in (0, 1, 3), f"{block.script}\n{ran.stderr}"
        printed = " ".join(ran.stdout.split())
        parts = [" ".join(part.split()) for line in block.shown for part in line.split("…")]
        assert [part for part in parts if part not in printed] == [], ran.stdout


def test_the_library_is_used_as_its_page_prints(
    spark: SparkSession, tmp_path: Path, capture: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "CAPTURE").symlink_to(capture(CAPTURE))
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/how-to/library.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for fence in FENCE.finditer(page):
        if fence["info"] == "python":
            code = fence["content"].replace("orders-3", OF_READERS["orders-3"])
            exec(compile(code, "library.md", "exec"), names)  # noqa: S102  the page's own code
    spark.catalog.clearCache()
    assert names["spark"] is spark
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
