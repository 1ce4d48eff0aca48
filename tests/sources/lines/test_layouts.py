"""Whatever printed and wrapped the lines, the events are those of the stock layout."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from epochaudit.sources import node_log
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import CaptureFile
from epochaudit.sources.lines.conversion_pattern import ConversionPattern, PatternError
from epochaudit.sources.lines.layouts import STOCK, Layout, Unwrapped, layout_of, plain
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import ByteRange

STOCK_LINES = [
    "[2026-11-21 01:00:00,001] INFO starting (kafka.server.KafkaServer)",
    "[2026-11-21 01:00:00,002] INFO KafkaConfig values: ",
    "\tbroker.id = 1",
    "\tnode.id = 1",
    " (kafka.server.KafkaConfig)",
    "[2026-11-21 01:00:00,103] INFO Kafka version: 3.9.1 (org.apache.kafka.common.utils.AppInfoParser)",
    "[2026-11-21 01:00:00,204] ERROR [Broker id=1] Something failed (kafka.server.Broker)",
    "java.lang.IllegalStateException: closed",
    "\tat kafka.network.Processor.run(SocketServer.scala:100)",
    "[2026-11-21 01:00:01,305] INFO [Broker id=1] Creating new partition t-1 with topic id 9gDNO0PzRlKeeIAaGyFvow."
    " (state.change.logger)",
    '[2026-11-21 01:00:02,406] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":12,'
    '"requestApiVersion":4,"correlationId":1,"clientId":"c","requestApiKeyName":"HEARTBEAT"},"request":{},"response":{},'
    '"connection":"127.0.0.1:9092-127.0.0.1:1-0","totalTimeMs":1.0,"requestQueueTimeMs":0.1,"localTimeMs":0.5}'
    " (kafka.request.logger)",
    "[2026-11-21 01:00:03,507] INFO [KafkaServer id=1] shut down completed (kafka.server.KafkaServer)",
]
_PARTS = re.compile(r"\[(\S+) (\S+)\] ([A-Z]+) (.*?)(?: \(([\w.]+)\))?")

Printed = tuple[str, str, str, str, str]


def printed(line: str) -> Printed | None:
    """Date, time, level, message and logger of a dated line; the logger of a message that goes on is given."""
    match = _PARTS.fullmatch(line)
    if match is None:
        return None
    date, time, level, message, logger = match.groups()
    return date, time, level, message, logger or "kafka.server.KafkaConfig"


def laid_out(show: Callable[[Printed], str], *, closes: bool = False) -> list[str]:
    """The lines in another layout; `closes`: it prints the logger at the end of the message, as stock does."""
    lines = []
    for line in STOCK_LINES:
        message = printed(line)
        if message is not None:
            lines.append(show(message))
        elif closes or line != " (kafka.server.KafkaConfig)":
            lines.append(line)
    return lines


def wrapped(show: Callable[[str], str]) -> list[str]:
    """Each line, continuation lines too, in an envelope."""
    return [show(line) for line in STOCK_LINES]


def in_json(names: dict[str, str], *, time: Callable[[str, str], object]) -> list[str]:
    """One object per message, whose further lines are inside it."""
    messages: list[tuple[Printed, list[str]]] = []
    for line in STOCK_LINES:
        parts = printed(line)
        if parts is not None:
            messages.append((parts, [parts[3]]))
        elif line != " (kafka.server.KafkaConfig)":
            messages[-1][1].append(line)
    return [
        json.dumps(
            {names["time"]: time(date, clock), names["level"]: level, names["logger"]: logger, names["message"]: "\n".join(text)}
        )
        for (date, clock, level, _, logger), text in messages
    ]  # fmt: skip


def in_parts(line: str) -> str:
    """A line of the container runtime interface that came in three parts."""
    thirds = [line[: len(line) // 3], line[len(line) // 3 : 2 * len(line) // 3], line[2 * len(line) // 3 :]]
    return "\n".join(
        f"2026-11-21T09:00:00.123456789Z stdout {tag} {part}" for tag, part in zip("PPF", thirds, strict=True)
    )


LAYOUTS: dict[str, tuple[list[str], Layout]] = {
    "stock": (STOCK_LINES, STOCK),
    "thread last": (
        laid_out(lambda p: f"{p[0]} {p[1]} {p[2]} {p[3]} ({p[4]}) [main-EventThread]"),
        Layout(None, "%d %p %m (%c) [%t]%n"),
    ),
    "no brackets": (
        laid_out(lambda p: f"{p[0]} {p[1]} {p[2]} {p[3]} ({p[4]})"),
        Layout(None, "%d %p %m (%c)%n"),
    ),
    "logger first": (laid_out(lambda p: f"{p[0]} {p[1]} {p[2]} {p[4]}: {p[3]}"), Layout(None, "%d %p %c: %m%n")),
    "thread first": (
        laid_out(lambda p: f"{p[0]} {p[1]} {p[2]:5} [data-plane [1]] {p[4]} - {p[3]}"),
        Layout(None, "%d %p [%t] %c - %m%n"),
    ),
    "thread between level and message": (
        laid_out(lambda p: f"[{p[0]} {p[1]}] {p[2]} [data-plane-kafka-request-handler-{p[1][-1]}] {p[3]} ({p[4]})"),
        Layout(None, "[%d] %p [%t] %m (%c)%n"),
    ),
    "thread between level and message, no brackets": (
        laid_out(lambda p: f"{p[0]} {p[1]} {p[2]} [main] {p[3]} ({p[4]})"),
        Layout(None, "%d %p [%t] %m (%c)%n"),
    ),
    "line of source, as in Kafka Connect": (
        laid_out(lambda p: f"[{p[0]} {p[1]}] {p[2]} {p[3]} ({p[4]}:77)"),
        Layout(None, "[%d] %p %m (%c:%L)%n"),
    ),
    "thread and line of source": (
        laid_out(lambda p: f"[{p[0]} {p[1]}] {p[2]} [main] {p[3]} ({p[4]}:77)"),
        Layout(None, "[%d] %p [%t] %m (%c:%L)%n"),
    ),
    "padded level": (
        laid_out(
            lambda p: (
                f"[{p[0]} {p[1]}] {p[2]:5} {p[3]}" + ("" if p[3].endswith("KafkaConfig values: ") else f" ({p[4]})")
            ),
            closes=True,
        ),
        STOCK,
    ),
    "date with T and zone": (
        laid_out(lambda p: f"[{p[0]}T{p[1].replace(',', '.')}Z] {p[2]} {p[3]} ({p[4]})"),
        Layout(None, "[%d] %p %m (%c)%n"),
    ),
    "container runtime": (wrapped(lambda line: f"2026-11-21T09:00:00.123456789Z stdout F {line}"), Layout("cri")),
    "container runtime, in parts": (wrapped(in_parts), Layout("cri")),
    "docker's json-file": (
        wrapped(lambda line: json.dumps({"log": line + "\n", "stream": "stdout", "time": "2026-11-21T09:00:00.1Z"},
                                        separators=(",", ":"))),
        Layout("docker"),
    ),
    "kubectl logs --prefix": (
        wrapped(lambda line: f"[pod/kafka-0/kafka] {line}"),
        Layout("prefix:[pod/kafka-0/kafka] "),
    ),
    "kubectl logs --timestamps": (
        wrapped(lambda line: f"2026-11-21T09:00:00.123456789Z {line}"),
        Layout("timestamp"),
    ),
    "export of a log search": (
        wrapped(lambda line: f"2026-11-21 09:00:00.123\t{line}"),
        Layout("timestamp"),
    ),
    "docker compose": (wrapped(lambda line: f"kafka-1  | {line}"), Layout("prefix:kafka-1  | ")),
    "syslog": (wrapped(lambda line: f"Nov 21 09:00:00 host-1 kafka[77]: {line}"), Layout("syslog")),
    "JSON of ECS": (
        in_json(
            {"time": "@timestamp", "level": "log.level", "logger": "log.logger", "message": "message"},
            time=lambda date, clock: f"{date}T{clock.replace(',', '.')}Z",
        ),
        Layout(None, "json"),
    ),
    "JSON of log4j": (
        in_json(
            {"time": "instant", "level": "level", "logger": "loggerName", "message": "message"},
            time=lambda _, clock: {
                "epochSecond": 1795222800 + int(clock[6:8]), "nanoOfSecond": int(clock[9:]) * 1_000_000
            },
        ),
        Layout(None, "json"),
    ),
    "JSON of log4j in a container": (
        [
            f"2026-11-21T09:00:00.123456789Z stdout F {line}"
            for line in in_json(
                {"time": "timestamp", "level": "severity", "logger": "logger", "message": "message"},
                time=lambda date, clock: f"{date}T{clock.replace(',', '.')}+00:00",
            )
        ],
        Layout("cri", "json"),
    ),
}  # fmt: skip


def events(lines: list[str], layout: Layout, zone: str | None = None) -> list[dict[str, object]]:
    """The columns of the lines' events that do not depend on the place, in order."""
    return [
        {name: value for name, value in row.items() if name not in PLACES and value is not None}
        for row in rows("\n".join(lines).encode() + b"\n", layout, zone)
        if row["row_kind"] == "event"
    ]


PLACES = {"byte_offset", "line_in_split"}


def rows(data: bytes, layout: Layout, zone: str | None = None) -> list[dict[str, object]]:
    with tempfile.NamedTemporaryFile() as log:
        log.write(data)
        log.flush()
        file = CaptureFile(
            "log", log.name, "server-log", "c", len(data), 1, "server_log",
            time_zone=zone, envelope=layout.envelope, pattern=layout.pattern,
        )  # fmt: skip
        found = [row for batch in decoded(ByteRange(file, 0, 0, None)) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["byte_offset"], row["partition_row"] or 0))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_is_recognised_by_its_lines(name: str) -> None:
    lines, layout = LAYOUTS[name]
    assert layout_of("\n".join(lines).encode()) == layout


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_events_are_those_of_the_stock_layout(name: str) -> None:
    lines, layout = LAYOUTS[name]
    stock = events(STOCK_LINES, STOCK)
    assert [event["event_type"] for event in stock] == [
        "PROCESS_STARTING", "CONFIG_VALUE", "CONFIG_VALUE", "KAFKA_VERSION", "PARTITION_CREATED", "PROCESS_STOPPED",
    ]  # fmt: skip
    assert events(lines, layout) == stock


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_recorded_line_is_an_event_or_ignored(name: str) -> None:
    lines, layout = LAYOUTS[name]
    recorded = "\n".join(lines).count("\n") + 1
    [split] = [
        row["statistics"] for row in rows("\n".join(lines).encode() + b"\n", layout) if row["row_kind"] == "split"
    ]
    assert isinstance(split, dict)
    assert (split["lines"], split["quarantined_lines"]) == (recorded, 0)
    assert split["requests"] == [("HEARTBEAT", 1)]


def test_a_line_whose_last_part_is_missing_is_quarantined() -> None:
    cut = in_parts(STOCK_LINES[0]).rsplit("\n", 1)[0] + "\n"
    [bad, split] = rows(cut.encode(), Layout("cri"))
    assert bad["quarantined"]["reason"] == "cut off: the end of the line is missing"  # type: ignore[index]
    assert split["statistics"]["quarantined_lines"] == split["statistics"]["lines"] == 2  # type: ignore[index]


def test_a_time_with_its_zone_is_read_in_utc_whatever_the_manifest_states(tmp_path: Path) -> None:
    lines = laid_out(lambda p: f"{p[0]}T{p[1]}+0200 {p[2]} {p[3]} ({p[4]})")
    (tmp_path / "server.log").write_text("\n".join(lines))
    (tmp_path / "capture.toml").write_text('time_zone = "America/New_York"')
    [file] = [file for file in discover(str(tmp_path)).files if file.kind == "server-log"]
    assert file.time_zone == "UTC"
    [first, *_] = events(lines, Layout(file.envelope, file.pattern), file.time_zone)
    assert first["time_ms"] == 1795222800001 - 2 * 3_600_000


def test_a_stated_pattern_is_used_and_the_file_known_by_it(tmp_path: Path) -> None:
    lines = laid_out(lambda p: f"{p[2]}!{p[4]}!{p[0][8:]}.{p[0][5:7]}.{p[0][:4]} {p[1].replace(',', ':')}!{p[3]}")
    (tmp_path / "node.txt").write_text("\n".join(lines))
    (tmp_path / "capture.toml").write_text('pattern = "%p!%c!%d{dd.MM.yyyy HH:mm:ss:SSS}!%m%n"')
    [file] = [file for file in discover(str(tmp_path)).files if file.path == "node.txt"]
    assert file.kind == "server-log"
    assert events(lines, Layout(file.envelope, file.pattern)) == events(STOCK_LINES, STOCK)


@pytest.mark.parametrize(
    ("pattern", "lack"),
    [
        ("%p %c: %m%n", "prints no date"),
        ("%d %p", "prints no message"),
        ("%d{HH:mm:ss} %m", "has to print year"),
        ("%d{yyyy-MM-dd HH:mm:ss,SSS G} %m", "not understood"),
    ],
)
def test_a_pattern_that_lines_cannot_be_read_by_is_refused(pattern: str, lack: str) -> None:
    with pytest.raises(PatternError, match=lack):
        ConversionPattern(pattern)


def test_a_document_that_quotes_lines_is_no_log() -> None:
    quoted = (
        "# Report\n\nIt said\n\n> " + STOCK_LINES[0] + "\n\nand then\n\n> " + STOCK_LINES[5] + "\n\nwhich is all.\n"
    )
    assert layout_of(quoted.encode()) == STOCK


def test_hostile_lines_take_linear_time() -> None:
    for layout in (layout for _, layout in LAYOUTS.values()):
        read = Unwrapped(layout)
        for text in (b"2026-11-21 01:00:00,001 INFO [" * 20_000, b"[" * 300_000, b" (" * 200_000, b'{"log":' * 50_000):
            whole = read.line(text)
            assert whole is None or whole.parts == 1


def test_a_head_is_shown_as_stock_for_those_who_look_into_it() -> None:
    lines, layout = LAYOUTS["JSON of ECS"]
    head, zoned = plain("\n".join(lines).encode(), layout)
    assert zoned
    assert b"[2026-11-21 01:00:00,103] INFO Kafka version: 3.9.1 (org.apache" in head


def test_the_decoder_is_the_one_of_all_node_logs() -> None:
    assert node_log.DECODER.kind == "node-log"


def test_loggers_without_their_package_are_recognised_by_their_class(tmp_path: Path) -> None:
    lines = laid_out(lambda p: f"{p[0]} {p[1]} {p[2]} [main] {p[4].rpartition('.')[2]}:88 - {p[3]}")
    (tmp_path / "out.txt").write_text("\n".join(lines))
    [file] = discover(str(tmp_path)).files
    assert (file.kind, file.pattern) == ("server-log", "%d %p [%t] %c:%L - %m%n")
    assert events(lines, Layout(file.envelope, file.pattern)) == events(STOCK_LINES, STOCK)


def test_the_layout_of_spark_has_a_short_date() -> None:
    lines = laid_out(lambda p: f"{p[0][2:].replace('-', '/')} {p[1][:8]} {p[2]} {p[4]}: {p[3]}")
    layout = layout_of("\n".join(lines).encode())
    assert layout == Layout(None, "%d{yy/MM/dd HH:mm:ss} %p %c: %m%n")
    found = events(lines, layout)
    assert [(row["event_type"], row["time_ms"]) for row in found] == [
        (row["event_type"], row["time_ms"] // 1000 * 1000) for row in events(STOCK_LINES, STOCK)
    ]
