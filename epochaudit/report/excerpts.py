"""Excerpts of long recorded lines: their beginning, and the fields that decide the finding that they prove.

A line of a request log may name a thousand partitions. A field decides if the finding's own sentences name it and its value:
`"highWatermark":120` where they speak of high watermark 120.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final

from epochaudit.findings.finding import Finding

EXCERPT: Final = 480  # characters of a line, about
HEAD: Final = 110
AROUND: Final = 24  # characters shown on either side of what decides
NEAR: Final = 2_000  # characters behind the name of a topic in which the fields of its partition are looked for
CUT: Final = " … "
_DELIMITER: Final = re.compile(r"[\s,{}\[\]();]")
_WORD: Final = re.compile(r"[\w.\-]+")
_FIELD: Final = re.compile(r'"?(?P<name>[A-Za-z_][\w ]{0,30}?)"?\s?[:= ]\s?\[?"?(?P<value>-?[\w.\-]+)')
_OTHER_TOPIC: Final = re.compile(r'"(?:topic|topicId|topicName|name)"\s*:')
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def excerpt(text: str, finding: Finding) -> str:
    """The whole line if it is short; else its beginning and what decides, with ` … ` for what is left out between."""
    if len(text) <= EXCERPT:
        return text
    spans = [(0, HEAD)]
    room = EXCERPT - HEAD
    for start, stop in _deciding(text, finding):
        window = _after_delimiter(text, start), min(len(text), stop + AROUND)
        if room >= window[1] - window[0] and not any(first <= start and stop <= last for first, last in spans):
            spans.append(window)
            room -= window[1] - window[0]
    return _joined(text, [_at_delimiters(text, span) for span in sorted(spans)])


def _deciding(text: str, finding: Finding) -> Iterator[tuple[int, int]]:
    """Where values stand that the sentences name, of the answer before the request; then where the subject is named."""
    sentences = " ".join((finding.expected, finding.observed, *finding.because, finding.where)).lower()
    values = set(_WORD.findall(sentences))
    topics = [match for name in (finding.topic, finding.topic_id) if name for match in _named(text, name)]
    clients = [match for name in (finding.client, finding.group) if name for match in _named(text, name)]
    yield from ((match.start(), match.end()) for match in clients[:1])
    starts = sorted(match.start() for match in topics) or [0]
    for start, stop in reversed([*pairwise([*starts, len(text)])]):
        seen: set[str] = set()
        other = _OTHER_TOPIC.search(text, start, min(stop, start + NEAR))
        for field in _FIELD.finditer(text, start, other.start() if other else min(stop, start + NEAR)):
            name = field["name"]
            if (
                name not in seen
                and field["value"].lower() in values
                and any(word in sentences for word in _words(name))
            ):
                seen.add(name)
                yield field.start(), field.end()
    yield from ((match.start(), match.end()) for match in topics[-1:] + topics[:1])


def _named(text: str, name: str) -> Iterable[re.Match[str]]:
    return re.finditer(rf"(?<![\w.\-]){re.escape(name)}(?![\w.])", text)


def _words(name: str) -> Iterator[str]:
    """`highWatermark` as `high watermark`; sentences may leave out the first word or the last."""
    words = _HUMP.sub(" ", name).lower().split()
    yield " ".join(words)
    if len(words) > 1:
        yield " ".join(words[:-1])
        yield words[-1]


def _after_delimiter(text: str, start: int) -> int:
    """Where the word begins that `start` is in, with the name of its field."""
    before = [match.end() for match in _DELIMITER.finditer(text, max(0, start - AROUND), start)]
    return before[-1] if before else start


def _at_delimiters(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """The span without the part of a word at its end; a word that fills it stays."""
    start, stop = span
    if stop < len(text):
        ends = [match.start() for match in _DELIMITER.finditer(text, start, stop)]
        stop = ends[-1] if ends and ends[-1] > stop - AROUND * 2 else stop
    return start, stop


def _joined(text: str, spans: list[tuple[int, int]]) -> str:
    shown, end = "", 0
    for start, stop in spans:
        if start > end or not shown:
            shown += (CUT if shown else "") + text[start:stop]
        elif stop > end:
            shown += text[end:stop]
        end = max(end, stop)
    return shown + (CUT.rstrip() if end < len(text) else "")
