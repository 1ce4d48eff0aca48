"""Rows of Produce: the base offsets that leaders acknowledged, in runs.

Produce is a third of a busy log, and only a loss needs its answers. A row is a run of answers that one connection got for a partition
within one second. Answers with an error code or without a base offset, and requests without an answer (acks=0), are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from epochaudit.kafka.errors import Errors
from epochaudit.sources.request_log.apis.produce import API
from epochaudit.sources.sink import LineRows, RequestCounts

COLUMNS: Final = (
    "event_type", "byte_offset", "line_in_split", "partition_row", "time_ms", "arrival_ms", "api_version", "correlation_id",
    "client_id", "connection", "topic", "topic_id", "partition", "acks", "transactional_id", "log_start_offset", "base_offsets",
)  # fmt: skip
_ARRIVAL: Final = COLUMNS.index("arrival_ms")
SPAN_MS: Final = 1_000
"""The longest run. A run counts for the newest leader epoch in it, and leaders may change every few seconds."""

Values = tuple[Any, ...]


class AcknowledgedRuns(LineRows):
    """Runs of answers with rising base offsets, of one connection, client id, partition, acks and transactional id.

    A row has the place and the values of the run's last answer, and the earliest arrival. Runs end with their SPAN_MS by time_ms.
    counts: takes partitions and error codes.
    """

    def __init__(self, counts: RequestCounts) -> None:
        super().__init__(COLUMNS)
        self._counts = counts
        self._runs: dict[
            Values, tuple[Values, list[int]]
        ] = {}  # by subject: the values of the open run, its base offsets
        self._span = 0

    def add(self, common: Values, found: Iterable[Values]) -> None:
        """Add a request: `common` in the order of json.COMMON, `found` as by `produce.rows`."""
        byte_offset, line_in_split, time_ms, version, correlation_id, client_id, connection, _, _, total_ms = common[
            :10
        ]
        if (span := time_ms // SPAN_MS) != self._span:
            self.finish()
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
            if run := self._runs.get(subject):
                if run[1][-1] < base_offset:
                    arrived_ms, base_offsets = min(run[0][_ARRIVAL], arrival_ms), run[1]
                    base_offsets.append(base_offset)
                else:
                    self._end(run)
            values = (
                API.name, byte_offset, line_in_split, number, time_ms, arrived_ms, version, correlation_id,
                client_id, connection, topic, topic_id, partition, acks, transactional_id, log_start_offset,
            )  # fmt: skip
            self._runs[subject] = values, base_offsets
        self._counts.partition_rows[API.name] += number + 1

    def finish(self) -> None:
        """End all runs: their rows are final."""
        for run in self._runs.values():
            self._end(run)
        self._runs.clear()

    def _end(self, run: tuple[Values, list[int]]) -> None:
        values, base_offsets = run
        self.rows.append((*values, base_offsets))
