"""Oracle of the rules of leaders that brokers name to those whom they refuse."""

from __future__ import annotations

from prove.history import FETCH, History
from prove.oracle.replication import served
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged

HINTS_SINCE = 16


def lh01(history: History) -> Judged:
    """The leader that a broker names with 74 is of a newer epoch than the one that it refuses."""
    seen = set()
    for one in served(history, FETCH):
        query = one.query
        if query.error_code != 74 or query.version < HINTS_SINCE:
            continue
        hint = query.hint or (-1, -1)
        subject = query.node, query.partition, query.current_leader_epoch, hint
        if subject not in seen:
            seen.add(subject)
            key = query.node, query.partition, query.current_leader_epoch
            if hint[1] > query.current_leader_epoch:
                yield FENCED, key
            elif hint[1] < 0:
                yield PASS, key
            else:  # in ZooKeeper mode it may be that of an UpdateMetadata, which may be older than what the broker knows
                yield (VIOLATION if history.release.family == "kraft" else UNVERIFIABLE), key
