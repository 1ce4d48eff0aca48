"""The pages in a real browser: it reports no error, asks for nothing, filters, and fits a phone."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from epochaudit.findings.finding import Finding
from epochaudit.report import html
from epochaudit.report.contents import Report
from epochaudit.report.pictures.figure import notebook
from epochaudit.timeline import picture_page
from epochaudit.timeline.merge import Timeline
from epochaudit.timeline.picture import picture_of
from tests.hostile import hostile_picture, hostile_report, hostile_timeline
from tests.report.test_html import many_findings
from tests.timeline.facts import topics_of
from tests.timeline.incident import UNCLEAN

pytestmark = pytest.mark.slow
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1200, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert found, "the tests of HTML pages need a browser: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        yield browser
        browser.close()


@dataclass
class Opened:
    """A page, and what happened while it was open."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def shown(self, selector: str) -> int:
        return self.page.locator(f"{selector} >> visible=true").count()


Open = Callable[..., Opened]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """opened(text, size=DESK, name="page.html", ...) opens a page; what the browser complains of fails the test."""
    every: list[Opened] = []

    def open_page(text: str, size: dict[str, int] = DESK, name: str = "page.html", **options: bool) -> Opened:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        one = Opened(browser.new_page(viewport=size, **options))  # type: ignore[arg-type]
        one.page.on("request", lambda request: one.requests.append(request.url))
        one.page.on("console", lambda message: one.complaints.append(message.text))
        one.page.on("pageerror", lambda error: one.complaints.append(str(error)))
        one.page.on("dialog", lambda dialog: one.complaints.append(dialog.message))
        one.page.goto(path.as_uri())
        every.append(one)
        return one

    yield open_page
    for one in every:
        assert one.complaints == []
        assert [request for request in one.requests if request != one.page.url.partition("#")[0]] == []
        one.page.close()


@pytest.fixture
def several(report: Report, finding: Finding) -> Report:
    """A report of three findings with a picture."""
    found = (
        finding,
        replace(finding, finding_id="two", rule="FF-01", client="c1", node=1, topic="payments"),
        replace(
            finding, finding_id="three", client="c2", consequences=(replace(finding, finding_id="four", client="c3"),)
        ),
    )
    [topic] = topics_of(*UNCLEAN)
    return replace(report, findings=found, pictures=(picture_of(topic, "orders", 0),))


@pytest.fixture
def timeline() -> Timeline:
    return Timeline("orders", 0, tuple(topics_of(*UNCLEAN)))


def test_findings_are_filtered_by_what_they_are_about_and_by_text(opened: Open, several: Report) -> None:
    one = opened(html.render(several))
    assert one.shown("article") == 3
    one.page.select_option("#filter [name=rule]", "FF-01")
    assert one.shown("article") == 1
    assert one.page.locator("#filtered").inner_text() == "1 of 3 findings"
    one.page.click("#filter button")
    one.page.fill("#filter [name=client]", "c3")  # of a consequence
    assert one.shown("article") == one.shown("#f-three") == 1
    one.page.fill("#filter [name=client]", "")
    one.page.fill("#filter [name=text]", "PAYMENTS-0")
    assert one.shown("article") == one.shown("#f-two") == 1
    assert one.shown("details.group") == 1
    one.page.fill("#filter [name=text]", "nothing has this")
    assert one.shown("article") == one.shown("details.group") == 0
    one.page.click("#filter button")
    assert one.shown("article") == 3
    assert one.page.locator("#filtered").inner_text() == ""


def test_a_filter_offers_what_there_is(opened: Open, several: Report) -> None:
    page = opened(html.render(several)).page
    assert page.locator("#filter [name=rule] option").all_inner_texts() == ["all", "FF-01", "SR-01"]
    assert page.locator("#clients option").count() == 3
    assert not page.locator("#filter [name=verdict]").is_visible()  # all have the same


def test_without_the_script_all_is_shown(opened: Open, several: Report) -> None:
    one = opened(html.render(several), java_script_enabled=False)
    assert one.shown("article") == 3
    assert not one.page.locator("#filter").is_visible()


def test_a_mark_of_a_picture_leads_to_its_line(opened: Open, several: Report, timeline: Timeline) -> None:
    one = opened(html.render(several))
    one.page.locator("svg a").last.click()
    assert (
        one.page.evaluate("document.querySelector(':target').textContent").count("TRUNCATED its log to offset 10") == 1
    )
    page = opened(picture_page.render_html(timeline), name="timeline.html").page
    page.locator(".said li a").last.click()
    assert page.evaluate("document.querySelector('ol.rows :target').textContent").count("TRUNCATED its log") == 1


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_nothing_is_wider_than_the_screen(
    opened: Open, several: Report, timeline: Timeline, finding: Finding, size: dict[str, int]
) -> None:
    pages = {
        "report.html": html.render(several),
        "hostile.html": html.render(hostile_report(several, finding)),
        "timeline.html": picture_page.render_html(timeline),
        "hostile-timeline.html": picture_page.render_html(hostile_timeline()),
    }
    for name, text in pages.items():
        page = opened(text, size, name).page
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.scrollingElement.scrollWidth") <= size["width"], name


def test_a_picture_fits_a_phone_and_its_texts_are_large_enough(opened: Open, several: Report) -> None:
    page = opened(html.render(several), PHONE).page
    drawing = page.locator("svg.picture").first
    box = drawing.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    sizes = drawing.evaluate(
        "svg => [...svg.querySelectorAll('text')].map(one => parseFloat(getComputedStyle(one).fontSize))"
    )
    assert min(sizes) >= 10
    outside = drawing.evaluate(
        "svg => [...svg.querySelectorAll('text')].filter(one => one.getBoundingClientRect().right"
        " > svg.getBoundingClientRect().right + 1).map(one => one.textContent)"
    )
    assert outside == []


def test_the_verdicts_of_a_rule_can_be_read_on_a_phone(opened: Open, report: Report) -> None:
    page = opened(html.render(report), PHONE).page
    cells = page.locator("[aria-label='Verdicts of each rule'] td:visible")
    boxes = [cell.bounding_box() for cell in cells.all()]
    assert boxes
    assert all(box and box["x"] + box["width"] <= PHONE["width"] for box in boxes)


def test_what_logs_have_does_not_act(opened: Open, several: Report, finding: Finding) -> None:
    pages = {
        "report.html": html.render(hostile_report(several, finding)),
        "timeline.html": picture_page.render_html(hostile_timeline()),
        "timeline.svg": picture_page.render_svg(hostile_timeline()),
        "notebook.html": notebook(hostile_picture()),
    }
    for name, text in pages.items():
        page = opened(text, name=name).page
        page.wait_for_timeout(50)
        assert page.evaluate("window.hacked") is None, name


def test_a_document_of_its_own_is_drawn(opened: Open, timeline: Timeline) -> None:
    page = opened(picture_page.render_svg(timeline), name="timeline.svg").page
    box = page.locator("svg").first.bounding_box()
    assert box
    assert box["height"] > 300
    assert page.locator("svg text").filter(has_text="TRUNCATED its log to offset 10").count() == 1


def test_ten_thousand_findings_are_filtered(opened: Open, report: Report, finding: Finding) -> None:
    one = opened(html.render(replace(report, findings=many_findings(finding, 10_000))))
    one.page.fill("#filter [name=client]", "consumer-payments-123")
    assert one.page.locator("#filtered").inner_text() == "15 of 10,000 findings"
