"""Writes the payload to files or to stdout, which may be a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from epochaudit.settings import Settings, UsageError

if TYPE_CHECKING:
    from epochaudit.doctor.diagnosis import Diagnosis
    from epochaudit.report.contents import Report
    from epochaudit.timeline.merge import Timeline

PAGE_WIDTH: Final = 100  # columns of a page that does not go to a terminal
WIDEST: Final = 120  # columns of one that does: longer lines are hard to read


def renderers(chosen: Settings) -> Mapping[str, Callable[..., str | bytes]]:
    """How a report is rendered, by format."""
    from epochaudit.report import findings_table, html, json_report, junit, sarif, text

    detail = text.Detail.NORMAL
    if chosen.quiet or chosen.verbose:
        detail = text.Detail.QUIET if chosen.quiet else text.Detail.VERBOSE
    return {
        "text": partial(text.render, detail=detail),
        "json": lambda report, **_: json_report.render(report),
        "sarif": lambda report, **_: sarif.render(report),
        "junit": lambda report, **_: junit.render(report, fail_on=chosen.fail_on),
        "html": lambda report, **_: html.render(report),
        "csv": lambda report, **_: findings_table.render_csv(report),
        "parquet": lambda report, **_: findings_table.render_parquet(report),
    }


def timeline_renderers() -> Mapping[str, Callable[..., str]]:
    """How a timeline is rendered, by format."""
    from epochaudit.timeline import page, picture_page

    return {
        "text": page.render,
        "json": lambda found, **_: page.render_json(found),
        "html": lambda found, **_: picture_page.render_html(found),
        "svg": lambda found, **_: picture_page.render_svg(found),
    }


def deliver(render: Callable[..., str | bytes], report: Report | Diagnosis | Timeline, output: str) -> None:
    """Render something and write it to a file, or to stdout for `-`. Raises UsageError."""
    if output == "-":
        print_payload(render(report, width=width(), colour=colour()))
        return
    try:
        Path(output).write_bytes(_encoded(render(report, width=PAGE_WIDTH, colour=False)))
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror}; choose another --output") from error


def replace_file(path: Path, text: str) -> None:
    """Replace a file at once: who reads it meanwhile gets the old or the new text, whole. Raises OSError."""
    # the name does not end in .prom, so that a collector that lists the folder leaves it out
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        written.write_text(text, "utf-8")
        written.replace(path)
    finally:
        written.unlink(missing_ok=True)


def print_payload(payload: str | bytes) -> None:
    """Payload to stdout: UTF-8 whatever the locale is; a reader that stops early (`| head`) is no failure."""
    try:
        sys.stdout.buffer.write(_encoded(payload))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _encoded(payload: str | bytes) -> bytes:
    return payload if isinstance(payload, bytes) else payload.encode("utf-8")


def colour() -> bool:
    """Stdout is a terminal with colours, and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of a page on stdout."""
    if sys.stdout.isatty():
        return min(os.get_terminal_size(sys.stdout.fileno()).columns, WIDEST)
    return PAGE_WIDTH
