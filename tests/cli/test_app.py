"""The command line's contract: exit codes, streams, one line for a mistake."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

import epochaudit
from epochaudit.cli import app, commands
from epochaudit.inventory.inventory import Inventory, Missing
from epochaudit.report.contents import Report, RuleResult
from epochaudit.report.rule_pages import source_files
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION
from epochaudit.settings import Settings

CLEAN, FINDINGS, COULD_NOT_RUN, INCOMPLETE = 0, 1, 2, 3


def report_with(*verdicts: str) -> Report:
    rule = RuleResult("SR-01", "name", "Title", "KIP-570", "critical", dict.fromkeys(verdicts, 1))
    return Report("0.1.0", Inventory(), (rule,), ())


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Sequence[str], Settings]]:
    """Replaces the Spark run by a clean report and records what was asked for; runs in an empty directory."""
    asked: list[tuple[Sequence[str], Settings]] = []

    def audited(
        captures: Sequence[str], chosen: Settings, accepting: object, *, debug: bool
    ) -> AbstractContextManager[Report]:
        asked.append((captures, chosen))
        return nullcontext(report_with(PASS))

    monkeypatch.setattr(app, "audited", audited)
    monkeypatch.chdir(tmp_path)
    return asked


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed on stderr: exactly one line, and nothing on stdout."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


LACKING = Inventory(missing=(Missing("west", 1, "the request log of node 1", None, 4_100),))


@pytest.mark.parametrize(
    ("arguments", "verdict", "code"),
    [
        ((), PASS, INCOMPLETE),
        ((), EXPOSED, FINDINGS),
        (("--allow-incomplete",), PASS, CLEAN),
        (("--allow-incomplete",), VIOLATION, FINDINGS),
        (("--fail-on", "violation"), EXPOSED, INCOMPLETE),
        (("--fail-on", "never"), VIOLATION, CLEAN),
    ],
)
def test_a_clean_result_over_missing_evidence_has_an_exit_code_of_its_own(
    arguments: tuple[str, ...],
    verdict: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(replace(report_with(verdict), inventory=LACKING)))
    assert app.main(["audit", "capture", *arguments]) == code
    printed = capsys.readouterr()
    assert "Evidence is missing: the request log of node 1 (about 4,100 answers)" in " ".join(printed.out.split())
    assert ("--allow-incomplete accepts that" in printed.err) == (code == INCOMPLETE)


@pytest.mark.parametrize(
    ("fail_on", "verdict", "code"),
    [
        ("exposed", PASS, CLEAN),
        ("exposed", FENCED, CLEAN),
        ("exposed", EXPOSED, FINDINGS),
        ("exposed", VIOLATION, FINDINGS),
        ("violation", EXPOSED, CLEAN),
        ("violation", VIOLATION, FINDINGS),
        ("unverifiable", UNVERIFIABLE, FINDINGS),
        ("unverifiable", EXPOSED, FINDINGS),
        ("unverifiable", FENCED, CLEAN),
        ("never", UNVERIFIABLE, CLEAN),
        ("never", VIOLATION, CLEAN),
    ],
)
def test_the_exit_code_follows_the_threshold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fail_on: str, verdict: str, code: int
) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(report_with(verdict)))
    assert app.main(["audit", "capture", "--fail-on", fail_on]) == code
    assert capsys.readouterr().err == ""


def test_a_result_that_judged_nothing_is_incomplete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(report_with(UNVERIFIABLE)))
    assert app.main(["audit", "capture"]) == INCOMPLETE
    assert capsys.readouterr().err == (
        "epochaudit: nothing was found, but nothing was judged; --allow-incomplete accepts that\n"
    )
    assert app.main(["audit", "capture", "--allow-incomplete"]) == CLEAN


def test_selected_rules_that_are_about_nothing_here_are_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(report_with()))
    assert app.main(["audit", "capture", "--select", "SR-01", "--select", "ti-01"]) == CLEAN
    assert app.main(["audit", "capture"]) == INCOMPLETE


@pytest.mark.parametrize("select", [["SR"], ["KIP-570"], ["SR-01", "TI"]])
def test_a_selected_family_of_which_nothing_was_judged_is_no_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], select: list[str]
) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(report_with()))
    selection = [part for name in select for part in ("--select", name)]
    assert app.main(["audit", "capture", *selection]) == INCOMPLETE
    assert "nothing was found, but nothing was judged" in capsys.readouterr().err
    assert app.main(["audit", "capture", *selection, "--allow-incomplete"]) == CLEAN


def test_exposed_is_the_default_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "audited", lambda *_, **__: nullcontext(report_with(EXPOSED)))
    assert app.main(["audit", "capture"]) == FINDINGS


def test_formats_and_outputs_are_paired_in_order(
    audits: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = app.main(["audit", "a", "b", "--format", "json", "--format", "text", "--output", "report.json"])
    assert code == CLEAN
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["schema_version"] == 1
    assert capsys.readouterr().out.startswith("✓ 0 violations")


def test_findings_are_written_as_csv_to_stdout_and_as_parquet_to_a_file(
    audits: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    formats = ["--format", "parquet", "--output", "f.parquet", "--format", "csv", "--output", "-"]
    assert app.main(["audit", "a", *formats]) == CLEAN
    assert (tmp_path / "f.parquet").read_bytes().startswith(b"PAR1")
    assert capsys.readouterr().out.startswith("cluster,finding_id,")


def test_openmetrics_replace_the_file_of_the_run_before_and_its_json_lines_are_appended(
    audits: object, tmp_path: Path
) -> None:
    prom, lines = tmp_path / "epochaudit.prom", tmp_path / "runs.jsonl"
    for _ in range(2):
        assert app.main(["audit", "a", "--metrics", "epochaudit.prom", "--metrics-format", "openmetrics"]) == CLEAN
        assert app.main(["audit", "a", "--metrics", "runs.jsonl"]) == CLEAN
    assert prom.read_text().count("epochaudit_run_exit_code 0.0\n") == 1
    assert lines.read_text().count("\n") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epochaudit.prom", "runs.jsonl"]
    assert prom.stat().st_mode == lines.stat().st_mode  # the collector is another user


def test_a_log_that_was_rotated_meanwhile_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(captures: Sequence[str], chosen: Settings, accepting: object, *, debug: bool) -> Report:
        trace = "Job aborted\nepochaudit.sources.files.capture.ReplacedFileError: 1/server.log was replaced after it was found\n\tat"
        raise RuntimeError(trace)

    monkeypatch.setattr(app, "audited", broken)
    monkeypatch.chdir(tmp_path)
    assert app.main(["audit", "a"]) == COULD_NOT_RUN
    assert "1/server.log was replaced after it was found: it was rotated, perhaps; run again" in complaint(capsys)


def test_openmetrics_of_a_failed_run_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(captures: Sequence[str], chosen: Settings, *, debug: bool) -> Report:
        raise ZeroDivisionError

    monkeypatch.setattr(app, "audited", broken)
    monkeypatch.chdir(tmp_path)
    assert app.main(["audit", "a", "--metrics", "m.prom", "--metrics-format", "openmetrics"]) == COULD_NOT_RUN
    assert "epochaudit_run_exit_code 2.0\n" in (tmp_path / "m.prom").read_text()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["audit"], "CAPTURE"),
        (["audit", "c", "--fail-on", "sometimes"], "'violation'"),
        (["audit", "c", "--format", "text", "--format", "json"], "--output"),
        (["audit", "c", "--output", "a", "--output", "b"], "--format"),
        (["audit", "c", "--output", "nowhere/report"], "does not exist"),
        (["audit", "c", "--format", "parquet"], "--output FILE"),
        (["audit", "c", "--conf", "novalue"], "KEY=VALUE"),
        (["audit", "c", "--config", "missing.toml"], "missing.toml"),
        (["audit", "c", "--select", "SR-99"], "did you mean "),
        (["audit", "c", "--select", "KIP-5700"], "did you mean KIP-570"),
        (["audit", "c", "--ignore", "!!"], "epochaudit rules"),
        (["audit", "c", "--nonsense"], "--nonsense"),
        (["timeline", "orders", "c"], "orders-3"),
        (["timeline", "orders-0"], "--warehouse"),
        (["timeline", "orders-0", "c", "--warehouse", "w"], "either"),
        (["timeline", "orders-0", "c", "--from", "yesterday"], "2026-11-21T04:36"),
        (["explain", "SR-011"], "SR-01"),
        (["explain", "zzzzzz"], "epochaudit rules"),
        (["nonsense"], "nonsense"),
        (["adit"], "Did you mean 'audit'?"),
    ],
)
def test_a_mistake_gets_one_line_with_what_to_do(
    audits: object, capsys: pytest.CaptureFixture[str], arguments: list[str], hint: str
) -> None:
    assert app.main(arguments) == COULD_NOT_RUN
    assert hint in complaint(capsys)


def test_an_internal_error_is_one_line_and_a_traceback_only_on_demand(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(captures: Sequence[str], chosen: Settings, accepting: object, *, debug: bool) -> Report:
        raise ZeroDivisionError("first line\nsecond \x1b[2J line")

    monkeypatch.setattr(app, "audited", broken)
    assert app.main(["audit", "c"]) == COULD_NOT_RUN
    assert complaint(capsys) == (
        "epochaudit: internal error: ZeroDivisionError: first line; run again with --debug for the traceback\n"
    )
    assert app.main(["audit", "c", "--debug"]) == COULD_NOT_RUN
    assert "Traceback" in capsys.readouterr().err


def test_workers_without_the_package_are_told_apart_from_other_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> Report:
        raise RuntimeError(
            "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call last):\n"
            "ModuleNotFoundError: No module named 'epochaudit'"
        )

    monkeypatch.setattr(app, "audited", broken)
    assert app.main(["audit", "c"]) == COULD_NOT_RUN
    assert "Spark's Python workers don't have epochaudit: install its wheel" in complaint(capsys)


@pytest.mark.parametrize(
    "printed",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "org.apache.spark.SparkException: Not enough memory to build and broadcast the table to all worker nodes.",
    ],
)
def test_too_little_memory_is_named_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], printed: str
) -> None:
    def broken(*_: object, **__: object) -> Report:
        raise RuntimeError(f"An error occurred while calling o7.count.\n: {printed}")

    monkeypatch.setattr(app, "audited", broken)
    assert app.main(["audit", "c"]) == COULD_NOT_RUN
    assert "ran out of memory; give it more, for example --conf spark.driver.memory=4g" in complaint(capsys)


def test_a_jvm_that_was_killed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object, **__: object) -> Report:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(app, "audited", broken)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=ended))
    assert app.main(["audit", "c"]) == COULD_NOT_RUN
    assert "Spark's JVM ended before the audit did" in complaint(capsys)


def test_an_interrupt_is_not_taken_for_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(captures: Sequence[str], chosen: Settings, accepting: object, *, debug: bool) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(app, "audited", interrupted)
    assert app.main(["audit", "c"]) == COULD_NOT_RUN


def test_the_command_line_goes_before_the_configuration_file(
    audits: list[tuple[Sequence[str], Settings]], tmp_path: Path
) -> None:
    (tmp_path / "epochaudit.toml").write_text(
        'fail-on = "never"\nwarehouse = "tables"\nselect = ["SR"]\nmaster = "local[1]"\n[conf]\n"spark.a" = "1"\n"spark.b" = "1"\n'
    )
    assert app.main(["audit", "c", "--select", "KIP-516", "--conf", "spark.b=2"]) == CLEAN
    assert audits[0][1] == Settings(
        fail_on="never",
        warehouse="tables",
        select=("KIP-516",),
        master="local[1]",
        conf={"spark.a": "1", "spark.b": "2"},
    )


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ('fial-on = "never"', "unknown key 'fial-on'; did you mean 'fail-on'?"),
        ("zone = 3", "unknown key 'zone'; known keys: format, output, select"),
        (
            'fail-on = "often"',
            "fail-on has to be one of exposed, never, unverifiable, violation, found 'often'",
        ),
        ("fail-on = 3", "fail-on has to be one of exposed, never, unverifiable, violation, found 3"),
        ('select = "SR-01"', "select has to be a list of strings, found 'SR-01'"),
        ("select = [1]", "select has to be a list of strings, found [1]"),
        (
            'format = ["pdf"]',
            "format has to be a list of any of csv, html, json, junit, parquet, sarif, text, found ['pdf']",
        ),
        ("allow-incomplete = 1", "allow-incomplete has to be true or false, found 1"),
        ("master = 4", "master has to be a string, found 4"),
        ("conf = 4", "conf has to be a table of strings, found 4"),
        ("[conf]\na = 4", "conf has to be a table of strings, found {'a': 4}"),
        ("conf = ", "not valid TOML"),
    ],
)
def test_a_configuration_file_is_checked_key_by_key(
    audits: object, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, hint: str
) -> None:
    (tmp_path / "mine.toml").write_text(content)
    assert app.main(["audit", "c", "--config", "mine.toml"]) == COULD_NOT_RUN
    printed = complaint(capsys)
    assert hint in printed
    assert "mine.toml" in printed


def test_the_catalogue_is_listed_as_table_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["rules"]) == CLEAN
    assert "SR-01" in capsys.readouterr().out
    assert app.main(["rules", "--format", "json"]) == CLEAN
    entries = {entry["rule"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert entries["SR-01"] == {
        "rule": "SR-01",
        "name": "stale-stop-replica-accepted",
        "title": "A StopReplica with an older leader epoch stopped a replica",
        "kip": "KIP-570",
        "family": "SR",
        "severity": "critical",
        "since": "2.6",
    }


@pytest.mark.parametrize("asked", ["SR-01", "sr-01", "stale-stop-replica-accepted"])
def test_a_rule_is_explained_by_id_or_name(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["explain", asked]) == CLEAN
    page = capsys.readouterr().out
    assert page.startswith("SR-01 stale-stop-replica-accepted\n")
    assert "What is allowed" in page


def test_an_explained_rule_names_its_file_and_the_file_of_its_frame(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["explain", "SR-03"]) == CLEAN
    lines = capsys.readouterr().out.splitlines()
    assert "Rule: epochaudit/rules/stop_replica/sr03_stop_replica_sentinel_misused.py" in lines
    assert "Frame: epochaudit/replay/control_plane/control.py" in lines


def test_the_files_of_all_rules_and_frames_exist() -> None:
    root = Path(epochaudit.__file__).parents[1]
    files = {file for rule in catalogue() for file in source_files(rule).values()}
    assert len(files) > len(catalogue())
    assert [file for file in sorted(files) if not (root / file).is_file()] == []


def test_no_arguments_show_the_help_and_are_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([]) == COULD_NOT_RUN
    assert "Usage: epochaudit" in capsys.readouterr().err
    assert app.main(["--help"]) == CLEAN


@pytest.mark.parametrize("name", ["", *app.commands.commands])
def test_each_help_page_has_examples_that_are_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([*name.split(), "--help"]) == CLEAN
    _, _, examples = capsys.readouterr().out.partition("Examples:\n")
    commands = [shlex.split(line.partition(" > ")[0], comments=True) for line in examples.splitlines()]
    assert commands
    assert {command[0] for command in commands} == {"epochaudit"}
    for _, of, *arguments in commands:
        if "--help" not in arguments:
            app.commands.commands[of].make_context(of, arguments)  # raises for an option or argument that there is not


@pytest.mark.parametrize("name", ["", *app.commands.commands])
def test_a_help_page_cuts_no_sentence_and_names_times_as_people_write_them(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert app.main([*name.split(), "--help"]) == CLEAN
    options = capsys.readouterr().out.partition("Examples:")[0]
    assert "%Y" not in options
    assert [line for line in options.splitlines() if line.endswith("...") and "Usage" not in line] == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (
            ["audit", "c", "--rejudge", "2026"],
            "example 2026-11-21 or 2026-11-21T04:36:00 (see epochaudit audit --help)",
        ),
        (
            ["baseline", "c", "--expires", "soon"],
            "'soon' is no time; write for example 2026-11-21 (see epochaudit baseline --help)",
        ),
        (["report", "--warehouse", "w", "--format", "pdf"], "(see epochaudit report --help)"),
        (["frobnicate"], "(see epochaudit --help)"),
    ],
)
def test_a_mistake_in_an_option_names_the_help_page_of_its_command(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(arguments) == COULD_NOT_RUN
    assert hint in complaint(capsys)


def test_a_part_of_a_name_is_enough_for_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["explain", "stop-replica"]) == COULD_NOT_RUN
    assert "did you mean stale-stop-replica-accepted, " in complaint(capsys)
    assert app.main(["explain", "qqq"]) == COULD_NOT_RUN
    assert "`epochaudit rules` lists them" in complaint(capsys)


@pytest.mark.parametrize("arguments", [["audit"], ["doctor"], ["timeline", "orders-3"], ["audit", "--warehouse", "w"]])
def test_a_terminal_shows_that_files_are_listed_before_spark_starts(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    monkeypatch.setattr(commands, "progress", lambda title, **_: nullcontext(shown.append(title)))
    monkeypatch.chdir(tmp_path)
    assert app.main([*arguments, "nowhere"]) == COULD_NOT_RUN
    assert shown == ["listing nowhere"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [("epochaudit bas", ["baseline"]), ("epochaudit explain ff-0", [f"FF-0{n}" for n in range(1, 9)])],
)
def test_bash_completes_commands_and_rules(words: str, completed: list[str], tmp_path: Path) -> None:
    command = tmp_path / "epochaudit"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m epochaudit "$@"\n')
    command.chmod(0o755)
    script = (
        'eval "$(_EPOCHAUDIT_COMPLETE=bash_source epochaudit)"\n'
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_epochaudit_completion epochaudit; echo "${COMPREPLY[@]}"'
    )
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == completed


def test_output_is_utf8_whatever_the_locale_and_survives_a_closed_pipe() -> None:
    environment = {
        "PYTHONPATH": ":".join(sys.path),
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PATH": "/usr/bin:/bin",
    }
    program = (
        "import sys; from epochaudit.cli.output import print_payload; print_payload('\\u2713' + 'x' * 200_000 + '\\n')"
    )
    whole = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
    assert whole.stdout.decode("utf-8").startswith("✓x")
    piped = f"{sys.executable} -c {program!r} | head -c 3"
    cut = subprocess.run(["/bin/sh", "-c", piped], env=environment, capture_output=True, check=True)
    assert cut.stderr == b""


def test_help_and_the_settings_of_a_run_need_no_spark() -> None:
    program = (
        "import sys; from epochaudit.cli import app; app.main(['--help']); app.main(['audit', 'c', '--conf', 'x']);"
        "sys.exit('pyspark' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": ":".join(sys.path)}, capture_output=True, check=True
    )
