"""Oracle of the rules of leader elections."""

from __future__ import annotations

from typing import Any

from prove.history import History
from prove.oracle.metadata_image import asked, changes, is_active, of_change
from prove.oracle.verdicts import PASS, VIOLATION, Judged


def ld01(history: History) -> Judged:
    """The leader is a member of the ISR, or there is none."""
    for change in changes(history):
        leader = change.after.leader
        yield (PASS if leader == -1 or leader in change.after.isr else VIOLATION), of_change(change)


def ld02(history: History) -> Judged:
    """Whoever is elected is active."""
    for change in changes(history):
        before, after = change.before, change.after
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None:
            continue
        if after.leader in (-1, before.leader) or after.leader not in after.isr:
            continue
        yield (PASS if is_active(change.image, after.leader) else VIOLATION), of_change(change)


def ld03(history: History) -> Judged:
    """Who is elected from outside the ISR is permitted to, is marked, and is the whole ISR."""
    for change in changes(history):
        before, after = change.before, change.after
        data: Any = change.record.data
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None or after.leader in (-1, before.leader):
            continue
        if after.leader in before.isr:
            yield PASS, of_change(change)
            continue
        permitted = change.image.unclean.get(after.topic, False)
        marked = data.get("leaderRecoveryState") == 1 and after.isr == [after.leader]
        yield (PASS if permitted and marked else VIOLATION), of_change(change)


def ld04(history: History) -> Judged:
    """Records and answers name one leader per leader epoch of a topic id."""
    leaders: dict[tuple[str, str, int, int], set[int]] = {}
    for change in changes(history):
        state = change.after
        leaders.setdefault((state.topic_id, state.topic, state.number, state.leader_epoch), set()).add(state.leader)
    for one in asked(history):
        request, partition = one.request, one.partition
        if partition is not None and request.partition_error == 0:
            epoch = partition.topic_id, partition.topic, partition.number, request.leader_epoch_after
            leaders.setdefault(epoch, set()).add(request.leader_after)
    for key, named in leaders.items():
        yield (PASS if len(named) == 1 else VIOLATION), key
