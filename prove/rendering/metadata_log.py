"""Lines of a dump of the KRaft metadata log (DumpLogSegments)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from prove.history import CopiedRecord, Record, Release, since
from prove.rendering.lines import METADATA, Line
from prove.rendering.quorum import CONTROL_RECORDS, control_record


def record_lines(event: Record, release: Release) -> Iterator[Line]:
    """The line of a record, and the line of its batch before the batch's first one."""
    if event.offset == 0:
        yield Line(METADATA, 0, "Dumping metadata/__cluster_metadata-0/00000000000000000000.log")
        yield Line(METADATA, 0, "Log starting offset: 0")
    if event.batch == event.offset:
        last = event.batch + event.data.get("__count", 1) - 1  # type: ignore[operator]
        yield Line(
            METADATA, event.at,
            f"baseOffset: {event.batch} lastOffset: {last} count: {last - event.batch + 1} baseSequence: -1 lastSequence: -1 producerId: -1"
            f" producerEpoch: -1 partitionLeaderEpoch: {event.epoch} isTransactional: false isControl:"
            f" {str(event.kind in CONTROL_RECORDS).lower()} deleteHorizonMs:"
            f" OptionalLong.empty position: {event.batch * 100} CreateTime: {event.at} size: 91 magic: 2 compresscodec: none"
            f" crc: 1783205491 isvalid: true",
        )  # fmt: skip
    data = {name: value for name, value in event.data.items() if not name.startswith("__")}
    if event.kind in CONTROL_RECORDS:
        yield Line(METADATA, event.at, control_record(event, data, with_leader=since(release.version, 4, 1)), event.id)
        return
    payload = json.dumps({"type": event.kind, "version": event.version, "data": data}, separators=(",", ":"))
    yield Line(
        METADATA, event.at,
        f"| offset: {event.offset} CreateTime: {event.at} keySize: -1 valueSize: 24 sequence: -1 headerKeys: [] payload: {payload}",
        event.original if isinstance(event, CopiedRecord) and event.original >= 0 else event.id,
    )  # fmt: skip
