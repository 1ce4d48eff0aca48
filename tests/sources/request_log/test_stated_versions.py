"""Versions that capture.toml states, as events."""

from __future__ import annotations

from io import BytesIO

from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.request_log.stated_versions import DECODER, SOURCE
from epochaudit.sources.sink import RowSink

MANIFEST = """cluster = "payments"  # a kafka of three

[[nodes]]
id = 1
kafka = "3.9.1"

[[nodes]]
id = 2

[[nodes]]
kafka = "2.3.1"
id = 7
"""


def test_each_stated_version_is_a_row_of_its_node() -> None:
    sink = RowSink(CaptureFile("capture.toml", "x", DECODER.kind, "payments", len(MANIFEST), source=SOURCE), 0)
    decoder = DECODER(CaptureFile("capture.toml", "x", DECODER.kind, "payments", len(MANIFEST), source=SOURCE), sink)
    assert list(decoder.read(BytesIO(MANIFEST.encode()))) == [(len(MANIFEST), (2, 10, 0))]
    rows = [row for batch in sink.drain() for row in batch.to_pylist()]
    found = [(row["event_type"], row["source"], row["node"], row["value"], row["line_in_split"]) for row in rows]
    assert found == [("KAFKA_VERSION", "manifest", 1, "3.9.1", 5), ("KAFKA_VERSION", "manifest", 7, "2.3.1", 11)]
    assert [MANIFEST[row["byte_offset"] :][:5] for row in rows] == ["kafka", "kafka"]
    assert {row["time_ms"] for row in rows} == {None}


def test_a_stated_metadata_version_is_a_level_of_the_cluster() -> None:
    manifest = b'cluster = "payments"\nmetadata_version = 25'
    file = CaptureFile("capture.toml", "x", DECODER.kind, "payments", len(manifest), source=SOURCE)
    sink = RowSink(file, 0)
    assert list(DECODER(file, sink).read(BytesIO(manifest))) == [(len(manifest), (1, 1, 0))]
    [row] = [row for batch in sink.drain() for row in batch.to_pylist()]
    assert (row["event_type"], row["name"], row["value"]) == ("FEATURE_LEVEL_RECORD", "metadata.version", "25")
    assert (row["byte_offset"], row["line_in_split"], row["node"]) == (21, 2, None)
