"""Oracle of the rule of stray replicas: what a KRaft broker does with a replica whose folder it found to be stray."""

from __future__ import annotations

from prove.history import FETCH, History, PartitionCreated, Query, Started, StrayFound, StrayRenamed
from prove.oracle.verdicts import PASS, UNVERIFIABLE, VIOLATION, Judged, place

DEAD = "deleted"
LATE_MS = 500
"""A request's line may be written so much later than the arrival that it is computed from."""


def ti07(history: History) -> Judged:
    """A stray replica is not served, and started only if it was assigned again."""
    for event in history.events:
        if isinstance(event, StrayFound):
            yield _judged(history, event), place(event, event)


def _judged(history: History, found: StrayFound) -> str:
    if found.topic_id is None:
        return UNVERIFIABLE
    later = [one for one in history.of(found.node) if one.id > found.id]
    starts = [one for one in later if isinstance(one, Started) and one.start and one.start.name == found.name]
    again = [one for one in starts if one.start and one.start.topic_id == found.topic_id]
    served = [
        one
        for one in later
        if isinstance(one, Query) and one.api == FETCH and not one.error_code and one.topic_id == found.topic_id
        and one.arrived > found.at + LATE_MS
    ]  # fmt: skip
    told = any(isinstance(one, Started | PartitionCreated) and one.id < found.id for one in history.of(found.node))
    if served and not again and found.reason != DEAD and not told:
        return UNVERIFIABLE
    if served and (found.reason == DEAD or not again or served[0].arrived < again[0].at):
        return VIOLATION
    if again:
        return VIOLATION if found.reason == DEAD else PASS
    renamed = any(isinstance(one, StrayRenamed) and one.name == found.name for one in later)
    return PASS if renamed or starts else UNVERIFIABLE
