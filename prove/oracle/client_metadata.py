"""Oracle of the rules of clients' metadata."""

from __future__ import annotations

from prove.history import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, History, MetadataAnswer, Query
from prove.oracle.replication import roles, served
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, VIOLATION, Judged

LATE_MS = 500
Stated = tuple[int, str, int, int, int]
"""(broker, client, connection, partition, leader epoch that the client stated)."""


def md01(history: History) -> Judged:
    """A client that was served in a leader epoch is not served in an older one later on the same connection."""
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


def md03(history: History) -> Judged:
    """A broker process does not return a lower leader epoch of a partition than it has returned before."""
    answers: dict[tuple[int, int, int, int], list[MetadataAnswer]] = {}
    for event, _, process in roles(history):
        if isinstance(event, MetadataAnswer):
            for number, _, epoch, _, _ in event.partitions:
                answers.setdefault((event.node, process, number, epoch), []).append(event)
    for (node, process, number, epoch), of_epoch in answers.items():
        fell = any(
            key[:3] == (node, process, number) and key[3] > epoch and newer.at + LATE_MS < of_epoch[-1].arrived
            for key, others in answers.items()
            for newer in others
        )
        wrong = VIOLATION if history.release.family == "kraft" else EXPOSED
        yield (wrong if fell else PASS), (node, number, epoch)
