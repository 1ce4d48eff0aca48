"""Renders a partition's timeline as pictures: an HTML page with the rows below, and SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from epochaudit.report.pictures import svg
from epochaudit.report.pictures.picture import Picture
from epochaudit.report.templates import page
from epochaudit.timeline.merge import MOST_ROWS, Row, Timeline, TopicTimeline
from epochaudit.timeline.page import ORDER, UNPROVEN, title_of
from epochaudit.timeline.picture import Anchor, picture_of
from epochaudit.timeline.row_text import is_emphasized, statement

SHOWN: Final = 5_000  # rows of a page, among all sections


def render_html(timeline: Timeline) -> str:
    """A page of its own: a picture of each topic of the name, whose marks lead to the rows below it. Needs no network."""
    ids = _row_ids(timeline)
    lists = max(1, sum(len(topic.sections) + 2 for topic in timeline.topics))

    def shown(rows: Sequence[Row]) -> Sequence[Row]:
        return rows if len(ids) <= SHOWN else rows[: max(1, SHOWN // lists)]

    listed = {
        id(row)
        for topic in timeline.topics
        for rows in (*(section.rows for section in topic.sections), topic.silent, topic.undated)
        for row in shown(rows)
    }
    return page(
        "timeline/page.html.jinja",
        functions=(is_emphasized, statement, title_of, shown),
        timeline=timeline,
        topics=[
            (topic, _picture(timeline, topic, lambda row: ids.get(id(row)) if id(row) in listed else None))
            for topic in timeline.topics
        ],
        row_id=lambda row: ids[id(row)],
        order=ORDER,
        unproven=UNPROVEN,
        most_read=MOST_ROWS,
    )


def render_svg(timeline: Timeline) -> str:
    """One SVG document: the pictures of the topics of the name, one below the other. It ends in a newline."""
    return f"{svg.document(*(_picture(timeline, topic) for topic in timeline.topics))}\n"


def _picture(timeline: Timeline, topic: TopicTimeline, anchor: Anchor | None = None) -> Picture:
    return picture_of(topic, timeline.topic, timeline.partition, anchor=anchor, left_out=timeline.left_out)


def _row_ids(timeline: Timeline) -> dict[int, str]:
    """Row, by identity -> the id of its element."""
    rows = [
        row
        for topic in timeline.topics
        for part in (*(section.rows for section in topic.sections), topic.silent, topic.undated)
        for row in part
    ]
    return {id(row): f"r{number}" for number, row in enumerate(rows, 1)}
