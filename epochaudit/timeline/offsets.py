"""What the rows of a timeline state of a log's offsets: those of each leader epoch, the truncated ones, and those that consumers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from epochaudit.report.pictures.picture import CUT, LOG, READ, Stretch
from epochaudit.timeline.event_text import refused
from epochaudit.timeline.marked_rows import CLIENT, asker_of, is_client
from epochaudit.timeline.merge import Row, Section, TopicTimeline

MOST_STRETCHES: Final = 4  # of a kind


def stretches_of(topic: TopicTimeline) -> Iterator[Stretch]:
    """What the rows state of the log's offsets: each leader epoch's, the truncated ones, and what consumers had asked for."""
    cuts = list(_cuts(topic))
    if not cuts:
        return
    first = min(cut.first for cut in cuts)
    starts = [
        (section.leader_epoch or 0, section.start_offset)
        for section in topic.sections
        if section.start_offset is not None
    ]
    yield from log_of_epochs(starts, first)
    yield from cuts[:MOST_STRETCHES]
    yield from _read(topic, first)


def log_of_epochs(starts: Sequence[tuple[int, int]], first: int) -> Iterator[Stretch]:
    """The offsets of leader epochs, given where each starts: the last that starts before `first`, and those after it."""
    ends = [*(start - 1 for _, start in starts[1:]), None]
    extents = [(epoch, start, end) for (epoch, start), end in zip(starts, ends, strict=False)]
    before = [extent for extent in extents if extent[1] < first][-1:]
    for epoch, start, end in (*before, *(extent for extent in extents if extent[1] >= first))[:MOST_STRETCHES]:
        if end is None or end >= start:
            until = f"{start} to {end}" if end is not None else f"{start} on"
            yield Stretch(
                LOG, f"epoch {epoch}", start, end, f"the log of leader epoch {epoch} has offsets {until}", epoch
            )


def idle_truncations(topic: TopicTimeline) -> frozenset[int]:
    """The rows, by identity, of truncations that removed nothing: to the log's own end, or beyond it."""
    return frozenset(id(row) for _, row, to, end in _truncations(topic) if end is not None and end <= to)


def _truncations(topic: TopicTimeline) -> Iterator[tuple[Section, Row, int, int | None]]:
    """Each truncation, the offset that it is to, and the end of the log that its host had stated before."""
    ends: dict[str, int] = {}
    for section in topic.sections:
        for row in section.rows:
            event = row.event
            if event["event_type"] == "FOLLOWER_STARTS" and event["start_offset"] is not None:
                ends[row.host] = event["start_offset"]
            if event["event_type"] in ("LOG_TRUNCATED", "FOLLOWER_TRUNCATING") and event["offset"] is not None:
                yield section, row, event["offset"], ends.get(row.host)


def _cuts(topic: TopicTimeline) -> Iterator[Stretch]:
    seen: set[tuple[str, int]] = set()
    for section, row, to, end in _truncations(topic):
        if end is not None and end > to and (row.host, to) not in seen:
            seen.add((row.host, to))
            sentence = f"{row.host} truncated offsets {to} to {end - 1} in leader epoch {section.leader_epoch}"
            yield Stretch(CUT, f"{row.host} cut", to, end - 1, sentence, section.leader_epoch)


def _read(topic: TopicTimeline, first: int) -> Iterator[Stretch]:
    """Consumers whose fetches reached beyond `first` before the leader epoch that truncated."""
    found: dict[str, tuple[int, int]] = {}
    for section in topic.sections:
        if section.start_offset is not None and section.start_offset >= first:
            break
        for row in section.rows:
            asker = asker_of(row.event)
            if row.event["event_type"] != "FETCH" or asker is None or not is_client(asker) or refused(row.event):
                continue
            least, greatest = row.event["least"], row.event["greatest"]
            if greatest is not None and greatest > first:
                before = found.get(asker, (least, greatest))
                found[asker] = min(before[0], least), max(before[1], greatest)
    for asker, (least, greatest) in [*found.items()][:MOST_STRETCHES]:
        sentence = (
            f"{asker} asked for offsets {least} to {greatest}, so that it had got or passed those before {greatest}"
        )
        yield Stretch(READ, f"read: {asker.removeprefix(CLIENT)}", min(least, greatest - 1), greatest - 1, sentence)
