"""What the lab lists, and which runs a choice means. Nothing here starts Kafka."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from epochaudit.rules.catalogue import catalogue
from lab.__main__ import FAILED, INTERRUPTED, NOT_RUN, PASSED, SHORT, Result, described, main, runs, short_runs
from lab.comparison import Check
from lab.releases import KRAFT, LISTED, ZOOKEEPER, Release, newer_than
from lab.scenario import Scenario
from lab.scenarios import SCENARIOS

ROOT = Path(__file__).parents[2]
IDS = {"ids": lambda one: one.name}


@pytest.mark.parametrize("one", SCENARIOS, **IDS)
def test_a_scenario_is_the_function_and_the_module_of_its_name(one: Scenario) -> None:
    name = one.name.replace("-", "_")
    assert one.run.__module__ == f"lab.scenarios.{name}"
    assert one.run.__name__ == name
    assert one.topics


def test_each_module_of_scenarios_is_listed() -> None:
    modules = {path.stem for path in (ROOT / "lab/scenarios").glob("*.py")} - {"__init__"}
    assert modules == {one.name.replace("-", "_") for one in SCENARIOS}


@pytest.mark.parametrize("one", SCENARIOS, **IDS)
def test_a_description_says_what_happens_and_what_the_report_must_say(one: Scenario) -> None:
    first, *others = one.description.split("\n\n")
    assert re.fullmatch(r"[A-Z].*\.", first)
    assert others
    assert re.search(r"no finding|report must", one.description, re.I)
    rules = set(re.findall(r"\b[A-Z]{2}-\d\d\b", one.description))
    assert rules <= {rule.id for rule in catalogue()}


def test_the_readme_of_the_lab_lists_each_scenario_and_release() -> None:
    text = (ROOT / "lab/README.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.M)) == {one.name for one in SCENARIOS}
    assert all(one.version in text for one in LISTED)


def test_the_list_has_scenarios_and_releases() -> None:
    ran = CliRunner().invoke(main, ["--list"])
    assert ran.exit_code == 0
    for one in SCENARIOS:
        assert f"{one.name} " in ran.output
        assert one.title in ran.output
    assert "3.9.1 (kraft, zookeeper)" in ran.output
    assert "4.1.0 (kraft)" in ran.output


def test_a_release_without_zookeeper_runs_with_kraft_only() -> None:
    assert {one.mode for one in runs(["3.9.1"], [], [])} == {KRAFT, ZOOKEEPER}
    assert {one.mode for one in runs(["4.0.0"], [], [])} == {KRAFT}
    assert {one.mode for one in runs(["2.8.2"], [], [])} == {ZOOKEEPER}
    assert runs(["4.0.0"], [ZOOKEEPER], []) == []


def test_without_a_choice_every_scenario_runs_on_every_release() -> None:
    everything = {(one.release.version, one.mode, one.scenario.name) for one in runs([], [], [])}
    assert everything == {
        (release.version, mode, one.name)
        for release in LISTED
        for mode in release.modes
        for one in SCENARIOS
        if one.can_run(release, mode) and (not one.upgrades or newer_than(release, mode))
    }


def test_an_upgrade_ends_with_the_next_listed_release_or_with_the_one_that_is_named() -> None:
    upgrades = {
        (one.release.version, one.mode): one.newer.version
        for one in runs([], [], ["rolling-upgrade"])
        if one.newer is not None
    }
    assert upgrades["2.3.1", ZOOKEEPER] == "2.8.2"
    assert upgrades["3.9.1", KRAFT] == "4.0.1"
    assert ("3.9.1", ZOOKEEPER) not in upgrades
    (named,) = runs(["3.9.1"], [KRAFT], ["rolling-upgrade"], "4.1.0")
    assert named.newer == Release("4.1.0")
    assert all(one.newer is None for one in runs(["3.9.1"], [], ["soak"]))


def test_share_groups_run_from_4_1_on() -> None:
    found = {one.release.version for one in runs([], [], ["share-group"])}
    assert found == {one.version for one in LISTED if one.number >= (4, 1)} != set()


def test_the_short_runs_are_listed_ones() -> None:
    assert [(one.release.version, one.mode, one.scenario.name) for one in short_runs()] == list(SHORT)
    assert {one.release for one in short_runs()} <= set(LISTED)
    assert {one.mode for one in short_runs()} == {KRAFT, ZOOKEEPER}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kafka", "4.1"], "4.1 is no release of Kafka"),
        (["--kafka", "2.2.2"], "Kafka 2.2.2 is too old: the lab starts 2.3 and newer"),
        (["--to", "2.2.2"], "Kafka 2.2.2 is too old: the lab starts 2.3 and newer"),
        (["--kafka", "2.8.2", "--mode", "kraft"], "no scenario can run there: see --list"),
        (["--kafka", "4.1.0", "--mode", "zookeeper"], "no scenario can run there: see --list"),
        (["--short", "--kafka", "4.1.0"], "--short chooses releases and scenarios itself"),
        (["--scenario", "sunshine"], "'sunshine' is not one of"),
    ],
)
def test_a_choice_that_means_nothing_is_refused(arguments: list[str], message: str) -> None:
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 2
    assert message in ran.output


def test_a_result_says_whether_the_report_is_wrong_or_the_run_failed(tmp_path: Path) -> None:
    right = Result("unclean-election", "4.1.0", KRAFT, (Check("findings", True, "none"),))
    wrong = Result("unclean-election", "4.1.0", KRAFT, (Check("findings", False, "missed: TR-06"),))
    broken = Result("unclean-election", "4.1.0", KRAFT, error="broker-1 did not start")
    assert [one.exit_code for one in (right, wrong, broken)] == [PASSED, FAILED, NOT_RUN]
    assert described(right, tmp_path).startswith("pass")
    assert "findings: missed: TR-06" in described(wrong, tmp_path)
    assert "broker-1 did not start" in described(broken, tmp_path)
    assert str(tmp_path) in described(wrong, tmp_path)
    assert str(tmp_path) not in described(right, tmp_path)


@pytest.mark.parametrize(
    ("modes", "exit_code"),
    [(["pass", "pass"], 0), (["pass", "fail"], 1), (["error", "pass"], 2), (["error", "fail"], 1)],
)
def test_the_exit_code_is_that_of_the_worst_run(
    monkeypatch: pytest.MonkeyPatch, modes: list[str], exit_code: int
) -> None:
    results = {
        "pass": Result("a", "4.1.0", KRAFT, (Check("findings", True, ""),)),
        "fail": Result("a", "4.1.0", KRAFT, (Check("findings", False, ""),)),
        "error": Result("a", "4.1.0", KRAFT, error="broker-1 did not start"),
    }
    monkeypatch.setattr("lab.__main__.carried_out", lambda *_, **__: iter([results[one] for one in modes]))
    assert CliRunner().invoke(main, ["--short"]).exit_code == exit_code


def test_an_interrupted_lab_is_not_a_report_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.__main__.carried_out", interrupted)
    assert CliRunner().invoke(main, ["--short"]).exit_code == INTERRUPTED


def test_make_has_the_commands_of_the_readme() -> None:
    recipes = (ROOT / "Makefile").read_text("utf-8")
    for target, command in (("lab", "-m lab --short"), ("lab-full", "-m lab")):
        assert re.search(rf"^{target}: setup\n\t@\$\(BIN\)/python {re.escape(command)}$", recipes, re.M)
    tests = re.search(r"^test: .*\n(?:\t.*\n)+", recipes, re.M)
    assert tests is not None
    assert "lab" not in tests[0]


def test_numbers_of_releases_compare_as_numbers() -> None:
    assert Release("3.10.0").number > Release("3.9.1").number
    assert Release("4.0.0").has_log4j2
    assert not Release("3.9.1").has_log4j2
