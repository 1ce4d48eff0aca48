"""Oracle of the rules of high watermarks."""

from __future__ import annotations

from collections import defaultdict

from prove.history import HighWatermarkLowered, History, Query
from prove.oracle.metadata_image import changes
from prove.oracle.replication import Served, answered_fetches
from prove.oracle.truncation import truncation_lines
from prove.oracle.verdicts import PASS, UNVERIFIABLE, VIOLATION, Judged

SPAN_MS = 10_000
LATE_MS = 500

Span = tuple[int, int, int, int]
"""(broker, partition, leader epoch, number of the ten seconds)."""


def spans(history: History) -> dict[Span, list[Served]]:
    """The answers of ten seconds by one broker for a partition in the leader epoch that it held."""
    found: dict[Span, list[Served]] = defaultdict(list)
    for one in answered_fetches(history):
        if one.start is not None:
            query = one.query
            found[query.node, query.partition, one.start.leader_epoch, query.at // SPAN_MS].append(one)
    return found


def hw01(history: History) -> Judged:
    """A leader's high watermark does not fall within a leader epoch. A fall that ends within the same ten seconds may be missed:

    of ten seconds, the last answer with the highest one counts.
    """
    found = spans(history)
    for (node, partition, epoch, _), answers in found.items():
        if not answers[0].leads:
            continue
        lowest = min(one.query.high_watermark for one in answers)
        low = [one for one in answers if one.query.high_watermark == lowest]
        fell = any(
            other.query.high_watermark > lowest
            and other.process == one.process
            and other.query.at + LATE_MS < one.query.arrived
            for one in low
            for key, others in found.items()
            if key[:3] == (node, partition, epoch)
            for other in [max(others, key=lambda one: (one.query.high_watermark, one.query.at, one.query.id))]
        )
        yield (VIOLATION if fell else PASS), (node, partition, epoch)


def hw02(history: History) -> Judged:
    """The offsets of an answer do not contradict each other. The one of ten seconds that deviates most counts.

    The high watermark may have advanced while an answer was made, and DeleteRecords may have followed it.
    """
    found = spans(history)
    for key, answers in found.items():
        after = [one.query for span in _next(found, key) for one in found[span]]
        reached = max(one.high_watermark for one in (*(one.query for one in answers), *after))
        worst = max((one.query for one in answers), key=lambda query: (_excess(query), query.at, query.id))
        stays = not after or max(one.log_start_offset for one in after) >= worst.log_start_offset
        if _excess(worst) <= 0:
            verdict = PASS
        elif worst.high_watermark < 0:
            verdict = VIOLATION
        elif worst.log_start_offset > worst.high_watermark:
            verdict = UNVERIFIABLE if worst.log_start_offset <= reached and stays else VIOLATION
        else:
            advanced = (worst.last_stable_offset or 0) <= reached
            verdict = UNVERIFIABLE if advanced or not after else VIOLATION
        yield verdict, key[:3]


def _excess(query: Query) -> int:
    """How far an answer's offsets lie outside of what its high watermark allows."""
    high = query.high_watermark
    stable = high if query.last_stable_offset is None else query.last_stable_offset
    return max(stable - high, query.log_start_offset - high, -high)


def _next(found: dict[Span, list[Served]], span: Span) -> list[Span]:
    """The next ten seconds with answers in the same epoch at the same broker."""
    return sorted(key for key in found if key[:3] == span[:3] and key[3] > span[3])[:1]


def hw03(history: History) -> Judged:
    """Each leader epoch that begins with a lower high watermark than leaders of lower epochs gave out."""
    found = {key: answers for key, answers in spans(history).items() if answers[0].leads}
    for key, answers in found.items():
        node, partition, epoch, _ = key
        if any(other[:3] == key[:3] and other[3] < key[3] for other in found):
            continue
        earlier = [
            one.query.high_watermark
            for (_, number, lower, _), others in found.items()
            if number == partition and lower < epoch
            for one in others
        ]
        if earlier and min(one.query.high_watermark for one in answers) < max(earlier):
            yield PASS, (node, partition, epoch)


def hw04(history: History) -> Judged:
    """Each time that a replica's own high watermark falls, if it is known in which leader epoch."""
    for line, begun in truncation_lines(history, HighWatermarkLowered):
        yield (PASS if begun else UNVERIFIABLE), (line.id, None, line.partition)


def hw05(history: History) -> Judged:
    """A follower in the ISR has all records below the high watermark."""
    isrs: dict[tuple[int, int], list[list[int]]] = defaultdict(list)
    for change in changes(history):
        isrs[change.after.number, change.after.leader_epoch].append(change.after.isr)
    followers: dict[tuple[int, int, int, int], list[Served]] = defaultdict(list)
    for one in answered_fetches(history):
        query = one.query
        if query.replica_id >= 0 and one.start is not None:
            followers[query.node, query.partition, query.current_leader_epoch, query.replica_id].append(one)
    for (node, partition, epoch, replica), answers in followers.items():
        furthest = max(answers, key=lambda one: one.query.high_watermark - one.query.offset).query
        if furthest.high_watermark <= furthest.offset or not all(replica in isr for isr in isrs[partition, epoch]):
            yield PASS, (node, partition, epoch)
        else:  # a log without leader epochs is truncated to its own high watermark
            yield (VIOLATION if furthest.epoch >= 0 else UNVERIFIABLE), (node, partition, epoch)
