"""Lines of kafka-request.log: the layout, as JSON (RequestConvertToJson, 2.8 on) and as text (RequestChannel, up to 2.7)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from prove.history import (
    FETCH,
    KRAFT,
    LEADER_AND_ISR,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    STOP_REPLICA,
    UNKNOWN_SOFTWARE,
    UPDATE_METADATA,
    Event,
    GroupOffset,
    Query,
    Release,
)
from prove.rendering.lines import printed_time

API_KEYS: Final = {
    FETCH: 1,
    LIST_OFFSETS: 2,
    LEADER_AND_ISR: 4,
    STOP_REPLICA: 5,
    UPDATE_METADATA: 6,
    OFFSET_COMMIT: 8,
    OFFSET_FETCH: 9,
    OFFSET_FOR_LEADER_EPOCH: 23,
    "VOTE": 52,
    "BEGIN_QUORUM_EPOCH": 53,
    "END_QUORUM_EPOCH": 54,
    "FETCH_SNAPSHOT": 59,
    "ALTER_PARTITION": 56,
    "ALTER_ISR": 56,
    "BROKER_REGISTRATION": 62,
    "BROKER_HEARTBEAT": 63,
    "PRODUCE": 0,
    "METADATA": 3,
    "DELETE_RECORDS": 21,
    "INIT_PRODUCER_ID": 22,
    "ADD_PARTITIONS_TO_TXN": 24,
    "ADD_OFFSETS_TO_TXN": 25,
    "END_TXN": 26,
    "WRITE_TXN_MARKERS": 27,
    "ALLOCATE_PRODUCER_IDS": 67,
    "JOIN_GROUP": 11,
    "SYNC_GROUP": 14,
    "TXN_OFFSET_COMMIT": 28,
    "CONSUMER_GROUP_HEARTBEAT": 68,
    "SHARE_FETCH": 78,
    "SHARE_ACKNOWLEDGE": 79,
    "INITIALIZE_SHARE_GROUP_STATE": 83,
    "READ_SHARE_GROUP_STATE": 84,
    "WRITE_SHARE_GROUP_STATE": 85,
    "DELETE_SHARE_GROUP_STATE": 86,
}
NO_ID: Final = "A" * 22
KRAFT_RELEASE: Final = Release(KRAFT, "4.1.2", "kraft")


def completed(
    event: Event,
    header: tuple[str, int, int, str],
    request: Mapping[str, Any],
    response: Mapping[str, Any],
    arrived: int,
    connection: int,
    release: Release,
    local: str = "",
) -> str:
    """A line of the request log."""
    api, version, correlation, client = header
    total = float(event.at - arrived)
    ends = local or f"127.0.0.1:{9090 + event.node}-127.0.0.1:{connection}-0"
    if release.family == "text":
        return (
            f"[{printed_time(event.at)}] DEBUG Completed request:RequestHeader(apiKey={api}, apiVersion={version}, clientId={client},"
            f" correlationId={correlation}) -- {_text(api, request)},response:{_text(api, response)} from connection {ends};"
            f"totalTime:{total},requestQueueTime:0.2,localTime:{total - 0.2:.1f},remoteTime:0.0,throttleTime:0,responseQueueTime:0.0,"
            "sendTime:0.0,securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,listener:PLAINTEXT,clientInformation:"
            "ClientInformation(softwareName=unknown, softwareVersion=unknown) (kafka.request.logger)"
        )
    software, its_version = event.software if isinstance(event, Query | GroupOffset) else UNKNOWN_SOFTWARE
    line = {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": API_KEYS[api], "requestApiVersion": version, "correlationId": correlation, "clientId": client,
            "requestApiKeyName": api,
        },
        "request": request, "response": response, "connection": ends, "totalTimeMs": total, "requestQueueTimeMs": 0.2,
        "localTimeMs": total - 0.2, "remoteTimeMs": 0.0, "throttleTimeMs": 0, "responseQueueTimeMs": 0.0, "sendTimeMs": 0.0,
        "securityProtocol": "PLAINTEXT", "principal": "User:ANONYMOUS", "listener": "PLAINTEXT",
        "clientInformation": {"softwareName": software, "softwareVersion": its_version},
    }  # fmt: skip
    printed = json.dumps(line, separators=(",", ":"))
    return f"[{printed_time(event.at)}] DEBUG Completed request:{printed} (kafka.request.logger)"


_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
_FLEXIBLE: Final = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
_RENAMED: Final = {"maxWaitMs": "max_wait_time", "partitionIndex": "partition"}  # schemas written by hand, up to 2.6


def _text(api: str, value: object) -> str:
    if api == FETCH and isinstance(value, dict) and "responses" in value:
        return _fetch_answer(value)
    if api == LIST_OFFSETS and isinstance(value, dict) and "throttleTimeMs" in value:
        return _list_offsets_answer(value)
    if isinstance(value, dict):
        fields = [f"{_field(api, name)}={_text(api, one)}" for name, one in value.items()]
        return "{" + ",".join(fields + (["_tagged_fields={}"] if api in _FLEXIBLE else [])) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_text(api, one) for one in value) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)


def _field(api: str, name: str) -> str:
    if api in _FLEXIBLE:
        return _CAPITAL.sub("_", name).lower()
    if api == LIST_OFFSETS and name == "name":
        return "topic"
    return _RENAMED.get(name) or _CAPITAL.sub("_", name).lower()


def _fetch_answer(response: Mapping[str, Any]) -> str:
    (topic,) = response["responses"]
    (one,) = topic["partitions"]
    aborted = "null" if one["abortedTransactions"] is None else "[]"
    return (
        f"{{throttle_time_ms=0,error_code=0,session_id={response['sessionId']},responses=[{{topic={topic['topic']},"
        f"partition_responses=[{{partition_header={{partition={one['partitionIndex']},error_code={one['errorCode']},"
        f"high_watermark={one['highWatermark']},last_stable_offset={one['lastStableOffset']},log_start_offset={one['logStartOffset']},"
        f"aborted_transactions={aborted},preferred_read_replica=-1}},record_set=MemoryRecords(size={one['recordsSizeInBytes']},"
        f" buffer=java.nio.HeapByteBuffer[pos=0 lim={one['recordsSizeInBytes']} cap={one['recordsSizeInBytes']}])}}]}}]}}"
    )


def _list_offsets_answer(response: Mapping[str, Any]) -> str:
    (topic,) = response["topics"]
    (one,) = topic["partitions"]
    return (
        f"{{throttle_time_ms=0,responses=[{{topic={topic['name']},partition_responses=[{{partition={one['partitionIndex']},"
        f"error_code={one['errorCode']},timestamp=-1,offset={one['offset']},leader_epoch={one['leaderEpoch']}}}]}}]}}"
    )
