"""Oracle of the rules of OffsetForLeaderEpoch."""

from __future__ import annotations

from prove.history import OFFSET_FOR_LEADER_EPOCH, History
from prove.oracle.leader_epoch_fence import BEFORE_EPOCH, fence
from prove.oracle.verdicts import Judged


def oe01(history: History) -> Judged:
    """An OffsetForLeaderEpoch in an older leader epoch is refused with 74."""
    return fence(history, OFFSET_FOR_LEADER_EPOCH, BEFORE_EPOCH, newer=False)


def oe02(history: History) -> Judged:
    """An OffsetForLeaderEpoch in a newer leader epoch is refused with 75."""
    return fence(history, OFFSET_FOR_LEADER_EPOCH, BEFORE_EPOCH, newer=True)
