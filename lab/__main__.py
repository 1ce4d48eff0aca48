"""python -m lab: run scenarios on releases of Kafka, and check what epochaudit says of them."""

from __future__ import annotations

import json
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Final

import click

from lab.audit import audit
from lab.cluster import Cluster
from lab.comparison import FENCED, UNVERIFIABLE, Check, Expected, Subject, compare, unnoticed
from lab.jar_options import jar_options
from lab.maven import ResolutionError
from lab.processes import Processes, RunError
from lab.programs import Programs, programs_of
from lab.releases import KRAFT, LISTED, OLDEST, ZOOKEEPER, Release, newer_than, test_jars
from lab.scenario import Scenario
from lab.scenarios import SCENARIOS
from lab.truth import read

# `make lab`: what finds most in five minutes
SHORT: Final = (
    ("4.1.0", KRAFT, "rolling-restart"),
    ("4.1.0", KRAFT, "unclean-election"),
    ("3.9.1", ZOOKEEPER, "unclean-election"),
)
PASSED, FAILED, NOT_RUN = 0, 1, 2
INTERRUPTED: Final = 130
SECONDS: Final = 60.0  # of a scenario that goes on as long as it is asked to


@dataclass(frozen=True)
class Result:
    """What a run showed. `error`: why it could not be carried out; this is no verdict about epochaudit."""

    scenario: str
    kafka: str
    mode: str
    checks: tuple[Check, ...] = ()
    sent: int = 0
    acknowledged: int = 0
    missing: int = 0
    lost_offsets: int = 0
    findings: int = 0
    run_seconds: float = 0.0
    audit_seconds: float = 0.0
    error: str = ""

    @property
    def exit_code(self) -> int:
        if self.error:
            return NOT_RUN
        return PASSED if all(check.passed for check in self.checks) else FAILED


@dataclass(frozen=True)
class Run:
    """A scenario on a release, in one mode."""

    scenario: Scenario
    release: Release
    mode: str
    newer: Release | None = None
    seed: int = 1
    seconds: float = SECONDS

    @property
    def name(self) -> str:
        return f"{self.release.version}-{self.mode}-{self.scenario.name}"


def runs(versions: Sequence[str], modes: Sequence[str], names: Sequence[str], newer: str | None = None) -> list[Run]:
    """Every scenario on every release in every mode where it can run; without a choice, all that are listed.

    newer: the release to upgrade to, instead of the next that is listed.
    """
    releases = tuple(map(Release, versions)) or LISTED
    chosen = [one for one in SCENARIOS if one.name in names or not names]
    found = [
        Run(one, release, mode, _newer(newer, release, mode) if one.upgrades else None)
        for release in releases
        for mode in release.modes
        if mode in modes or not modes
        for one in chosen
        if one.can_run(release, mode)
    ]
    return [one for one in found if one.newer is not None or not one.scenario.upgrades]


def _newer(version: str | None, release: Release, mode: str) -> Release | None:
    return newer_than(release, mode) if version is None else Release(version)


def short_runs() -> list[Run]:
    return [one for version, mode, name in SHORT for one in runs([version], [mode], [name])]


@dataclass(frozen=True)
class Recording:
    """A run whose nodes have stopped: what is left is to audit what they recorded."""

    run: Run
    folder: Path
    expected: Expected
    nodes: Mapping[int, tuple[str, ...]]
    seconds: float


def record(run: Run, folder: Path, programs: Programs, newer: Programs | None) -> Recording:
    """The scenario on a new cluster."""
    shutil.rmtree(folder, ignore_errors=True)
    began = monotonic()
    with Processes() as processes:
        layout, settings = run.scenario.layout(run.mode), run.scenario.settings
        cluster = Cluster(processes, programs, run.mode, folder, layout, run.seed, run.seconds, settings, newer)
        cluster.start()
        expected = run.scenario.run(cluster)
        for client in cluster.clients[1:]:  # the first is the administrator
            client.stop()
        cluster.read_back(run.scenario.topics)
        cluster.stop()
        cluster.note("all nodes have stopped")
    nodes = {node.id: node.roles for node in cluster.nodes.values()}
    return Recording(run, folder, expected, nodes, monotonic() - began)


def judge(recording: Recording) -> Result:
    """Its audit, compared with the clients' own lists."""
    began = monotonic()
    run, expected = recording.run, recording.expected
    report = audit(recording.folder, (FENCED, UNVERIFIABLE) if expected.requests else (FENCED,))
    truth = read(recording.folder / "clients")
    subject = Subject(
        report, truth, expected, (run.newer or run.release).version, recording.nodes, may_control=run.mode == ZOOKEEPER,
        reported_defects=run.release.reported_defects,
    )  # fmt: skip
    checks = compare(subject)
    if all(check.passed for check in checks):
        changes = unnoticed(subject)
        checks.append(Check("the comparison notices changes", not changes, "; ".join(changes) or "all of them"))
    return Result(
        run.scenario.name,
        run.release.version,
        run.mode,
        tuple(checks),
        truth.sent,
        len(truth.acknowledged),
        len(truth.missing(truth.acknowledged, expected.deleted, expected.deleted_below)),
        sum(one["records"] for one in report["losses"]),
        sum(one["violation"] + one["exposed"] for one in report["rules"]),
        round(recording.seconds, 1),
        round(monotonic() - began, 1),
    )


def carried_out(chosen: Sequence[Run], cache: Path, url: str, resolver: str, *, keep: bool) -> Iterator[Result]:
    """The results of runs, one after the other. A run that fails does not keep the next from its turn."""
    prepared: dict[Release, Programs] = {}
    for run in chosen:
        folder = cache / "runs" / run.name
        try:
            for release in filter(None, (run.release, run.newer)):
                if release not in prepared:
                    prepared[release] = programs_of(release, cache, url, resolver)
            programs = prepared[run.release].with_jars(test_jars(run.release, run.scenario.test_jars, cache, url))
            result = judge(record(run, folder, programs, prepared[run.newer] if run.newer else None))
        except (RunError, ResolutionError) as e:
            result = Result(run.scenario.name, run.release.version, run.mode, error=str(e))
        except Exception:
            result = Result(run.scenario.name, run.release.version, run.mode, error=traceback.format_exc())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps(asdict(result), indent=1) + "\n", "utf-8")
        if not keep and result.exit_code == PASSED:
            shutil.rmtree(folder / "nodes", ignore_errors=True)
        yield result


def described(result: Result, folder: Path) -> str:
    """A line for a run that passed, and what differs of one that did not."""
    verdict = {PASSED: "pass", FAILED: "FAIL", NOT_RUN: "ERROR"}[result.exit_code]
    line = (
        f"{verdict:5}  {result.scenario:20} {result.kafka:6} {result.mode:9}  {result.sent:5} sent  {result.acknowledged:5} acknowledged"
        f"  {result.missing:4} missing  {result.lost_offsets:4} reported lost  {result.findings:3} findings"
        f"  {result.run_seconds:5.0f} s + audit {result.audit_seconds:3.0f} s"
    )
    if result.error:
        line += f"\n       {result.error.strip()}"
    line += "".join(f"\n       {check.name}: {check.reason}" for check in result.checks if not check.passed)
    return line if result.exit_code == PASSED else f"{line}\n       {folder}"


def listing() -> str:
    """Scenarios and releases."""
    lines = [f"{one.name:20} {' and '.join(one.modes):19}  {one.title}" for one in SCENARIOS]
    releases = [f"{one.version} ({', '.join(one.modes)})" for one in LISTED]
    return "\n".join([*lines, "", f"Kafka: {', '.join(releases)}; or any other from {OLDEST[0]}.{OLDEST[1]} on"])


def _listed(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(listing())
        context.exit()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--list",
    is_eager=True,
    is_flag=True,
    expose_value=False,
    callback=_listed,
    help="List scenarios and releases, and end.",
)
@click.option(
    "--kafka", "versions", multiple=True, metavar="VERSION", help="Release of Kafka; repeatable. [default: all listed]"
)
@click.option("--to", metavar="VERSION", help="Release that `rolling-upgrade` ends with. [default: the next listed]")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice([KRAFT, ZOOKEEPER]),
    help="Repeatable. [default: all that the release has]",
)
@click.option(
    "--scenario",
    "names",
    multiple=True,
    metavar="NAME",
    type=click.Choice([one.name for one in SCENARIOS]),
    help="Repeatable. [default: all]",
)
@click.option("--short", is_flag=True, help="The few runs of `make lab`.")
@jar_options("Jars and runs.")
@click.option("--seed", default=1, show_default=True, help="Chooses what the scenario `soak` does.")
@click.option("--seconds", default=SECONDS, show_default=True, help="How long the scenario `soak` goes on.")
@click.option(
    "--keep", is_flag=True, help="Keep the nodes' files of runs that pass, too. Those of others are always kept."
)
def main(
    versions: tuple[str, ...],
    modes: tuple[str, ...],
    names: tuple[str, ...],
    to: str | None,
    short: bool,
    cache: Path,
    repository: str,
    resolver: str,
    seed: int,
    seconds: float,
    keep: bool,
) -> None:
    """Run scenarios on real Kafka clusters, and compare what epochaudit reports with the clients' own lists.

    Exit codes: 0 all passed, 1 a report differs from what clients know, 2 a run could not be carried out.
    """
    if short and (versions or modes or names):
        raise click.UsageError("--short chooses releases and scenarios itself")
    for version in (*versions, *filter(None, (to,))):
        _check_version(version)
    chosen = short_runs() if short else runs(versions, modes, names, to)
    chosen = [replace(one, seed=seed, seconds=seconds) for one in chosen]
    if not chosen:
        raise click.UsageError("no scenario can run there: see --list")
    cache = cache.resolve()
    codes = []
    try:
        for result in carried_out(chosen, cache, repository, resolver, keep=keep):
            click.echo(described(result, cache / "runs" / f"{result.kafka}-{result.mode}-{result.scenario}"))
            codes.append(result.exit_code)
    except KeyboardInterrupt:  # click would exit with 1, which says that a report differs
        sys.exit(INTERRUPTED)
    sys.exit(FAILED if FAILED in codes else max(codes))


def _check_version(version: str) -> None:
    parts = version.split(".")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        raise click.UsageError(f"{version} is no release of Kafka, such as {LISTED[-1].version}")
    if Release(version).number < OLDEST:
        raise click.UsageError(f"Kafka {version} is too old: the lab starts {OLDEST[0]}.{OLDEST[1]} and newer")


if __name__ == "__main__":
    main(prog_name="python -m lab")
