"""Settings of an audit: the defaults, over them a TOML file, over that the command line.

The file's keys are the names of the options of `epochaudit audit`; `conf` is a table of Spark properties:

    format = ["text", "json"]
    output = ["-", "report.json"]
    ignore = ["KIP-232"]
    fail-on = "violation"

    [conf]
    "spark.driver.memory" = "4g"
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from epochaudit import toml

DEFAULT_FILE: Final = Path("epochaudit.toml")

ReportFormat = Literal["text", "json", "sarif", "junit", "html", "csv", "parquet"]
MetricsFormat = Literal["json", "openmetrics"]
FailOn = Literal["violation", "exposed", "unverifiable", "never"]
BaselineMatch = Literal["id", "subject"]
ShownOnRequest = Literal["pass", "fenced", "unverifiable"]
FORMATS: Final[tuple[str, ...]] = get_args(ReportFormat)
BINARY: Final = "parquet"
METRICS_FORMATS: Final[tuple[str, ...]] = get_args(MetricsFormat)
FAIL_ON: Final[tuple[str, ...]] = get_args(FailOn)
BASELINE_MATCH: Final[tuple[str, ...]] = get_args(BaselineMatch)
SHOWN_ON_REQUEST: Final[tuple[str, ...]] = get_args(ShownOnRequest)


class UsageError(Exception):
    """The command can't be run as given; the message states what was found and what to do."""


class ConfigError(Exception):
    """A setting that can't be used; the message names the key, what was found and what is accepted."""


class Settings(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """All settings of `epochaudit audit`, named like its options."""

    format: tuple[ReportFormat, ...] = ()
    output: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    show: tuple[ShownOnRequest, ...] = ()
    fail_on: FailOn = "exposed"
    allow_incomplete: bool = False
    baseline: str | None = None
    baseline_match: BaselineMatch = "id"
    warehouse: str | None = None
    all: bool = False
    settle_after: float = 2.0
    rejudge: datetime | None = None
    metrics: str | None = None
    metrics_format: MetricsFormat = "json"
    profile: bool = False
    progress: bool = False
    quiet: bool = False
    verbose: bool = False
    master: str | None = None
    conf: dict[str, str] = {}


def settings(file: Path | None, given: Mapping[str, object], directory: Path | None = None) -> Settings:
    """The effective settings.

    `file` is the --config file; without one, epochaudit.toml in `directory` (default: the working directory) is read
    if it exists. `given` holds what the command line names, by field name; a list given there replaces the file's
    list, `conf` is merged key by key.
    """
    default = (directory or Path()) / DEFAULT_FILE
    path = file or (default if default.is_file() else None)
    from_file = read_file(path) if path else Settings()
    named = {name: value for name, value in given.items() if value not in (None, (), {})}
    conf = named.pop("conf", {})
    if named.get("quiet") or named.get("verbose"):  # of the two, what the command line names holds
        named = {"quiet": False, "verbose": False} | named
    merged = replace(from_file, **named)
    if merged.rejudge is not None and merged.warehouse is None:
        raise ConfigError("rejudge is about what a warehouse has settled: name it with --warehouse DIR")
    if merged.quiet and merged.verbose:
        raise ConfigError("quiet and verbose exclude each other: choose one")
    return replace(merged, conf={**merged.conf, **conf}) if isinstance(conf, Mapping) else merged


def read_file(path: Path) -> Settings:
    """The settings that a configuration file names. Raises ConfigError."""
    return toml.read(path, "configuration file", Settings, ConfigError)


def destinations(chosen: Settings) -> tuple[tuple[str, str], ...]:
    """(format, destination) of each report, `-` being standard output.

    The first format goes to the first output and so on; one format may be left for standard output.
    """
    formats = chosen.format or ("text",)
    if len(chosen.output) > len(formats):
        raise ConfigError(
            f"{len(chosen.output)} outputs for {len(formats)} formats: give one --format for each --output"
        )
    outputs = chosen.output + ("-",) * (len(formats) - len(chosen.output))
    if outputs.count("-") > 1:
        raise ConfigError("more than one format for standard output: give each further --format its own --output FILE")
    if (BINARY, "-") in zip(formats, outputs, strict=True):
        raise ConfigError(f"{BINARY} is binary and can't go to standard output: give it its own --output FILE")
    for output in (*outputs, chosen.metrics or "-"):
        if output != "-" and not Path(output).absolute().parent.is_dir():
            raise ConfigError(f"can't write {output}: its directory does not exist; create it first")
    return tuple(zip(formats, outputs, strict=True))
