"""Makes the picture of a topic's timeline: which rows are drawn, which of them are one step, and which lanes there are.

Rows of one leader epoch that are alike are one step. If there are too many steps, those with the least weight are counted only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from epochaudit.kafka.field_values import LEADER_DURING_DELETE
from epochaudit.report.losses import RECREATED
from epochaudit.report.pictures import picture as marks
from epochaudit.report.pictures.picture import Lane, Picture, Span, Step, Stretch
from epochaudit.timeline.marked_rows import (
    OTHER_CLIENTS,
    OTHER_NODES,
    MarkedRow,
    Proofs,
    elections_from_outside,
    is_client,
    marked,
)
from epochaudit.timeline.merge import MOST_ROWS, Row, Section, TopicTimeline
from epochaudit.timeline.offsets import idle_truncations, stretches_of
from epochaudit.timeline.row_text import statement

MOST_STEPS: Final = 40
MOST_NODES: Final = 6  # with a lane of their own
MOST_CLIENTS: Final = 3
SILENT: Final = "hosts that state no leader epoch"
_WITH_OFFSETS: Final = frozenset({
    "FETCH", "OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "PRODUCE",
})  # fmt: skip

_SERVED: Final = frozenset({marks.SERVED, marks.COMMIT, marks.CROSSED})
Anchor = Callable[[Row], str | None]


def picture_of(
    topic: TopicTimeline,
    name: str,
    partition: int,
    *,
    proofs: Proofs | None = None,
    stretches: Sequence[Stretch] = (),
    anchor: Anchor | None = None,
    most: int = MOST_STEPS,
    left_out: bool = False,
) -> Picture:
    """The picture of partition `name`-`partition` in one topic of a timeline, with `most` steps at most.

    proofs: the lines of findings. stretches: the offsets that were truncated and read; without any, those that the rows state.
    anchor: gives the id of a row in the page. left_out: the timeline lacks rows beyond MOST_ROWS.
    """
    known, idle, outside = proofs or Proofs(), idle_truncations(topic), elections_from_outside(topic)
    sections = [
        *((section, "") for section in topic.sections),
        *([(Section(None, topic.silent), SILENT)] if topic.silent else ()),
    ]
    steps = [
        list(_alike(marked(row, known, idle=idle, outside=outside) for row in section.rows)) for section, _ in sections
    ]
    if sum(map(len, steps)) > most:
        steps = [list(_alike(row.of_any_client() for row in of_section)) for of_section in steps]
    chosen = _heaviest([row for of_section in steps for row in of_section], most)
    lanes = _Lanes.of(chosen.values())
    spans = [
        _span(section, [row for row in of_section if id(row) in chosen], lanes, anchor, name)
        for (section, name), of_section in zip(sections, steps, strict=True)
    ]
    return Picture(
        topic=name,
        partition=partition,
        cluster=topic.cluster,
        lanes=tuple(Lane(host, is_client=is_client(host)) for host in lanes.names),
        spans=tuple(_joined(spans)),
        stretches=tuple(stretches) or tuple(stretches_of(topic)),
        topic_id=topic.topic_id,
        left_out=sum(span.left_out for span in spans),
        note=f"only the first {MOST_ROWS:,} rows were read, by time" if left_out else "",
    )


def _alike(rows: Iterable[MarkedRow]) -> Iterator[MarkedRow]:
    """Rows that are alike as one, where the first of them stands."""
    groups: dict[tuple[object, ...], MarkedRow] = {}
    for one in rows:
        before = groups.get(one.key)
        groups[one.key] = one if before is None else before.with_another(one)
    return iter(groups.values())


def _heaviest(steps: Sequence[MarkedRow], most: int) -> dict[int, MarkedRow]:
    """The steps with the most weight, by identity; of equal weight the first."""
    ranked = sorted(enumerate(steps), key=lambda numbered: (-numbered[1].weight, numbered[0]))
    return {id(step): step for _, step in ranked[:most]}


@dataclass(frozen=True)
class _Lanes:
    """The lanes' names, and the number of each host's lane."""

    names: tuple[str, ...]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, steps: Iterable[MarkedRow]) -> _Lanes:
        weights: dict[str, int] = defaultdict(int)
        for step in steps:
            for host in filter(None, (step.host, step.asker)):
                weights[host] += 100**step.weight
        nodes = [host for host in weights if not is_client(host)]
        clients = [host for host in weights if is_client(host) and host != OTHER_CLIENTS]
        shown = _most(nodes, weights, MOST_NODES), _most(clients, weights, MOST_CLIENTS)
        names = sorted(shown[0], key=_number) + [OTHER_NODES] * (len(shown[0]) < len(nodes))
        names += sorted(shown[1]) + [OTHER_CLIENTS] * (len(shown[1]) < len(clients) or OTHER_CLIENTS in weights)
        numbers = {name: number for number, name in enumerate(names)}
        others = {
            host: numbers[OTHER_CLIENTS if is_client(host) else OTHER_NODES] for host in weights if host not in numbers
        }
        return cls(tuple(names), numbers | others)


def _most(hosts: Sequence[str], weights: Mapping[str, int], most: int) -> list[str]:
    """The hosts with the most weight."""
    return sorted(hosts, key=lambda host: (-weights[host], host))[:most]


def _number(host: str) -> tuple[int, str]:
    number = host.rpartition(" ")[2]
    return (int(number) if number.isascii() and number.isdigit() else -1), host


def _span(section: Section, steps: Sequence[MarkedRow], lanes: _Lanes, anchor: Anchor | None, name: str) -> Span:
    hosts = dict.fromkeys(row.host for row in section.rows)
    leaders = tuple(leader for leader in section.leaders if leader > LEADER_DURING_DELETE)
    return Span(
        section.leader_epoch,
        section.leader_epoch,
        tuple(_step(one, lanes, anchor) for one in steps),
        leaders,
        section.start_offset,
        tuple(lanes.numbers[f"node {leader}"] for leader in leaders if f"node {leader}" in lanes.names),
        tuple(lanes.numbers[host] for host in hosts if host in lanes.names),
        len(section.rows) - sum(one.rows for one in steps),
        name,
    )


def _step(one: MarkedRow, lanes: _Lanes, anchor: Anchor | None) -> Step:
    event, label, text = one.row.event, one.label, f"{statement(one.row)}{_meant(one)}"
    if event["event_type"] in _WITH_OFFSETS and one.mark in _SERVED and one.least is not None:
        label += f" {one.least}" if one.least == one.greatest else f" {one.least} to {one.greatest}"
    if one.requests > 1:
        label += f"{',' if label else ''} {one.requests:,}\u00d7"
    if one.rows > 1:
        offsets = "" if one.least is None else f", offsets {one.least} to {one.greatest}"
        clients = f" of {len(one.askers)} clients" if len(one.askers) > 1 else ""
        text += f" (the first of {one.requests:,} alike{clients} in this leader epoch{offsets})"
    return Step(
        mark=one.mark,
        lane=lanes.numbers[one.host],
        label=label.lstrip(),
        sentence=text,
        host=one.host,
        place=one.row.place,
        asker=None if one.asker is None else lanes.numbers[one.asker],
        time=one.row.time,
        until=one.until,
        rows=one.rows,
        findings=tuple((proof.rule, proof.finding_id) for proof in one.proofs),
        anchor=None if anchor is None else anchor(one.row),
    )


def _meant(one: MarkedRow) -> str:
    """What the mark says that the row alone does not."""
    if one.mark == marks.CROSSED:
        is_new_topic = all(proof.rule == RECREATED for proof in one.proofs if proof.crossed)
        return f"; read on without noticing the {'new topic' if is_new_topic else 'truncation'}"
    if one.mark == marks.UNKNOWN:
        return "; the leader was not in the ISR before; the evidence does not show whether it was eligible"
    is_derived = one.mark == marks.UNCLEAN and one.row.event["event_type"] != "UNCLEAN_ELECTION"
    return "; unclean: the leader was not eligible before" if is_derived else ""


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans; several in sequence without steps are one."""
    quiet: Span | None = None
    for span in spans:
        if span.steps or span.name:
            yield from () if quiet is None else (quiet,)
            yield span
            quiet = None
        elif quiet is None:
            quiet = span
        else:
            first = quiet.first_epoch if quiet.first_epoch is not None else span.first_epoch
            quiet = Span(first, span.last_epoch, left_out=quiet.left_out + span.left_out)
    yield from () if quiet is None else (quiet,)
