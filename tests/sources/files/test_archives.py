"""A capture may come as an archive, with archives in it, and with the same lines in several files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.archives import Slice
from epochaudit.sources.files.capture import Capture, CaptureError, CaptureFile
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import cut, packed

LINES = [
    f"[2026-11-21 01:00:{second:02d},000] INFO [Broker id=1] Creating new partition t-{second:02d} with topic id"
    " 9gDNO0PzRlKeeIAaGyFvow. (state.change.logger)\n"
    for second in range(60)
]
STATES = "".join(LINES).encode()
LINE = len(LINES[0])
OTHER = STATES.replace(b"id=1]", b"id=2]")
SERVER = b"[2026-11-21 01:00:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"

COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


def tar(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def events(capture: Capture) -> dict[str, list[int]]:
    """path -> byte offsets of the events that were read."""
    found: dict[str, list[int]] = {}
    for bundle in packed(cut(capture.files), 4):
        for part in bundle:
            for batch in decoded(part):
                for row in batch.to_pylist():
                    if row["row_kind"] == "event":
                        found.setdefault(row["file"], []).append(row["byte_offset"])
    return {path: sorted(offsets) for path, offsets in found.items()}


def place(file: CaptureFile) -> tuple[str, str, int | None]:
    return file.path, file.kind, file.node


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_an_archive_is_read_as_the_directory_that_was_packed(tmp_path: Path, compression: str) -> None:
    files = {
        "night/broker-1/state-change.log": STATES,
        "night/broker-1/server.log": SERVER,
        "night/broker-2/state-change.log.1.gz": gzip.compress(OTHER),
    }
    for path, content in files.items():
        unpacked = tmp_path / path
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        unpacked.write_bytes(content)
    packed = tmp_path / f"night.tar{compression}"
    packed.write_bytes(COMPRESSIONS[compression](tar(files)))
    directory, archive = discover(str(tmp_path / "night")), discover(str(packed))
    assert [place(file) for file in archive.files] == [place(file) for file in directory.files]
    assert {file.node for file in archive.files} == {1, 2}
    assert events(archive) == events(directory)
    assert len(events(archive)["broker-1/state-change.log"]) == 60


def test_archives_in_a_directory_are_directories(tmp_path: Path) -> None:
    (tmp_path / "one.tgz").write_bytes(gzip.compress(tar({"logs/state-change.log": STATES})))
    (tmp_path / "two.tar").write_bytes(tar({"logs/state-change.log": OTHER}))
    found = discover(str(tmp_path))
    assert [place(file) for file in found.files] == [
        ("one.tgz/logs/state-change.log", "state-change-log", 1),
        ("two.tar/logs/state-change.log", "state-change-log", 2),
    ]
    assert {path: len(offsets) for path, offsets in events(found).items()} == {
        "one.tgz/logs/state-change.log": 60,
        "two.tar/logs/state-change.log": 60,
    }


def test_the_manifest_of_an_archive_is_obeyed(tmp_path: Path) -> None:
    printed = STATES.replace(b"[2026-11-21 ", b"21.11.2026 ").replace(b"] INFO", b" INFO")
    manifest = b'cluster = "payments"\npattern = "%d{dd.MM.yyyy HH:mm:ss,SSS} %p %m (%c)%n"\n'
    (tmp_path / "night.tar").write_bytes(tar({"night/capture.toml": manifest, "night/b/state-change.log": printed}))
    found = discover(str(tmp_path / "night.tar"))
    assert found.cluster == "payments"
    assert len(events(found)["b/state-change.log"]) == 60


def test_a_single_log_is_a_capture(tmp_path: Path) -> None:
    (tmp_path / "state-change.log").write_bytes(STATES)
    found = discover(str(tmp_path / "state-change.log"))
    assert [place(file) for file in found.files] == [("state-change.log", "state-change-log", 1)]


def test_an_archive_that_breaks_off_gives_what_stands_before(tmp_path: Path) -> None:
    packed = gzip.compress(tar({"a/state-change.log": STATES, "b/state-change.log": OTHER * 50}))
    (tmp_path / "night.tgz").write_bytes(packed[: len(packed) * 2 // 3])
    found = discover(str(tmp_path / "night.tgz"))
    assert len(events(found)["a/state-change.log"]) == 60


def test_names_that_lead_out_of_an_archive_are_left_out(tmp_path: Path) -> None:
    packed = tar({"../../etc/state-change.log": OTHER, "/state-change.log": STATES})
    (tmp_path / "night.tar").write_bytes(packed)
    assert [file.path for file in discover(str(tmp_path / "night.tar")).files] == ["state-change.log"]


def test_the_error_about_an_archive_without_a_log_lists_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar({"photo": b"\xff\xd8\xff"}))
    with pytest.raises(CaptureError, match=r"nothing that can be audited: found 1 unknown \(photo\)"):
        discover(str(tmp_path / "x.tar"))


def test_members_of_a_compressed_archive_are_dealt_to_one_task_in_its_order(tmp_path: Path) -> None:
    files = {f"{number}/state-change.log": STATES.replace(b"id=1", b"id=%d" % number) for number in (3, 1, 2)}
    (tmp_path / "night.tar.gz").write_bytes(gzip.compress(tar(files)))
    bundles = [[part.file.path for part in bundle] for bundle in packed(cut(discover(str(tmp_path)).files), 4)]
    assert [bundle for bundle in bundles if bundle] == [[f"night.tar.gz/{n}/state-change.log" for n in (3, 1, 2)]]


def test_a_slice_reads_and_seeks_within_its_bounds() -> None:
    part = Slice(io.BytesIO(b"0123456789"), 2, 5)
    assert part.read() == b"23456"
    assert part.seek(-2, io.SEEK_END) == 3
    assert part.read(9) == b"56"
    assert part.seek(1) == 1
    assert part.read(2) == b"34"


# --- the same lines twice


def duplicates(root: Path) -> dict[str, str | None]:
    return {file.path: file.duplicate_of for file in discover(str(root)).files}


def test_a_file_rotated_and_compressed_counts_once(tmp_path: Path) -> None:
    (tmp_path / "state-change.log.1").write_bytes(STATES)
    for name, compress in COMPRESSIONS.items():
        if name:
            (tmp_path / f"state-change.log.1{name}").write_bytes(compress(STATES))
    found = duplicates(tmp_path)
    assert found.pop("state-change.log.1") is None
    assert set(found.values()) == {"state-change.log.1"}
    assert events(discover(str(tmp_path))) == {"state-change.log.1": [LINE * number for number in range(60)]}


def test_an_earlier_copy_of_a_file_that_grew_counts_once(tmp_path: Path) -> None:
    (tmp_path / "monday.log").write_bytes(STATES[: len(STATES) // 2 + 7])
    (tmp_path / "tuesday.log.gz").write_bytes(gzip.compress(STATES))
    assert duplicates(tmp_path) == {"monday.log": "tuesday.log.gz", "tuesday.log.gz": None}


def test_files_that_only_begin_alike_are_both_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(STATES + LINES[0].encode())
    (tmp_path / "b.log").write_bytes(STATES + LINES[1].encode())
    assert set(duplicates(tmp_path).values()) == {None}


def test_checkpoints_that_say_the_same_are_of_different_replicas(tmp_path: Path) -> None:
    for broker in ("broker-1", "broker-2"):
        (tmp_path / broker).mkdir()
        (tmp_path / broker / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    (tmp_path / "state-change.log").write_bytes(STATES)
    assert set(duplicates(tmp_path).values()) == {None}
