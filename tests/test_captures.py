"""Recorded clusters: the report of each holds exactly what is known to have happened there, and nothing else."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit import pipeline
from epochaudit.cli.exit_codes import FINDINGS
from epochaudit.rules.catalogue import catalogue
from epochaudit.sources.discovery.discovery import discover
from tests.conftest import capture_names
from tests.expected import differences, not_required
from tests.json_schemas import complaints
from tests.shell import CAPTURE, Shell
from tests.side_by_side import as_json, named, reports_side_by_side

pytestmark = pytest.mark.minutes

MAGIC_AT, MAGIC = 16, b"\x02"  # where a raw segment has the magic of its first batch; lines of text have letters there

# What left the logs: topic, partition, the leader epoch without it, first and last offset, the epochs it was written in, the brokers
# that truncated it, whether it had been given out, and the groups and clients that had read it.
READERS = ("gkp", "grd", "j20-latest", "j20-live", "j20-none", "kp-earliest", "kp-latest", "rd-earliest", "rd-error")
HOW = ("earliest", "live", "none")
REMOVED = {
    "kraft-acknowledged-writes-lost-4.1": [
        ("payments", 0, 2, 475, 565, [0], [2], False, []),
        ("clicks", 0, 1, 293, 375, [0], [1], False, []),
    ],
    "kraft-k1-healthy": [("t1", 1, 2, 94, 94, [1], [1, 3], False, [])],
    "kraft-unclean-truncation-4.1": [
        (*("u", 0, 2, 10, 29, [0], [1], True), sorted([*READERS, "g20", "g41", "g848", *(f"j41-{how}" for how in HOW)]))
    ],
    "zk-healthy-3.9": [("h1", 1, 2, 61, 61, [1], [1, 2], False, [])],
    **{
        f"zk-unclean-truncation-{version}": [
            (*("u", 0, 3, 10, 29, [1], [1], True), sorted([*READERS, "g20", "g39", *(f"j39-{how}" for how in HOW)]))
        ]
        for version in ("2.0", "3.9")
    },
    "zk-recreate-unclean-2.5": [
        (*("u", 0, 3, 10, 29, [1], [1], True), sorted({*READERS, "g20", "g39", "j39-live", "j39-none"} - {"kp-latest"}))
    ],
    "zk-zombie-leader-3.9": [
        ("z", 0, 1, 26, 26, [0], [1], False, []),
        ("z", 0, 4, 179, 185, [3], [1, 3], False, []),
        ("z", 0, 5, 182, 189, [4], [2], False, []),
        ("z", 0, 9, 219, 232, [8], [2], False, []),
    ],
}

# Acknowledged writes that are missing, found by comparing each Produce answer with the leaders' lines: topic, partition, the leader epoch
# without them, acks, client, how many, their lowest and highest base offset, and the line of the last answer. Else none.
LOST_WRITES = {
    "dynamic-quorum-truncation-4.4": [("u", 0, 2, -1, "p-b", 50, 30, 79, "broker-1/kafka-request.log:864")],
    "kraft-acknowledged-writes-lost-4.1": [
        ("clicks", 0, 1, 1, "mobile", 18, 295, 373, "broker-1/kafka-request.log:509"),
        ("clicks", 0, 1, 1, "web", 29, 293, 372, "broker-1/kafka-request.log:508"),
        ("payments", 0, 2, -1, "ledger", 15, 484, 561, "broker-2/kafka-request.log:10747"),
        ("payments", 0, 2, -1, "shop", 45, 475, 565, "broker-2/kafka-request.log:10759"),
    ],
    "kraft-acks-one-lost-4.1": [
        ("clicks", 0, 1, 1, "mobile", 12, 150, 205, "broker-1/logs/kafka-request.log:291"),
        ("clicks", 0, 1, 1, "web", 8, 142, 149, "broker-1/logs/kafka-request.log:266"),
        ("clicks", 0, 2, 1, "mobile", 8, 232, 267, "broker-2/logs/kafka-request.log:220"),
        ("clicks", 0, 2, 1, "web", 5, 227, 231, "broker-2/logs/kafka-request.log:205"),
        ("views", 0, 1, 1, "mobile", 12, 144, 199, "broker-1/logs/kafka-request.log:290"),
        ("views", 0, 1, 1, "web", 7, 137, 143, "broker-1/logs/kafka-request.log:265"),
        ("views", 0, 2, 1, "mobile", 7, 232, 262, "broker-2/logs/kafka-request.log:219"),
        ("views", 0, 2, 1, "web", 4, 228, 231, "broker-2/logs/kafka-request.log:204"),
    ],
    "kraft-unclean-truncation-4.1": [("u", 0, 2, -1, "prod-B", 1, 10, 10, "broker-1/kafka-request.log:737")],
    "zk-kraft-migration-3.9": [("u", 0, 6, -1, "prod-B", 1, 10, 10, "broker-1/kafka-request.log:2439")],
    "zk-recreate-unclean-2.5": [
        ("u", 0, 3, -1, "prod-B", 1, 10, 10, "broker-1/kafka-request.log:4946"),
        ("z", 0, 2, 1, "z-acks1", 1, 34, 34, "broker-1/kafka-request.log:4346"),
    ],
    "zk-stopreplica-bypass-3.9": [("ld", 0, 5, -1, "p-ld", 1, 0, 0, "broker-1/kafka-request.log:80")],
    "zk-stopreplica-prekip570-2.3": [
        ("f", 0, 4, 1, "steady-f", 1, 40, 40, "broker-2/kafka-request.log:105"),
        ("ld", 0, 1, -1, "p-ld", 1, 0, 0, "broker-1/kafka-request.log:47"),
    ],
    "zk-unclean-truncation-2.0": [("u", 0, 3, -1, "prod-B", 1, 10, 10, "broker-1/kafka-request.log:495")],
    "zk-unclean-truncation-3.9": [("u", 0, 3, -1, "prod-B", 1, 10, 10, "broker-1/kafka-request.log:460")],
    "zk-zombie-leader-3.9": [
        ("z", 0, 1, 1, "acks1", 1, 26, 26, "broker-1/kafka-request.log:282"),
        ("z", 0, 4, 1, "acks1", 7, 179, 185, "broker-1/kafka-request.log:766"),
        ("z", 0, 5, 1, "acks1", 8, 182, 189, "broker-2/kafka-request.log:1448"),
        ("z", 0, 8, 1, "acks1", 8, 219, 226, "broker-1/kafka-request.log:7624"),
        ("z", 0, 9, 1, "acks1", 6, 227, 232, "broker-2/kafka-request.log:1531"),
    ],
}

# Groups that lost their offsets with a topic and whose members, which have no reset policy, ask for them in vain: group, client, topic,
# partition, the offset that they had committed, how often they asked, and the lines of the first and the last answer. Else none.
STUCK = {
    "zk-recreate-unclean-2.5": [
        (
            "grc",
            "rc-g39-restarted",
            "rc",
            0,
            20,
            23,
            "broker-2/kafka-request.log:1411",
            "broker-2/kafka-request.log:1676",
        ),
    ],
    "zk-topic-recreate-3.9": [
        (
            "g20",
            "g20-restarted",
            "r",
            0,
            20,
            27,
            "broker-1/kafka-request.log:15710",
            "broker-1/kafka-request.log:16045",
        ),
        (
            "g39",
            "g39-restarted",
            "r",
            0,
            20,
            25,
            "broker-1/kafka-request.log:15734",
            "broker-1/kafka-request.log:16032",
        ),
    ],
}

# Rules that must have judged at least so many subjects as right. Captures that are audited side by side are counted together.
PASSED = {"kraft-tiered-storage-4.1": {"LS-02": 2, "LS-04": 1}}

# Brokers lead for longer than their logs go back. Copies of these captures lack the lines before this time, but for request logs: no line
# shows in which leader epoch the lost records were written. The loss: topic, partition, leader epoch, its start, and the last lost offset.
LATE = {
    "kraft-unclean-truncation-4.1": ("2026-11-21 05:12:58", ("u", 0, 2, 10, 29)),
    "zk-unclean-truncation-3.9": ("2026-11-21 04:36:57", ("u", 0, 3, 10, 29)),
    # what was acknowledged last was never read: only its writes show the loss
    "kraft-acknowledged-writes-lost-4.1": ("2026-11-23 15:47:33", ("payments", 0, 2, 475, 565)),
}
CUT_OFF = ("server.log", "state-change.log", "controller.log")

CATALOGUE = [rule.id for rule in catalogue()]


@pytest.fixture(scope="module")
def late(capture: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Copies of the captures of LATE whose logs begin late."""
    folder = tmp_path_factory.mktemp("late")
    for name, (since, _) in LATE.items():
        shutil.copytree(capture(name), folder / name, ignore=shutil.ignore_patterns("clients"))
        for log in (folder / name).rglob("*.log"):
            if log.name in CUT_OFF:
                lines = log.read_text("utf-8").splitlines(keepends=True)
                begins = [number for number, line in enumerate(lines) if line.startswith("[") and line[1:20] >= since]
                log.write_text("".join(lines[begins[0] :] if begins else []), "utf-8")
    return {f"late {name}": folder / name for name in LATE}


@pytest.fixture(scope="module")
def reports(
    request: pytest.FixtureRequest, spark: SparkSession, capture: Callable[[str], Path], late: dict[str, Path]
) -> dict[str, dict[str, Any]]:
    """The report of each capture that the selected tests are about, and of the late ones, as JSON, from one audit of all."""
    users = [item for item in request.session.items if "reports" in getattr(item, "fixturenames", ())]
    names = {item.callspec.params["name"] for item in users if item.path == request.path}
    captures = {name: discover(str(capture(name))) for name in sorted(names)}
    captures |= {name: named(name, path) for name, path in late.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "LISTED", pipeline.LISTED * len(captures))
        found = reports_side_by_side(spark, captures.values(), show=("fenced",))
    return {name: as_json(found[one.cluster]) for name, one in captures.items()}


@pytest.mark.parametrize("name", capture_names())
def test_capture(
    name: str,
    reports: dict[str, dict[str, Any]],
    capture: Callable[[str], Path],
    expected: Callable[[str], dict[str, Any]],
    record_property: Callable[[str, object], None],
) -> None:
    report = reports[name]
    assert complaints("report", report) == []
    record_property("not required, no such rule", not_required(expected(name), CATALOGUE))
    found = differences(report, expected(name), CATALOGUE)
    assert not found, f"{name} differs from its truth:\n" + "\n".join(found)
    assert_every_line_is_accounted_for(report["capture"])
    assert_evidence_can_be_checked_by_hand(report, capture(name))
    assert removed(report, REMOVED.get(name, [])) == REMOVED.get(name, [])
    assert stuck(report) == STUCK.get(name, [])
    assert lost_writes(report) == LOST_WRITES.get(name, [])
    passed = {rule["rule"]: rule["pass"] for rule in report["rules"]}
    assert all(passed[rule] >= count for rule, count in PASSED.get(name, {}).items())


@pytest.mark.parametrize("name", LATE)
def test_a_loss_is_found_where_the_leaders_log_begins_after_its_epoch(
    name: str, reports: dict[str, dict[str, Any]]
) -> None:
    topic, partition, epoch, start, last = LATE[name][1]
    lost = [
        (finding["rule"], finding["verdict"], finding["first_offset"], finding["last_offset"])
        for finding in reports[f"late {name}"]["findings"]
        if finding["rule"] in ("TR-06", "AW-01")
        and (finding["topic"], finding["partition"], finding["leader_epoch"]) == (topic, partition, epoch)
    ]
    by_writes = name == "kraft-acknowledged-writes-lost-4.1"
    assert lost == [("AW-01" if by_writes else "TR-06", "exposed", start, last)]


@pytest.mark.parametrize("name", [CAPTURE])
def test_a_capture_by_itself_gives_the_same_report(
    name: str, reports: dict[str, dict[str, Any]], shell: Shell, workspace: Path
) -> None:
    """Clusters are judged apart from each other."""
    ran = shell.run(f"epochaudit audit captures/{name} --format json --output report.json", workspace)
    assert ran.returncode == FINDINGS, ran.stderr
    report = json.loads((workspace / "report.json").read_text("utf-8"))
    side_by_side = reports[name]
    assert report["findings"]
    for part in ("findings", "losses", "lost_writes", "truncations", "undelivered", "stuck", "repeated", "loops"):
        assert report[part] == [one for one in side_by_side[part] if one.get("verdict") != "fenced"], part
    counts = ("requests", "partition_rows", "error_codes", "metadata_records")
    for part in ("clusters", "files", "nodes", "missing", *counts):
        assert report["capture"][part] == side_by_side["capture"][part], part


def removed(report: dict[str, Any], truth: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Losses, and truncations that lost nothing, of the partitions that the truth is about."""
    partitions = {(topic, partition) for topic, partition, *_ in truth}
    return [
        (
            *(one[name] for name in ("topic", "partition", "leader_epoch", "first_offset", "last_offset", "epochs")),
            [replica["node"] for replica in one["replicas"]],
            one["given_out"],
            sorted(reader["group"] or reader["client"] for reader in one["read_by"]),
        )
        for one in report["losses"] + report["truncations"]
        if (one["topic"], one["partition"]) in partitions
    ]


def lost_writes(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The lost writes, with the answer that acknowledged the last one."""
    return [
        (
            *(one[name] for name in ("topic", "partition", "leader_epoch", "acks", "client")),
            *(one[name] for name in ("batches", "first_offset", "last_offset")),
            f"{one['evidence'][0]['file']}:{one['evidence'][0]['line']}",
        )
        for one in report["lost_writes"]
    ]


def stuck(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The stuck members, with the first and the last answer."""
    return [
        (
            *(one[name] for name in ("group", "client", "topic", "partition", "committed_offset", "asks")),
            *(f"{line['file']}:{line['line']}" for line in one["evidence"][-2:]),
        )
        for one in report["stuck"]
    ]


def assert_every_line_is_accounted_for(read: dict[str, Any]) -> None:
    """Lines are events, ignored or quarantined, file by file."""
    for file in read["files"]:
        assert file["lines"] == file["events"] + file["ignored"] + file["quarantined"], file


def assert_evidence_can_be_checked_by_hand(report: dict[str, Any], folder: Path) -> None:
    """Opening the named file at the named line shows the text that the report quotes, from its beginning, with ` … ` for gaps."""
    files: dict[str, bytes] = {}
    lines: dict[str, list[str]] = {}
    for finding in [one for root in report["findings"] for one in (root, *root["consequences"])]:
        assert finding["evidence"], finding
        for proof in finding["evidence"]:
            name = proof["file"]
            if name not in files:
                files[name] = (folder / name).read_bytes()
                lines[name] = files[name].decode("utf-8", errors="replace").split("\n")
            if files[name][MAGIC_AT : MAGIC_AT + 1] == MAGIC:
                assert_batch_has_record(files[name], proof)
                continue
            recorded = lines[name][proof["line"] - 1]
            beginning, *others = proof["text"].rstrip(" …").split(" … ")
            assert recorded.startswith(beginning), proof
            assert re.search(".*".join(map(re.escape, others)), recorded[len(beginning) :]), proof


def assert_batch_has_record(segment: bytes, proof: dict[str, Any]) -> None:
    """The batch at the named byte of a raw metadata log has a record of the offset that the report quotes (DefaultRecordBatch)."""
    batch = segment[proof["byte_offset"] :]
    (base_offset,), (last_offset_delta,) = struct.unpack_from(">q", batch), struct.unpack_from(">i", batch, 23)
    offset = int(proof["text"].split(" ", 2)[1])
    assert base_offset <= offset <= base_offset + last_offset_delta, proof
