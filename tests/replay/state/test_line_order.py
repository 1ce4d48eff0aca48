"""Which files of a node may have equal lines, and whether the times that they cover allow it."""

from __future__ import annotations

import pytest

from epochaudit.replay.state.line_order import may_share_lines, share_time
from epochaudit.sources.files.capture import Capture, CaptureFile

MINUTE = 60_000
REQUESTS = "request-log-json"


def capture(*files: tuple[str, str, int | None], duplicate_of: str | None = None) -> Capture:
    found = (CaptureFile(path, path, kind, "c", 1, node, duplicate_of=duplicate_of) for path, kind, node in files)
    return Capture("c", "c", tuple(found), ())


def part(
    path: str, first: int | None, last: int | None, kind: str = "server-log", node: int | None = 1, split: int = 0
) -> dict[str, object]:
    times = {"first_time_ms": first, "last_time_ms": last}
    return {"cluster": "c", "node": node, "file": path, "split": split, "kind": kind, **times}


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (("server.log", "server-log", 1), ("controller.log", "server-log", 1), False),
        (("server.log", "server-log", 1), ("server.log.2026-11-26-10.gz", "server-log", 1), True),
        (("server.log", "server-log", 1), ("kafkaServer.out", "server-log", 1), True),
        (("server.log", "server-log", 1), ("kafkaServer.out", "server-log", 2), False),
        (("a.log", "server-log", None), ("b.log", "server-log", None), False),
        (("broker1-server.log", "server-log", 1), ("broker1_requests.txt", REQUESTS, 1), False),
        (("server-requests.log", "server-log", 1), ("kafka-request.log", REQUESTS, 1), False),
        (("stdout", REQUESTS, 1), ("server.log", "server-log", 1), True),
        (("0.checkpoint", "metadata-log-segment", 1), ("1.checkpoint", "metadata-log-segment", 1), False),
    ],
)
def test_files_of_one_logger_may_share_lines(one: tuple[str, str, int], other: tuple[str, str, int], may: bool) -> None:
    assert may_share_lines([capture(one, other)]) is may


def test_a_file_that_is_not_read_shares_nothing() -> None:
    files = ("server.log", "server-log", 1), ("copy.log", "server-log", 1)
    assert not may_share_lines([capture(*files, duplicate_of="server.log")])
    assert not may_share_lines([capture(files[0]), capture(("copy.log", "server-log", 2))])


@pytest.mark.parametrize(
    ("parts", "shared"),
    [
        ([part("server.log", 0, MINUTE), part("server.log.1", -MINUTE, 0)], False),
        ([part("server.log", 0, MINUTE), part("server.log.1", -MINUTE, 2_000)], False),  # lines that were written late
        ([part("server.log", 0, MINUTE), part("server.log.1", -MINUTE, 2_001)], True),
        ([part("server.log", 0, MINUTE), part("server.log.1", -MINUTE, 2_001, node=2)], False),
        ([part("server.log", 0, MINUTE), part("server.log.1", -MINUTE, 2_001, node=None)], False),
        ([part("server.log", 0, MINUTE), part("controller.log", 0, MINUTE)], False),
        ([part("server.log", 0, MINUTE), part("server.log", MINUTE // 2, 2 * MINUTE, split=1)], False),
        ([part("server.log", None, None), part("server.log.1", 0, MINUTE)], False),
        ([part("x", 0, 9 * MINUTE), part("requests", MINUTE, 2 * MINUTE, REQUESTS), part("z", 8 * MINUTE, 9 * MINUTE)], True),
        ([part("x", 0, 9 * MINUTE), part("y", MINUTE, MINUTE + 2_000)], False),
    ],
)  # fmt: skip
def test_files_that_cover_the_same_time_may_share_lines(parts: list[dict[str, object]], shared: bool) -> None:
    assert share_time(parts) is shared
