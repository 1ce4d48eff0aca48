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


def renderers(chosen: Settings) -> Mapping[str, Callable[..., str]]:
    """How a report is rendered, by format."""
    from epochaudit.report import html, json_report, junit, sarif, text

    detail = text.Detail.NORMAL
    if chosen.quiet or chosen.verbose:
        detail = text.Detail.QUIET if chosen.quiet else text.Detail.VERBOSE
    return {
        "text": partial(text.render, detail=detail),
        "json": lambda report, **_: json_report.render(report),
        "sarif": lambda report, **_: sarif.render(report),
        "junit": lambda report, **_: junit.render(report, fail_on=chosen.fail_on),
        "html": lambda report, **_: html.render(report),
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


def deliver(render: Callable[..., str], report: Report | Diagnosis | Timeline, output: str) -> None:
    """Render something and write it to a file, or to stdout for `-`. Raises UsageError."""
    if output == "-":
        print_payload(render(report, width=width(), colour=colour()))
        return
    try:
        Path(output).write_bytes(render(report, width=PAGE_WIDTH, colour=False).encode("utf-8"))
    except OSError as error:
        raise UsageError(f"can't write {output}: {error.strerror}; choose another --output") from error


def print_payload(text: str) -> None:
    """Payload to stdout: UTF-8 whatever the locale is; a reader that stops early (`| head`) is no failure."""
    try:
        sys.stdout.buffer.write(text.encode("utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def colour() -> bool:
    """Stdout is a terminal with colours, and NO_COLOR is not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns of a page on stdout."""
    if sys.stdout.isatty():
        return min(os.get_terminal_size(sys.stdout.fileno()).columns, WIDEST)
    return PAGE_WIDTH
