"""The versions that capture.toml states, as rows beside those of logs and records: Kafka's outrank the logs' lines."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import BinaryIO, ClassVar, Final

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.log4j import IDENTITY
from epochaudit.sources.sink import BlockTally, RowSink, StreamDecoder

SOURCE: Final = "manifest"
_COLUMNS: Final = (*IDENTITY, "node", "name", "value")
_KEY: Final = re.compile(rb"(?:^|[{,])[ \t]*(kafka)[ \t]*=", re.MULTILINE)


class StatedVersions:
    """One KAFKA_VERSION per node whose version is stated, and one FEATURE_LEVEL_RECORD for a stated metadata_version.

    They hold all the time, so they have no time; a level that the metadata log tells goes before the stated one.
    """

    kind: ClassVar[str] = "capture-manifest"
    splittable: ClassVar[bool] = False

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:  # noqa: ARG002  the protocol's
        self._rows = sink.rows(_COLUMNS)

    def read(self, stream: BinaryIO) -> Iterator[tuple[int, BlockTally]]:
        """See StreamDecoder. What is no manifest has been refused before."""
        text = stream.read()
        nodes = tomllib.loads(text.decode()).get("nodes", [])
        places = (key.start(1) for key in _KEY.finditer(text))
        level = tomllib.loads(text.decode()).get("metadata_version")
        if level is not None:
            start = text.rfind(b"\n", 0, text.find(b"metadata_version")) + 1
            line = text.count(b"\n", 0, start) + 1
            self._rows.append(("FEATURE_LEVEL_RECORD", start, line, 0, None, None, "metadata.version", str(level)))
        stated = [(next(places), node) for node in nodes if "kafka" in node]
        for offset, node in stated:
            line = text.count(b"\n", 0, offset) + 1
            start = text.rfind(b"\n", 0, offset) + 1
            self._rows.append(("KAFKA_VERSION", start, line, 0, None, node["id"], "kafka", node["kafka"]))
        told = len(stated) + (level is not None)
        lines = text.count(b"\n") + (not text.endswith(b"\n"))
        yield len(text), (told, lines - told, 0)


DECODER: type[StreamDecoder] = StatedVersions
