"""Excerpts of long recorded lines: their beginning, and the fields that decide the finding that they prove.

A line of a request log may name a thousand partitions. A field decides if the finding's own sentences name it and its value:
`"highWatermark":120` where they speak of high watermark 120.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from epochaudit.findings.finding import Finding

EXCERPT: Final = 480  # characters of a line, about
HEAD: Final = 110
AROUND: Final = 24  # characters shown on either side of what decides
NEAR: Final = 2_000  # characters behind the name of a topic in which the fields of its partition are looked for
CUT: Final = " … "
_DELIMITER: Final = re.compile(r"[\s,{}\[\]();]")
_WORD: Final = re.compile(r"[\w.\-]+")
_FIELD: Final = re.compile(r'"?(?P<name>[A-Za-z_][\w ]{0,30}?)"?\s?[:= ]\s?\[?"?(?P<value>-?[\w.\-]+)')
_TOPIC: Final = re.compile(r'\b(?:topic|topicId|topicName|name|topic_name|topic_id)"?[:=]"?(?P<value>[\w.\-]+)')
_TOPIC_ID: Final = re.compile(r"(?<![\w\-])[\w\-]{22}(?![\w\-])")
_NAME_PART: Final = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


def excerpt(text: str, finding: Finding, limit: int = EXCERPT) -> str:
    """The whole line if it is short; else its beginning and what decides, with ` … ` for what is left out between.

    It has `limit` characters, and a few more where a word or field ends.
    """
    if len(text) <= limit:
        return text
    head = HEAD * limit // EXCERPT
    spans = [(0, head)]
    room = limit - head
    for start, stop in _deciding(text, finding):
        window = _after_delimiter(text, start), min(len(text), stop + AROUND)
        if room >= window[1] - window[0] and not any(first <= start and stop <= last for first, last in spans):
            spans.append(window)
            room -= window[1] - window[0]
    return _joined(text, [_at_delimiters(text, span) for span in sorted(spans)])


def _deciding(text: str, finding: Finding) -> Iterator[tuple[int, int]]:
    """Where the client is named, then the values that the sentences name, then where the subject is named.

    The sentences' own name of a field counts more than a part of it; of equals the answer comes before the request.
    """
    sentences = " ".join((finding.expected, finding.observed, *finding.because))
    names = {name for name in (finding.topic, finding.topic_id) if name}
    topics = _named(text, names)
    if not topics:  # the line is about another topic of the name, whose id the sentences state
        names = set(_TOPIC_ID.findall(sentences))
        topics = _named(text, names)
    clients = _named(text, {name for name in (finding.client, finding.group) if name})
    yield from ((match.start(), match.end()) for match in clients[:1])
    starts = [match.start() for match in topics] or [0]
    spans = reversed([*pairwise([*starts, len(text)])])
    prose = f"{sentences} {finding.where}".lower()
    fields = [field for span in spans for field in _stated_fields(text, span, names, prose)]
    for _, field in sorted(fields, key=lambda ranked: -ranked[0]):
        yield field.start(), field.end()
    yield from ((match.start(), match.end()) for match in topics[-1:] + topics[:1])


def _stated_fields(
    text: str, span: tuple[int, int], names: Collection[str], prose: str
) -> Iterator[tuple[int, re.Match[str]]]:
    """The fields of the topic whose name begins the span, if the prose has their value, each with its `_rank`."""
    start, stop = span[0], min(span[1], span[0] + NEAR)
    of_others = (match for match in _TOPIC.finditer(text, start, stop) if not _is_of(text, match, names))
    stop = next((match.start() for match in of_others), stop)
    values = set(_WORD.findall(prose))
    seen: set[str] = set()
    for field in _FIELD.finditer(text, start, stop):
        name = field["name"]
        if name not in seen and field["value"].lower() in values and (rank := _rank(name, prose)):
            seen.add(name)
            yield rank, field


def _is_of(text: str, topic: re.Match[str], names: Collection[str]) -> bool:
    """The match is one of the names, or the id that stands directly behind one."""
    return topic["value"] in names or text.endswith(tuple(f'"{name}","' for name in names), 0, topic.start())


def _named(text: str, names: Collection[str]) -> list[re.Match[str]]:
    """Where the names stand in the text, in order; paths of files are left out."""
    found = (re.finditer(rf"(?<![\w.\-/]){re.escape(name)}(?![\w.])", text) for name in names)
    return sorted(chain.from_iterable(found), key=lambda match: match.start())


def _rank(field: str, prose: str) -> int:
    """How many words of the field's name follow one another in the prose: 2 for `logStartOffset` in "log start".

    An error code is what was "answered".
    """
    words = _NAME_PART.sub(" ", field).lower().split()
    if words[-2:] == ["error", "code"] and "answered" in prose:
        return len(words)
    for size in range(len(words), 0, -1):
        runs = (" ".join(words[first : first + size]) for first in range(len(words) - size + 1))
        if any(re.search(rf"\b{re.escape(run)}s?\b", prose) for run in runs):
            return size
    return 0


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
