"""Oracle of the rules of OffsetForLeaderEpoch."""

from __future__ import annotations

from prove.history import OFFSET_FOR_LEADER_EPOCH, History, Query
from prove.oracle.leader_epoch_fence import BEFORE_EPOCH, fence, lacks_a_line
from prove.oracle.lineage import epochs
from prove.oracle.replication import began_at, log_starts, served, shown_starts, starts
from prove.oracle.verdicts import PASS, UNVERIFIABLE, VIOLATION, Judged, place


def oe01(history: History) -> Judged:
    """An OffsetForLeaderEpoch in an older leader epoch is refused with 74."""
    return fence(history, OFFSET_FOR_LEADER_EPOCH, BEFORE_EPOCH, newer=False)


def oe02(history: History) -> Judged:
    """An OffsetForLeaderEpoch in a newer leader epoch is refused with 75."""
    return fence(history, OFFSET_FOR_LEADER_EPOCH, BEFORE_EPOCH, newer=True)


def oe03(history: History) -> Judged:
    """Where a leader says that an epoch ends fits its own lineage."""
    begun, shown = starts(history), shown_starts(history)
    recorded = [*epochs(history)]
    for one in served(history, OFFSET_FOR_LEADER_EPOCH):
        query, start = one.query, one.start
        if start is None or not one.leads or query.error_code:
            continue
        epoch, end, own = query.answered_epoch, query.end_offset, start.leader_epoch
        stated = max(query.current_leader_epoch, query.epoch, epoch)
        later = [one.leader_epoch for one in recorded if one.partition == query.partition]
        if query.epoch > own:
            wrong = (epoch, end) != (-1, -1)
        elif (epoch, end) == (-1, -1):
            if query.epoch < own:
                yield UNVERIFIABLE, place(query, query)
                continue
            wrong = True
        else:
            if epoch < own and end > start.offset and epoch <= query.epoch:
                verdict = _log_start_explains(history, query)
                unsure = verdict == VIOLATION and lacks_a_line(history, query, own, later, stated=stated)
                yield (UNVERIFIABLE if unsure else verdict), place(query, query)
                continue
            if epoch == query.epoch < own and 0 <= end < begun.get((query.partition, epoch), 0):
                verdict = PASS if end == 0 else _log_start_explains(history, query)
                unsure = (query.partition, epoch) not in shown or lacks_a_line(
                    history, query, own, later, stated=stated
                )
                unsure = verdict == VIOLATION and unsure
                yield (UNVERIFIABLE if unsure else verdict), place(query, query)
                continue
            unsure = (query.partition, epoch) not in shown
            if epoch < query.epoch < own and end < begun.get((query.partition, epoch), 0) and unsure:
                yield UNVERIFIABLE, place(query, query)
                continue
            wrong = (
                epoch > query.epoch
                or end < begun.get((query.partition, epoch), 0)
                or (query.epoch == own and epoch != own)
            )
        if wrong and epoch <= query.epoch and lacks_a_line(history, query, own, later, stated=stated):
            yield UNVERIFIABLE, place(query, query)
            continue
        yield (VIOLATION if wrong else PASS), place(query, query)


def _log_start_explains(history: History, answer: Query) -> str:
    """Whether an end that the lineage does not have is a start of the broker's log, as its lines and Fetch answers state it."""
    if began_at(history, answer, answer.end_offset):
        return PASS
    below = any(event > answer.id and start < answer.end_offset for event, start in log_starts(history, answer))
    return VIOLATION if below else UNVERIFIABLE
