"""Oracle of the rules of Fetch."""

from __future__ import annotations

from prove.history import FETCH, LEADER_AND_ISR, Control, History, ProcessStarts, Query, Start, TopicPartition
from prove.oracle.broker_memory import replayed
from prove.oracle.leader_epoch_fence import BEFORE_EPOCH, fence, lacks_a_line, of_query
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged


def ff01(history: History) -> Judged:
    """A Fetch in an older leader epoch is refused with 74."""
    return fence(history, FETCH, (*BEFORE_EPOCH, 100, 103), newer=False)


def ff02(history: History) -> Judged:
    """A Fetch in a newer leader epoch is refused with 75."""
    return fence(history, FETCH, (*BEFORE_EPOCH, 100, 103), newer=True)


def ff04(history: History) -> Judged:
    """A replica that does not lead refuses followers with 6.

    The last line tells the role, until the process ends or the replica is created again: a refusal of a leader passes.
    """
    roles: dict[tuple[int, TopicPartition], Start] = {}
    for event, memory in replayed(history):
        if isinstance(event, ProcessStarts):
            roles = {key: start for key, start in roles.items() if key[0] != event.node}
        elif isinstance(event, Control) and not event.error_code:
            for one in event.partitions if event.api == LEADER_AND_ISR else ():
                if one.name in memory.deleted:
                    roles.pop((event.node, one.name), None)
            roles |= {(event.node, start.name): start for start in event.starts}
        if not isinstance(event, Query) or event.api != FETCH or event.error_code not in (0, 6):
            continue
        start = roles.get((event.node, event.name))
        if start and event.version >= 13 and start.topic_id != event.topic_id:
            start = None
        held = memory.held.get(event.name)
        if event.error_code == 6:
            yield (PASS if start and start.leads else FENCED), of_query(event)
        elif event.replica_id < 0 or (start and start.leads):  # consumers of these releases may read from followers
            yield PASS, of_query(event)
        elif held is None or lacks_a_line(history, event, held):
            yield UNVERIFIABLE, of_query(event)
        else:
            yield VIOLATION, of_query(event)
