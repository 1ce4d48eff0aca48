"""One line of JSON on a run, whatever became of it."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from epochaudit.cli import app
from epochaudit.inventory.inventory import Inventory
from epochaudit.report.contents import Report, RuleResult
from epochaudit.rules.rule import EXPOSED, PASS
from epochaudit.spark import run_metrics

RULE = RuleResult("SR-01", "name", "Title", "KIP-570", "critical", {EXPOSED: 2, PASS: 3})


def report(*_: object, **__: object) -> AbstractContextManager[Report]:
    with run_metrics.of_run().stage("judging"):
        run_metrics.of_run().read = {"files": 1, "bytes": 10, "lines": 2, "rows": 5, "quarantined": 0}
    return nullcontext(Report("0.1.0", Inventory(clusters=("payments",)), (RULE,), ()))


def test_each_run_adds_a_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "audited", report)
    command = ["audit", "c", "--output", "report.txt", "--metrics", "runs.jsonl"]
    assert app.main(command) == 1
    assert app.main([*command, "--fail-on", "never"]) == 0
    assert app.main(["audit", "c", "--output", "report.txt"]) == 1  # nobody asked for one
    first, second = map(json.loads, Path("runs.jsonl").read_text().splitlines())
    assert (first["exit_code"], second["exit_code"], first["error"]) == (1, 0, None)
    assert first["read"] == {"files": 1, "bytes": 10, "lines": 2, "rows": 5, "quarantined": 0}
    assert first["judged"]["clusters"] == ["payments"]
    assert (first["judged"]["exposed"], first["judged"]["pass"], first["judged"]["violation"]) == (2, 3, 0)
    assert first["seconds"].keys() == {"judging"}
    assert first["driver_cpu_seconds"] > 0


def test_a_profile_lists_the_most_expensive_frame_first() -> None:
    metrics = run_metrics.Metrics(seconds={"reading": 1.25, "judging": 2.0})
    metrics.frames["leadership"] = run_metrics.FrameCost(10, 0.5, 0.25)
    metrics.frames["fetches"] = run_metrics.FrameCost(1_234_567, 0.75, 3.0)
    stages, heading, first, second = run_metrics.profile(metrics).splitlines()
    assert stages == "reading 1.2 s, judging 2.0 s"
    assert heading.split() == ["frame", "rows", "tables", "and", "plan", "s", "computing", "s"]
    assert first.split() == ["fetches", "1,234,567", "0.8", "3.0"]
    assert second.split() == ["leadership", "10", "0.5", "0.2"]
    assert len({len(heading), len(first), len(second)}) == 1
    assert json.loads(run_metrics.line(metrics, 0, None, None))["frames"]["leadership"] == {
        "rows": 10, "planning_seconds": 0.5, "computing_seconds": 0.25,
    }  # fmt: skip


def test_a_profile_is_printed_on_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "audited", report)
    assert app.main(["audit", "c", "--output", "report.txt", "--profile"]) == 1
    assert capsys.readouterr().err.splitlines()[0].startswith("judging ")
    assert app.main(["audit", "c", "--output", "report.txt"]) == 1
    assert capsys.readouterr().err == ""


def test_a_run_that_fails_states_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def broken(*_: object, **__: object) -> Report:
        raise ZeroDivisionError("first line\nsecond \x1b[2J line")

    monkeypatch.setattr(app, "audited", broken)
    assert app.main(["audit", "c", "--metrics", "-"]) == 2
    error, line = capsys.readouterr().err.splitlines()
    written = json.loads(line)
    assert error == f"epochaudit: {written['error']}"
    assert (written["exit_code"], written["judged"]) == (2, None)


def test_a_file_that_cannot_be_written_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "audited", report)
    command = ["audit", "c", "--output", "report.txt", "--metrics"]
    assert app.main([*command, "."]) == 2
    assert "choose another --metrics" in capsys.readouterr().err
    monkeypatch.setattr(app, "audited", None)  # is not even started
    assert app.main([*command, "nowhere/runs.jsonl"]) == 2
    assert "its directory does not exist" in capsys.readouterr().err
