"""The lines of requests of fetch sessions."""

from __future__ import annotations

from typing import Any, Final

from prove.history import SessionFetch

FETCH_BY_TOPIC_ID: Final = 13
REPLICA_STATE: Final = 15
FOLLOWER: Final = "broker-2-fetcher-0"
NAME: Final = "orders"
TOPIC_ID: Final = "topic000001AAAAAAAAAAA"[:21] + "A"

Json = dict[str, Any]


def session_fetch(event: SessionFetch) -> tuple[tuple[str, int, int, str], Json, Json]:
    """(header, request, response) of a Fetch of a session."""
    by_id = event.version >= FETCH_BY_TOPIC_ID
    topic: Json = {"topicId": TOPIC_ID} if by_id else {"topic": NAME}
    replica = 2 if event.client_id == FOLLOWER else -1
    request: Json = {} if event.version >= REPLICA_STATE else {"replicaId": replica}
    if event.version >= REPLICA_STATE and replica >= 0:
        request["replicaState"] = {"replicaId": replica, "replicaEpoch": 9}
    forgotten = [topic | {"partitions": [*event.forgotten]}] if event.forgotten else []
    request |= {
        "maxWaitMs": 500, "minBytes": 1, "maxBytes": 10485760, "isolationLevel": 0,
        "sessionId": event.session_id if event.session_epoch else 0, "sessionEpoch": event.session_epoch,
        "topics": [topic | {"partitions": [*map(_asked, event.listed)]}] if event.listed else [],
        "forgottenTopicsData": forgotten, "rackId": "",
    }  # fmt: skip
    answered = [topic | {"partitions": [*map(_answered, event.answered)]}] if event.answered else []
    response = {
        "throttleTimeMs": 0, "errorCode": event.error_code, "sessionId": 0 if event.error_code else event.session_id,
        "responses": answered,
    }  # fmt: skip
    return ("FETCH", event.version, event.correlation_id, event.client_id), request, response


def _asked(partition: int) -> Json:
    return {
        "partition": partition, "currentLeaderEpoch": 3, "fetchOffset": 40, "lastFetchedEpoch": -1, "logStartOffset": -1,
        "partitionMaxBytes": 1048576,
    }  # fmt: skip


def _answered(partition: int) -> Json:
    return {
        "partitionIndex": partition, "errorCode": 0, "highWatermark": 44, "lastStableOffset": 44, "logStartOffset": 0,
        "abortedTransactions": None, "preferredReadReplica": -1, "recordsSizeInBytes": 70,
    }  # fmt: skip
