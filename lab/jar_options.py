"""Where a command of the lab takes Kafka's jars from: options that all of its commands have."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, Final

import click

from lab.maven import CENTRAL

DEFAULT_CACHE: Final = Path("build/lab")
_OF_JARS: Final = (
    click.option(
        "--repository",
        default=CENTRAL,
        show_default=True,
        metavar="URL",
        help="Where jars come from, if Maven does not fetch them.",
    ),
    click.option(
        "--resolver",
        type=click.Choice(["auto", "maven", "pom"]),
        default="auto",
        show_default=True,
        help="auto: Maven if it is installed.",
    ),
)


def jar_options(cache_holds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """--cache, --repository and --resolver, passed as cache, repository and resolver. cache_holds: the help of --cache."""
    cache = click.option(
        "--cache",
        type=click.Path(path_type=Path, file_okay=False),
        default=DEFAULT_CACHE,
        show_default=True,
        help=cache_holds,
    )
    return lambda command: reduce(lambda under, option: option(under), reversed((cache, *_OF_JARS)), command)
