"""What is taken, what is left, and that nothing else happens."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit.cli import app
from epochaudit.collecting import collection, selection
from epochaudit.collecting.collection import Collected, CollectError, collect
from epochaudit.collecting.selection import LINK, OF_A_LOG, OF_NO_KIND
from epochaudit.pipeline import reading
from epochaudit.settings import UsageError
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.formats import BY_KIND
from epochaudit.sources.sink import RowSink
from tests.sources.batch_writer import batch

SECRET = "hunter2Zq9"
SERVER_LOG = """[2026-11-21 04:08:10,960] INFO Kafka version: 3.9.1 (org.apache.kafka.common.utils.AppInfoParser)
[2026-11-21 04:08:10,969] INFO [KafkaServer id={node}] started (kafka.server.KafkaServer)
"""
PROPERTIES = f"node.id=1\nprocess.roles=broker\nssl.key.password={SECRET}\nlog.dirs=/data\n"


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host's log directory and its data directory."""
    host = tmp_path / "host"
    write(host / "logs" / "server.log", SERVER_LOG.format(node=1))
    write(host / "conf" / "server.properties", PROPERTIES)
    write(host / "logs" / "kafkaServer-gc.log", "[0.005s][info][gc] Using G1\n")
    write(host / "data" / "meta.properties", "version=1\ncluster.id=1ZzHL5ZuQM6HUL59PDWJag\nnode.id=1\n")
    write(host / "data" / "orders-0" / "leader-epoch-checkpoint", "0\n1\n0 0\n")
    write(host / "data" / "orders-0" / "partition.metadata", "version: 0\ntopic_id: 1ZzHL5ZuQM6HUL59PDWJag\n")
    for name in ("index", "timeindex", "snapshot"):
        write(host / "data" / "orders-0" / f"00000000000000000000.{name}", SECRET)
    return host


def paths_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_logs_checkpoints_and_properties_are_taken_and_everything_else_is_left_and_named(
    host: Path, tmp_path: Path
) -> None:
    done = collect([str(host)], str(tmp_path / "capture"))
    assert paths_in(tmp_path / "capture") == {
        "capture.toml",
        "conf/server.properties",
        "data/meta.properties",
        "data/orders-0/leader-epoch-checkpoint",
        "data/orders-0/partition.metadata",
        "logs/server.log",
    }
    assert {reason: files for reason, (files, _) in done.skipped.items()} == {OF_A_LOG: 3, OF_NO_KIND: 1}
    assert done.examples[OF_NO_KIND] == ["logs/kafkaServer-gc.log"]


def test_several_paths_are_folders_and_the_manifest_states_whose(host: Path, tmp_path: Path) -> None:
    collect([str(host / "logs"), str(host / "data")], str(tmp_path / "capture"), time_zone="Europe/Berlin")
    assert tomllib.loads((tmp_path / "capture" / "capture.toml").read_text()) == {
        "cluster": "1ZzHL5ZuQM6HUL59PDWJag",
        "time_zone": "Europe/Berlin",
        "nodes": [{"id": 1, "path": "."}],
    }
    assert {file.node for file in discover(str(tmp_path / "capture")).files if file.kind != "capture-manifest"} == {1}


def test_folders_of_the_same_name_are_distinguished(host: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write(other / "logs" / "server.log", SERVER_LOG.format(node=2))
    collect([str(host / "logs"), str(other / "logs")], str(tmp_path / "capture"))
    assert paths_in(tmp_path / "capture") >= {"host-logs/server.log", "other-logs/server.log"}


def test_what_a_manifest_states_is_copied(host: Path, tmp_path: Path) -> None:
    write(host / "capture.toml", 'cluster = "payments"\ntime_zone = "Asia/Tokyo"\n[[nodes]]\nid = 1\npath = "logs"\n')
    collect([str(host)], str(tmp_path / "capture"))
    stated = tomllib.loads((tmp_path / "capture" / "capture.toml").read_text())
    assert (stated["cluster"], stated["time_zone"]) == ("payments", "Asia/Tokyo")
    assert {"id": 1, "path": "logs"} in stated["nodes"]


def test_the_version_is_that_of_the_jar_where_no_line_states_it(host: Path, tmp_path: Path) -> None:
    write(host / "libs" / "kafka_2.13-3.9.1.jar", "PK")
    write(host / "logs" / "server.log", SERVER_LOG.format(node=1).partition("\n")[2])
    collect([str(host)], str(tmp_path / "capture"))
    assert tomllib.loads((tmp_path / "capture" / "capture.toml").read_text())["nodes"][0]["kafka"] == "3.9.1"


@pytest.mark.parametrize("name", ["c.tar.gz", "c.tar.zst", "c.tar.xz", "c.tar"])
def test_an_archive_holds_what_the_folder_would(host: Path, tmp_path: Path, name: str) -> None:
    collect([str(host)], str(tmp_path / "folder"))
    collect([str(host)], str(tmp_path / name))
    results = [
        {file.path: (file.kind, file.node, file.size) for file in discover(str(tmp_path / at)).files}
        for at in ("folder", name)
    ]
    assert results[0] == results[1]
    assert not list(tmp_path.glob("*.partial"))


def test_rotated_and_compressed_logs_are_taken_without_their_secrets(host: Path, tmp_path: Path) -> None:
    text = SERVER_LOG.format(node=1) + f"[2026-11-21 04:08:12,000] INFO -Dx.password={SECRET} (kafka.Kafka$)\n"
    (host / "logs" / "server.log.2.gz").write_bytes(gzip.compress(text.encode()))
    collect([str(host)], str(tmp_path / "capture"))
    collected = gzip.decompress((tmp_path / "capture" / "logs" / "server.log.2.gz").read_bytes()).decode()
    assert collected == text.replace(SECRET, "*" * len(SECRET))


def test_a_log_in_an_archive_is_taken_out_of_it(host: Path, tmp_path: Path) -> None:
    with tarfile.open(host / "old.tar.gz", "w:gz") as archive:
        archive.add(host / "logs" / "server.log", "2025/server.log")
    collect([str(host)], str(tmp_path / "capture"))
    assert (tmp_path / "capture" / "old.tar.gz" / "2025" / "server.log").read_text() == SERVER_LOG.format(node=1)


def test_links_are_not_followed_but_named(host: Path, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "server.log", SERVER_LOG.format(node=7))
    (host / "loop").symlink_to(host)
    (host / "logs" / "linked.log").symlink_to(outside)
    done = collect([str(host)], str(tmp_path / "capture"))
    assert done.skipped[LINK][0] == 2
    assert not [path for path in paths_in(tmp_path / "capture") if "link" in path or "loop" in path]


def test_a_path_that_is_a_link_is_what_it_points_to(host: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(host)
    collect([str(tmp_path / "link")], str(tmp_path / "capture"))
    assert "logs/server.log" in paths_in(tmp_path / "capture")


def test_a_log_that_is_rotated_meanwhile_is_taken(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, copy = host / "logs" / "server.log", collection._copy

    def rotating(*given: Any) -> int:
        if not (host / "logs" / "server.log.1").exists():
            log.rename(host / "logs" / "server.log.1")
            write(log, SERVER_LOG.format(node=1) * 3)
        return copy(*given)

    monkeypatch.setattr(collection, "_copy", rotating)
    collect([str(host)], str(tmp_path / "capture"))
    taken = {path.read_text() for path in (tmp_path / "capture" / "logs").iterdir()}
    assert sorted(map(len, taken)) == [len(SERVER_LOG.format(node=1)), 3 * len(SERVER_LOG.format(node=1))]


def test_the_beginning_of_a_line_that_is_being_written_is_left(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = host / "logs" / "server.log"
    log.write_text(SERVER_LOG.format(node=1) + "[2026-11-21 04:0")
    listed = selection.list_files

    def then_written(root: str) -> selection.Listing:
        found = listed(root)
        with log.open("a") as stream:
            stream.write("8:13,000] INFO x (kafka.Kafka$)\n")
        return found

    monkeypatch.setattr(collection, "list_files", then_written)
    collect([str(host)], str(tmp_path / "capture"))
    assert (tmp_path / "capture" / "logs" / "server.log").read_text() == SERVER_LOG.format(node=1)


def test_what_cannot_be_read_is_named_and_nothing_is_collected(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk = os.walk

    def refused(root: str, onerror: Callable[[OSError], None]) -> Any:
        onerror(PermissionError(13, "Permission denied", f"{root}/data"))
        return walk(root)

    monkeypatch.setattr(selection.os, "walk", refused)
    with pytest.raises(CollectError, match="data: Permission denied"):
        collect([str(host)], str(tmp_path / "capture"))
    assert {path.name for path in tmp_path.iterdir()} == {"host"}


def test_the_command_lists_what_it_did_and_fails_on_what_it_cannot_read(
    host: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["collect", str(host), "--output", str(tmp_path / "capture")]) == 0
    page = capsys.readouterr().out
    assert "server-log" in page
    assert "node 1: ." in page
    assert "kafkaServer-gc.log" in page
    assert app.main(["collect", str(host), "--output", str(tmp_path / "capture")]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["host/inside", "host/logs/inside.tar.gz"])
def test_nothing_is_written_into_what_is_collected(host: Path, tmp_path: Path, output: str) -> None:
    before = paths_in(host)
    with pytest.raises(UsageError, match="lies in"):
        collect([str(host)], str(tmp_path / output))
    assert paths_in(host) == before


def test_paths_within_each_other_and_files_of_two_clusters_are_refused(host: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name each directory once"):
        collect([str(host), str(host / "logs")], str(tmp_path / "capture"))
    write(host / "data2" / "meta.properties", "version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\nnode.id=2\n")
    with pytest.raises(UsageError, match="2 clusters"):
        collect([str(host)], str(tmp_path / "capture"))


def test_a_recorded_capture_has_the_events_of_its_original(
    spark: SparkSession, capture: Callable[[str], Path], tmp_path: Path
) -> None:
    original = tmp_path / "original"
    shutil.copytree(capture("zk-unclean-truncation-3.9"), original)
    collect([str(original)], str(tmp_path / "collected.tar.zst"))
    paths = (original, tmp_path / "collected.tar.zst")
    moved = ("event_id", "byte_offset", "file_order")  # a secret that is overwritten moves the bytes after it
    recorded, collected = (reading(spark, [discover(str(path))]).events.drop(*moved) for path in paths)
    assert recorded.count() > 2_000
    assert recorded.exceptAll(collected).collect() == []
    assert collected.exceptAll(recorded).collect() == []


def test_nothing_to_collect_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path / "empty" / "notes.txt", "x")
    with pytest.raises(CollectError, match="nothing to collect"):
        collect([str(tmp_path / "empty")], str(tmp_path / "capture"))
    assert isinstance(Collected("x"), Collected)


def test_of_a_segment_headers_are_taken_which_give_the_same_events(host: Path, tmp_path: Path) -> None:
    segment = host / "data" / "orders-0" / "00000000000000000000.log"
    payload = SECRET.encode() * 5_000
    segment.write_bytes(
        batch(0, b"a", b"b", epoch=1)
        + batch(2, payload, epoch=2)
        + batch(3, b"c", epoch=2, control=True)
        + batch(4, b"d")
    )
    (host / "data" / "orders-1").mkdir()
    (host / "data" / "orders-1" / "00000000000000000007.log").touch()
    collect([str(host)], str(tmp_path / "capture"))
    dump = tmp_path / "capture" / "data" / "orders-0" / "00000000000000000000.log.txt"
    assert SECRET not in dump.read_text()
    assert log_batches(host) == log_batches(tmp_path / "capture")
    assert [row[2:6] for row in log_batches(host)] == [(1, 0, 1, 2), (2, 2, 3, 1), (3, 4, 4, 1), (None, 7, 6, 0)]


def log_batches(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of the segments and dumps below a folder."""
    names = (
        "topic",
        "partition",
        "leader_epoch",
        "batch_base_offset",
        "batch_last_offset",
        "record_count",
        "records_size",
        "reason",
    )
    rows = []
    for file in discover(str(folder)).files:
        if file.source == "log_segment":
            sink = RowSink(file, split=0)
            known = BY_KIND[file.kind]
            with file.open() as stream:
                if known.stream_decoder is not None:
                    list(known.stream_decoder(file, sink).read(stream))
                elif known.decoder is not None:
                    decoder = known.decoder(file, sink)
                    for number, line in enumerate(stream.read().splitlines(), 1):
                        decoder.line(line, number, number)
                    decoder.finish()  # type: ignore[attr-defined]
            drained_rows = [row for batch in sink.drain() for row in batch.to_pylist()]
            rows += [tuple(row[name] for name in names) for row in drained_rows]
    return rows
