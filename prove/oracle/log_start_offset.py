"""Oracle of the rules of log start offsets."""

from __future__ import annotations

from prove.history import History, Query, RecordsDeleted
from prove.oracle.high_watermark import LATE_MS, Span, spans
from prove.oracle.replication import Served
from prove.oracle.verdicts import FENCED, PASS, VIOLATION, Judged, at, place

OUT_OF_RANGE = 1
TIMED_OUT = 7
MOVED_TO_TIERED_STORAGE = 109


def ls01(history: History) -> Judged:
    """A leader's log start offset does not fall within a leader epoch.

    Of ten seconds, the last answer with the highest high watermark counts.
    """
    chosen: dict[Span, Served] = {}
    for span, answers in spans(history).items():
        if answers[0].leads:
            chosen[span] = max(answers, key=lambda one: (one.query.high_watermark, one.query.at, one.query.id))
    for span, one in chosen.items():
        earlier = [
            other.query
            for before, other in chosen.items()
            if before[:3] == span[:3] and before[3] < span[3] and other.process == one.process
        ]
        fell = any(
            query.log_start_offset > one.query.log_start_offset and query.at + LATE_MS < one.query.arrived
            for query in earlier
        )
        yield (VIOLATION if fell else PASS), span[:3]


def ls02(history: History) -> Judged:
    """A deletion of records is confirmed once the low watermark has reached its offset."""
    for event in history.events:
        if not isinstance(event, RecordsDeleted):
            continue
        if event.error_code in (OUT_OF_RANGE, TIMED_OUT):
            yield FENCED, place(event, event)
        elif event.error_code == 0:
            yield (VIOLATION if event.low_watermark < event.offset else PASS), place(event, event)


def ls04(history: History) -> Judged:
    """Only followers are answered that an offset is in tiered storage. Answers to one client for one partition are one subject."""
    seen = set()
    for event in history.events:
        if isinstance(event, Query) and event.error_code == MOVED_TO_TIERED_STORAGE:
            subject = (event.node, event.topic_id, event.partition, event.client_id, event.replica_id)
            if subject not in seen:
                yield (PASS if event.replica_id >= 0 else VIOLATION), at(event, None, event.partition)
            seen.add(subject)
