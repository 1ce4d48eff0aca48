"""Whatever logs have in client ids, topics, groups, paths and lines, it acts in no output."""

from __future__ import annotations

import json
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from epochaudit.findings.finding import Finding
from epochaudit.report import html, json_report, junit, sarif, text
from epochaudit.report.contents import Report
from epochaudit.report.pictures import svg
from epochaudit.timeline import page, picture_page
from tests.hostile import FORMULA, HOSTILE, TALL, UNSAFE, hostile_picture, hostile_report, hostile_timeline

REPORTS: dict[str, Callable[[Report], str]] = {
    "text": text.render,
    "json": json_report.render,
    "sarif": sarif.render,
    "junit": junit.render,
    "html": html.render,
}
TIMELINES = {
    "text": page.render,
    "json": page.render_json,
    "html": picture_page.render_html,
    "svg": picture_page.render_svg,
}
NAMESPACE = "{http://www.w3.org/2000/svg}"
MOST_BYTES = 8_000_000
ELEMENTS = {"svg", "title", "desc", "style", "rect", "g", "text", "line", "circle", "path", "polygon", "a"}


@pytest.fixture(
    params=[HOSTILE, FORMULA, pytest.param(TALL, marks=pytest.mark.slow)], ids=["acting", "formula", "megabyte"]
)
def others(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("format", REPORTS)
def test_a_report_prints_no_character_that_acts(report: Report, finding: Finding, format: str, others: str) -> None:
    shown = REPORTS[format](hostile_report(report, finding, others))
    assert not UNSAFE & set(shown)
    assert format in ("json", "sarif") or len(shown) < MOST_BYTES


@pytest.mark.parametrize("format", TIMELINES)
def test_a_timeline_prints_no_character_that_acts(format: str, others: str) -> None:
    assert not UNSAFE & set(TIMELINES[format](hostile_timeline(others)))


def test_a_program_gets_what_the_logs_say(report: Report, finding: Finding) -> None:
    [first, _] = json.loads(json_report.render(hostile_report(report, finding)))["findings"]
    assert (first["topic"], first["client"], first["group"]) == (HOSTILE, HOSTILE, HOSTILE)


def test_other_programs_read_the_documents(report: Report, finding: Finding) -> None:
    hostile = hostile_report(report, finding)
    ElementTree.fromstring(junit.render(hostile))  # noqa: S314
    results = json.loads(sarif.render(hostile))["runs"][0]["results"]
    assert all("](" not in one["message"]["text"] for one in results)


def test_a_picture_has_elements_of_its_own_only(others: str) -> None:
    for drawn in (svg.document(hostile_picture(others)), svg.drawing(hostile_picture(others), "p")):
        root = ElementTree.fromstring(drawn)  # noqa: S314
        assert {element.tag.removeprefix(NAMESPACE) for element in root.iter()} <= ELEMENTS
        names = {name for element in root.iter() for name in element.attrib}
        assert not [name for name in names if name.startswith("on") or name in ("style", "src")]
        links = [element.get("href", "") for element in root.iter(f"{NAMESPACE}a")]
        assert all(link.startswith("#p-") for link in links)
