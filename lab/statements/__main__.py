"""python -m lab.statements: do releases of Kafka write the lines that epochaudit reads?"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from lab.jar_options import jar_options
from lab.maven import ResolutionError
from lab.releases import Release, jars_of
from lab.statements.check import Checked
from lab.statements.patterns import patterns
from lab.statements.program import Program
from lab.statements.table import PAGE, Key, Table, key, numbers, read, rendered, with_release

RELEASES: Final = (
    "1.0.0", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2",
    "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1", "4.0.1", "4.1.2", "4.2.0", "4.3.1", "4.4.0",
)  # fmt: skip
"""What the table has: a release of each minor version."""
ALL_THERE, DIFFERS, NOT_RUN = 0, 1, 2
SUBJECTS: Final = r"(?i)epoch|\bfenc|unfenc|truncat|\bISRs?\b|in-sync|\bleader|\bstale"
"""What unread texts are about, unless the user asks otherwise."""


def checked(version: str, cache: Path, url: str, resolver: str) -> Checked:
    """A release's texts against all patterns. Its jars come from the cache, or from the repository."""
    jars = jars_of(Release(version), cache, url, resolver)
    return Checked(Program(jar for jar in jars if "org/apache/kafka" in jar.as_posix()))


def known(table: Table) -> Table:
    """The table's rows of the patterns that there are now, with rows for those that it lacks."""
    return Table(table.releases, {one: table.rows.get(one, frozenset()) for one in map(key, patterns())})


def missing(version: str, found: Sequence[Key], table: Table) -> list[Key]:
    """Patterns whose text the nearest release of the table has, and this one has not."""
    nearest = table.nearest(version)
    return [one for one, versions in table.rows.items() if nearest in versions and one not in found]


def _version(_: click.Context, __: click.Parameter, values: Sequence[str]) -> Sequence[str]:
    for value in values:
        if not re.fullmatch(r"\d+\.\d+\.\d+", value):
            raise click.BadParameter(f"{value} is no release of Kafka, such as {RELEASES[-1]}")
    return values


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kafka", "versions", multiple=True, metavar="VERSION", callback=_version,
    help="Release of Kafka; repeatable. [default: all of the table]",
)  # fmt: skip
@click.option("--unread", is_flag=True, help="List texts of the same loggers that no pattern reads.")
@click.option(
    "--about", default=SUBJECTS, show_default=True, metavar="PATTERN", help="Which of them: a regular expression."
)
@click.option("--write", is_flag=True, help=f"Bring docs/{PAGE.name} up to date with these releases.")
@jar_options("Jars.")
def main(
    versions: Sequence[str], unread: bool, about: str, write: bool, cache: Path, repository: str, resolver: str
) -> None:
    """Compare the patterns of log lines with the texts in the class files of Kafka releases.

    Exit codes: 0 each release has the texts that the nearest release of docs/statements.md has, 1 a text is missing, 2 a release can't
    be read.
    """
    table = known(read(PAGE.read_text("utf-8")) if PAGE.exists() else Table((), {}))
    code = ALL_THERE
    for version in sorted(versions or RELEASES, key=numbers):
        try:
            release = checked(version, cache.resolve(), repository, resolver)
        except ResolutionError as e:
            click.echo(f"{version}: {e}", err=True)
            sys.exit(NOT_RUN)
        found = sorted({key(one) for one, statements in release.read.items() if statements})
        click.echo(f"Kafka {version} has the texts of {len(found)} of {len(table.rows)} patterns.")
        for logger, text in missing(version, found, table) if table.releases else ():
            code = DIFFERS
            click.echo(f"  {table.nearest(version)} has this text of {logger}, and {version} has not: {text}")
        if unread:
            _list(release.unread(about))
        if write:
            table = with_release(table, version, found)
    if write:
        PAGE.write_text(rendered(table), "utf-8")
    sys.exit(ALL_THERE if write else code)


def _list(texts: Mapping[str, Sequence[str]]) -> None:
    for logger, found in texts.items():
        click.echo(f"  {logger}")
        for text in found:
            click.echo(f"    {text}")


if __name__ == "__main__":
    main(prog_name="python -m lab.statements")
