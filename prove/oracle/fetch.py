"""Oracle of the rules of Fetch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from prove.history import (
    FETCH,
    LEADER_AND_ISR,
    UPDATE_METADATA,
    Control,
    History,
    ProcessStarts,
    Query,
    Start,
    State,
    TopicPartition,
    since,
)
from prove.oracle.broker_memory import partitions, replayed
from prove.oracle.leader_epoch_fence import BEFORE_EPOCH, fence, lacks_a_line, of_query
from prove.oracle.metadata_image import changes
from prove.oracle.replication import served
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged

NOT_SERVED: Final = (1, *BEFORE_EPOCH, 100, 103)
"""Codes that say nothing of the fence, and 1, which follows it and serves nothing."""
SERIES_MS: Final = 30_000
"""Pauses of this length divide series of refusals."""

LATE_MS: Final = 500
BY_ID: Final = 13
"""The first Fetch with topic ids."""
FROM_FOLLOWERS: Final = 11
"""The first Fetch that lets a consumer read from a follower (KIP-392)."""


def ff01(history: History) -> Judged:
    """A Fetch in an older leader epoch is refused with 74."""
    return fence(history, FETCH, NOT_SERVED, newer=False)


def ff02(history: History) -> Judged:
    """A Fetch in a newer leader epoch is refused with 75."""
    return fence(history, FETCH, NOT_SERVED, newer=True)


def ff04(history: History) -> Judged:
    """A replica that does not lead refuses followers with 6.

    The last line has the role, until the process ends or the replica is deleted: a refusal of a leader passes.
    """
    roles: dict[tuple[int, TopicPartition], Start] = {}
    deleted = {query.id for query in after_deletions(history)}
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
        held = memory.held.get(event.name, start.leader_epoch if start else None)
        if event.id in deleted:
            yield (PASS if event.error_code else UNVERIFIABLE), of_query(event)
        elif event.error_code == 6:
            yield (PASS if start and start.leads else FENCED), of_query(event)
        elif (start and start.leads) or _reads_from_followers(history, event):
            yield PASS, of_query(event)
        elif held is None or lacks_a_line(history, event, held, stated=event.current_leader_epoch):
            yield UNVERIFIABLE, of_query(event)
        else:
            yield VIOLATION, of_query(event)


def _reads_from_followers(history: History, query: Query) -> bool:
    """A consumer that may read from followers: brokers of 2.3 know the version, but serve none."""
    return query.replica_id < 0 and query.version >= FROM_FOLLOWERS and since(history.release.version, 2, 4)


def ff03(history: History) -> Judged:
    """A leader does not serve a follower that is not among the replicas."""
    assigned: dict[tuple[int, int], set[int]] = {}
    for change in changes(history):
        assigned.setdefault((change.after.number, change.after.leader_epoch), set()).update(change.after.replicas)
    for one in served(history, FETCH):
        query, start = one.query, one.start
        if query.replica_id < 0 or start is None or not one.leads:
            continue
        known = query.replica_id in assigned.get((query.partition, start.leader_epoch), set())
        key = query.id, None, query.partition
        if query.error_code == 0:
            unsure = not known and lacks_a_line(history, query, start.leader_epoch, stated=query.current_leader_epoch)
            yield (PASS if known else UNVERIFIABLE if unsure else VIOLATION), key
        elif query.error_code in (6, 75) and not known:
            yield FENCED, key


def ff07(history: History) -> Judged:
    """A follower does not go on in a leader epoch that its leader has refused as old."""
    for one in served(history, FETCH):
        query = one.query
        if query.replica_id < 0 or query.error_code != 74:
            continue
        after = next(
            (
                later
                for later in history.of(query.node)
                if isinstance(later, Query) and later.id > query.id and later.partition == query.partition
                and later.connection == query.connection
            ),
            None,
        )  # fmt: skip
        again = after is not None and after.current_leader_epoch == query.current_leader_epoch
        yield (VIOLATION if again else PASS), (query.id, None, query.partition)


def ff08(history: History) -> Judged:
    """A requester that is refused makes progress within five minutes. Pauses of half a minute divide series."""
    refused: dict[tuple[int, str, int], list[Query]] = {}
    for one in served(history, FETCH):
        if one.query.error_code in (6, 74, 75, 100):
            refused.setdefault((one.query.node, one.query.client_id, one.query.replica_id), []).append(one.query)
    for (node, _, _), queries in refused.items():
        ends = [a.at for a, b in pairwise(queries) if b.at - a.at > SERIES_MS]
        for _ in range(len(ends) + 1):
            yield PASS, (node,)


def sr06(history: History) -> Judged:
    """A replica that a StopReplica has deleted is not served until it is there again."""
    for query in after_deletions(history):
        yield (PASS if query.error_code else VIOLATION), of_query(query)


def after_deletions(history: History) -> Iterator[Query]:
    """The Fetches for replicas that a StopReplica has deleted. Lines may be late by half a second."""
    for node in history.nodes:
        ids = _ids_held(history, node)
        created: dict[TopicPartition, int] = {}
        deleted: set[TopicPartition] = set()
        for event in history.of(node):
            if isinstance(event, Control) and event.api != UPDATE_METADATA:
                for one, code in partitions(event):
                    if code == 0 and isinstance(one, State):
                        created[one.name] = event.at
                        deleted.discard(one.name)
                    elif code == 0 and one.delete and created.get(one.name, 0) < event.arrived - LATE_MS:
                        deleted.add(one.name)
            elif (
                isinstance(event, Query)
                and (event.api == FETCH and event.name in deleted)
                and (event.version < BY_ID or event.topic_id in ids.get(event.name, ()))
            ):
                yield event


def _ids_held(history: History, node: int) -> dict[TopicPartition, set[str | None]]:
    """The topic ids of all replicas that a broker's log shows."""
    ids: dict[TopicPartition, set[str | None]] = {}
    for event in history.of(node):
        for start in event.starts if isinstance(event, Control) else ():
            ids.setdefault(start.name, set()).add(start.topic_id)
    return ids
