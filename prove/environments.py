"""python -m prove.environments: audit captures in other environments, and compare the JSON reports byte for byte.

What an audit says must not depend on locale, time zone, the seed of Python's hashes, cores, Spark's settings, the order in which ranges are
read, or how large logs are read: by the compiled scanner or without, in folded runs or in full, in small ranges.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click

INHERITED: Final = ("PATH", "HOME", "JAVA_HOME", "XDG_CACHE_HOME", "PYTHONPATH")
LARGE_PLANS: Final = {"epochaudit.spark.session:SMALL_PLAN_ROWS": 0}
"""Below that number of rows an audit chooses shuffle partitions, adaptive execution and code generation itself."""
FOLDED: Final = {"epochaudit.sources.scan.datasource:FOLDED_FROM": 0}
UNFOLDED: Final = {"epochaudit.sources.scan.datasource:FOLDED_FROM": 1e18}
MUCH: Final = 1e12  # bytes of request logs, for which the scanner is compiled
SMALL_RANGES: Final = {"epochaudit.sources.scan.ranges:BLOCK": 1 << 18}
MOST_SHOWN: Final = 12


@dataclass(frozen=True)
class Environment:
    """variables: of the process. conf: Spark's settings. constants: `module:name` -> value. order: seed of the order of ranges.

    compiled: the compiled scanner reads request logs, whatever their size.
    """

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    master: str = "local[2]"
    order: int | None = None
    compiled: bool = False


REFERENCE: Final = Environment("two cores, UTC", {"TZ": "UTC"})
ENVIRONMENTS: Final = (
    Environment("LC_ALL=C, TZ=America/New_York", {"LC_ALL": "C", "TZ": "America/New_York"}),
    Environment("LC_ALL=C.UTF-8, TZ=Asia/Kolkata", {"LC_ALL": "C.UTF-8", "TZ": "Asia/Kolkata"}),
    Environment(
        "LC_ALL=tr_TR.UTF-8", {"LC_ALL": "tr_TR.UTF-8"}, {"spark.driver.extraJavaOptions": "-Duser.language=tr"}
    ),
    Environment("PYTHONHASHSEED=0", {"PYTHONHASHSEED": "0"}),
    Environment("PYTHONHASHSEED=12345", {"PYTHONHASHSEED": "12345"}),
    Environment("one core", master="local[1]"),
    Environment(
        "four cores, seven shuffle partitions",
        conf={"spark.sql.shuffle.partitions": "7"},
        constants=LARGE_PLANS,
        master="local[4]",
    ),
    Environment(
        "compiled plans, no adaptive execution", conf={"spark.sql.adaptive.enabled": "false"}, constants=LARGE_PLANS
    ),
    Environment(
        "interpreted plans, adaptive execution", conf={"spark.sql.codegen.wholeStage": "false"}, constants=LARGE_PLANS
    ),
    Environment("ranges in another order", order=1),
    Environment("ranges in a third order", order=2, master="local[4]"),
    Environment("small ranges", constants=SMALL_RANGES),
    Environment("the compiled scanner", constants=UNFOLDED, compiled=True),
    Environment("folded runs by the compiled scanner", constants=FOLDED),
    Environment("folded runs in small ranges", constants={**FOLDED, **SMALL_RANGES}),
)


class NoReport(Exception):
    """An environment gives no report."""


def report(environment: Environment, capture: Path) -> str:
    """The JSON report of a capture. Raises NoReport."""
    with TemporaryDirectory(prefix="environments-") as folder:
        output = Path(folder) / "report.json"
        conf = [option for key, value in environment.conf.items() for option in ("--conf", f"{key}={value}")]
        arguments = ["audit", str(capture), "--format", "json", "--output", str(output), "--master", environment.master]
        given = json.dumps(
            {"constants": environment.constants, "order": environment.order, "compiled": environment.compiled}
        )
        variables = {name: value for name, value in os.environ.items() if name in INHERITED}
        ran = subprocess.run(
            [sys.executable, "-c", "from prove.environments import main_of; main_of()", given, *arguments, *conf],
            env={**variables, **environment.variables},
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        if not output.is_file():
            raise NoReport(
                f"{environment.name}: exit code {ran.returncode}: {(ran.stdout + ran.stderr).strip()[-2000:]}"
            )
        return output.read_text("utf-8")


def main_of() -> None:
    """The program `epochaudit` with other constants, in a process of its own. Arguments: constants and order as JSON, its own."""
    given = json.loads(sys.argv.pop(1))
    for place, value in given["constants"].items():
        module, _, name = place.partition(":")
        setattr(importlib.import_module(module), name, value)
    if given["order"] is not None:
        pipeline = importlib.import_module("epochaudit.pipeline")
        pipeline.cut = _shuffling(pipeline.cut, given["order"])  # type: ignore[attr-defined]
    if given["compiled"]:
        datasource = importlib.import_module("epochaudit.sources.scan.datasource")
        datasource._scanned_cost = lambda _: MUCH  # type: ignore[attr-defined]
    sys.exit(importlib.import_module("epochaudit.cli.app").main())


def _shuffling(cut: Callable[[Any], list[Any]], seed: int) -> Callable[[Any], list[Any]]:
    def shuffled(files: Any) -> list[Any]:
        ranges = cut(files)
        random.Random(seed).shuffle(ranges)
        return ranges

    return shuffled


def differences(one: str, other: str) -> list[str]:
    """The fields of two JSON documents that differ, as paths with both values in short."""
    found: list[str] = []
    _compare("", json.loads(one), json.loads(other), found)
    return found or ([] if one == other else ["the same values, printed in another way"])


def _compare(path: str, one: Any, other: Any, found: list[str]) -> None:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            _compare(f"{path}.{key}", one.get(key), other.get(key), found)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, values in enumerate(zip(one, other, strict=True)):
            _compare(f"{path}[{number}]", *values, found)
    elif one != other:
        found.append(f"{path.removeprefix('.')}: {_short(one)} / {_short(other)}")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) < 80 else f"{text[:77]}..."


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("captures", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="CAPTURE...")
def main(captures: tuple[Path, ...]) -> None:
    """Audit captures in other environments. Exit code 1: a report differs from the reference's."""
    differ = False
    for capture in captures:
        try:
            reference = report(REFERENCE, capture.resolve())
            print(f"{capture.name}: {len(reference):,} bytes of JSON; reference: {REFERENCE.name}", flush=True)
            for one in ENVIRONMENTS:
                found = differences(reference, report(one, capture.resolve()))
                differ = differ or bool(found)
                print(
                    f"  {'DIFFERS' if found else 'the same':9} {one.name}",
                    *found[:MOST_SHOWN],
                    sep="\n     ",
                    flush=True,
                )
        except NoReport as error:
            sys.exit(str(error))
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
