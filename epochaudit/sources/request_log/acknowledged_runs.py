"""Rows of Produce: the base offsets that leaders acknowledged, in runs.

Produce is a third of a busy log, and only a loss needs its answers. A row is a run of answers that one connection got for a partition
within one second. Where runs of a large log are folded, a row stands for those of up to a minute, between which nothing changed.
Answers with an error code or without a base offset, and requests without an answer (acks=0), are only counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from epochaudit.kafka.errors import Errors
from epochaudit.sources.request_log.apis.produce import API
from epochaudit.sources.sink import Edges, LineRows, RequestCounts

COLUMNS: Final = (
    "event_type", "byte_offset", "line_in_split", "partition_row", "time_ms", "arrival_ms", "api_version", "correlation_id",
    "client_id", "connection", "topic", "topic_id", "partition", "acks", "transactional_id", "log_start_offset", "base_offsets",
    "run_rows", "run_arrival_ms",
)  # fmt: skip
_TIME: Final = COLUMNS.index("time_ms")
_ARRIVAL: Final = COLUMNS.index("arrival_ms")
SPAN_MS: Final = 1_000
"""The longest run. A run counts for the newest leader epoch in it, and leaders may change every few seconds."""
FOLDED_MS: Final = 60_000
"""The longest time of runs that are folded into one row: a multiple of SPAN_MS."""

Values = tuple[Any, ...]
Subject = tuple[str, str, str | None, str | None, int, int, str | None]
"""connection, client id, topic, topic id, partition, acks, transactional id"""
Run = tuple[Values, list[int]]
"""The values of its last answer, but the earliest arrival; its base offsets."""


class AcknowledgedRuns(LineRows):
    """Runs of answers with rising base offsets, of one connection, client id, partition, acks and transactional id.

    A row has the place and the values of the run's last answer, and the earliest arrival. Runs end with their SPAN_MS by time_ms.
    counts: takes partitions and error codes. edges: runs of one FOLDED_MS between two of these times become one row; None: none do.
    """

    def __init__(self, counts: RequestCounts, edges: Edges | None) -> None:
        super().__init__(COLUMNS)
        self._counts = counts
        self._edges = edges
        self._edges_of: dict[tuple[str, int], list[int]] = {}
        self._open: dict[Subject, Run] = {}
        self._ended: defaultdict[Subject, list[Run]] = defaultdict(list)  # not yet rows
        self._span = 0

    def add(self, common: Values, found: Iterable[Values]) -> None:
        """Add a request: `common` in the order of json.COMMON, `found` as by `produce.rows`."""
        byte_offset, line_in_split, time_ms, version, correlation_id, client_id, connection, _, _, total_ms = common[
            :10
        ]
        if (span := time_ms // SPAN_MS) != self._span:
            self._end_all()
            if self._edges is None or span * SPAN_MS // FOLDED_MS != self._span * SPAN_MS // FOLDED_MS:
                self._fold()
            self._span = span
        arrival_ms = time_ms - (int(total_ms * 1000 + 0.5) + 999) // 1000
        number = -1
        for number, answer in enumerate(found):
            code, topic, topic_id, partition, acks, transactional_id, base_offset, log_start_offset = answer
            if code is None:
                continue
            self._counts.error_codes[f"{API.name}:{code}"] += 1
            if code != Errors.NONE or base_offset < 0:
                continue
            subject = (connection, client_id, topic, topic_id, partition, acks, transactional_id)
            arrived_ms, base_offsets = arrival_ms, [base_offset]
            if run := self._open.get(subject):
                if run[1][-1] < base_offset:
                    arrived_ms, base_offsets = min(run[0][_ARRIVAL], arrival_ms), run[1]
                    base_offsets.append(base_offset)
                else:
                    self._ended[subject].append(run)
            values = (
                API.name, byte_offset, line_in_split, number, time_ms, arrived_ms, version, correlation_id,
                client_id, connection, topic, topic_id, partition, acks, transactional_id, log_start_offset,
            )  # fmt: skip
            self._open[subject] = values, base_offsets
        self._counts.partition_rows[API.name] += number + 1

    def finish(self) -> None:
        """End all runs: their rows are final."""
        self._end_all()
        self._fold()

    def _end_all(self) -> None:
        for subject, run in self._open.items():
            self._ended[subject].append(run)
        self._open.clear()

    def _fold(self) -> None:
        """Make rows of the runs that have ended."""
        for subject, runs in self._ended.items():
            if self._edges is None or len(runs) == 1:
                self.rows += ((*values, base_offsets, None, None) for values, base_offsets in runs)
                continue
            edges = self._times_of(self._edges, subject)
            folded: list[Run] = []
            for run in runs:
                if folded and not _may_follow(folded, run, edges, self._edges.margin_ms):
                    self._put(folded)
                    folded = []
                folded.append(run)
            self._put(folded)
        self._ended.clear()

    def _put(self, runs: Sequence[Run]) -> None:
        values, base_offsets = list(runs[-1][0]), [offset for _, offsets in runs for offset in offsets]
        values[_ARRIVAL] = min(of_run[_ARRIVAL] for of_run, _ in runs)
        stands_for = (len(runs), values[_ARRIVAL]) if len(runs) > 1 else (None, None)
        self.rows.append((*values, base_offsets, *stands_for))

    def _times_of(self, edges: Edges, subject: Subject) -> Sequence[int]:
        """The edges of the subject's partition, in order."""
        _, _, topic, topic_id, partition, *_ = subject
        key = (topic_id or topic or "", partition)
        if (times := self._edges_of.get(key)) is None:
            times = self._edges_of[key] = sorted({*edges.everywhere, *edges.by_partition.get(key, ())})
        return times


def _may_follow(runs: Sequence[Run], run: Run, edges: Sequence[int], margin_ms: int) -> bool:
    """Whether a row may stand for the runs and this one: base offsets rise, and no edge lies in their time."""
    from_ms = min(values[_ARRIVAL] for values, _ in (*runs, run)) - max(0, margin_ms)
    until_ms = run[0][_TIME] + max(0, margin_ms)
    at = bisect_left(edges, from_ms)
    return runs[-1][1][-1] < run[1][0] and (at == len(edges) or edges[at] > until_ms)
