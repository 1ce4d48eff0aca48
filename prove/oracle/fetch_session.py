"""Oracle of the rule of fetch sessions (KIP-227)."""

from __future__ import annotations

from collections import defaultdict

from prove.history import History, SessionFetch
from prove.oracle.verdicts import PASS, UNVERIFIABLE, VIOLATION, Judged


def ff05(history: History) -> Judged:
    """A session answers only for partitions that a request of it has listed, and none has taken out since."""
    sessions: dict[int, list[SessionFetch]] = defaultdict(list)
    for event in history.events:
        if isinstance(event, SessionFetch) and event.error_code == 0:
            sessions[event.session_id].append(event)
    for requests in sessions.values():
        began = requests[0].session_epoch == 0
        complete = requests[-1].session_epoch - requests[0].session_epoch + 1 == len(requests)
        for partition in {one for event in requests for one in event.answered}:
            unlisted = [event for event in requests if partition in event.answered and partition not in event.listed]
            if not unlisted:
                continue
            held = [_holds(requests, event, partition) for event in unlisted]
            listed = [event.session_epoch for event in requests if partition in event.listed]
            never = not listed or listed[0] > unlisted[0].session_epoch
            key = unlisted[-1].id, None, partition
            if all(held):
                yield PASS, key
            else:
                yield (UNVERIFIABLE if (never and not began) or not complete else VIOLATION), key


def _holds(requests: list[SessionFetch], answer: SessionFetch, partition: int) -> bool | None:
    """Whether the session holds a partition at an answer. None: no request up to it names the partition.

    What is answered before the partition is listed again may be missed. One that is taken out again was listed in between.
    """
    held = None
    for request in requests:
        if request.session_epoch <= answer.session_epoch:
            if partition in request.listed:
                held = True
            elif partition in request.forgotten:
                held = False
    later = [one for one in requests if one.session_epoch > answer.session_epoch]
    again = any(partition in (*one.listed, *one.forgotten) for one in later)
    return True if held is False and again else held
