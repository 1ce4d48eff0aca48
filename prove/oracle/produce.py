"""Oracle of the rules of acknowledged writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prove.history import NO_LEADER, History, Produced
from prove.oracle.lineage import CLEAN, Epoch, epochs, lowest_start_between, unknown_between
from prove.oracle.replication import roles, starts_of
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged

ALL = -1


def aw01(history: History) -> Judged:
    """A leader epoch does not start at or below an offset that a leader acknowledged with acks=all.

    Acknowledgements with any acks make an epoch a subject. One that may have been given in a later epoch, of whose leader a line is
    missing, has no place.
    """
    lineage = list(epochs(history))
    answers = [*_answers(history, lineage)]
    for one in lineage:
        own = [answer for answer in answers if answer.partition == one.partition]
        before = [
            answer for answer in own if answer.leader_epoch is not None and answer.leader_epoch < one.leader_epoch
        ]
        unplaced = [answer.base_offset for answer in own if answer.leader_epoch is None]
        if one.leader == NO_LEADER or not (before or unplaced):
            continue
        key = None, one.topic, one.partition, one.leader_epoch
        if one.never_begun or one.start is None:
            yield (PASS if one.never_begun else UNVERIFIABLE), key
            continue
        promised = [answer for answer in before if answer.acks == ALL]
        lost = [answer for answer in promised if _lacks(one, answer, lineage)]
        if lost:
            unsure = any(
                unknown_between(lineage, one.partition, answer.leader_epoch or 0, one.leader_epoch) for answer in lost
            )
            yield (VIOLATION if one.election == CLEAN and not unsure else EXPOSED), key
        elif not before and max(unplaced) >= one.start:
            yield UNVERIFIABLE, key
        else:
            yield PASS, key


@dataclass(frozen=True)
class _Answer:
    """An acknowledgement. leader_epoch: in which it was given, None: not known."""

    partition: int
    leader_epoch: int | None
    acks: int
    base_offset: int


def _answers(history: History, lineage: list[Epoch]) -> Iterator[_Answer]:
    for event, held, _ in roles(history):
        if not isinstance(event, Produced) or event.error_code or event.partition not in held:
            continue
        epoch = held[event.partition].leader_epoch
        missing = any(
            one.partition == event.partition
            and one.leader_epoch > epoch
            and one.leader == event.node
            and one.start is None
            and not one.never_begun
            and not any(
                later.id > event.id and start.partition == event.partition and start.leader_epoch < one.leader_epoch
                for later in history.of(event.node)
                for start in starts_of(later)
            )
            for one in lineage
        )  # fmt: skip
        yield _Answer(event.partition, None if missing else epoch, event.acks, event.base_offset)


def _lacks(one: Epoch, answer: _Answer, lineage: list[Epoch]) -> bool:
    """Whether an epoch is the first one that begins without an acknowledged record."""
    assert one.start is not None
    assert answer.leader_epoch is not None
    limit = lowest_start_between(lineage, one.partition, answer.leader_epoch, one.leader_epoch)
    return one.start <= answer.base_offset and (limit is None or answer.base_offset < limit)
