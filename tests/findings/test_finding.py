"""Findings: provable evidence, ids by content, an order that does not depend on how rows arrived."""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochaudit.findings.evidence import FIRST_READ, LINE_LIMIT, TEXT_LIMIT, LineNumbers, Place, iso_time, read_lines
from epochaudit.findings.finding import EvidenceReader, Finding, findings, in_order
from epochaudit.sources.files.opening import Stored, open_plain
from tests.sources.batch_writer import TIME, batch, metadata

LOG = b"first line\nsecond \xff line\r\n" + b"x" * 50_000 + b"\n" + "fünfte Zeile\n".encode() + b"no newline at the end"


def offset_of(text: bytes) -> int:
    return LOG.index(text)


PLACES = {
    offset_of(b"first"): "first line",
    offset_of(b"second"): "second � line",
    offset_of(b"xxx"): "x" * 50_000,
    offset_of("fünfte".encode()): "fünfte Zeile",
    offset_of(b"no newline"): "no newline at the end",
}


class Forward(io.RawIOBase):
    """A stream that can only be read forward, a few bytes at a time, as decompressed ones are."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, 777))


@pytest.mark.parametrize("stream", [io.BytesIO, Forward])
def test_a_line_is_read_back_at_its_offset(stream: Any) -> None:
    places = [Place("c", "server.log", offset) for offset in PLACES]
    read = dict(read_lines(reversed(places), lambda _: cast(BinaryIO, stream(LOG))))
    assert read == {Place("c", "server.log", offset): text for offset, text in PLACES.items()}


def test_lines_close_together_are_each_read_whole() -> None:
    lines = [f"line {number} {'y' * (number % 40)}" for number in range(1_000)]
    content = "\n".join(lines).encode()
    offsets, at = [], 0
    for line in lines:
        offsets.append(at)
        at += len(line) + 1
    assert at > 3 * FIRST_READ
    read = dict(read_lines([Place("c", "f", offset) for offset in offsets], lambda _: cast(BinaryIO, Forward(content))))
    assert [read[Place("c", "f", offset)] for offset in offsets] == lines


def test_a_compressed_file_is_opened_once(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LOG))
    opened: list[str] = []

    def open_file(place: Place) -> BinaryIO:
        opened.append(place.file)
        return cast(BinaryIO, gzip.open(tmp_path / place.file))

    read = dict(read_lines([Place("c", path.name, offset) for offset in PLACES], open_file))
    assert list(read.values()) == list(PLACES.values())
    assert opened == ["server.log.gz"]


def test_a_damaged_file_shows_what_comes_before_the_defect(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(b"a whole line\n" + bytes(range(256)) * 400)[:-300])
    places = [Place("c", "server.log.gz", 0), Place("c", "server.log.gz", 10_000_000)]
    read = dict(read_lines(places, lambda _: open_plain(Stored("log", str(path), 0), "gzip")))
    assert read == {places[0]: "a whole line"}


def test_a_record_of_a_raw_metadata_log_reads_as_a_dump_prints_it() -> None:
    fence, no_op = metadata("FENCE_BROKER_RECORD", id=1, epoch=4), metadata("NO_OP_RECORD")
    log = batch(0, fence, no_op, codec="gzip")
    recording = EvidenceReader(
        lambda _: io.BytesIO(log), LineNumbers({("c", "m.log", 0): 2}), lambda _: True, lambda _: True, lambda _: False
    )
    second = evidence(file="m.log", line_in_split=2)
    [line, other] = findings([row(evidence=evidence(file="m.log") + second)], recording, {})[0].evidence
    printed = f"CreateTime: {TIME} partitionLeaderEpoch: 3 payload:"
    assert line.text == f'offset: 0 {printed} {{"type":"FENCE_BROKER_RECORD","version":0,"data":{{"id":1,"epoch":4}}}}'
    assert (line.line, other.line) == (1, 2)
    assert other.text == f'offset: 1 {printed} {{"type":"NO_OP_RECORD","version":0,"data":{{}}}}'


def test_a_missing_file_leaves_no_text_and_no_error() -> None:
    def missing_file(place: Place) -> BinaryIO:
        raise FileNotFoundError(place.file)

    assert dict(read_lines([Place("c", "gone.log", 0)], missing_file)) == {}


def test_line_numbers_add_the_lines_of_earlier_splits() -> None:
    numbers = LineNumbers({("c", "a", 1): 50, ("c", "a", 0): 100, ("c", "a", 2): 7, ("d", "a", 0): 3})
    assert numbers.absolute("c", "a", 0, 1) == 1
    assert numbers.absolute("c", "a", 2, 4) == 154
    assert numbers.absolute("d", "a", 0, 3) == 3
    assert numbers.absolute("c", "b", 0, 3) is None


def test_times_name_a_zone_only_where_it_is_known() -> None:
    assert iso_time(1_795_234_094_133, zoned=False) == "2026-11-21T04:08:14.133"
    assert iso_time(1_795_234_094_133, zoned=True) == "2026-11-21T04:08:14.133Z"
    assert iso_time(-1, zoned=True) == "1969-12-31T23:59:59.999Z"
    assert iso_time(None, zoned=True) is None
    assert iso_time(10**18, zoned=True) is None


CAUSED_BY = {"IS-06": ("IS-01", "LD-02"), "LD-02": ("IS-01",), "EP-01": ("TI-04",)}


def evidence(**changes: Any) -> list[dict[str, Any]]:
    place = {"node": 1, "file": "server.log", "split": 0, "byte_offset": 0, "line_in_split": 1, "time_ms": 0}
    return [{"role": "the request", "place": {**place, **changes}}]


def row(**changes: Any) -> dict[str, Any]:
    return {
        "rule": "SR-01",
        "verdict": "violation",
        "reason": None,
        "severity": "critical",
        "cluster": "c",
        "node": 1,
        "topic": "t",
        "topic_id": None,
        "partition": 0,
        "leader_epoch": 3,
        "client_id": None,
        "group_id": None,
        "correlation_id": 17,
        "expected": "74",
        "observed": "0",
        "because": ["an epoch was installed"],
        "evidence": evidence(),
        "first_offset": None,
        "last_offset": None,
        **changes,
    }


def found(*rows: dict[str, Any]) -> tuple[Finding, ...]:
    numbers = LineNumbers({("c", "server.log", 0): 5})
    recording = EvidenceReader(lambda _: io.BytesIO(LOG), numbers, lambda _: False, lambda _: False, lambda _: False)
    return findings(rows, recording, CAUSED_BY)


def test_evidence_carries_line_number_time_and_text() -> None:
    line = found(row())[0].evidence[0]
    assert (line.file, line.line, line.time, line.text) == ("server.log", 1, "1970-01-01T00:00:00.000", "first line")


def test_of_a_long_line_each_finding_has_the_field_that_decides_it() -> None:
    """One line of a request log is evidence for two partitions, whose fields are far from its beginning."""
    partitions = ",".join(f'{{"partition":{number},"highWatermark":{number}7}}' for number in range(20_000))
    line = f'[2026-11-21 04:36:51,609] DEBUG Completed request:{{"topic":"t","partitions":[{partitions}]}}'
    first, second = (
        f'{{"topic":"{topic}","partitions":[{{"partition":0,"highWatermark":{mark}}}]}}'
        for topic, mark in (("a", 901), ("b", 902))
    )
    log = f"{line}{first},{second}\n".encode()
    assert len(log) > 50 * TEXT_LIMIT
    numbers = LineNumbers({("c", "server.log", 0): 5})
    recording = EvidenceReader(lambda _: io.BytesIO(log), numbers, lambda _: False, lambda _: False, lambda _: False)
    rows = [row(topic="a", because=["high watermark 901"]), row(topic="b", because=["high watermark 902"])]
    texts = [one.evidence[0].text or "" for one in findings(rows, recording, {})]
    assert ['"highWatermark":901' in text for text in texts] == [True, False]
    assert ['"highWatermark":902' in text for text in texts] == [False, True]
    assert all(text.startswith("[2026-11-21 04:36:51,609] DEBUG") and len(text) < 1.2 * TEXT_LIMIT for text in texts)


def test_no_more_than_its_limit_is_read_of_a_line() -> None:
    [(_, text)] = read_lines([Place("c", "f", 0)], lambda _: io.BytesIO(b"x" * (3 * LINE_LIMIT)))
    assert text == "x" * LINE_LIMIT


def test_order_is_by_severity_rule_and_subject_however_rows_arrive() -> None:
    rows = [
        row(severity="high", rule="AA-01"),
        row(topic="a", partition=10),
        row(topic="a", partition=9),
        row(topic=None, partition=None),
        row(correlation_id=None),
        row(correlation_id=4),
    ]
    ordered = found(*rows)
    assert [(finding.severity, finding.subject, finding.correlation_id) for finding in ordered] == [
        ("critical", "", 17),
        ("critical", "a-9", 17),
        ("critical", "a-10", 17),
        ("critical", "t-0", None),
        ("critical", "t-0", 4),
        ("high", "t-0", 17),
    ]
    assert found(*reversed(rows)) == ordered


def test_ids_depend_on_content_and_not_on_where_it_was_read() -> None:
    moved = row(evidence=evidence(file="rotated/server.log.1", line_in_split=3))
    assert found(row())[0].finding_id == found(moved)[0].finding_id
    ids = {
        found(row(**change))[0].finding_id
        for change in (
            *(
                {},
                {"rule": "SR-02"},
                {"cluster": "d"},
                {"topic": "u"},
                {"topic_id": "x"},
                {"partition": 1},
                {"node": None},
            ),
            *(
                {"leader_epoch": 4},
                {"client_id": "1"},
                {"group_id": "1"},
                {"correlation_id": 1},
                {"verdict": "exposed"},
            ),
        )
    }
    assert len(ids) == 12


def test_the_topic_id_replaces_the_name_in_the_id() -> None:
    assert found(row(topic="a", topic_id="x"))[0].finding_id == found(row(topic="b", topic_id="x"))[0].finding_id


def test_findings_alike_are_distinguished_by_an_ordinal() -> None:
    later = row(evidence=evidence(time_ms=5))
    first, second = found(later, row())
    assert first.finding_id != second.finding_id
    assert first.evidence[0].time < second.evidence[0].time  # type: ignore[operator]
    assert first.finding_id == found(row())[0].finding_id


def test_showing_fenced_ones_too_leaves_the_ids_of_violations_alone() -> None:
    with_fenced = found(row(verdict="fenced"), row())
    assert found(row())[0] in with_fenced


def test_the_reason_of_a_verdict_ends_the_chain() -> None:
    assert found(row(reason="KAFKA-9338"))[0].because == ("an epoch was installed", "KAFKA-9338")


def nested(*rows: dict[str, Any]) -> dict[str, list[str]]:
    return {finding.rule: [one.rule for one in finding.consequences] for finding in found(*rows)}


def test_what_a_breach_caused_is_listed_inside_it() -> None:
    cause, effect = row(rule="IS-01"), row(rule="IS-06", correlation_id=None)
    assert nested(cause, effect) == {"IS-01": ["IS-06"]}
    assert found(cause, effect)[0].consequences[0].finding_id == found(effect)[0].finding_id


def test_the_last_cause_of_a_chain_has_all_consequences() -> None:
    assert nested(row(rule="IS-01"), row(rule="LD-02"), row(rule="IS-06")) == {"IS-01": ["IS-06", "LD-02"]}


def test_a_breach_of_a_topic_causes_those_of_its_partitions_wherever_they_are_recorded() -> None:
    cause = row(rule="TI-04", partition=None)
    elsewhere = evidence(byte_offset=offset_of(b"second"), line_in_split=2)
    assert nested(cause, row(rule="EP-01", partition=3, evidence=elsewhere)) == {"TI-04": ["EP-01"]}
    assert nested(cause, row(rule="EP-01", topic="other", evidence=elsewhere)) == {"TI-04": [], "EP-01": []}


def test_of_several_causes_it_is_the_one_of_the_same_client() -> None:
    roots = found(*(row(rule=rule, client_id=client) for rule in ("IS-01", "IS-06") for client in ("a", "b")))
    assert [(root.client, [one.client for one in root.consequences]) for root in roots] == [("a", ["a"]), ("b", ["b"])]


@pytest.mark.parametrize(
    "apart",
    [
        {"evidence": evidence(byte_offset=offset_of(b"second"), line_in_split=2)},
        {"partition": 1},
        {"topic": "other"},
        {"cluster": "other"},
        {"verdict": "fenced"},
        {"rule": "IS-12"},
    ],
    ids=str,
)
def test_what_shares_nothing_with_a_breach_stays_a_finding_of_its_own(apart: dict[str, Any]) -> None:
    assert all(not finding.consequences for finding in found(row(rule="IS-01"), row(rule="IS-06") | apart))
    assert len(found(row(rule="IS-01"), row(rule="IS-06") | apart)) == 2


def related(cause: Finding, finding: Finding) -> bool:
    """The relation by which consequences are listed, as a plain definition."""
    if cause.rule not in CAUSED_BY.get(finding.rule, ()) or cause.cluster != finding.cluster:
        return False
    if "fenced" in (cause.verdict, finding.verdict):
        return False
    if cause.partition is not None and finding.partition not in (None, cause.partition):
        return False
    if cause.topic is not None and finding.topic not in (None, cause.topic):
        return False
    of_topic = cause.topic is not None and cause.partition is None and finding.topic is not None
    shared = {(line.file, line.byte_offset) for line in cause.evidence}
    return of_topic or any((line.file, line.byte_offset) in shared for line in finding.evidence)


@given(
    st.lists(
        st.builds(
            row,
            rule=st.sampled_from(["IS-01", "IS-06", "LD-02", "TI-04", "EP-01"]),
            verdict=st.sampled_from(["violation", "exposed", "fenced"]),
            cluster=st.sampled_from(["c", "d"]),
            topic=st.sampled_from([None, "s", "t"]),
            partition=st.sampled_from([None, 0, 1]),
            evidence=st.sampled_from([[], evidence(), evidence(byte_offset=11), evidence() + evidence(byte_offset=11)]),
        ),
        max_size=12,
    )
)
def test_consequences_lie_in_what_caused_them_and_nowhere_else(rows: list[dict[str, Any]]) -> None:
    roots = found(*rows)
    flat = sorted((one for root in roots for one in (root, *root.consequences)), key=in_order)
    assert len(flat) == len(rows)
    for root in roots:
        assert not any(related(cause, root) for cause in flat), "a root has no cause"
        for one in root.consequences:
            cause: Finding | None = next(cause for cause in flat if related(cause, one))
            while cause and (further := next((other for other in flat if related(other, cause)), None)):
                cause = further
            assert cause is not None
            assert cause.finding_id == root.finding_id
