"""Makes a bigger capture from a real one: the same cluster with more topics of the same history, and more consumers.

    python benchmarks/amplify.py CAPTURE DIRECTORY [--topics 10] [--consumers 4]

CAPTURE is a directory or archive of a ZooKeeper cluster's logs with JSON request logs (2.8 to 3.9): where brokers take
their epochs from the offsets of a metadata log, as in KRaft, records can't be multiplied without changing epochs.

* topics: every request that names a topic names its twins as well, with the same epochs and offsets and ids of their own;
  every line of the other logs that names one is followed by the twins' lines. Requests, their order and times stay.
* consumers: each client that fetches has twins on connections of their own, with fetch sessions, members and groups of
  their own; they do what it did.

What was wrong in the capture is wrong as often again: a finding about a partition once per twin of its topic, a finding
about a consumer once per twin of either.
"""

from __future__ import annotations

import argparse
import re
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from functools import partial
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

import msgspec

from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile

MARK: Final = b"Completed request:"
NAMED: Final = re.compile(rb'"topicName":"([^"]+)"(?:,"topicId":"([^"]+)")?')
FETCHING: Final = re.compile(rb'"clientId":"([^"]*)","requestApiKeyName":"FETCH"')
SESSION: Final = re.compile(rb'"sessionId":([1-9]\d*)')
CONNECTION: Final = re.compile(rb'"connection":"([^"]+):(\d+)-(\d+)"')
OWNED: Final = re.compile(rb'"(clientId|groupId|memberId)":"([^"]+)"')
LOGS: Final = ("request-log-json", "state-change-log", "server-log")
NOT_OF_CONSUMERS: Final = (b'"requestApiKeyName":"PRODUCE"', b'"requestApiKeyName":"CREATE_TOPICS"')
FOLLOWER: Final = re.compile(rb"broker-\d+-fetcher-\d+")
ENTRIES: Final = ("topicName", "topic", "name", "topicId")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("capture")
    asked.add_argument("directory", type=Path)
    asked.add_argument("--topics", type=int, default=10, metavar="N", help="topics for each one of the capture")
    asked.add_argument("--consumers", type=int, default=1, metavar="N", help="consumers for each one of the capture")
    given = asked.parse_args()
    written = amplify(given.capture, given.directory, given.topics, given.consumers)
    sys.stdout.write(f"{written:,} bytes\n")


def amplify(capture: str, directory: Path, topics: int, consumers: int) -> int:
    """Write the bigger capture into a directory; returns its size in bytes. Raises ValueError for options that it can't satisfy."""
    found = discover(capture)
    files = [file for file in found.files if file.kind in LOGS and not file.duplicate_of]
    if any(file.source == "metadata_log" for file in found.files) or not any(file.kind == LOGS[0] for file in files):
        raise ValueError(f"{capture} is not of a ZooKeeper cluster with JSON request logs")
    twins = Twins(files, topics)
    clients = {
        client for file in files if file.kind == LOGS[0] for line in _lines(file) for client in FETCHING.findall(line)
    }
    followers = {client for client in clients if FOLLOWER.fullmatch(client)}
    written = 0
    for file in files:
        path = directory / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for line in _lines(file):
                if MARK not in line:
                    written += sum(out.write(twin) for twin in twins.of_line(line))
                    continue
                widened = twins.of_request(line)
                written += out.write(widened)
                sender = OWNED.search(line)
                if sender and sender[2] in clients - followers and not any(api in line for api in NOT_OF_CONSUMERS):
                    written += sum(out.write(of_consumer(widened, number)) for number in range(1, consumers))
    (directory / "capture.toml").write_text(f'cluster = "{found.cluster}"\n')
    return written


def _lines(file: CaptureFile) -> Iterator[bytes]:
    with BufferedReader(file.open()) as stream:  # type: ignore[type-var]
        yield from stream


class Twins:
    """The twins of topics: their names and ids, and requests and lines rewritten for them."""

    def __init__(self, files: list[CaptureFile], count: int) -> None:
        ids: dict[bytes, bytes] = {}
        names: set[bytes] = set()
        for file in files:
            if file.kind == LOGS[0]:
                for line in _lines(file):
                    for name, topic_id in NAMED.findall(line):
                        names.add(name)
                        if topic_id:
                            ids[topic_id] = name
        self._names, self._ids = {name.decode() for name in names}, {topic_id.decode() for topic_id in ids}
        tokens = b"|".join(re.escape(token) for token in sorted([*names, *ids], key=len, reverse=True))
        self._token = re.compile(rb"(?<![\w.-])(?:" + tokens + rb")(?=-\d|[^\w.-]|\.\s|$)")
        self._replaced: list[Mapping[bytes, bytes]] = [
            {name: name + b".%d" % number for name in names} | {one: _other_id(one, number) for one in ids}
            for number in range(1, count)
        ]

    def of_line(self, line: bytes) -> Iterator[bytes]:
        """A log's line and, if it names a topic, the lines of its twins."""
        yield line
        if line.startswith(b"[") and self._token.search(line):
            yield from self._twins(line)

    def of_request(self, line: bytes) -> bytes:
        """A request's line in which the twins stand beside their topics."""
        if not self._replaced or not self._token.search(line):
            return line
        before, mark, rest = line.partition(MARK)
        body, closing, logger = rest.rpartition(b"}")
        request = msgspec.json.decode(body + closing)
        return b"".join((before, mark, msgspec.json.encode(self._widened(request)), logger))

    def _twins(self, text: bytes) -> list[bytes]:
        return [self._token.sub(partial(_looked_up, replaced), text) for replaced in self._replaced]

    def _widened(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._widened(item) for key, item in value.items()}
        if not isinstance(value, list):
            return value
        widened: list[Any] = []
        for item in value:
            if self._is_of_topic(item):
                text = msgspec.json.encode(item)
                widened += map(msgspec.Raw, (text, *self._twins(text)))
            else:
                widened.append(self._widened(item))
        return widened

    def _is_of_topic(self, item: object) -> bool:
        if isinstance(item, dict):
            return any(item.get(key) in known for key in ENTRIES for known in (self._names, self._ids))
        return isinstance(item, str) and (item in self._names or item in self._ids)


def _looked_up(replaced: Mapping[bytes, bytes], token: re.Match[bytes]) -> bytes:
    return replaced[token[0]]


def _other_id(topic_id: bytes, number: int) -> bytes:
    return urlsafe_b64encode(blake2b(b"%b#%d" % (topic_id, number), digest_size=16).digest()).rstrip(b"=")


def of_consumer(line: bytes, number: int) -> bytes:
    """The request as the consumer's twin of a number sent it."""
    line = OWNED.sub(rb'"\1":"\2.%d"' % number, line)
    line = SESSION.sub(lambda session: b'"sessionId":%d' % _other_session(int(session[1]), number), line)
    return CONNECTION.sub(rb'"connection":"\1:\2-%d\3"' % number, line, count=1)


def _other_session(session_id: int, number: int) -> int:
    return (session_id + number * 0x9E3779B1) % 0x7FFFFFFF or 1


if __name__ == "__main__":
    main()
