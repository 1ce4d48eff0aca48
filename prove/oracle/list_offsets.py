"""Oracle of the rules of ListOffsets."""

from __future__ import annotations

from typing import Final

from prove.history import LIST_OFFSETS, History, Query
from prove.oracle.leader_epoch_fence import BEFORE_EPOCH, fence, lacks_a_line
from prove.oracle.replication import answered_fetches, served
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

LATEST: Final = -1
NOT_ANSWERED: Final = (*BEFORE_EPOCH, 78)
"""Codes that say nothing of the fence, and 78, which follows it."""


def lo01(history: History) -> Judged:
    """A ListOffsets in an older leader epoch is refused with 74."""
    return fence(history, LIST_OFFSETS, NOT_ANSWERED, newer=False)


def lo02(history: History) -> Judged:
    """A ListOffsets in a newer leader epoch is refused with 75."""
    return fence(history, LIST_OFFSETS, NOT_ANSWERED, newer=True)


def lo03(history: History) -> Judged:
    """A leader answers no latest offset before its high watermark has reached the start of its leader epoch."""
    answers = list(served(history, LIST_OFFSETS))
    fetches = list(answered_fetches(history))
    for one in answers:
        query, start = one.query, one.start
        if start is None or not one.leads or query.replica_id >= 0 or query.timestamp != LATEST:
            continue
        if query.error_code not in (0, 5, 78):
            continue
        if query.error_code:
            yield (FENCED if (query.error_code == 78) == (query.version >= 5) else VIOLATION), place(query, query)
            continue
        if query.end_offset >= start.offset:
            yield PASS, place(query, query)
            continue
        same = [
            other.query
            for other in (*answers, *fetches)
            if (other.query.node, other.query.partition, other.process) == (query.node, query.partition, one.process)
            and other.start is not None and other.start.leader_epoch == start.leader_epoch and other.query.error_code == 0
        ]  # fmt: skip
        reached = start.high_watermark >= start.offset or any(
            other.id < query.id and _is_latest(other) and other.end_offset >= start.offset for other in same
        )
        behind = any(other.id > query.id and _is_latest(other) and other.end_offset < start.offset for other in same)
        yield (VIOLATION if reached or behind else UNVERIFIABLE), place(query, query)


def _is_latest(query: Query) -> bool:
    return query.api == LIST_OFFSETS and query.timestamp == LATEST and query.replica_id < 0


def lo04(history: History) -> Judged:
    """No ListOffsets answer names a leader epoch above the one that the broker holds."""
    for one in served(history, LIST_OFFSETS):
        query, start = one.query, one.start
        if start is not None and query.error_code == 0 and query.version >= 4 and query.answered_epoch >= 0:
            ahead = query.answered_epoch > start.leader_epoch
            unsure = ahead and lacks_a_line(history, query, start.leader_epoch, stated=query.answered_epoch)
            yield (UNVERIFIABLE if unsure else VIOLATION if ahead else PASS), place(query, query)
