"""The compiled scanner changes nothing but the time: whatever a log holds, the rows are those of the decoder of all lines.

Lines of all recorded request logs, as they are and harmed in ways that a lenient reader would forgive.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochaudit.kafka.api_versions import DIVERGING_EPOCH_FETCH_VERSION, REPLICA_STATE_FETCH_VERSION
from epochaudit.sources.clock import log_time
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.request_log import compiled
from epochaudit.sources.request_log.compiled import machine, program
from epochaudit.sources.request_log.compiled import scanner as machinery
from epochaudit.sources.request_log.compiled.machine import Treatment
from epochaudit.sources.request_log.compiled.scanner import RequestScanner
from epochaudit.sources.request_log.json import APIS
from epochaudit.sources.request_log.text_grammar.schemas import TEXTS
from epochaudit.sources.scan import datasource, ranges
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import ByteRange
from epochaudit.sources.sink import EVERYTHING, RequestCounts, RowSink, Wanted
from tests.conftest import capture_names
from tests.sources.request_log.test_text import PRINTED
from tests.sources.request_log.test_text import line as printed_line

JSON, TEXT = "request-log-json", "request-log-text"
ORDER = [(name, "ascending") for name in ("row_kind", "byte_offset", "partition_row")]
LINES = 250  # of each log, spread over it
NUMBER = re.compile(rb"(?<=[:=])-?\d+(?:\.\d+)?")
STRING = re.compile(rb'(?<=:)"[^"]*"|(?<=[a-z_]=)[\w.-]+')
MEMBER = re.compile(rb'"\w+":(?:"[^"]*"|-?[\d.]+|null|\[\])|\w+=(?:-?\d+|\[\]|null|[\w.-]+)')
LIST = re.compile(rb"\[[^\[\]]*\]")
NUMBERS = (
    b"0", b"-0", b"-1", b"007", b"1.0", b"1.5", b"1e3", b"1E3", b"null", b"true", b'"1"', b"", b"-", b"2147483647",
    b"2147483648", b"-2147483649", b"9223372036854775807", b"9223372036854775808", b"999999999999999999", b"0.1234567890123456",
    b"1e400", b"12345678901234567890123", b" 1", b"1 ", b"+1", b"0x1", b"17", b"12", b"19", b"1000000000001", b"-5.25",
)  # fmt: skip
STRINGS = (
    b'""', b"null", b'"a\\u0041"', b'"a\\"b"', b'"\xc3\xa9"', b'"\xff"', b'"a\tb"', b'"\x00"', b"1", b'"AAAAAAAAAAAAAAAAAAAAAA"',
    b"\xc3\xa9", b"", b"a,b", b"a{b", b"a=b", b"a b", b"a}b", b'"unterminated', b'"\x7f"',
    b'"' + b"x" * 300 + b'"', b"y" * 300, b"a:b", b"a/b", b"[]", b"{}",
)  # fmt: skip
LISTS = (
    b"[]",
    b"null",
    b"[,]",
    b"[{}]",
    b"[null]",
    b"[1]",
    b"[1,2]",
    b"[1,]",
    b"[ ]",
    b"[-0]",
    b"[2147483648]",
    b"[[]]",
)
GARBAGE = (b"", b" ", b"\r", b"}", b",", b"\x00", b"\xff", b'"', b"garbage", b"\n", b"]}", b" (kafka.request.logger)")
SHIFTS = (
    (b"2026-11-21 04:", b"2026-11-21 03:"),
    (b"2026-11-21 04:", b"2026-11-21 05:"),
    (b":2", b":1"),
    (b"2026-", b"2026/"),
)


@pytest.fixture(scope="session")
def recorded(capture: Callable[[str], Path]) -> Callable[[str], Sequence[Sequence[bytes]]]:
    """recorded(kind) -> the lines of each recorded log of that kind, thinned."""

    @cache
    def of(kind: str) -> list[list[bytes]]:
        logs = []
        for file in (
            file for name in capture_names() for file in discover(str(capture(name))).files if file.kind == kind
        ):
            with file.open() as stream:
                lines = stream.read().split(b"\n")[:-1]
            logs.append(lines[:: max(1, len(lines) // LINES)])
        return logs

    return of


def tables(data: bytes, kind: str, zone: str | None = None, wanted: Wanted = EVERYTHING) -> list[pa.Table]:
    """All rows, without the scanner and with it."""
    with tempfile.NamedTemporaryFile() as log:
        log.write(data)
        log.flush()
        file = CaptureFile("log", log.name, kind, "c", len(data), 1, "request_log", time_zone=zone)
        part = ByteRange(file, 0, 0, None)
        return [pa.Table.from_batches(decoded(part, wanted, compiled)).sort_by(ORDER) for compiled in (False, True)]


def without_tags(response: str) -> str:
    """The answers without those of their tags that most Fetches lack."""
    return re.sub(r"_tagged_fields=\{0=\{epoch.*?\}\}\}", "_tagged_fields={}", response)


def same(data: bytes, kind: str, zone: str | None = None) -> None:
    plain, scanned = tables(data, kind, zone)
    if not plain.equals(scanned):
        assert plain.to_pylist() == scanned.to_pylist(), data[:4000]


def scanner_of(kind: str) -> RequestScanner:
    file = CaptureFile("log", "log", kind, "c", 0, 1, "request_log")
    scanner = compiled.scanner_for(file, RowSink(file, 0))
    assert scanner is not None
    return scanner


def treated(scanner: RequestScanner, line: bytes) -> Treatment | None:
    """What the scanner makes of the line; None if it is not the scanner's."""
    scanner.begin(line, 0)
    after, number, notes = scanner.lines(0, 1)
    events, counted = scanner.take_counts(RequestCounts())
    if (after, number) != (len(line) + 1, 2):
        return None
    assert (len(notes), events, counted) in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    return Treatment.NOTE if notes else Treatment.ROWS if events else Treatment.COUNT


def treatment(api: str) -> Treatment:
    """Of an API's lines as text."""
    return Treatment.ROWS if api in program.AS_ROWS else Treatment.NOTE if api in TEXTS else Treatment.COUNT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mark"), [(JSON, rb'"requestApiKeyName":"(FETCH|PRODUCE)"'), (TEXT, rb"apiKey=(\w+),")]
)
def test_recorded_lines_are_the_scanners(
    kind: str, mark: bytes, recorded: Callable[[str], Sequence[Sequence[bytes]]]
) -> None:
    scanner = scanner_of(kind)
    known = sorted(line for lines in recorded(kind) for line in lines if re.search(mark, line))
    refused, treatments = [], set()
    for line in known:  # by time: the clock sets some aside
        api = re.search(mark, line)[1].decode()  # type: ignore[index]
        expected = Treatment.ROWS if kind == JSON else treatment(api)
        if treated(scanner, line) == expected:
            treatments.add(expected)
        else:
            refused.append(line)
    assert len(known) > 1000
    assert treatments == ({Treatment.ROWS} if kind == JSON else {Treatment.ROWS, Treatment.COUNT, Treatment.NOTE})
    assert not refused, refused[:3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [JSON, TEXT])
def test_recorded_logs_give_the_same_rows(kind: str, recorded: Callable[[str], Sequence[Sequence[bytes]]]) -> None:
    for lines in recorded(kind):
        same(b"".join(line + b"\n" for line in lines), kind)


def test_what_is_compiled_in_is_what_other_modules_say() -> None:
    stated = (log_time.LATE_MS, DIVERGING_EPOCH_FETCH_VERSION, REPLICA_STATE_FETCH_VERSION)
    assert stated == (machine._LATE_MS, machine._TAGGED_FIELDS, machine._REPLICA_STATE)
    never_in_text = {"is_kraft_controller", "request_type", "leader_recovery_state"}
    for api in program.AS_ROWS:
        assert set(APIS[api].columns) - set(machine.REGISTERS) <= never_in_text
    assert set(TEXTS).isdisjoint(program.UNREAD_APIS)


def test_all_releases_print_for_the_scanner() -> None:
    scanner = scanner_of(TEXT)
    lines = []
    for api, version, _, request, response in PRINTED:
        answered = without_tags(response) if api == "FETCH" else response
        asked = "{acks=1,timeout=1500,numPartitions=4}" if api == "PRODUCE" else request  # which the log prints so
        line = printed_line(api, int(version), asked, answered).encode()
        assert treated(scanner, line) == treatment(api), line
        lines.append(line)
    same(b"\n".join(lines + lines), TEXT)


PRODUCED = "{responses=[{topic=t,partition_responses=[%s]}],throttle_time_ms=0}"
ANSWER = "{partition=%d,error_code=%s,base_offset=5,log_append_time=-1,log_start_offset=0}"


@pytest.mark.parametrize("request_text", ["numPartitions=2", "numPartitions=0", "partitionSizes=[t-0=78,t-1=8]"])
@pytest.mark.parametrize("codes", [("0", "6"), ("0",), (), ("-1", "252"), ("0", "x")])
def test_produce_is_left_to_the_decoder(request_text: str, codes: Sequence[str]) -> None:
    answers = ",".join(ANSWER % (number, code) for number, code in enumerate(codes))
    request, response = f"{{acks=1,timeout=1500,{request_text}}}", PRODUCED % answers if codes else ""
    line = printed_line("PRODUCE", 5, request, response).encode()
    assert treated(scanner_of(TEXT), line) == Treatment.NOTE
    same(b"\n".join([line] * 4), TEXT)


def printed(api: str, version: int) -> str:
    """A line of that API as a release prints it."""
    request, response = next(row[3:5] for row in PRINTED if row[:2] == [api, str(version)])
    return printed_line(api, version, request, without_tags(response))


STATE = re.compile(r"\{partition=.*?is_new=\w+\}")
LEADER_AND_ISR, UPDATE_METADATA = printed("LEADER_AND_ISR", 2), printed("UPDATE_METADATA", 5)
API_VERSIONS = printed_line("API_VERSIONS", 2, "{}", "{error_code=0,api_versions=[]}")


@pytest.mark.parametrize(
    "line",
    [
        LEADER_AND_ISR.replace("isr=[", "isr=[2147483648,", 1),
        LEADER_AND_ISR.replace("isr=[", "isr=[01,", 1),
        LEADER_AND_ISR.replace("is_new=", "is_new=x", 1),
        STATE.sub(lambda state: f"{state[0]},{state[0]}", LEADER_AND_ISR, count=1),
        UPDATE_METADATA.replace("live_brokers=[{id=", "live_brokers=[{id=2147483648", 1),
        printed("METADATA", 7).replace("{topics=[", "{topics=[{", 1),
        printed("STOP_REPLICA", 1).replace("topic=", "topic=\u00e4", 1),
        printed("STOP_REPLICA", 1).replace("apiVersion=1,", "apiVersion=99,"),
        API_VERSIONS.replace("{}", "{a=\u00e4}"),
        API_VERSIONS.replace("{}", "{a=\udcff}"),
        API_VERSIONS.replace(" -- {}", " -- "),
        API_VERSIONS.replace("principal:", "principal: from connection b;"),
        API_VERSIONS.replace("API_VERSIONS", "NO_SUCH_API"),
    ],
)
def test_what_is_not_printed_so_is_left_to_the_decoder_of_all_lines(line: str) -> None:
    text = line.encode(errors="surrogateescape")
    assert treated(scanner_of(TEXT), text) is None
    same(b"\n".join([LEADER_AND_ISR.encode(), text, API_VERSIONS.encode(), text]), TEXT)


def harm(line: bytes, draw: st.DataObject) -> bytes:
    """The line, harmed in one of many ways."""

    def one(pattern: re.Pattern[bytes], given: Sequence[bytes]) -> bytes:
        found = list(pattern.finditer(line))
        if not found:
            return line
        match = draw.draw(st.sampled_from(found))
        return line[: match.start()] + draw.draw(st.sampled_from(given)) + line[match.end() :]

    def place() -> int:
        return draw.draw(st.integers(0, len(line)))

    def flipped() -> bytes:
        at = place()
        return line[:at] + bytes([draw.draw(st.integers(0, 255))]) + line[at + 1 :]

    def garbled() -> bytes:
        at = place()
        return line[:at] + draw.draw(st.sampled_from(GARBAGE)) + line[at:]

    def without() -> bytes:
        at = place()
        return line[:at] + line[at + draw.draw(st.integers(1, 40)) :]

    def doubled() -> bytes:
        match = draw.draw(st.sampled_from(list(MEMBER.finditer(line)) or [None]))
        return line if match is None else line[: match.end()] + b"," + match[0] + line[match.end() :]

    def swapped() -> bytes:
        members = list(MEMBER.finditer(line))
        if len(members) < 2:
            return line
        first = draw.draw(st.integers(0, len(members) - 2))
        one, other = members[first], members[draw.draw(st.integers(first + 1, min(first + 4, len(members) - 1)))]
        return line[: one.start()] + other[0] + line[one.end() : other.start()] + one[0] + line[other.end() :]

    def left_out() -> bytes:
        match = draw.draw(st.sampled_from(list(MEMBER.finditer(line)) or [None]))
        return line if match is None else line[: match.start()] + line[match.end() + 1 :]

    def repeated() -> bytes:
        structs = list(re.finditer(rb"\{[^{}]*\}", line))
        if not structs:
            return line
        match = draw.draw(st.sampled_from(structs))
        times = draw.draw(st.sampled_from((1, 2, 600)))
        return line[: match.end()] + (b"," + match[0]) * times + line[match.end() :]

    ways = (
        lambda: one(NUMBER, NUMBERS), lambda: one(STRING, STRINGS), lambda: one(LIST, LISTS), flipped, garbled, without,
        doubled, swapped, left_out, repeated, lambda: line[: place()], lambda: line[:1] + b" " + line[1:],
    )  # fmt: skip
    return draw.draw(st.sampled_from(ways))()


ZONES = st.sampled_from((None, "Europe/Berlin"))
ROOM = st.sampled_from(
    [{"ROWS": rows, "CHARACTERS": characters, "NOTES": notes} for rows, characters, notes in ((1, 1, 1), (7, 100, 3))]
    + [{"NOTES": machinery.NOTES}]
)
PACE = (0, 1, 40, 700, 2_001, 30_000, 1_500_000, -100, -2_001, -60_000, -3_600_000)  # milliseconds from line to line
few = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], print_blob=True
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [JSON, TEXT])
@few
@given(draw=st.data())
def test_harmed_lines_give_the_same_rows(
    kind: str, recorded: Callable[[str], Sequence[Sequence[bytes]]], draw: st.DataObject
) -> None:
    log = draw.draw(st.sampled_from(recorded(kind)))
    start = draw.draw(st.integers(0, max(0, len(log) - 12)))
    lines = [harm(line, draw) if draw.draw(st.integers(0, 2)) else line for line in log[start : start + 12]]
    if draw.draw(st.booleans()):
        found, instead = draw.draw(st.sampled_from(SHIFTS))
        since = draw.draw(st.integers(0, len(lines)))
        lines[since:] = [line.replace(found, instead, 1) for line in lines[since:]]
    same(b"\n".join(lines) + draw.draw(st.sampled_from((b"\n", b""))), kind, draw.draw(ZONES))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [JSON, TEXT])
@few
@given(draw=st.data())
def test_lines_at_any_time_in_any_blocks_give_the_same_rows(
    kind: str, recorded: Callable[[str], Sequence[Sequence[bytes]]], draw: st.DataObject
) -> None:
    """Late lines, clocks that are set, a file that ends anywhere, blocks, batches and buffers of any size."""
    log = draw.draw(st.sampled_from(recorded(kind)))
    start = draw.draw(st.integers(0, max(0, len(log) - 40)))
    moment = datetime(2026, 10, 25, 0, 58)
    lines = []
    for line in log[start : start + 40]:
        moment += timedelta(milliseconds=draw.draw(st.sampled_from(PACE)))
        printed = moment + timedelta(milliseconds=draw.draw(st.sampled_from((*[0] * 8, -1_500, -2_500, 90_000))))
        lines.append(f"[{printed:%Y-%m-%d %H:%M:%S},{printed.microsecond // 1000:03}".encode() + line[24:])
    data = b"\n".join(lines)
    data = data[: draw.draw(st.integers(0, len(data)) | st.just(len(data)))]
    with (
        patch.object(ranges, "PIECE", draw.draw(st.sampled_from((500, 5_000, ranges.PIECE)))),
        patch.object(datasource, "ROWS_AT_ONCE", draw.draw(st.sampled_from((1, 10, datasource.ROWS_AT_ONCE)))),
        patch.multiple(machinery, **draw.draw(ROOM)),
    ):
        same(data, kind, draw.draw(ZONES))


@pytest.mark.parametrize("kind", [JSON, TEXT])
def test_the_clock_goes_on_as_without_it(kind: str, recorded: Callable[[str], Sequence[Sequence[bytes]]]) -> None:
    """Set back twice, once as the end of summer time does."""
    log = max(recorded(kind), key=len)
    autumn = [re.sub(rb"^\[\d{4}-\d\d-\d\d \d\d:", b"[2026-10-25 02:", line) for line in log]
    for zone in (None, "Europe/Berlin"):
        same(b"".join(line + b"\n" for line in autumn + autumn + log), kind, zone)


def test_rows_beyond_the_first_room(recorded: Callable[[str], Sequence[Sequence[bytes]]]) -> None:
    """A block of lines with so many partitions that the buffers must grow before they are drained."""
    answer = re.compile(rb'\{"partitionIndex":0,[^{}]*\}(?=\])')
    line = next(line for lines in recorded(JSON) for line in lines if len(answer.findall(line)) == 1)
    answers = b",".join(answer.search(line)[0].replace(b":0,", b":%d," % number, 1) for number in range(400))  # type: ignore[index]
    same((answer.sub(answers, line) + b"\n") * 30, JSON)
    same((answer.sub(answers + b"," + answers, line) + b"\n") * 3, JSON)


def test_only_the_wanted_columns_are_made(recorded: Callable[[str], Sequence[Sequence[bytes]]]) -> None:
    wanted = Wanted(
        frozenset({"FETCH"}), frozenset({"row_kind", "byte_offset", "partition_row", "topic", "error_code"})
    )
    plain, scanned = tables(b"".join(line + b"\n" for line in recorded(JSON)[0]), JSON, wanted=wanted)
    assert plain.equals(scanned)
    assert set(scanned.column_names) == wanted.columns


def test_a_scanner_is_for_much_in_the_stock_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = CaptureFile("log", "log", JSON, "c", 0)
    assert compiled.scans(stock)
    assert not compiled.scans(replace(stock, envelope="docker"))
    assert not compiled.scans(replace(stock, kind="server-log"))
    compiled._scanners.cache_clear()
    assert not compiled.pays(compiled.ENOUGH - 1)
    assert compiled.pays(compiled.ENOUGH)
    monkeypatch.delattr(
        "epochaudit.sources.request_log.compiled.scanner.load"
    )  # fails as numba does without a directory for its cache
    assert compiled.scanner_for(stock, RowSink(stock, 0)) is None
    compiled._scanners.cache_clear()
