"""The leader epochs that the replicas of a partition logged, and the records that each replica truncated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from epochaudit.events.event_types import FOLLOWER_TRUNCATING, LEADER_STARTS
from epochaudit.losses.removal import Removal, Replica

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """A line of a replica: it begins leader_epoch at start_offset, or, if is_truncation, truncates its log to start_offset.

    epoch_before: the leader epoch that the replica began before this one. log_end: of a truncation, the log end offset before
    it. leader_epoch is null for a truncation.
    """

    node: int
    time_ms: int
    is_truncation: bool
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

    had_earlier_topic: nodes that had another topic of the name before.
    """

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    lines: tuple[Line, ...]
    had_earlier_topic: frozenset[int] = frozenset()

    @cached_property
    def starts(self) -> dict[int, Line]:
        """The leader's line of each leader epoch, in order of the epochs.

        A leader that restarts begins its epoch again. The line with the lowest start offset counts.
        """
        starts: dict[int, Line] = {}
        for line in sorted(self._epoch_lines, key=lambda line: (line.leader_epoch, line.start_offset)):
            if line.event_type == LEADER_STARTS:
                starts.setdefault(_epoch(line), line)
        return starts

    @property
    def _epoch_lines(self) -> list[Line]:
        return [line for line in self.lines if line.leader_epoch is not None and line.start_offset is not None]

    def begun_ms(self, leader_epoch: int) -> dict[int, int]:
        """The time (ms) at which each node began that leader epoch or a later one, by node."""
        begun: dict[int, int] = {}
        for line in self.lines:
            if line.leader_epoch is not None and line.leader_epoch >= leader_epoch:
                begun[line.node] = min(line.time_ms, begun.get(line.node, line.time_ms))
        return begun

    def epochs_of(self, first_offset: int, last_offset: int, before_epoch: int) -> tuple[int, ...]:
        """The leader epochs of these records, in the log as it was before `before_epoch`; empty where they are not known."""
        lineage: list[tuple[int, int]] = []
        for epoch, line in self.starts.items():
            if epoch < before_epoch:
                start = _offset(line)
                lineage = [*((e, at) for e, at in lineage if at < start), (epoch, start)]
        ends = [*(start for _, start in lineage[1:]), last_offset + 1]
        return tuple(
            epoch
            for (epoch, start), end in zip(lineage, ends, strict=False)
            if start <= last_offset and end > first_offset
        )

    def truncations(self) -> list[Removal]:
        """The records that replicas truncated, by the first leader epoch that can have begun without them."""
        log_ends: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
        for began, line in self._lowest_truncations().items():
            before = _epoch(began) - 1 if began.epoch_before is None else began.epoch_before
            since = [e for e, s in self.starts.items() if before < e <= _epoch(began) and _offset(s) <= _offset(line)]
            of_node = log_ends[min(since, default=_epoch(began)), _offset(line)]
            of_node[line.node] = max(line.log_end or 0, of_node.get(line.node, 0))
        return [
            self.removal(epoch, start, max(ends.values()) - 1, ends)
            for (epoch, start), ends in sorted(log_ends.items())
        ]

    def _lowest_truncations(self) -> dict[Line, Line]:
        """The lowest truncation after each line that begins an epoch: a replica may truncate in several steps."""
        began: Line | None = None
        lowest: dict[Line, Line] = {}
        for line in self.lines:
            if not line.is_truncation:
                began = line
            elif began is not None and began.node == line.node and _offset(line) < (line.log_end or 0):
                known = lowest.get(began)
                if known is None or _offset(line) < _offset(known):
                    lowest[began] = line
        return lowest

    def removal(self, leader_epoch: int, first_offset: int, last_offset: int, ends: Mapping[int, int]) -> Removal:
        """The removal of these offsets by a leader epoch. `ends`: log end offsets of replicas that had some of them, by node."""
        truncated_to = self._truncated_to(leader_epoch, first_offset)
        nodes = sorted({*ends, *truncated_to})
        return Removal(
            self.cluster,
            self.topic,
            self.topic_id,
            self.partition,
            leader_epoch,
            first_offset,
            last_offset,
            self.epochs_of(first_offset, last_offset, leader_epoch),
            replicas=tuple(Replica(node, ends.get(node), truncated_to.get(node)) for node in nodes),
        )

    def _truncated_to(self, leader_epoch: int, offset: int) -> dict[int, int]:
        """The nodes that truncated to this offset after they began to follow in that leader epoch or a later one.

        Before 2.6 followers log no line when they begin an epoch. There a node counts if it led an epoch before the truncation
        and began none below `leader_epoch` right after it.
        """
        truncated_to: dict[int, int] = {}
        for line in self.lines:
            if not line.is_truncation or line.start_offset != offset:
                continue
            epoch_lines = [own for own in self.lines if own.node == line.node and own.leader_epoch is not None]
            before = [own for own in epoch_lines if own.time_ms <= line.time_ms]
            after = [_epoch(own) for own in epoch_lines if own.time_ms > line.time_ms]
            logs_following = any(own.event_type != LEADER_STARTS for own in epoch_lines)
            follows = bool(before) and (not logs_following or _epoch(before[-1]) >= leader_epoch)
            if follows and (not after or after[0] >= leader_epoch):
                truncated_to[line.node] = offset
        return truncated_to


def of_one_topic(row: Row) -> Iterator[History]:
    """The histories of a row of `losses.queries.histories`: one for each topic that the name had.

    Followers' lines do not name the topic id. A node's leader epochs fall when the topic is created again. Lines that cannot be
    attributed to one topic are left out.
    """
    lines = [Line(**line) for line in row["lines"]]
    if any(line.event_type == FOLLOWER_TRUNCATING for line in lines):
        # LOG_TRUNCATED may be the line of a replica that moves between log directories
        lines = [line for line in lines if not line.is_truncation or line.event_type == FOLLOWER_TRUNCATING]
    runs = list(_runs(lines))
    ids = {line.topic_id for run in runs for line in run if line.topic_id is not None}
    recreated = len(runs) > len({run[0].node for run in runs})
    if len(ids) <= 1 and not recreated:
        yield _history(row, next(iter(ids), None), runs, ())
        return
    for topic_id in sorted(ids):
        of_topic = [run for run in runs if {line.topic_id for line in run} - {None} == {topic_id}]
        yield _history(row, topic_id, of_topic, [run for run in runs if run not in of_topic])


def _history(
    row: Row, topic_id: str | None, runs: Sequence[Sequence[Line]], of_other_topics: Sequence[Sequence[Line]]
) -> History:
    first_ms = {run[0].node: run[0].time_ms for run in runs}
    earlier = frozenset(run[0].node for run in of_other_topics if run[0].time_ms < first_ms.get(run[0].node, 0))
    lines = tuple(line for run in runs for line in run)
    return History(row["cluster"], row["topic"], topic_id, row["partition"], lines, earlier)


def _runs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines of each node, split where its leader epoch falls or its topic id changes."""
    run: list[Line] = []
    epoch, topic_id = -1, None
    for line in lines:
        epoch_fell = line.leader_epoch is not None and line.leader_epoch < epoch
        id_changed = None not in (line.topic_id, topic_id) and line.topic_id != topic_id
        if run and (run[0].node != line.node or epoch_fell or id_changed):
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
