"""Oracle of the rules of acknowledged writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.history import NO_LEADER, History, Produced, Start
from prove.oracle.leader_epoch_fence import lacks_a_line
from prove.oracle.lineage import Epoch, epochs, lowest_start_between, unknown_between
from prove.oracle.replication import requests_recorded_since, roles, start_times, starts_of
from prove.oracle.truncation import led_before, led_epochs, proved
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

ALL = -1


def aw01(history: History) -> Judged:
    """A leader epoch does not start at or below an offset that a leader acknowledged with acks=all.

    Acknowledgements with any acks make an epoch a subject. One that may have been given in a later epoch, of whose leader a line is
    missing, precedes all epochs above that one. It may precede those between. An epoch passes only if the request log of the leader
    before has its last answers, or if a broker proves that nothing above the start was committed.
    """
    lineage = list(epochs(history))
    answers = [*_answers(history, lineage)]
    led, begun = led_epochs(history, lineage), start_times(history)
    for one in lineage:
        own = [answer for answer in answers if answer.partition == one.partition]
        before = [answer for answer in own if answer.latest is not None and answer.latest < one.leader_epoch]
        doubtful = [answer for answer in own if answer.may_precede(one.leader_epoch)]
        unplaced = [answer.base_offset for answer in own if answer.latest is None or answer in doubtful]
        if one.leader == NO_LEADER or not (before or unplaced):
            continue
        key = None, one.topic, one.partition, one.leader_epoch
        if one.never_begun or one.start is None:
            yield (PASS if one.never_begun else UNVERIFIABLE), key
            continue
        promised = [answer for answer in before if answer.acks == ALL]
        lost = [answer for answer in promised if _lacks(one, answer, lineage) and not _is_deleted(answer, own)]
        if lost:
            unsure = any(
                unknown_between(lineage, one.partition, answer.leader_epoch or 0, one.leader_epoch) for answer in lost
            )
            yield (VIOLATION if one.from_isr and not unsure else EXPOSED), key
        elif (not before and max(unplaced) >= one.start) or any(
            answer.acks == ALL and answer.base_offset >= one.start for answer in doubtful
        ):
            yield UNVERIFIABLE, key
        else:
            leader, epoch = led_before(led, one)
            written = any(answer.event.node == leader and answer.latest == epoch for answer in own)
            recorded = written or requests_recorded_since(history, leader, begun.get((one.partition, epoch)))
            yield (PASS if recorded or proved(history, one, epoch) else UNVERIFIABLE), key


def aw02(history: History) -> Judged:
    """A broker acknowledges writes only of partitions that it leads.

    The writes with the same acks in one leader epoch of a broker are one subject; the one with the highest offset names it.
    """
    found: dict[tuple[object, ...], list[_Answer]] = {}
    for answer in _answers(history, list(epochs(history))):
        held = answer.held
        role = (held.leader_epoch, answer.latest) if held is not None and held.leads else answer.follows
        found.setdefault((answer.event.node, answer.partition, answer.acks, role), []).append(answer)
    for answers in found.values():
        one = max(answers, key=lambda answer: (answer.base_offset, answer.event.id))
        leads = one.held is not None and one.held.leads
        yield (PASS if leads else UNVERIFIABLE if one.follows is None else VIOLATION), place(one.event, one.event)


@dataclass(frozen=True)
class _Answer:
    """An acknowledgement. held: the broker's line before it. later: the highest epoch without a line in which it may have been given.

    follows: the epoch in which the broker certainly followed.
    """

    event: Produced
    held: Start | None
    later: int | None
    follows: int | None

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.event.partition

    @property
    def acks(self) -> int:
        """Which replicas it waited for."""
        return self.event.acks

    @property
    def base_offset(self) -> int:
        """The offset that was acknowledged."""
        return self.event.base_offset

    @property
    def leader_epoch(self) -> int | None:
        """In which leader epoch the broker gave it as the leader, by its lines, None: not known."""
        return self.held.leader_epoch if self.held is not None and self.held.leads else None

    @property
    def latest(self) -> int | None:
        """The highest leader epoch in which the broker can have given it, None: not known."""
        return self.later if self.leader_epoch is not None and self.later is not None else self.leader_epoch

    def may_precede(self, epoch: int) -> bool:
        """Whether it was given either before that leader epoch, or in it or a later one."""
        return self.leader_epoch is not None and self.latest is not None and self.leader_epoch < epoch <= self.latest


def _answers(history: History, lineage: list[Epoch]) -> Iterator[_Answer]:
    for event, held, _ in roles(history):
        if isinstance(event, Produced) and not event.error_code:
            start = held.get(event.partition)
            later = _latest(history, lineage, event, start) if start is not None else None
            recorded = {one.leader_epoch for one in lineage if one.partition == event.partition}
            follows = (
                start is not None and not start.leads and not lacks_a_line(history, event, start.leader_epoch, recorded)
            )
            yield _Answer(event, start, later, start.leader_epoch if follows and later is None and start else None)


def _latest(history: History, lineage: list[Epoch], event: Produced, held: Start) -> int | None:
    """The highest later epoch in which the broker was elected, and of which it has no line, and none that it wrote since rules it out."""
    found = [
        one.leader_epoch
        for one in lineage
        if one.partition == event.partition
        and one.leader_epoch > held.leader_epoch
        and one.leader == event.node
        and one.start is None
        and not one.never_begun
        and not any(
            later.id > event.id and start.partition == event.partition and start.leader_epoch < one.leader_epoch
            for later in history.of(event.node)
            for start in starts_of(later)
        )
    ]
    return max(found, default=None)


def _is_deleted(answer: _Answer, answers: list[_Answer]) -> bool:
    """Whether the leader stated in the same epoch that its log starts above: a superseded leader may delete later what it alone has."""
    return any(
        (other.event.node, other.leader_epoch) == (answer.event.node, answer.leader_epoch)
        and other.event.log_start_offset > answer.base_offset
        for other in answers
    )


def _lacks(one: Epoch, answer: _Answer, lineage: list[Epoch]) -> bool:
    """Whether an epoch is the first one that begins without an acknowledged record."""
    assert one.start is not None
    assert answer.leader_epoch is not None
    limit = lowest_start_between(lineage, one.partition, answer.leader_epoch, one.leader_epoch)
    return one.start <= answer.base_offset and (limit is None or answer.base_offset < limit)
