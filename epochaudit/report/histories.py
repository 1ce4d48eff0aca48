"""What the replicas of a partition wrote of their leader epochs, and what of it one of them had to give up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from epochaudit.report.contents import Removal, Replica

LEADS: Final = "LEADER_STARTS"
BY_FETCHER: Final = "FOLLOWER_TRUNCATING"

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A line of a replica: it began a leader epoch with start_offset or, if it names no epoch, truncated its log to it.

    epoch_before: the leader epoch that it had begun before. log_end: of a truncation, where the log had ended before it.
    """

    node: int
    time_ms: int
    cut: bool
    event_type: str
    topic_id: str | None
    leader_epoch: int | None
    start_offset: int | None
    high_watermark: int | None = None
    log_end: int | None = None
    epoch_before: int | None = None


@dataclass(frozen=True)
class History:
    """The lines of all replicas of a partition of one topic, by node and time.

    follows: nodes that had another topic of the name before.
    """

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    lines: tuple[Line, ...]
    follows: frozenset[int] = frozenset()

    @cached_property
    def starts(self) -> dict[int, Line]:
        """The leader's line of each leader epoch, in order: the first, if it began the epoch again after a restart."""
        led: dict[int, Line] = {}
        for line in sorted(self._begun, key=lambda line: (line.leader_epoch, line.start_offset)):
            if line.event_type == LEADS:
                led.setdefault(_epoch(line), line)
        return led

    @property
    def _begun(self) -> list[Line]:
        return [line for line in self.lines if line.leader_epoch is not None and line.start_offset is not None]

    def begun_ms(self, leader_epoch: int) -> dict[int, int]:
        """When each node began that leader epoch, or a later one."""
        begun: dict[int, int] = {}
        for line in self.lines:
            if line.leader_epoch is not None and line.leader_epoch >= leader_epoch:
                begun[line.node] = min(line.time_ms, begun.get(line.node, line.time_ms))
        return begun

    def epochs_of(self, first_offset: int, last_offset: int, left_in: int) -> tuple[int, ...]:
        """The leader epochs of these records, as the log was before that epoch; empty where it is not known."""
        standing: list[tuple[int, int]] = []
        for epoch, line in self.starts.items():
            if epoch < left_in:
                start = _offset(line)
                standing = [*((e, at) for e, at in standing if at < start), (epoch, start)]
        ends = [*(at for _, at in standing[1:]), last_offset + 1]
        return tuple(
            epoch for (epoch, at), end in zip(standing, ends, strict=False) if at <= last_offset and end > first_offset
        )

    def given_up(self) -> list[Removal]:
        """What replicas truncated of their logs, by the first leader epoch that can have begun without it."""
        ends: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        began: Line | None = None
        lowest: dict[Line, Line] = {}  # a replica may truncate in several steps
        for line in self.lines:
            if not line.cut:
                began = line
            elif began is not None and began.node == line.node and _offset(line) < (line.log_end or 0):
                known = lowest.get(began)
                if known is None or _offset(line) < _offset(known):
                    lowest[began] = line
        for began, line in lowest.items():
            before = _epoch(began) - 1 if began.epoch_before is None else began.epoch_before
            since = [e for e, s in self.starts.items() if before < e <= _epoch(began) and _offset(s) <= _offset(line)]
            own = ends[min(since, default=_epoch(began)), _offset(line)]
            own[line.node] = max(line.log_end or 0, own.get(line.node, 0))
        return [self.removal(epoch, start, max(of.values()) - 1, of) for (epoch, start), of in sorted(ends.items())]

    def removal(self, leader_epoch: int, first_offset: int, last_offset: int, ends: Mapping[int, int]) -> Removal:
        """The removal of these offsets by a leader epoch; `ends`: where the logs of replicas ended that had some of them."""
        cut = self._truncated(leader_epoch, first_offset)
        nodes = sorted({*ends, *cut})
        return Removal(
            self.cluster,
            self.topic,
            self.topic_id,
            self.partition,
            leader_epoch,
            first_offset,
            last_offset,
            self.epochs_of(first_offset, last_offset, leader_epoch),
            replicas=tuple(Replica(node, ends.get(node), cut.get(node)) for node in nodes),
        )

    def _truncated(self, leader_epoch: int, offset: int) -> dict[int, int]:
        """The nodes that truncated to this offset when they began to follow in that leader epoch or a later one.

        Before 2.6 followers do not write when they begin: there a node counts that had led, and had not yet begun such an epoch.
        """
        cut: dict[int, int] = {}
        for line in self.lines:
            if not line.cut or line.start_offset != offset:
                continue
            own = [one for one in self.lines if one.node == line.node and one.leader_epoch is not None]
            before = [one for one in own if one.time_ms <= line.time_ms]
            after = [_epoch(one) for one in own if one.time_ms > line.time_ms]
            tells = any(one.event_type != LEADS for one in own)
            follows = _epoch(before[-1]) >= leader_epoch if tells and before else not tells and bool(before)
            if follows and (not after or after[0] >= leader_epoch):
                cut[line.node] = offset
        return cut


def of_one_topic(row: Row) -> Iterator[History]:
    """The histories of a row of `replay.removals.histories`: one for each topic that the name had.

    Followers do not name the topic id. A node's leader epochs fall when the topic was created anew; what can't be told to be of
    one topic is left out.
    """
    lines = [Line(**line) for line in row["lines"]]
    if any(
        line.event_type == BY_FETCHER for line in lines
    ):  # the other line may be of a replica that moves between directories
        lines = [line for line in lines if not line.cut or line.event_type == BY_FETCHER]
    runs = list(_runs(lines))
    ids = {line.topic_id for run in runs for line in run if line.topic_id is not None}
    again = len(runs) > len({run[0].node for run in runs})
    if len(ids) <= 1 and not again:
        yield _history(row, next(iter(ids), None), runs, ())
        return
    for topic_id in sorted(ids):
        own = [run for run in runs if {line.topic_id for line in run} - {None} == {topic_id}]
        yield _history(row, topic_id, own, [run for run in runs if run not in own])


def _history(
    row: Row, topic_id: str | None, runs: Sequence[Sequence[Line]], others: Sequence[Sequence[Line]]
) -> History:
    first = {run[0].node: run[0].time_ms for run in runs}
    follows = frozenset(run[0].node for run in others if run[0].time_ms < first.get(run[0].node, 0))
    lines = tuple(line for run in runs for line in run)
    return History(row["cluster"], row["topic"], topic_id, row["partition"], lines, follows)


def _runs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines of each node, cut where its leader epoch falls or another topic id is named."""
    run: list[Line] = []
    epoch, topic_id = -1, None
    for line in lines:
        fell = line.leader_epoch is not None and line.leader_epoch < epoch
        other = None not in (line.topic_id, topic_id) and line.topic_id != topic_id
        if run and (run[0].node != line.node or fell or other):
            yield run
            run, epoch, topic_id = [], -1, None
        run.append(line)
        epoch = epoch if line.leader_epoch is None else line.leader_epoch
        topic_id = line.topic_id or topic_id
    if run:
        yield run


def _epoch(line: Line) -> int:
    return -1 if line.leader_epoch is None else line.leader_epoch


def _offset(line: Line) -> int:
    return 0 if line.start_offset is None else line.start_offset
