"""Captures by URI: S3 against a real server, other schemes through fsspec."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import fsspec
import pytest
from pyarrow import fs

from epochaudit.findings.evidence import Place, read_lines
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import Capture, CaptureError
from epochaudit.sources.files.opening import file_system
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import cut
from tests.sources.files.test_archives import LINES, OTHER, STATES, tar

FILES = {
    "broker-1/state-change.log": STATES,
    "broker-2/a name with spaces #1?.log.gz": gzip.compress(OTHER),
    "old/broker-3.tar": tar({"state-change.log": STATES.replace(b"id=1]", b"id=3]")}),
}


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A bucket's URI; the server and credentials come from the environment, as operators set them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    settings = {
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        wait_for(port)
        system = fs.S3FileSystem(
            endpoint_override=settings["AWS_ENDPOINT_URL"], region="us-east-1", allow_bucket_creation=True
        )
        system.create_dir("logs")
        for path, content in FILES.items():
            with system.open_output_stream(f"logs/night/{path}", compression=None) as stream:
                stream.write(content)
        yield "s3://logs"
    finally:
        server.kill()
        server.wait()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def wait_for(port: int) -> None:
    for _ in range(300):
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the S3 server does not answer")


def read(capture: Capture) -> dict[str, int]:
    """path -> number of events."""
    found: dict[str, int] = {}
    for part in cut(capture.files):
        rows = [row for batch in decoded(part) for row in batch.to_pylist() if row["row_kind"] == "event"]
        found[part.file.path] = found.get(part.file.path, 0) + len(rows)
    return found


ALL_READ = {
    "broker-1/state-change.log": 60,
    "broker-2/a name with spaces #1?.log.gz": 60,
    "old/broker-3.tar/state-change.log": 60,
}


def test_a_capture_in_s3_is_read_as_a_local_one(s3: str) -> None:
    capture = discover(f"{s3}/night")
    assert {file.path: file.node for file in capture.files} == dict(zip(ALL_READ, (1, 2, 3), strict=True))
    assert read(capture) == ALL_READ


def test_the_lines_of_evidence_are_read_back_from_s3(s3: str) -> None:
    capture = discover(f"{s3}/night/")
    place = Place("c", "broker-1/state-change.log", len(LINES[0]))
    assert dict(read_lines([place], lambda wanted: capture.file(wanted.file).open())) == {place: LINES[1].rstrip("\n")}


def test_an_object_that_is_an_archive_is_a_capture(s3: str) -> None:
    assert read(discover(f"{s3}/night/old/broker-3.tar")) == {"state-change.log": 60}


def test_a_missing_object_is_reported(s3: str) -> None:
    with pytest.raises(CaptureError, match="no such file or directory"):
        discover(f"{s3}/morning")


def test_other_schemes_come_through_fsspec() -> None:
    memory = fsspec.filesystem("memory")
    for path, content in FILES.items():
        memory.pipe(f"/night/{path}", content)
    assert read(discover("memory://night")) == ALL_READ


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(CaptureError, match="carrier-pigeon: no file system for this scheme"):
        discover("carrier-pigeon://coop/night")
    system, path = file_system("/var/log")
    assert (type(system), path) == (fs.LocalFileSystem, "/var/log")


@pytest.mark.parametrize(
    ("uri", "path"), [("memory://logs/a/b", "/logs/a/b"), ("memory://logs", "/logs"), ("file:///a/b", "/a/b")]
)
def test_a_path_begins_at_the_root_of_its_file_system(uri: str, path: str) -> None:
    assert file_system(uri)[1] == path


def test_a_path_of_web_hdfs_begins_at_its_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fsspec.implementations.webhdfs.WebHDFS._connect", lambda _: None)
    assert file_system("webhdfs://namenode:9870/logs/a")[1] == "/logs/a"


def test_without_hadoops_native_client_hdfs_is_refused_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", "/nowhere")
    with pytest.raises(
        CaptureError, match=r"hdfs needs Hadoop's native client, and lib(jvm|hdfs) is not found here: set JAVA_HOME"
    ):
        discover("hdfs://namenode:9000/logs")
