"""Oracle of the rules of clients' metadata."""

from __future__ import annotations

from prove.history import (
    EPOCH_IGNORED,
    EPOCH_NOT_KNOWN,
    EPOCH_RAISED,
    EPOCH_SEEN,
    FETCH,
    FIRST_EPOCH_SEEN,
    HINT_IGNORED,
    HINT_TAKEN,
    LIST_OFFSETS,
    METADATA_IS_RELIABLE,
    METADATA_STATES_EPOCHS,
    NO_EPOCH,
    OFFSET_FOR_LEADER_EPOCH,
    ClientLine,
    History,
    MetadataAnswer,
    Query,
)
from prove.oracle.replication import roles, served
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

LATE_MS = 500
Stated = tuple[int, str, int, int, int]
"""(broker, client, connection, partition, leader epoch that the client stated)."""


def md01(history: History) -> Judged:
    """A client that was served in a leader epoch is not served in an older one later on the same connection, nor takes one over."""
    for event in history.events:
        if isinstance(event, ClientLine) and event.kind in (FIRST_EPOCH_SEEN, EPOCH_SEEN, EPOCH_RAISED, EPOCH_IGNORED):
            fell = event.known is not None and event.leader_epoch < event.known
            verdict = FENCED if event.kind == EPOCH_IGNORED else VIOLATION if fell else PASS
            yield verdict, (None, event.partition, event.leader_epoch)
    requests = [
        one.query
        for api in (FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH)
        for one in served(history, api)
        if one.query.replica_id < 0 and one.query.current_leader_epoch >= 0
    ]
    requests.sort(key=lambda query: query.id)
    fetched: dict[Stated, list[Query]] = {}
    refused: dict[Stated, list[Query]] = {}
    for query in requests:
        key = query.node, query.client_id, query.connection, query.partition, query.current_leader_epoch
        if query.error_code in (74, 75):
            refused.setdefault(key, []).append(query)
        elif query.error_code == 0 and query.api == FETCH:
            fetched.setdefault(key, []).append(query)
    for key, queries in fetched.items():
        yield (VIOLATION if _served_newer(fetched, key, queries[-1]) else PASS), (key[0], key[3], key[4])
    for key, queries in refused.items():
        if _served_newer(fetched, key, queries[0]):
            yield FENCED, (key[0], key[3], key[4])


def _served_newer(fetched: dict[Stated, list[Query]], key: Stated, query: Query) -> bool:
    """Whether the connection was served in a newer epoch before a request."""
    return any(
        other[:4] == key[:4] and other[4] > key[4] and queries[0].correlation_id < query.correlation_id
        for other, queries in fetched.items()
    )


def md02(history: History) -> Judged:
    """Each line by which a client kept its own entry of a partition counts as one pass, if it knew a leader epoch."""
    for event in history.events:
        if isinstance(event, ClientLine) and event.kind in (EPOCH_IGNORED, EPOCH_NOT_KNOWN):
            yield (UNVERIFIABLE if event.known is None else PASS), place(event, event)


def md03(history: History) -> Judged:
    """A broker process does not return a lower leader epoch of a partition than it has returned before.

    Answers in versions whose epochs clients do not rely on are subjects of their own.
    """
    answers = _by_epoch(history)
    for (node, process, number, epoch, reliable), of_epoch in answers.items():
        fell = any(
            key[:3] == (node, process, number) and key[3] > epoch and newer.at + LATE_MS < of_epoch[-1].arrived
            for key, others in answers.items()
            for newer in others
        )
        wrong = UNVERIFIABLE if not reliable else VIOLATION if history.release.family == "kraft" else EXPOSED
        yield (wrong if fell else PASS), (node, number, epoch)


def md04(history: History) -> Judged:
    """Each leader epoch that a broker process returned in a version whose epochs clients do not rely on counts as one pass."""
    for node, _, number, epoch, reliable in _by_epoch(history):
        if not reliable:
            yield PASS, (node, number, epoch)


def _by_epoch(history: History) -> dict[tuple[int, int, int, int, bool], list[MetadataAnswer]]:
    """(broker, process, partition, leader epoch, whether clients rely on it) -> the answers that state it."""
    answers: dict[tuple[int, int, int, int, bool], list[MetadataAnswer]] = {}
    for event, _, process in roles(history):
        if isinstance(event, MetadataAnswer) and event.version >= METADATA_STATES_EPOCHS:
            reliable = event.version >= METADATA_IS_RELIABLE
            for number, _, epoch, _, _ in event.partitions:
                answers.setdefault((event.node, process, number, epoch, reliable), []).append(event)
    return answers


def md05(history: History) -> Judged:
    """A client takes a leader over from a hint only if its leader epoch is above the one that it knew.

    The lines of one client id in one log are a client's, if they begin with its first epoch and no other process writes among them.
    """
    known: dict[tuple[str, str, int], int] = {}
    writers: dict[tuple[str, str, int], set[str]] = {}
    for event in history.events:
        if not isinstance(event, ClientLine):
            continue
        client = event.log, event.client_id, event.partition
        writers.setdefault(client, set()).add(event.instance)
        if event.kind == HINT_IGNORED:
            yield FENCED, place(event, event)
        elif event.kind == HINT_TAKEN:
            if client not in known:
                verdict = UNVERIFIABLE
            elif event.leader_epoch > known[client]:
                verdict = PASS
            else:
                verdict = VIOLATION if len(writers[client]) == 1 else UNVERIFIABLE
            yield verdict, place(event, event)
        if event.kind in (FIRST_EPOCH_SEEN, EPOCH_SEEN, EPOCH_RAISED, HINT_TAKEN):
            known[client] = event.leader_epoch
        elif event.kind in (EPOCH_IGNORED, HINT_IGNORED) and event.known is not None:
            known[client] = event.known
        elif event.kind == EPOCH_NOT_KNOWN:
            known[client] = NO_EPOCH
