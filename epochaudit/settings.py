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

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

DEFAULT_FILE: Final = Path("epochaudit.toml")
FORMATS: Final = ("text", "json", "sarif", "junit", "html")
FAIL_ON: Final = ("violation", "exposed", "unverifiable", "never")
SHOWN_ON_REQUEST: Final = ("pass", "fenced", "unverifiable")


class UsageError(Exception):
    """The command can't be run as given; the message says what was found and what to do."""


class ConfigError(Exception):
    """A setting that can't be used; the message names the key, what was found and what is accepted."""


@dataclass(frozen=True)
class Settings:
    """All settings of `epochaudit audit`, named like its options."""

    format: tuple[str, ...] = ()
    output: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    show: tuple[str, ...] = ()
    fail_on: str = "exposed"
    allow_incomplete: bool = False
    baseline: str | None = None
    warehouse: str | None = None
    metrics: str | None = None
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


CHOICES: Final[Mapping[str, tuple[str, ...]]] = {"format": FORMATS, "fail-on": FAIL_ON, "show": SHOWN_ON_REQUEST}
KEYS: Final = {item.name.replace("_", "-"): item.name for item in fields(Settings)}


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
    merged = replace(from_file, **named)  # type: ignore[arg-type]
    return replace(merged, conf={**merged.conf, **conf}) if isinstance(conf, Mapping) else merged


def read_file(path: Path) -> Settings:
    """The settings that a configuration file names; every key must be known and of the right type."""
    table = read_toml(path, "configuration file", ConfigError)
    values = {KEYS[key]: _checked(path, key, value) for key, value in table.items() if _known(path, key)}
    return Settings(**values)  # type: ignore[arg-type]


def read_toml(path: Path, what: str, failure: type[Exception]) -> dict[str, Any]:
    """The table of a TOML file; what is wrong with it is raised as a `failure`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise failure(f"can't read {what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise failure(f"{path} is not valid TOML: {error}") from error


def _known(path: Path, key: str) -> bool:
    if key in KEYS:
        return True
    near = get_close_matches(key, KEYS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(KEYS))}"
    raise ConfigError(f"{path}: unknown key {key!r}{hint}")


def _checked(path: Path, key: str, value: object) -> object:
    default = getattr(Settings(), KEYS[key])
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ConfigError(f"{path}: {key} has to be a list of strings, found {value!r}")
        for item in value:
            _allowed(path, key, item)
        return tuple(value)
    if isinstance(default, Mapping):
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise ConfigError(f"{path}: {key} has to be a table of strings, found {value!r}")
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{path}: {key} has to be true or false, found {value!r}")
        return value
    if not isinstance(value, str):
        raise ConfigError(f"{path}: {key} has to be a string, found {value!r}")
    _allowed(path, key, value)
    return value


def _allowed(path: Path, key: str, value: str) -> None:
    choices = CHOICES.get(key)
    if choices and value not in choices:
        raise ConfigError(f"{path}: {key} is {value!r}; choose from {', '.join(choices)}")


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
    for output in (*outputs, chosen.metrics or "-"):
        if output != "-" and not Path(output).absolute().parent.is_dir():
            raise ConfigError(f"can't write {output}: its directory does not exist; create it first")
    return tuple(zip(formats, outputs, strict=True))
