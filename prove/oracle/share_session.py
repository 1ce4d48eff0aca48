"""Oracle of the rules of share sessions.

Requests of a connection that follow each other are one subject, and so is each refused epoch, and each that follows no recorded request.
"""

from __future__ import annotations

from collections import Counter

from prove.coordination import UsesShareSession
from prove.history import History
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, at

REFUSED = (122, 123)
LAST = 2147483647


def sh03(history: History) -> Judged:
    """A session's epoch rises by one with each request that is accepted."""
    sent: Counter[tuple[object, ...]] = Counter()
    before: dict[tuple[int, str, int], tuple[UsesShareSession, int, int]] = {}
    seen = set()
    events = [event for event in history.events if isinstance(event, UsesShareSession)]
    for event in sorted(events, key=lambda one: one.at):
        member, connection = (event.node, event.member_id), (event.node, event.member_id, event.connection)
        sent[member] += 1
        sent[connection] += 1
        numbers = sent[member], sent[connection]
        previous = before.get(connection)
        if event.error_code not in REFUSED:
            before[connection] = event, *numbers
        verdict = None
        if event.error_code in REFUSED:
            verdict = FENCED
        elif event.error_code == 0 and event.session_epoch > 0:
            verdict = _of_accepted(event, numbers, previous)
        epoch = None if verdict == PASS else event.session_epoch
        subject = (connection, event.error_code, verdict, epoch)
        if verdict is not None and subject not in seen:
            seen.add(subject)
            yield verdict, at(event, None, None)


def _of_accepted(
    event: UsesShareSession, numbers: tuple[int, int], previous: tuple[UsesShareSession, int, int] | None
) -> str:
    """The verdict of a request with an epoch above 0.

    numbers: of requests so far, of the member and of it on the connection. previous: the request before on the connection, with its own.
    """
    if previous is None or previous[0].error_code:
        return UNVERIFIABLE
    one, *before = previous
    if one.session_epoch >= 0 and event.session_epoch == (1 if one.session_epoch == LAST else one.session_epoch + 1):
        return PASS
    sent = {after - number for after, number in zip(numbers, before, strict=True)}
    return VIOLATION if sent == {event.correlation_id - one.correlation_id} else UNVERIFIABLE
