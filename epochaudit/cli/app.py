"""The command line.

Three streams are separate: the payload (stdout or --output), diagnostics (stderr), progress (a terminal only).
Nothing is imported before a command needs it, so that `rules`, `explain` and `--help` answer at once.
"""

from __future__ import annotations

import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from functools import partial, reduce
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from epochaudit import settings
from epochaudit.cli.commands import audited, diagnosed, maintained, recorded, reported
from epochaudit.cli.exit_codes import CLEAN, COULD_NOT_RUN, FINDINGS, INCOMPLETE
from epochaudit.cli.output import (
    PAGE_WIDTH,
    colour,
    deliver,
    print_payload,
    renderers,
    replace_file,
    timeline_renderers,
    width,
)
from epochaudit.cli.progress import progress
from epochaudit.settings import UsageError
from epochaudit.spark import run_metrics
from epochaudit.version import VERSION

if TYPE_CHECKING:
    from epochaudit.report.contents import Report
    from epochaudit.rules.rule import Rule

PAGE_OR_JSON: Final = ("text", "json")
DOCUMENTS: Final = ("report", "doctor", "timeline", "rules", "metrics")
TIMELINE_FORMATS: Final = ("text", "json", "html", "svg")
ABSENT: Final = "No module named 'epochaudit'"  # in errors of Spark's Python workers
REPLACED: Final = re.compile(r"ReplacedFileError: (.* was replaced after it was found)")  # the same
OUT_OF_MEMORY: Final = re.compile(r"OutOfMemoryError|Not enough memory to build and broadcast|exceeded memory limits")
ACCEPTED_FOR: Final = timedelta(days=90)
MOMENTS: Final = ("%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")
EXAMPLE: Final = datetime(2026, 11, 21, 4, 36)  # as logs print it
PATH: Final = click.Path()  # or a URI: nothing is checked, shells complete it


class Moment(click.DateTime):
    """A time or day of the formats of MOMENTS; a mistake is answered with an example."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            examples = " or ".join(EXAMPLE.strftime(format) for format in self.formats)
            self.fail(f"{value!r} is no time; write for example {examples}", param, ctx)


@dataclass
class Diagnostics:
    """Prints failures; --debug adds the traceback.

    metrics, metrics_format: where the metrics go, if they are wanted, and as what. report, error: their content, as far as the
    command got.
    """

    debug: bool = False
    metrics: str | None = None
    metrics_format: settings.MetricsFormat = "json"
    report: Report | None = None
    error: str | None = None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the return value is the process's exit code, one of `epochaudit.cli.exit_codes`."""
    diagnostics = Diagnostics()
    with suppress(ValueError):  # of another thread than the main one
        signal.signal(signal.SIGTERM, _terminated)
    with run_metrics.measured() as measured:
        code = _ran(arguments, diagnostics)
        if diagnostics.metrics is None:
            return code
        try:
            _write_metrics(diagnostics.metrics, diagnostics, measured, code)
        except OSError as error:
            return _could_not_run(
                diagnostics, f"can't write {diagnostics.metrics}: {error.strerror}; choose another --metrics"
            )
    return code


def _terminated(*_: object) -> None:
    """End as after an error, so that temporary files are deleted: timeout, systemd and Kubernetes send SIGTERM."""
    raise SystemExit(128 + signal.SIGTERM)


def _write_metrics(destination: str, diagnostics: Diagnostics, measured: run_metrics.Metrics, code: int) -> None:
    """Raises OSError."""
    if diagnostics.metrics_format == "openmetrics":
        from epochaudit.report import openmetrics

        text = openmetrics.render(diagnostics.report, measured, code)
        if destination == run_metrics.STDERR:
            click.echo(text, nl=False, err=True)
        else:
            replace_file(Path(destination), text)
        return
    judged = None if diagnostics.report is None else diagnostics.report.totals
    run_metrics.write(destination, measured, code, judged, diagnostics.error)


def _ran(arguments: Sequence[str] | None, diagnostics: Diagnostics) -> int:
    try:
        code = commands.main(args=arguments, prog_name="epochaudit", standalone_mode=False, obj=diagnostics)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return COULD_NOT_RUN
    except click.ClickException as error:
        context = error.ctx if isinstance(error, click.UsageError) else None
        command = context.command_path if context else "epochaudit"
        return _could_not_run(diagnostics, f"{error.format_message().rstrip('.')} (see {command} --help)")
    except (KeyboardInterrupt, click.Abort):
        return _could_not_run(diagnostics, "interrupted; nothing was concluded")
    except Exception as error:  # the boundary of the program: whatever it is, the caller gets one line and exit code 2
        return _could_not_run(diagnostics, _message(error, debug=diagnostics.debug))
    return code if isinstance(code, int) else CLEAN


def _could_not_run(diagnostics: Diagnostics, message: str) -> int:
    from epochaudit.report.neutral import neutral

    if diagnostics.debug:
        traceback.print_exc()
    diagnostics.error = neutral(" ".join(message.split()))
    click.echo(f"epochaudit: {diagnostics.error}", err=True)
    return COULD_NOT_RUN


def _message(error: Exception, *, debug: bool) -> str:
    """Messages of this program's own errors as they are; other errors with their type and the way to the traceback."""
    if type(error).__module__.startswith("epochaudit"):
        return str(error)
    if ABSENT in str(error):
        return (
            "Spark's Python workers don't have epochaudit: install its wheel where the executors, or the Spark Connect server, "
            "find their Python (PYSPARK_PYTHON), or ship an environment (docs/clusters.md)"
        )
    if OUT_OF_MEMORY.search(str(error)):
        return (
            "Spark's driver or an executor ran out of memory; give it more, for example --conf spark.driver.memory=4g"
        )
    if _jvm_ended():
        return "Spark's JVM ended before the audit did; the system may have killed it because memory ran out"
    if replaced := REPLACED.search(str(error)):
        return f"{replaced[1]}: it was rotated, perhaps; run again"
    first_line = next(iter(str(error).splitlines()), "")
    advice = "" if debug else "; run again with --debug for the traceback"
    return f"internal error: {type(error).__name__}: {first_line}{advice}"


def _jvm_ended() -> bool:
    """True if this process started a JVM that no longer runs."""
    pyspark = sys.modules.get("pyspark")  # imported by whatever started a JVM
    gateway = getattr(getattr(pyspark, "SparkContext", None), "_gateway", None)
    jvm = getattr(gateway, "proc", None)
    return jvm is not None and jvm.poll() is not None


def _debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.ensure_object(Diagnostics).debug = value


debug_option = click.option(
    "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_debug, help="Show the traceback of a failure."
)


Command = TypeVar("Command", bound=Callable[..., Any])


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which help lists them."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


spark_options = _options(
    click.option("--master", metavar="URL", help="Spark master. [default: local[*]]"),
    click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable."),
    debug_option,
)


def _rule_ids(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The rules that shell completion offers for what was typed."""
    from epochaudit.rules.catalogue import catalogue

    return [CompletionItem(rule.id, help=rule.title) for rule in catalogue() if rule.id.startswith(begun.upper())]


rule_options = _options(
    click.option(
        "--select",
        multiple=True,
        metavar="RULE|KIP|FAMILY",
        shell_complete=_rule_ids,
        help="Judge only these rules; repeatable.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        metavar="RULE|KIP|FAMILY",
        shell_complete=_rule_ids,
        help="Leave these rules out; repeatable.",
    ),
)
page_options = _options(
    click.option("--format", type=click.Choice(PAGE_OR_JSON), default="text", show_default=True, help="Page or JSON."),
    click.option("--output", metavar="FILE", default="-", help="Where it goes. [default: stdout]"),
)


detail_options = _options(
    click.option("--quiet", "-q", is_flag=True, default=None, help="Text report: print its first line only."),
    click.option("--verbose", "-v", is_flag=True, default=None, help="Text report: print what each rule judged."),
)
baseline_options = _options(
    click.option("--baseline", metavar="FILE", help="Findings that are accepted, and do not count: see `baseline`."),
    click.option(
        "--baseline-match",
        type=click.Choice(settings.BASELINE_MATCH),
        help="What of a finding the baseline compares: its id, or rule, verdict, topic, partition, client and group. "
        "[default: id]",
    ),
)
incomplete_option = click.option(
    "--allow-incomplete",
    is_flag=True,
    default=None,
    help="Exit with 0, not 3, where nothing was found and evidence is missing that other evidence names, or nothing was judged.",
)


def _examples(*lines: tuple[str, str]) -> str:
    """The end of a help page: commands to copy, and what each does."""
    width = max(len(command) for command, _ in lines)
    listed = "\n".join(f"  {command:<{width}}  # {meaning}" for command, meaning in lines)
    return f"\b\nExamples:\n{listed}"


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": PAGE_WIDTH},
    epilog=_examples(
        ("epochaudit doctor logs/west", "what is here, what is missing"),
        ("epochaudit audit logs/west", "were records lost, and why"),
        ("epochaudit timeline orders-3 logs/west", "all that is recorded about a partition"),
        ("epochaudit explain SR-01", "what a rule checks, and what to do"),
        ("epochaudit audit --help", "formats, warehouses, baselines"),
    ),
)
@click.version_option(VERSION, message="%(prog)s %(version)s")
def commands() -> None:
    """Audit Kafka's epoch fencing from recorded logs.

    Put the logs of one cluster's nodes below one directory, in any layout: that is a CAPTURE.

    Exit codes: 0 nothing at or above --fail-on, 1 findings, 2 could not run, 3 nothing found, but evidence is missing or
    nothing was judged.
    """


@commands.command(
    epilog=_examples(
        ("epochaudit audit logs/west logs/east.tar.gz", "two clusters"),
        ("epochaudit audit logs/west --select KIP-570 --verbose", "some rules, with what each judged"),
        ("epochaudit audit logs/west --format html --output west.html", "a page for a ticket"),
        ("epochaudit audit logs/west --baseline accepted.toml", "without what is known"),
        ("epochaudit audit logs/west --warehouse tables", "nightly: reads only what is new"),
    )
)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--format", multiple=True, type=click.Choice(settings.FORMATS), help="Report format; repeatable. [default: text]"
)
@click.option(
    "--output",
    multiple=True,
    metavar="FILE",
    help="Where the report goes, `-` being stdout; one for each --format, in order.",
)
@rule_options
@detail_options
@click.option(
    "--fail-on",
    type=click.Choice(settings.FAIL_ON),
    help="Lowest verdict that makes the exit code 1. [default: exposed]",
)
@incomplete_option
@baseline_options
@click.option(
    "--show",
    multiple=True,
    type=click.Choice(settings.SHOWN_ON_REQUEST),
    help="List these verdicts too, as findings; repeatable.",
)
@click.option(
    "--warehouse",
    metavar="DIR",
    help="Read only what is new into this directory of Delta tables, and judge all it holds.",
)
@click.option(
    "--all",
    is_flag=True,
    default=None,
    help="With --warehouse: list and count findings that earlier runs reported, too.",
)
@click.option(
    "--settle-after",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="With --warehouse: do not judge again what is older than the newest lines by more than this, so that a night "
    "costs only what is new. 0: settle nothing. [default: 2]",
)
@click.option(
    "--rejudge",
    type=Moment(MOMENTS),
    metavar="TIME",
    help="With --warehouse: judge again what was settled from this time on, as the logs print it: for logs that came "
    "late. 2026-11-21 or 2026-11-21T04:36:00",
)
@click.option(
    "--metrics",
    metavar="FILE",
    help="Append a line of JSON to this file: what was read and judged, seconds, exit code. `-` is stderr.",
)
@click.option(
    "--metrics-format",
    type=click.Choice(settings.METRICS_FORMATS),
    help="Or replace the file by OpenMetrics text, for node_exporter. [default: json]",
)
@click.option(
    "--profile",
    is_flag=True,
    default=None,
    help="Print rows and seconds of each frame to stderr, and serve Spark's UI while the audit runs.",
)
@click.option(
    "--progress",
    is_flag=True,
    default=None,
    help="Where stderr is no terminal: a line each half minute. A terminal shows a bar without this.",
)
@click.option("--master", metavar="URL", help="Spark master. [default: local[*]]")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark property; repeatable.")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help=f"Settings as TOML, named like these options. [default: ./{settings.DEFAULT_FILE}, if it exists]",
)
@debug_option
@click.pass_obj
def audit(
    diagnostics: Diagnostics,
    /,
    captures: tuple[str, ...],
    config_file: Path | None,
    conf: tuple[str, ...],
    **given: Any,
) -> int:
    """Judge the recorded logs of a cluster.

    CAPTURE is a directory, local or by URI. The report states what was violated, proves it with the recorded lines, and
    lists what could not be judged.
    """
    from epochaudit.rules.catalogue import selected

    chosen = settings.settings(config_file, {**given, "conf": _properties(conf)})
    destinations = settings.destinations(chosen)
    diagnostics.metrics, diagnostics.metrics_format = chosen.metrics, chosen.metrics_format
    selected(chosen.select, chosen.ignore)  # a wrong name is reported before Spark starts
    accepting = _accepted(chosen)
    with audited(captures, chosen, accepting, debug=diagnostics.debug) as report:
        if chosen.profile:
            click.echo(run_metrics.profile(run_metrics.of_run()), err=True)
        return _concluded(report, chosen, destinations, diagnostics)


def _accepted(chosen: settings.Settings) -> Callable[[Report], Report]:
    """A function that applies the baseline, if one is named, to a report. Reads the file now: its errors precede Spark's start."""
    if chosen.baseline is None:
        return lambda report: report
    from epochaudit.cli.baseline import read_baseline

    return partial(read_baseline(Path(chosen.baseline), chosen.baseline_match).applied, today=date.today())


def _concluded(
    report: Report, chosen: settings.Settings, destinations: Iterable[tuple[str, str]], diagnostics: Diagnostics
) -> int:
    """Deliver a report, and return its exit code."""
    from epochaudit.report.losses import OpenQuestions
    from epochaudit.report.neutral import neutral
    from epochaudit.rules.catalogue import names_rules_only
    from epochaudit.rules.rule import UNVERIFIABLE

    diagnostics.report = report
    render = renderers(chosen)
    for format, output in destinations:
        deliver(render[format], report, output)
    if report.reaches(chosen.fail_on):
        return FINDINGS
    if report.failures:
        failed = "; ".join(f"{rule}: {why}" for rule, why in report.failures.items())
        return _could_not_run(diagnostics, f"rules failed, what they judge is unknown: {failed}")
    # single rules that are about nothing in this cluster have their answer; of a family or a KIP some rule was to be judged
    answered = chosen.select and not report.count(UNVERIFIABLE) and names_rules_only(chosen.select)
    questions = OpenQuestions.of(report)
    unsettled = questions.unsettled or (["nothing was judged"] if questions.nothing_judged and not answered else [])
    if unsettled and not chosen.allow_incomplete and chosen.fail_on != "never":
        click.echo(
            f"epochaudit: nothing was found, but {neutral('; '.join(unsettled))}; --allow-incomplete accepts that",
            err=True,
        )
        return INCOMPLETE
    return CLEAN


def _properties(conf: Iterable[str]) -> dict[str, str]:
    return dict(map(_property, conf))


def _property(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    if not key or not equals:
        raise UsageError(f"--conf {item!r} is not KEY=VALUE; write for example --conf spark.driver.memory=4g")
    return key, value


@commands.command(
    "report",
    short_help="Render the reports of a warehouse's last runs again.",
    epilog=_examples(
        ("epochaudit report --warehouse tables", "the last run of each cluster"),
        ("epochaudit report --warehouse tables --new", "what it was the first to report"),
        ("epochaudit report --warehouse tables --format html --output west.html", "as a page"),
    ),
)
@click.option("--warehouse", metavar="DIR", required=True, help="The directory that `audit --warehouse` filled.")
@click.option("--cluster", metavar="NAME", help="The last run that audited this cluster. [default: of each cluster]")
@click.option("--new", is_flag=True, help="List and count only findings that the last run was the first to report.")
@click.option(
    "--since",
    type=Moment(MOMENTS),
    metavar="TIME",
    help="List and count only findings first reported at this time (UTC) or later: 2026-11-21 or 2026-11-21T04:36:00.",
)
@click.option(
    "--format", multiple=True, type=click.Choice(settings.FORMATS), help="Report format; repeatable. [default: text]"
)
@click.option("--output", multiple=True, metavar="FILE", help="Where the report goes; one for each --format, in order.")
@detail_options
@click.option("--fail-on", type=click.Choice(settings.FAIL_ON), help="Lowest verdict that makes the exit code 1.")
@incomplete_option
@baseline_options
@spark_options
@click.pass_obj
def report_again(
    diagnostics: Diagnostics,
    /,
    warehouse: str,
    cluster: str | None,
    new: bool,
    since: datetime | None,
    conf: tuple[str, ...],
    **given: Any,
) -> int:
    """Render the reports of a warehouse's last runs again, without reading logs.

    Of clusters that were audited in different runs, the last run of each. Findings that --new or --since excludes are
    counted as known.
    """
    if new and since is not None:
        raise UsageError("--new and --since exclude each other: choose one")
    chosen = settings.settings(None, {**given, "conf": _properties(conf)})
    destinations, accepting = settings.destinations(chosen), _accepted(chosen)
    since_when = since if since is not None else new
    report = reported(warehouse, cluster, since_when, chosen, accepting, debug=diagnostics.debug)
    return _concluded(report, chosen, destinations, diagnostics)


@commands.command(
    epilog=_examples(
        ('epochaudit baseline logs/west --reason "drill" --output accepted.toml', "write them down"),
        ("epochaudit audit logs/west --baseline accepted.toml", "and accept them"),
    )
)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=PATH)
@click.option(
    "--reason", default="known when the baseline was written", show_default=True, help="Why they are accepted."
)
@click.option("--owner", help="Who accepts them. [default: the user]")
@click.option(
    "--expires",
    type=Moment(MOMENTS[:1]),
    metavar="DATE",
    help="The last day: 2027-02-28. [default: in 90 days]",
)
@rule_options
@click.option("--output", metavar="FILE", default="-", help="Where it goes. [default: stdout]")
@spark_options
@click.pass_obj
def baseline(
    diagnostics: Diagnostics,
    /,
    captures: tuple[str, ...],
    reason: str,
    owner: str | None,
    expires: datetime | None,
    output: str,
    **given: Any,
) -> int:
    """Write the findings of a capture as accepted ones.

    For `audit --baseline FILE`, which lists them without failing. Go through the file: give each its own reason,
    and take out what nobody should accept. The exit code is 0 whatever was found.
    """
    from epochaudit.cli.baseline import written
    from epochaudit.report.contents import Acceptance

    chosen = settings.settings(None, {**given, "conf": _properties(given["conf"])})
    last = date.today() + ACCEPTED_FOR if expires is None else expires.date()
    acceptance = Acceptance(reason, owner or getuser(), last)
    with audited(captures, chosen, lambda found: found, debug=diagnostics.debug) as report:
        if report.left_out:
            raise UsageError(
                f"too many findings to be accepted one by one: {', '.join(report.left_out)}; --ignore the rule"
            )
        deliver(lambda found, **_: written(found.findings, acceptance), report, output)
    return CLEAN


@commands.command(epilog=_examples(("epochaudit maintain --warehouse tables --keep-days 30", "a month of requests")))
@click.option("--warehouse", metavar="DIR", required=True, help="The directory that `audit --warehouse` filled.")
@click.option(
    "--keep-days",
    type=click.IntRange(min=1),
    metavar="N",
    help="Remove request logs that end more than N days before the newest of their cluster. [default: keep all]",
)
@spark_options
@click.pass_obj
def maintain(
    diagnostics: Diagnostics,
    /,
    warehouse: str,
    keep_days: int | None,
    master: str | None,
    conf: tuple[str, ...],
) -> int:
    """Keep a warehouse small and quick.

    Removes old request logs and rows that no longer count, compacts the tables' files and deletes old ones.
    """
    chosen = settings.settings(None, {"master": master, "conf": _properties(conf)})
    done = maintained(warehouse, keep_days, chosen, debug=diagnostics.debug)
    from epochaudit.report.page import plural

    removed = f"{plural(done.files, 'request log')} and the rows of {plural(done.parts, 'part')}"
    print_payload(f"{warehouse}: {removed} removed, tables compacted\n")
    return CLEAN


@commands.command(
    epilog=_examples(
        ("epochaudit doctor logs/west", "a page"),
        ("epochaudit doctor logs/west --format json", "for programs"),
    )
)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, type=PATH)
@page_options
@spark_options
@click.pass_obj
def doctor(
    diagnostics: Diagnostics,
    /,
    captures: tuple[str, ...],
    format: str,
    output: str,
    master: str | None,
    conf: tuple[str, ...],
) -> int:
    """State what a capture can prove.

    What is in it, what is missing, which families of rules can be judged and why others can't, and the logger settings
    that would close the gaps. The exit code is 0 whatever is missing.
    """
    from epochaudit.doctor import page

    chosen = settings.settings(None, {"master": master, "conf": _properties(conf)})
    diagnosis = diagnosed(captures, chosen, debug=diagnostics.debug)
    deliver(page.render if format == "text" else lambda content, **_: page.render_json(content), diagnosis, output)
    return CLEAN


@commands.command(
    short_help="Collect what an audit needs from hosts.",
    epilog=_examples(
        ("epochaudit collect /var/log/kafka /var/lib/kafka --output west.tar.gz", "on a host"),
        ("epochaudit collect hosts --output west --time-zone Europe/Berlin", "of folders of several hosts"),
    ),
)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=PATH)
@click.option(
    "--output", metavar="CAPTURE", required=True, help="The folder to make, or the archive: *.tar.gz, *.tar.zst, *.tar."
)
@click.option("--time-zone", metavar="NAME", help="The zone that the hosts' logs print, as Europe/Berlin.")
@debug_option
def collect(paths: tuple[str, ...], output: str, time_zone: str | None) -> int:
    """Collect what an audit needs from hosts' log and data directories.

    PATH is a log directory, a data directory, or a directory with those of several hosts of one cluster. Takes logs,
    checkpoints, metadata logs, and of data segments the headers of their batches: no record leaves the host, and no setting
    but those that an audit reads. Lists what it took and what it left. Nothing is changed or written but CAPTURE.
    """
    from epochaudit.collecting.collection import collect as collected
    from epochaudit.collecting.summary import render

    with progress(f"collecting from {', '.join(paths)}"):
        done = collected(paths, output, time_zone=_zone(time_zone))
    print_payload(render(done))
    return CLEAN


def _zone(name: str | None) -> str | None:
    from zoneinfo import ZoneInfo

    try:
        return name and ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        raise UsageError(f"--time-zone {name!r} is unknown; use a name such as Europe/Berlin") from None


@commands.command(
    "timeline",
    epilog=_examples(
        ("epochaudit timeline orders-3 logs/west", "all of it"),
        ("epochaudit timeline orders-3 logs/west --epoch 7", "a leader epoch"),
        ("epochaudit timeline orders-3 --warehouse tables --from 2026-11-21T04:36", "since then"),
    ),
)
@click.argument("subject", metavar="TOPIC-PARTITION")
@click.argument("captures", metavar="CAPTURE...", nargs=-1, type=PATH)
@click.option(
    "--warehouse", metavar="DIR", help="What `audit --warehouse` read into this directory, instead of captures."
)
@click.option(
    "--epoch",
    "epochs",
    multiple=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Only rows under or about this leader epoch; repeatable.",
)
@click.option(
    "--from", "since", metavar="TIME", help="Only rows of this time or later: 2026-11-21T04:36, as hosts print it."
)
@click.option("--until", metavar="TIME", help="Only rows of this time or earlier.")
@click.option(
    "--format",
    type=click.Choice(TIMELINE_FORMATS),
    default="text",
    show_default=True,
    help="Page, JSON, or a picture: with the rows as HTML, or as SVG.",
)
@click.option("--output", metavar="FILE", default="-", help="Where it goes. [default: stdout]")
@spark_options
@click.pass_obj
def timeline_of_partition(
    diagnostics: Diagnostics,
    /,
    subject: str,
    captures: tuple[str, ...],
    warehouse: str | None,
    epochs: tuple[int, ...],
    since: str | None,
    until: str | None,
    format: str,
    output: str,
    **given: Any,
) -> int:
    """Show all that is recorded about one partition.

    Merged over all nodes and clients, by leader epoch: elections, requests and their answers, refusals, truncations, commits,
    and fetches as spans, each with its node, time, file and line. It states which order is certain. The formats html and svg draw
    it: lanes of nodes and clients, leader epochs, truncated offsets and who had read them. The exit code is 0.
    """
    from epochaudit.timeline import merge as timeline

    topic, partition = timeline.subject_of(subject)
    if bool(captures) == (warehouse is not None):
        raise UsageError("name either CAPTURE... or --warehouse DIR")
    times = [_moment("--from", since), _moment("--until", until)]
    chosen = settings.settings(None, {"master": given["master"], "conf": _properties(given["conf"])})
    events = recorded(captures, warehouse, chosen, debug=diagnostics.debug)
    with progress(f"looking for {subject}"):
        found = timeline.timeline(events, topic, partition)
    if epochs or any(times):
        found = timeline.narrowed(found, epochs, *times)
    deliver(timeline_renderers()[format], found, output)
    return CLEAN


def _moment(option: str, text: str | None) -> str | None:
    """A time as the reports print it, or the beginning of one."""
    if text is not None and not re.fullmatch(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d{1,3})?)?)?)?", text):
        raise UsageError(f"{option} {text!r} is no time; write for example 2026-11-21T04:36 or 2026-11-21T04:36:42.500")
    return None if text is None else text.replace(" ", "T")


@commands.command(epilog=_examples(("epochaudit rules", "a table"), ("epochaudit rules --format json", "for programs")))
@click.option(
    "--format", type=click.Choice(PAGE_OR_JSON), default="text", show_default=True, help="Table or JSON array."
)
@debug_option
def rules(format: str) -> None:
    """List the catalogue of rules."""
    from epochaudit.report import rule_pages
    from epochaudit.rules.catalogue import catalogue

    listed = catalogue()
    as_table = format == "text"
    print_payload(rule_pages.table(listed, width(), colour=colour()) if as_table else rule_pages.listing(listed))


@commands.command(epilog=_examples(("epochaudit explain SR-01", "by id, or by name")))
@click.argument("rule", metavar="RULE", shell_complete=_rule_ids)
@debug_option
def explain(rule: str) -> None:
    """Show the page of one RULE."""
    from epochaudit.report import rule_pages

    print_payload(rule_pages.page(_rule(rule), width(), colour=colour()))


@commands.command(epilog=_examples(("epochaudit schema report > report.schema.json", "of audit --format json")))
@click.argument("document", type=click.Choice(DOCUMENTS))
@debug_option
def schema(document: str) -> None:
    """Print the JSON Schema of a document.

    `report`, `doctor`, `timeline` and `rules` are what the commands write with --format json (`report` also `audit`), `metrics` is a
    line of `audit --metrics`.
    """
    from epochaudit.events.package_data import package_data

    print_payload((package_data("schemas") / f"{document}.schema.json").read_text("utf-8"))


def _rule(asked: str) -> Rule:
    from epochaudit.rules.catalogue import catalogue

    by_id = {rule.id: rule for rule in catalogue()}
    by_name = {rule.name: rule for rule in catalogue()}
    found = by_id.get(asked.upper()) or by_name.get(asked.lower())
    if found:
        return found
    near = get_close_matches(asked.upper(), by_id, n=3)
    near = near or [name for name in by_name if asked.lower() in name][:3]
    near = near or get_close_matches(asked.lower(), by_name, n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "`epochaudit rules` lists them"
    raise UsageError(f"no rule {asked}: {hint}")
