"""Oracle of the rules of ListOffsets."""

from __future__ import annotations

from prove.history import LIST_OFFSETS, History
from prove.oracle.leader_epoch_fence import BEFORE_EPOCH, fence
from prove.oracle.verdicts import Judged


def lo01(history: History) -> Judged:
    """A ListOffsets in an older leader epoch is refused with 74."""
    return fence(history, LIST_OFFSETS, BEFORE_EPOCH, newer=False)


def lo02(history: History) -> Judged:
    """A ListOffsets in a newer leader epoch is refused with 75."""
    return fence(history, LIST_OFFSETS, BEFORE_EPOCH, newer=True)
