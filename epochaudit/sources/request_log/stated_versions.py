"""The versions that capture.toml states, as rows. A stated Kafka version takes precedence over the logs' lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, Final

from epochaudit.events.event_types import REQUEST_LOG_FILTERED
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.lines.log4j import IDENTITY
from epochaudit.sources.sink import BlockTally, RowSink, StreamDecoder

SOURCE: Final = "manifest"
_COLUMNS: Final = (*IDENTITY, "node", "name", "value")
_KEY: Final = re.compile(rb"(?:^|[{,])[ \t]*(kafka)[ \t]*=", re.MULTILINE)


class StatedVersions:
    """One KAFKA_VERSION per node with a stated version, one FEATURE_LEVEL_RECORD for a stated metadata_version, and one
    REQUEST_LOG_FILTERED for a stated request_log, which has a null node: it applies to all.

    The rows have no time, as the statements always apply. A level in the metadata log takes precedence.
    """

    kind: ClassVar[str] = "capture-manifest"
    splittable: ClassVar[bool] = False

    def __init__(self, file: CaptureFile, sink: RowSink) -> None:  # noqa: ARG002  the protocol's
        self._rows = sink.rows(_COLUMNS)

    def read(self, stream: BinaryIO) -> Iterator[tuple[int, BlockTally]]:
        """See StreamDecoder. Discovery has already refused invalid manifests."""
        text = stream.read()
        manifest = tomllib.loads(text.decode())
        level, filtered = manifest.get("metadata_version"), manifest.get("request_log")
        if level is not None:
            self._add(
                "FEATURE_LEVEL_RECORD", text, text.find(b"metadata_version"), None, "metadata.version", str(level)
            )
        if filtered is not None:
            self._add(REQUEST_LOG_FILTERED, text, text.find(b"request_log"), None, filtered, None)
        places = (key.start(1) for key in _KEY.finditer(text))
        stated = [(next(places), node) for node in manifest.get("nodes", []) if "kafka" in node]
        for place, node in stated:
            self._add("KAFKA_VERSION", text, place, node["id"], "kafka", node["kafka"])
        event_count = len(stated) + (level is not None) + (filtered is not None)
        lines = text.count(b"\n") + (not text.endswith(b"\n"))
        yield len(text), (event_count, lines - event_count, 0)

    def _add(self, event_type: str, text: bytes, place: int, node: int | None, name: str, value: str | None) -> None:
        """Append a row for the line that holds a place of the text."""
        start = text.rfind(b"\n", 0, place) + 1
        line = text.count(b"\n", 0, start) + 1
        self._rows.append((event_type, start, line, 0, None, node, name, value))


DECODER: type[StreamDecoder] = StatedVersions
