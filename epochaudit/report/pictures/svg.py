"""Lays a picture out and draws it as static SVG.

The drawing is as narrow as its lanes allow and is shown at its own size, so that its text can be read on a phone. A document of its
own (`document`) has the sentences in place of the labels.

It is made with the standard library's ElementTree, which escapes all text: drawing libraries give names to the same few elements,
and no layout.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from importlib.resources import files
from textwrap import wrap
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from epochaudit.report.neutral import neutral, short
from epochaudit.report.page import plural
from epochaudit.report.pictures import picture as marks
from epochaudit.report.pictures.picture import CUT, LOG, READ, SKIPPED, Picture, Span, Step, Stretch

NAMESPACE: Final = "http://www.w3.org/2000/svg"
PITCH: Final = (22, 30)  # between lanes, at least and at most
GUTTER: Final = 50  # for times, left of the lanes
LANES: Final = 154  # width of all lanes, where the least pitch allows it
LABELS: Final = 124  # width of the labels, right of the lanes: seven lanes fill a phone 360 pixels wide
SENTENCES: Final = 620  # their width in a document of its own
ROW: Final = 23
LINE: Final = 14
CHARACTER: Final = 6.6  # average width of a character at 11 pixels, of the widest usual fonts
TITLE: Final = 600  # characters
BOLD: Final = 1.12  # how much wider bold text is
PROSE: Final = 5.8  # average width of a character of a sentence
WIDTHS: Final = ((" ijlI|.,:;'!()[]ftr/", 4.2), ("_-", 5.5), ("mwMW%@", 10.6), ("ABCDEFGHJKLNOPQRSTUVXYZ", 7.9))
EDGE: Final = 8
NAME: Final = 18  # characters of a lane's name
STRETCH: Final = 17
COLOURS: Final = 6
DESCRIPTION: Final = (
    "Columns are nodes and clients, rows are what they recorded, by leader epoch and then in each host's own order. A wide bar is "
    "the leader of the epoch, a narrow one another host that knew it. A ring marks a line that proves a finding."
)


def style() -> str:
    """The style sheet of pictures: light, dark and printed."""
    return (files("epochaudit.report.pictures") / "style.css").read_text(encoding="utf-8")


def drawing(picture: Picture, prefix: str) -> str:
    """An element `svg` for a page that has `style()`. Its marks link to the ids `PREFIX-N` of the steps, N counting from 1."""
    canvas = _Canvas(picture, prefix, wide=False)
    canvas.draw()
    return tostring(canvas.root, encoding="unicode")


def document(*pictures: Picture) -> str:
    """An SVG document that needs nothing else: the style is in it, and the steps' sentences and places. One picture below another."""
    canvases = [_Canvas(picture, f"picture-{number}", wide=True) for number, picture in enumerate(pictures, 1)]
    for canvas in canvases:
        canvas.draw()
    if len(canvases) == 1:
        return tostring(canvases[0].root, encoding="unicode")
    whole = Element("svg", {"xmlns": NAMESPACE})
    height = 0.0
    for canvas in canvases:
        canvas.root.set("y", _n(height))
        height += canvas.height
        whole.append(canvas.root)
    whole.set("width", _n(max((canvas.width for canvas in canvases), default=0)))
    whole.set("height", _n(height))
    return tostring(whole, encoding="unicode")


class _Canvas:
    """Draws from top to bottom; `_y` is where the next part begins. `height` is known when it is drawn."""

    def __init__(self, picture: Picture, prefix: str, *, wide: bool) -> None:
        self._picture, self._prefix, self._wide = picture, prefix, wide
        self._pitch = min(PITCH[1], max(PITCH[0], LANES // max(1, len(picture.lanes))))
        self._label_x = GUTTER + self._pitch * len(picture.lanes) + 8
        self._label_width = SENTENCES if wide else LABELS
        self.width = self._label_x + self._label_width + (EDGE if wide else 0)
        self._y = 0.0
        self._number = 0
        self.height = 0.0
        self._date = ""
        self.root = Element("svg", {"xmlns": NAMESPACE, "class": "picture", "role": "img"})

    def draw(self) -> None:
        ids = f"{self._prefix}-title", f"{self._prefix}-desc"
        self.root.set("aria-labelledby", " ".join(ids))
        self._text_of(SubElement(self.root, "title", id=ids[0]), f"What was recorded about {self._picture.title}")
        self._text_of(SubElement(self.root, "desc", id=ids[1]), DESCRIPTION)
        if self._wide:
            SubElement(self.root, "style").text = style()
        ground = SubElement(self.root, "rect", {"class": "ground", "width": "100%", "height": "100%"})
        if self._wide:
            self._y += 24
            self._text(EDGE, self._y - 8, f"{self._picture.title}, as recorded", "title")
        self._stretches()
        self._lane_names()
        lifelines = SubElement(self.root, "g")
        top = self._y
        for span in self._picture.spans:
            self._span(span)
        for lane in range(len(self._picture.lanes)):
            _line(lifelines, self._x(lane), top, self._x(lane), self._y, "life")
        for missing in _missing(self._picture):
            self._y += LINE
            self._text(EDGE, self._y, _fitted(missing, self.width - EDGE), "faint")
        if self._wide:
            self._y += 4
            for line in wrap(DESCRIPTION, int((self.width - 2 * EDGE) / CHARACTER)):
                self._y += LINE
                self._text(EDGE, self._y, line, "faint")
        self.height = self._y + EDGE
        size = str(self.width), _n(self.height)
        self.root.set("width", size[0])
        self.root.set("height", size[1])
        self.root.set("viewBox", f"0 0 {size[0]} {size[1]}")
        ground.set("height", size[1])

    def _x(self, lane: int) -> float:
        return GUTTER + self._pitch * (lane + 0.5)

    # Which offsets

    def _stretches(self) -> None:
        first, last = _shown_offsets(self._picture.stretches)
        if first is None or last is None:
            return
        found = [
            one for one in self._picture.stretches if one.first <= last and (one.last is None or one.last >= first)
        ]
        left, right = (150.0, self.width - 60.0) if self._wide else (122.0, self.width - EDGE)
        scale = (right - left) / (last - first + 1)
        self._y += LINE
        self._text(EDGE, self._y, "offsets", "faint")
        for one in found:
            self._y += STRETCH
            end = last if one.last is None else one.last
            x = left + scale * (max(one.first, first) - first)
            width = max(3.0, scale * (min(end, last) - max(one.first, first) + 1))
            group = SubElement(self.root, "g")
            self._text_of(SubElement(group, "title"), one.sentence)
            self._text(EDGE, self._y, _fitted(one.label, left - 2 * EDGE), into=group)
            self._bar(group, one, x, width)
            edges = (
                f"{one.first:,}" if end == one.first else f"{one.first:,} to {'' if one.last is None else f'{end:,}'}"
            )
            if one.kind == LOG and width > _width(edges) + 6:
                self._text(x + 4, self._y - 1, edges, "on-bar", into=group)
        self._y += STRETCH
        lost = [one for one in found if one.kind != LOG]
        for at, name in ((min(one.first for one in lost), "middle"), (max(one.last or 0 for one in lost), "middle")):
            x = left + scale * (at - first + 0.5)
            _line(self.root, x, self._y - STRETCH + 3, x, self._y - 9, "ask")
            self._text(min(max(x, left + 8), right - 10), self._y, f"{at:,}", f"faint {name}")

    def _bar(self, group: Element, one: Stretch, x: float, width: float) -> None:
        y = self._y - 9
        box = {"x": _n(x), "y": _n(y), "width": _n(width), "height": "11"}
        if one.kind == LOG:
            SubElement(group, "rect", {**box, "class": f"e{(one.leader_epoch or 0) % COLOURS}", "rx": "2"})
        elif one.kind == CUT:
            SubElement(group, "rect", {**box, "class": "cut"})
            stripes = [f"M{_n(at)} {_n(y + 11)}l6 -11" for at in _steps(x + 2, x + width - 6, 8)]
            SubElement(group, "path", {"class": "gone", "d": "".join(stripes)})
        elif one.kind == READ:
            SubElement(group, "rect", {**box, "y": _n(y + 3), "height": "5", "class": "read"})
        else:
            SubElement(group, "rect", {**box, "y": _n(y + 1), "height": "9", "class": "skipped"})

    # Lanes and spans

    def _lane_names(self) -> None:
        names = [neutral(_cut(lane.label, NAME)) for lane in self._picture.lanes]
        self._y += 14 + max((0.72 * _width(name) for name in names), default=0)
        for number, (lane, name) in enumerate(zip(self._picture.lanes, names, strict=True)):
            at = f"translate({_n(self._x(number) + 3)} {_n(self._y - 4)}) rotate(-45)"
            text = SubElement(self.root, "text", {"transform": at, "class": "faint" if lane.is_client else "title"})
            if name != lane.label:
                self._text_of(SubElement(text, "title"), lane.name)
                text[0].tail = name
            else:
                self._text_of(text, name)

    def _span(self, span: Span) -> None:
        colour = f"e{((span.first_epoch or 0) if span.first_epoch is not None else 0) % COLOURS}"
        group = SubElement(self.root, "g")
        top = self._y
        band = SubElement(group, "rect", {"class": f"band {colour}", "x": "0", "y": _n(top), "width": str(self.width)})
        bars = SubElement(group, "g")
        self._y += 15
        date = next((step.time[:10] for step in span.steps if step.time), self._date)
        title = span.title + (f" ({date})" if date != self._date and self._wide else "")
        self._date = date
        for number, line in enumerate(wrap(neutral(short(title, TITLE)), int((self.width - 2 * EDGE) / 6.6)) or [""]):
            self._y += LINE if number else 0
            self._text(EDGE, self._y, line, "title", into=group)
        self._y += 4
        below = self._y
        for step in span.steps:
            self._step(group, step)
        if span.left_out:
            self._y += LINE
            self._text(self._label_x, self._y - 2, f"and {plural(span.left_out, 'row')} more", "faint", into=group)
        self._y += 5
        band.set("height", _n(self._y - top))
        for lane in span.present if span.first_epoch is not None else ():
            half = 5 if lane in span.leading else 1.5
            box = {"x": _n(self._x(lane) - half), "y": _n(below), "width": _n(2 * half), "height": _n(self._y - below)}
            SubElement(bars, "rect", {**box, "class": colour})
        self._y += 1

    def _step(self, group: Element, step: Step) -> None:
        self._number += 1
        bad = _is_grave(step)
        lines = self._lines(step)
        height = max(ROW, LINE * len(lines) + 8)
        y = self._y + ROW / 2
        if self._wide:
            link = SubElement(group, "g")
        else:  # the list beside the picture has the same links, so that the keyboard goes through them once
            link = SubElement(group, "a", {"href": f"#{self._prefix}-{self._number}", "tabindex": "-1"})
        self._text_of(
            SubElement(link, "title"),
            ": ".join(short(part, TITLE // 3) for part in (step.place, step.host, step.sentence)),
        )
        area = {"y": _n(self._y), "width": str(self.width), "height": _n(height)}
        SubElement(link, "rect", {"class": "area", **area})
        if step.time:
            self._text(GUTTER - 4, y + 4, step.time[11:19], "faint end", into=link)
        if step.asker is not None and step.asker != step.lane:
            self._arrow(link, self._x(step.asker), self._x(step.lane), y)
        self._mark(link, step, self._x(step.lane), y)
        for number, (line, kind) in enumerate(lines):
            self._text(self._label_x, y + 4 + LINE * number, line, "bad" if bad and not number else kind, into=link)
        self._y += height

    def _lines(self, step: Step) -> list[tuple[str, str]]:
        label = f"{self._number} {_proof(step)}"
        if not self._wide:
            return [(_fitted(f"{label}{step.label}", self._label_width / (BOLD if _is_grave(step) else 1)), "")]
        room = int(self._label_width / PROSE)
        until = f" until {step.until[11:19]}" if step.until and step.until[11:19] != (step.time or "")[11:19] else ""
        lines = wrap(neutral(f"{label}{short(step.host, room)}{until}: {short(step.sentence, TITLE)}"), room)[:6]
        return [*((line, "") for line in lines), (_cut(neutral(short(step.place, room)), room), "faint")]

    def _arrow(self, group: Element, start: float, end: float, y: float) -> None:
        ahead = 1 if end > start else -1
        _line(group, start, y, end - ahead * 8, y, "ask")
        tip = end - ahead * 7
        _polygon(group, ((tip, y), (tip - ahead * 5, y - 3), (tip - ahead * 5, y + 3)), "head")

    def _mark(self, group: Element, step: Step, x: float, y: float) -> None:
        if step.findings:
            SubElement(group, "circle", {"class": "ring", "cx": _n(x), "cy": _n(y), "r": "10"})
        kind = step.mark
        if kind in (marks.LEADER, marks.FOLLOWER):
            _circle(group, x, y, 7, "ink" if kind == marks.LEADER else "hollow")
            letter = "on" if kind == marks.LEADER else "middle title"
            self._text(x, y + 4, "L" if kind == marks.LEADER else "F", letter, into=group)
        elif kind == marks.ELECTION:
            _polygon(group, ((x, y - 7), (x + 7, y + 6), (x - 7, y + 6)), "ink")
        elif kind == marks.UNCLEAN:
            _polygon(group, ((x, y - 9), (x + 9, y + 7), (x - 9, y + 7)), "bad")
            self._text(x, y + 5, "!", "on", into=group)
        elif kind == marks.UNKNOWN:
            _polygon(group, ((x, y - 9), (x + 9, y + 7), (x - 9, y + 7)), "hollow")
            self._text(x, y + 5, "?", "middle title", into=group)
        elif kind == marks.TRUNCATED:
            _polygon(group, ((x - 8, y - 6), (x + 8, y - 6), (x, y + 8)), "bad")
        elif kind == marks.REFUSED:
            _circle(group, x, y, 6.5, "refused")
            SubElement(group, "path", {"class": "refused", "d": f"M{_n(x - 4)} {_n(y - 4)}l8 8m0 -8l-8 8"})
        elif kind == marks.CROSSED:
            points = f"M{_n(x - 7)} {_n(y - 6)}l6 6l-6 6m7 -12l6 6l-6 6"
            SubElement(group, "path", {"class": "ring", "d": points})
        elif kind == marks.DETECTED:
            _circle(group, x, y, 7, "hollow")
            _circle(group, x, y, 3, "ink")
        elif kind in (marks.COMMIT, marks.ISR):
            shape = "ink" if kind == marks.COMMIT else "hollow"
            _polygon(group, ((x, y - 6), (x + 6, y), (x, y + 6), (x - 6, y)), shape)
        elif kind in (marks.STOPPED, marks.PROCESS):
            box = {"x": _n(x - 5), "y": _n(y - 5), "width": "10", "height": "10"}
            SubElement(group, "rect", {**box, "class": "ink" if kind == marks.STOPPED else "hollow"})
        else:
            _circle(group, x, y, 4 if kind == marks.SERVED else 3, "ink" if kind == marks.SERVED else "hollow")

    def _text(self, x: float, y: float, text: str, kind: str = "", into: Element | None = None) -> None:
        element = SubElement(self.root if into is None else into, "text", x=_n(x), y=_n(y))
        if kind:
            element.set("class", kind)
        self._text_of(element, text)

    def _text_of(self, element: Element, text: str) -> None:
        element.text = neutral(short(text, TITLE))


def _is_grave(step: Step) -> bool:
    return bool(step.findings) or step.mark in (marks.UNCLEAN, marks.TRUNCATED, marks.CROSSED)


def _proof(step: Step) -> str:
    rules = list(dict.fromkeys(rule for rule, _ in step.findings))
    return f"{rules[0]}{f' +{len(rules) - 1}' if rules[1:] else ''} " if rules else ""


def _missing(picture: Picture) -> list[str]:
    rows = f"{picture.left_out:,} rows of less weight are not drawn" if picture.left_out else ""
    return [text for text in (rows, picture.note) if text]


def _shown_offsets(stretches: Sequence[Stretch]) -> tuple[int | None, int | None]:
    """The offsets between which the bars are drawn: those that were truncated, read or skipped, and as many on either side."""
    known = [one for one in stretches if one.kind in (CUT, READ, SKIPPED)]
    if not known:
        return None, None
    first = min(one.first for one in known)
    last = max(one.first if one.last is None else one.last for one in known)
    beside = max(3, (last - first + 1) // 2)
    return max(0, first - beside), last + beside


def _steps(first: float, last: float, step: float) -> Iterable[float]:
    return (first + step * number for number in range(int(max(0, last - first) / step) + 1))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _fitted(text: str, width: float) -> str:
    """The text, or its beginning with an ellipsis, as wide as there is room."""
    shown = neutral(text[: int(width)])
    if _width(shown) <= width:
        return shown
    while shown and _width(shown) > width - 11:
        shown = shown[: -max(1, len(shown) // 50)]
    return f"{shown.rstrip()}…"


def _width(text: str) -> float:
    """The width in pixels, about."""
    return sum(map(_width_of, text))


def _width_of(character: str) -> float:
    if not character.isascii() and unicodedata.east_asian_width(character) in "WF":
        return 11.5
    return next((width for characters, width in WIDTHS if character in characters), 6.9)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _line(group: Element, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
    SubElement(group, "line", {"class": kind, "x1": _n(x1), "y1": _n(y1), "x2": _n(x2), "y2": _n(y2)})


def _circle(group: Element, x: float, y: float, radius: float, kind: str) -> None:
    SubElement(group, "circle", {"class": kind, "cx": _n(x), "cy": _n(y), "r": _n(radius)})


def _polygon(group: Element, points: Iterable[tuple[float, float]], kind: str) -> None:
    SubElement(group, "polygon", {"class": kind, "points": " ".join(f"{_n(x)},{_n(y)}" for x, y in points)})
