"""The scanner: loops over bytes, driven by the tables of program.py and compiled by numba for the local machine.

numba caches compiled code beside this file or in the user's cache, and compiles again only when this file changes.
Everything that is compiled in, including constants, must therefore be defined here.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar, cast

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy import int64, ndarray, searchsorted, uint64

Array = ndarray[Any, Any]
Function = TypeVar("Function", bound=Callable[..., Any])

NONE: Final = -(2**63)  # stands for null in registers
NEWLINE: Final = 10
REGISTERS: Final = (
    "byte_offset", "line_in_split", "time_ms", "arrival_ms", "api_version", "correlation_id",
    "client_id", "size of client_id", "connection", "size of connection",
    "software_name", "size of software_name", "software_version", "size of software_version",
    "total_time_us", "request_queue_time_us", "local_time_us", "remote_time_us", "request_error_code",
    "replica_id", "replica_epoch", "isolation_level", "session_id", "session_epoch", "answered_session_id",
    "controller_id", "controller_epoch", "broker_epoch", "live_brokers", "size of live_brokers",
    "acks", "transactional_id", "size of transactional_id",
    "topic", "size of topic", "topic_id", "size of topic_id",
    "partition_row", "partition", "in_request", "in_response", "forgotten",
    "current_leader_epoch", "fetch_offset", "last_fetched_epoch", "requester_log_start_offset",
    "error_code", "high_watermark", "last_stable_offset", "log_start_offset", "diverging_epoch", "diverging_end_offset",
    "hinted_leader", "hinted_leader_epoch", "preferred_read_replica", "records_size",
    "partition_controller_epoch", "leader", "leader_epoch", "partition_epoch", "isr", "size of isr",
    "replicas", "size of replicas", "adding_replicas", "size of adding_replicas",
    "removing_replicas", "size of removing_replicas", "offline_replicas", "size of offline_replicas", "is_new",
    "response_leader", "response_leader_epoch", "response_isr", "size of response_isr", "base_offset",
    "unread", "size of unread", "broker_id", "api", "treatment", "table", "table's end", "header_end",
)  # fmt: skip
"""The registers, by the columns that they fill. A string or list has two: its start in the text, and its size.

Of the registers that differ by partition, those of Fetch come first. The last registers fill no column: they state how the
line is treated, and take the values of lines without rows.
"""
FETCH_STRINGS: Final = ("client_id", "connection", "software_name", "software_version", "topic", "topic_id")
STRINGS: Final = (
    *FETCH_STRINGS, "live_brokers", "isr", "replicas", "adding_replicas", "removing_replicas", "offline_replicas", "response_isr",
    "transactional_id",
)  # fmt: skip
REGISTER: Final = {name: number for number, name in enumerate(REGISTERS)}
TOPIC: Final = REGISTER["topic"]  # registers from here on differ by partition
PARTITION: Final = REGISTER["partition_row"]
FETCH_END: Final = REGISTER["partition_controller_epoch"]
UNREAD: Final = REGISTER["unread"]


class Column(IntEnum):
    """The columns of a program's fields.

    LITERAL: index of its first word. LOW, HIGH: bounds of an integer; of a plain string, its Characters and least size.
    CHILD: the first field of an object. RESET to RESET_END: registers that become null where the object begins.
    """

    LITERAL = 0
    SIZE = 1
    KIND = 2
    NEXT = 3
    ELSE = 4
    REGISTER = 5
    LOW = 6
    HIGH = 7
    CHILD = 8
    RESET = 9
    RESET_END = 10


class Kind(IntEnum):
    """The kinds of values.

    API: no value. The literal names the API with number LOW and Treatment HIGH, whose fields begin at CHILD; its rows go
    to table RESET and fill the registers before RESET_END. VERSION: at most HIGH; the line continues at root
    CHILD + version. LIST: of objects. NAMES: a list of objects or plain strings, or null. INTEGERS: a list.
    FORGOTTEN: the partitions of a topic. END: of an object; END_ASKED and END_ANSWERED: of a partition in the request and
    the response; END_TOPIC: of an answered topic, perhaps without partitions. TO_CONNECTION, TO_LINE_END: unread text up
    to the line's last ` from connection ` or its end; the latter's register takes the start of its literal.
    """

    NOTHING = 0
    INTEGER = 1
    DECIMAL = 2
    MILLISECONDS = 3
    QUOTED = 4
    PLAIN = 5
    PLAIN_OR_NULL = 6
    OBJECT = 7
    LIST = 8
    LIST_OR_NULL = 9
    FORGOTTEN = 10
    RECORDS = 11
    END = 12
    END_ASKED = 13
    END_ANSWERED = 14
    LINE_END = 15
    API = 16
    VERSION = 17
    TO_CONNECTION = 18
    TO_LINE_END = 19
    BOOLEAN = 20
    INTEGERS = 21
    NAMES = 22
    END_TOPIC = 23


class Treatment(IntEnum):
    """Treatment of an API's lines. ROWS: they become rows. ANSWERS: each answered partition becomes a row. COUNT: they are
    counted. NOTE: their place and time are noted for the decoder.
    """

    ROWS = 0
    COUNT = 1
    NOTE = 2
    ANSWERS = 3


class Note(IntEnum):
    """The columns of a noted line. START, HEADER_END and END are positions in the text."""

    START = 0
    HEADER_END = 1
    END = 2
    LINE = 3
    TIME = 4


class Characters(IntEnum):
    """Characters of a plain string. WORD: `\\w`. NAME: also `.` and `-`. ADDRESS: also `:` and `/`."""

    WORD = 0
    NAME = 1
    ADDRESS = 2


class State(IntEnum):
    """The input and output of a scan.

    POSITION: of the next line in the text. OFFSET: of the text's first byte in the file. LINE: number of the next line.
    NOTES: number of filled notes. CLOCK_TIME: time of the next dated line if the clock has read it, else NONE.
    LATEST to LEAP_TO: LogClock.pace. MINUTE: milliseconds of the minute printed as the words FIRST_WORD to LAST_WORD.
    """

    POSITION = 0
    OFFSET = 1
    LINE = 2
    NOTES = 3
    CLOCK_TIME = 4
    LATEST = 5
    BEHIND = 6
    LEAP_FROM = 7
    LEAP_TO = 8
    MINUTE = 9
    FIRST_WORD = 10
    MIDDLE_WORD = 11
    LAST_WORD = 12


class Stop(IntEnum):
    """Why a scan stopped. ENDED: the text ended. OTHER: the scanner does not take the line. MINUTE: its minute is not known.
    FULL, NOTED, UNFOLDED: no space for its rows, for its note, or in Folded. LATE: only the clock can read its time.
    """

    ENDED = 0
    OTHER = 1
    MINUTE = 2
    FULL = 3
    NOTED = 4
    LATE = 5
    UNFOLDED = 6


class Run(IntEnum):
    """The columns of a run. FIRST: its first row in the output. ROWS: their number. WRITTEN: of them, those in the output
    before the last. ARRIVAL: the earliest.
    """

    FIRST = 0
    ROWS = 1
    WRITTEN = 2
    ARRIVAL = 3
    END = 4


class Peak(IntEnum):
    """The columns of the lowest and the highest high watermark of a partition in a span. *_RUN: the run of the row that had it
    last; *_IS_FIRST: that row is the first one of its run. HAS: the entry is used.
    """

    LOW = 0
    LOW_RUN = 1
    LOW_IS_FIRST = 2
    HIGH = 3
    HIGH_RUN = 4
    HIGH_IS_FIRST = 5
    SPAN = 6
    INTERVAL = 7
    END = 8


class Filled(IntEnum):
    """The numbers of rows, of runs and of peaks. ACTIVE: whether rows of Fetch are folded."""

    ROWS = 0
    RUNS = 1
    PEAKS = 2
    ACTIVE = 3


class Folded(NamedTuple):
    """Where runs of like Fetch rows are folded; see scanner.Runs.

    filled: see Filled. rows, texts, ends: the output, with a row per Fetch row that remains, and its strings; the last two
    columns are run_rows and run_arrival_ms. slots, peak_slots: hash tables of indexes of runs and peaks, -1 for none. last: the
    last row of each run. peak_rows: the rows with the lowest and the highest high watermark of each peak. edges: times; the rows
    of a run arrived and were answered between two of them. The first ones, before edge_ends[0], are of all partitions. Of the partition
    whose `partition_key` is the nth of edge_keys, in order, are those before edge_ends[n + 1] and not before edge_ends[n], too.
    """

    filled: Array
    rows: Array
    texts: Array
    ends: Array
    slots: Array
    runs: Array
    last: Array
    peak_slots: Array
    peaks: Array
    peak_rows: Array
    edges: Array
    edge_keys: Array
    edge_ends: Array


_LITERAL, _SIZE, _KIND, _NEXT, _ELSE, _REGISTER, _LOW, _HIGH, _CHILD, _RESET, _RESET_END = map(int, Column)
(
    _NOTHING, _INTEGER, _DECIMAL, _MILLISECONDS, _QUOTED, _PLAIN, _PLAIN_OR_NULL, _OBJECT, _LIST, _LIST_OR_NULL,
    _FORGOTTEN, _RECORDS, _END, _END_ASKED, _END_ANSWERED, _LINE_END, _API, _VERSION, _TO_CONNECTION, _TO_LINE_END,
    _BOOLEAN, _INTEGERS, _NAMES, _END_TOPIC,
) = map(int, Kind)  # fmt: skip
(
    _POSITION, _OFFSET, _LINE, _NOTES, _CLOCK_TIME, _LATEST, _BEHIND, _LEAP_FROM, _LEAP_TO,
    _MINUTE, _FIRST_WORD, _MIDDLE_WORD, _LAST_WORD,
) = map(int, State)  # fmt: skip
_ENDED, _OTHER, _UNKNOWN_MINUTE, _FULL, _NO_ROOM_FOR_NOTES, _LATE, _UNFOLDED = map(int, Stop)
_AS_ROWS, _COUNTED, _NOTED, _ANSWERS = map(int, Treatment)
_NOTED_START, _NOTED_HEADER_END, _NOTED_END, _NOTED_LINE, _NOTED_TIME = map(int, Note)
_WORD, _NAME, _ADDRESS = map(int, Characters)

_BYTE_OFFSET, _LINE_IN_SPLIT, _TIME, _ARRIVAL = (REGISTER[n] for n in REGISTERS[:4])
_API_VERSION = REGISTER["api_version"]
_TOTAL_TIME = REGISTER["total_time_us"]
_REPLICA, _REPLICA_EPOCH = REGISTER["replica_id"], REGISTER["replica_epoch"]
_SESSION, _SESSION_EPOCH, _ANSWERED_SESSION = (
    REGISTER["session_id"], REGISTER["session_epoch"], REGISTER["answered_session_id"],
)  # fmt: skip
_TOPIC_ID = REGISTER["topic_id"]
_PARTITION_ID = REGISTER["partition"]
_IN_REQUEST, _IN_RESPONSE, _IS_FORGOTTEN = REGISTER["in_request"], REGISTER["in_response"], REGISTER["forgotten"]
_ANSWER = REGISTER["error_code"]  # from here to FETCH_END: values of the response
_HINTS, _AFTER_HINTS = REGISTER["diverging_epoch"], REGISTER["preferred_read_replica"]
_STRINGS = tuple(map(REGISTER.__getitem__, STRINGS))
_API_NUMBER, _TREATMENT = REGISTER["api"], REGISTER["treatment"]
_TABLE, _TABLE_END = REGISTER["table"], REGISTER["table's end"]
_HEADER_END = REGISTER["header_end"]

_REQUEST_ERROR, _LAST_FETCHED, _CURRENT_EPOCH = (
    REGISTER["request_error_code"], REGISTER["last_fetched_epoch"], REGISTER["current_leader_epoch"],
)  # fmt: skip
_FETCH_OFFSET, _HIGH_WATERMARK, _LAST_STABLE, _LOG_START = (
    REGISTER["fetch_offset"], REGISTER["high_watermark"], REGISTER["last_stable_offset"], REGISTER["log_start_offset"],
)  # fmt: skip
_CORRELATION, _RECORDS_SIZE = REGISTER["correlation_id"], REGISTER["records_size"]
# Three groups of registers decide whether a row may be left out of a run (scanner.Runs). A value of _CHANGES that is not absent
# keeps the row, no value of _RISING falls within a run, and each value of _LIKE is equal in all its rows.
_CHANGES = tuple(
    REGISTER[name] for name in ("diverging_epoch", "hinted_leader", "hinted_leader_epoch", "preferred_read_replica")
)
_RISING = (_TIME, _BYTE_OFFSET, _SESSION_EPOCH, _CORRELATION, _FETCH_OFFSET, _HIGH_WATERMARK)
_LIKE = tuple(
    REGISTER[name]
    for name in (
        "api_version", "request_error_code", "replica_id", "replica_epoch", "isolation_level", "session_id",
        "answered_session_id", "partition", "in_request", "in_response", "forgotten", "current_leader_epoch",
        "last_fetched_epoch", "requester_log_start_offset", "error_code", "log_start_offset", "diverging_epoch",
        "diverging_end_offset", "hinted_leader", "hinted_leader_epoch", "preferred_read_replica",
    )
)  # fmt: skip
_FETCH_STRINGS = tuple(REGISTER[name] for name in FETCH_STRINGS)
_TOPIC_STRINGS = tuple(number for number, name in enumerate(FETCH_STRINGS) if name in ("topic", "topic_id"))
_RUN_MS = 60_000  # a run has rows of one minute
_SPAN_MS = 10_000  # as high_watermarks.SPAN_MS
_WAITED_US = 100_000  # as follower_epochs._WAITED_US
_RUN_FIRST, _RUN_ROWS, _RUN_WRITTEN, _RUN_ARRIVAL, _ = map(int, Run)
_PEAK_LOW, _PEAK_LOW_RUN, _, _PEAK_HIGH, _PEAK_HIGH_RUN, _, _PEAK_SPAN, _PEAK_INTERVAL, _ = map(int, Peak)
_FILLED_ROWS, _FILLED_RUNS, _FILLED_PEAKS, _FOLDS = map(int, Filled)
_LATE_MS = 2_000  # as log_time.LATE_MS
_TAGGED_FIELDS = 12  # as api_versions.DIVERGING_EPOCH_FETCH_VERSION
_REPLICA_STATE = 15  # as api_versions.REPLICA_STATE_FETCH_VERSION
_FETCHES = 0  # the table of Fetches
_LEAST_INT32, _MOST_INT32 = -(2**31), 2**31 - 1
_DIGITS = 18  # numbers of so many digits fit 64 bits
_EXACT_DIGITS = 15  # numbers of so many digits, divided by an exact power of ten, give the nearest double


def _text(text: bytes) -> Any:
    """The first eight bytes of a text as a word."""
    return uint64(int.from_bytes(text, "little"))


_ZERO_ID_SIZE = 22
_ZERO_ID = _text(b"A" * 8)
_LEVEL = _text(b"] DEBUG ")
_NULL, _TRUE, _FALSE = _text(b"null"), _text(b"true"), _text(b"false")
_COMMA = _text(b",")
_QUOTES = _text(b'"' * 8)
_BACKSLASHES = _text(b"\\" * 8)
_SPACES = _text(b" " * 8)
_SEMICOLONS = _text(b";" * 8)
_NEWLINES = _text(b"\n" * 8)
_FROM, _CONNECTION = _text(b" from co"), _text(b"nnection")
_FILE_RECORDS, _OF_FILE, _FILE_PATH = _text(b"FileReco"), _text(b"rds(file"), _text(b"= ")
_OF_SIZE = _text(b"rds(size")
_MEMORY_RECORDS, _IN_MEMORY, _MEMORY_SIZE = _text(b"MemoryRe"), _text(b"cords(si"), _text(b"ze=")
_COMMA_AND_SPACE = _text(b", ")
_START = _text(b", start=")
_END_AT = _text(b", end=")
_HIGH_BITS = _text(b"\x80" * 8)
_ONES = _text(b"\x01" * 8)
_NOT_FIRST = _text(b"\0" + b"\xff" * 7)
_HALF = _text(b"\xff" * 4)
_TWO_BYTES = _text(b"\xff" * 2)
_THREE_BYTES = _text(b"\xff" * 3)
_FIVE_BYTES = _text(b"\xff" * 5)
_SIX_BYTES = _text(b"\xff" * 6)


_OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy", "_nrt": False}
"""Nothing here allocates, so numba's runtime is off: counting references to the arrays would take a tenth of the time."""


def compiled(function: Function) -> Function:
    """The function as machine code."""
    return cast(Function, njit(**_OPTIONS)(function))


def _loading(bits: int) -> Callable[[int], int]:
    """A function that loads the little-endian number of so many bits from an address of any alignment."""

    def typed(context: Any, at: Any) -> Any:  # noqa: ARG001  as numba calls it
        def load(context: Any, builder: Any, signature: Any, given: Any) -> Any:  # noqa: ARG001
            found = builder.load(builder.inttoptr(given[0], ir.IntType(bits).as_pointer()), align=1)
            return found if bits == 64 else builder.zext(found, ir.IntType(64))

        return (types.uint64 if bits == 64 else types.int64)(types.int64), load

    return cast(Callable[[int], int], intrinsic(typed))


_word = _loading(64)
_byte = _loading(8)


@compiled
def _digits(at: int) -> tuple[int, int]:
    """(number, end) of decimal digits; there may be none, or too many for 64 bits."""
    value = 0
    while 48 <= _byte(at) <= 57:
        value = value * 10 + (_byte(at) - 48)
        at += 1
    return value, at


@compiled
def _integer(at: int) -> tuple[int, int]:
    """(integer, end); end is -1 unless it is printed as by Java, with at most _DIGITS digits."""
    negative = _byte(at) == 45
    start = at + 1 if negative else at
    value, end = _digits(start)
    size = end - start
    if size == 0 or size > _DIGITS or (_byte(start) == 48 and (size > 1 or negative)):
        return 0, -1
    return (-value if negative else value), end


@compiled
def _decimal(at: int) -> tuple[float, int]:
    """(number, end); end is -1 for negative numbers, exponents and more than _EXACT_DIGITS digits."""
    whole, end = _digits(at)
    size = end - at
    if size == 0 or size > _EXACT_DIGITS or (_byte(at) == 48 and size > 1):
        return 0.0, -1
    if _byte(end) != 46:
        return float(whole), end
    fraction, after = _digits(end + 1)
    places = after - end - 1
    if places == 0 or size + places > _EXACT_DIGITS:
        return 0.0, -1
    scale = 1
    for _ in range(places):
        scale *= 10
    return float(whole * scale + fraction) / float(scale), after


@compiled
def _quoted_end(at: int) -> int:
    """The address of the quote that ends a JSON string of plain ASCII; -1 for other strings."""
    while True:
        word = _word(at)
        quote, backslash = word ^ _QUOTES, word ^ _BACKSLASHES
        odd = ((quote - _ONES) & ~quote) | ((backslash - _ONES) & ~backslash) | ((word - _SPACES) & ~word) | word
        if odd & _HIGH_BITS:
            while _byte(at) != 34:
                if _byte(at) == 92 or _byte(at) < 32 or _byte(at) > 127:
                    return -1
                at += 1
            return at
        at += 8


@compiled
def _plain_end(at: int, characters: int) -> int:
    """The end of a string of these Characters."""
    while True:
        c = _byte(at)
        if 97 <= c <= 122 or 48 <= c <= 58 or 65 <= c <= 90 or c == 95 or 45 <= c <= 47:
            if characters < (_ADDRESS if c == 58 or c == 47 else _NAME if c == 45 or c == 46 else _WORD):
                return at
            at += 1
        else:
            return at


@compiled
def _integers_end(at: int) -> int:
    """The address of the bracket that ends a list of 32-bit integers; -1 for other lists."""
    if _byte(at) == 93:
        return at
    while True:
        value, at = _integer(at)
        if at < 0 or value < _LEAST_INT32 or value > _MOST_INT32:
            return -1
        if _byte(at) != 44:
            return at if _byte(at) == 93 else -1
        at += 1


@compiled
def _names_end(at: int) -> int:
    """The address of the bracket that ends a list of plain names; -1 for other lists."""
    while True:
        at = _plain_end(at, _ADDRESS)
        if _byte(at) != 44:
            return at if _byte(at) == 93 else -1
        at += 1


@compiled
def _records(at: int) -> tuple[int, int]:
    """(bytes of a printed record set, end); end is -1 unless it has a form that releases print for a Fetch."""
    if _byte(at) == 91 and _byte(at + 1) == 93:
        return 0, at + 2
    if _word(at) == _FILE_RECORDS and _word(at + 8) == _OF_FILE and _word(at + 16) & _TWO_BYTES == _FILE_PATH:
        return _slice(_plain_end(at + 18, _ADDRESS))
    if _word(at) == _FILE_RECORDS and _word(at + 8) == _OF_SIZE and _byte(at + 16) == 61:
        return _sized(at + 17)
    if _word(at) == _MEMORY_RECORDS and _word(at + 8) == _IN_MEMORY and _word(at + 16) & _THREE_BYTES == _MEMORY_SIZE:
        return _sized(at + 19)
    return 0, -1


@compiled
def _slice(at: int) -> tuple[int, int]:
    """(bytes, end) of `, start=…, end=…)`."""
    if _word(at) != _START:
        return 0, -1
    start, at = _integer(at + 8)
    if at < 0 or _word(at) & _SIX_BYTES != _END_AT:
        return 0, -1
    end, at = _integer(at + 6)
    if at < 0 or _byte(at) != 41:
        return 0, -1
    return end - start, at + 1


@compiled
def _sized(at: int) -> tuple[int, int]:
    """(size, end of the parenthesis) of `72, file=…)`."""
    size, at = _integer(at)
    if at < 0 or size < 0 or _word(at) & _TWO_BYTES != _COMMA_AND_SPACE:
        return 0, -1
    while _byte(at) != 41:
        c = _byte(at)
        if c < 32 or c == 40 or c == 123 or c == 125 or c > 126:
            return 0, -1
        at += 1
    return size, at + 1


@compiled
def _line_end(at: int) -> int:
    """The address of the line's newline; -1 if a byte before it is not ASCII."""
    while True:
        word = _word(at)
        newline = word ^ _NEWLINES
        if ((newline - _ONES) & ~newline | word) & _HIGH_BITS:
            while _byte(at) != NEWLINE:
                if _byte(at) > 127:
                    return -1
                at += 1
            return at
        at += 8


@compiled
def _last_connection(at: int, end: int) -> int:
    """The address of the last ` from connection ` before `end`; -1 unless a plain address and `;` follow it."""
    while True:
        end -= 8
        semicolon = _word(end) ^ _SEMICOLONS
        if end < at or (semicolon - _ONES) & ~semicolon & _HIGH_BITS:
            break
    end += 7
    while end > at and _byte(end) != 59:
        end -= 1
    while end > at and _byte(end) != 32:
        end -= 1
    end -= 16
    found = end > at and _word(end) == _FROM and _word(end + 8) == _CONNECTION
    return end if found else -1


@compiled
def _fits(at: int, first: int, words: int, masks: int, size: int) -> bool:
    """Whether a literal of `size` bytes stands here. first: the text's word at this address."""
    if first & _word(masks) != _word(words):
        return False
    for past in range(8, size, 8):
        if _word(at + past) & _word(masks + past) != _word(words + past):
            return False
    return True


@compiled
def _is_zero(at: int) -> bool:
    """Whether a topic id is the zero id."""
    return bool(_word(at) == _ZERO_ID and _word(at + 8) == _ZERO_ID and _word(at + 14) == _ZERO_ID)


@compiled
def _store_partition(text: int, registers: Array, parts: Array, partition_count: int) -> None:
    """Copy a partition's registers to the next row of `parts`."""
    topic_id = registers[_TOPIC_ID]
    if topic_id != NONE and registers[_TOPIC_ID + 1] == _ZERO_ID_SIZE and _is_zero(text + topic_id):
        registers[_TOPIC_ID] = NONE
    for number in range(TOPIC, registers[_TABLE_END]):
        parts[partition_count, number - TOPIC] = registers[number]


@compiled
def _matching(at: int, begins: bool, field: int, fields: Array, words: int, masks: int) -> int:
    """The first of a field and its alternatives whose literal stands here; -1 if there is none.

    begins: an object begins, so that the literal follows a brace instead of its comma.
    """
    first: Any = _word(at)
    if begins:
        first = (first & _NOT_FIRST) | _COMMA
    while True:
        literal = 8 * fields[field, _LITERAL]
        if _fits(at, first, words + literal, masks + literal, fields[field, _SIZE]):
            return field
        field = fields[field, _ELSE]
        if field < 0:
            return -1


@compiled
def _quoted(text: int, at: int, register: int, registers: Array) -> int:
    """Read a JSON string or null into two registers: its end, or -1."""
    if _byte(at) == 34:
        end = _quoted_end(at + 1)
        if end < 0:
            return -1
        registers[register], registers[register + 1] = at + 1 - text, end - at - 1
        return end + 1
    registers[register] = NONE
    return at + 4 if _word(at) & _HALF == _NULL else -1


@compiled
def _plain(text: int, at: int, kind: int, field: int, fields: Array, registers: Array) -> int:
    """Read a plain string into the field's registers: its end, or -1."""
    register = fields[field, _REGISTER]
    end = _plain_end(at, fields[field, _LOW])
    if end - at < fields[field, _HIGH]:
        return -1
    registers[register], registers[register + 1] = at - text, end - at
    if kind == _PLAIN_OR_NULL and end - at == 4 and _word(at) & _HALF == _NULL:
        registers[register] = NONE
    return end


@compiled
def _integers(text: int, at: int, register: int, registers: Array) -> int:
    """Read a list of integers into two registers: its end, or -1."""
    end = _integers_end(at + 1) if _byte(at) == 91 else -1
    if end < 0:
        return -1
    registers[register], registers[register + 1] = at + 1 - text, end - at - 1
    return end + 1


@compiled
def _number(at: int, kind: int, field: int, fields: Array, registers: Array) -> int:
    """Read an integer within the field's bounds, milliseconds or a boolean into its register: its end, or -1.

    A decimal has no register.
    """
    register = fields[field, _REGISTER]
    if kind == _INTEGER:
        value, at = _integer(at)
        if at < 0 or value < fields[field, _LOW] or value > fields[field, _HIGH]:
            return -1
        registers[register] = value
        return at
    if kind == _BOOLEAN:
        true = _word(at) & _HALF == _TRUE
        if not true and _word(at) & _FIVE_BYTES != _FALSE:
            return -1
        registers[register] = true
        return at + 4 if true else at + 5
    milliseconds, at = _decimal(at)
    if at < 0 or milliseconds > 1e12:
        return -1
    if kind == _MILLISECONDS:
        registers[register] = int64(milliseconds * 1000.0 + 0.5)
    return at


@compiled
def _opening(text: int, at: int, kind: int, register: int, registers: Array) -> tuple[bool, int]:
    """(an object begins, the address of its brace, else the end of the value); the address may be -1."""
    if kind in (_LIST_OR_NULL, _NAMES) and _word(at) & _HALF == _NULL:
        return False, at + 4
    if kind != _OBJECT:
        if _byte(at) != 91:
            return False, -1
        registers[register], registers[register + 1] = at - text, 2
        at += 1
        if kind == _NAMES and _byte(at) != 123:
            at = _names_end(at)
            if at < 0:
                return False, -1
        if _byte(at) == 93:
            return False, at + 1
    return _byte(at) == 123, (at if _byte(at) == 123 else -1)


@compiled
def _following(text: int, at: int, register: int, registers: Array) -> tuple[bool, int]:
    """(another object of a list begins, the address of its brace, else the end of the list); the address may be -1."""
    if _byte(at) == 44 and _byte(at + 1) == 123:
        return True, at + 1
    if _byte(at) != 93:
        return False, -1
    registers[register + 1] = at + 1 - text - registers[register]
    return False, at + 1


@compiled
def _begin(field: int, fields: Array, registers: Array) -> int:
    """The first field of an object that begins."""
    for number in range(fields[field, _RESET], fields[field, _RESET_END]):
        registers[number] = NONE
    return int(fields[field, _CHILD])


@compiled
def _end(text: int, kind: int, registers: Array, parts: Array, partition_count: int) -> int:
    """The number of partitions after the end of an object; -1 without space for one more."""
    if kind == _END or (kind == _END_TOPIC and registers[_PARTITION_ID] != NONE):
        return partition_count
    if partition_count == len(parts):
        return -1
    registers[_IN_REQUEST] = kind == _END_ASKED
    registers[_IN_RESPONSE] = kind != _END_ASKED
    registers[_IS_FORGOTTEN] = 0
    _store_partition(text, registers, parts, partition_count)
    return partition_count + 1


@compiled
def _forgotten(text: int, at: int, registers: Array, parts: Array, partition_count: int) -> tuple[int, int]:
    """(number of partitions, end) after the forgotten partitions of a topic; the end may be -1."""
    if _byte(at) != 91:
        return 0, -1
    if _byte(at + 1) == 93:
        return partition_count, at + 2
    while _byte(at) != 93:
        value, at = _integer(at + 1)
        if at < 0 or value < _LEAST_INT32 or value > _MOST_INT32 or partition_count == len(parts):
            return 0, -1
        for number in range(PARTITION, FETCH_END):
            registers[number] = NONE
        registers[_PARTITION_ID] = value
        registers[_IN_REQUEST], registers[_IN_RESPONSE], registers[_IS_FORGOTTEN] = 0, 0, 1
        _store_partition(text, registers, parts, partition_count)
        partition_count += 1
        if _byte(at) != 44 and _byte(at) != 93:
            return 0, -1
    return partition_count, at + 1


@compiled
def _selected(at: int, kind: int, field: int, roots: Array, fields: Array, registers: Array) -> tuple[int, int]:
    """(first field, address) of what an API or its version selects; the address may be -1."""
    if kind == _API:
        registers[_API_NUMBER], registers[_TREATMENT] = fields[field, _LOW], fields[field, _HIGH]
        registers[_TABLE], registers[_TABLE_END] = fields[field, _RESET], fields[field, _RESET_END]
        return fields[field, _CHILD], at
    version, at = _integer(at)
    if at < 0 or version < 0 or version > fields[field, _HIGH]:
        return 0, -1
    registers[_API_VERSION] = version
    return roots[fields[field, _CHILD] + version], at


@compiled
def _connection_after(at: int) -> int:
    """The address of the line's last ` from connection `, or -1."""
    end = _line_end(at)
    return _last_connection(at, end) if end >= 0 else -1


@compiled
def _next_line(at: int) -> int:
    """The address after the line, or -1."""
    end = _line_end(at)
    return end + 1 if end >= 0 else -1


@compiled
def _line(
    text: int, at: int, field: int, roots: Array, fields: Array, words: int, masks: int,
    registers: Array, parts: Array, opened: Array,
) -> tuple[int, int]:  # fmt: skip
    """Scan a line from `field` on: (number of partitions, end); end is -1 if the scanner does not take the line.

    Fills the request's registers, and per partition a row of `parts` with the registers from TOPIC on.
    """
    partition_count, depth = 0, 0
    begins = False
    while True:
        field = _matching(at, begins, field, fields, words, masks)
        if field < 0:
            return 0, -1
        begins = False
        at += fields[field, _SIZE]
        kind, register = fields[field, _KIND], fields[field, _REGISTER]
        if kind in (_INTEGER, _MILLISECONDS, _DECIMAL, _BOOLEAN):
            at = _number(at, kind, field, fields, registers)
        elif kind == _QUOTED:
            at = _quoted(text, at, register, registers)
        elif kind in (_PLAIN, _PLAIN_OR_NULL):
            at = _plain(text, at, kind, field, fields, registers)
        elif kind in (_OBJECT, _LIST, _LIST_OR_NULL, _NAMES):
            begins, at = _opening(text, at, kind, register, registers)
            if begins:
                opened[depth] = field
                depth += 1
                field = _begin(field, fields, registers)
                continue
        elif kind in (_END, _END_ASKED, _END_ANSWERED, _END_TOPIC):
            partition_count = _end(text, kind, registers, parts, partition_count)
            if partition_count < 0:
                return 0, -1
            depth -= 1
            field = opened[depth]
            if fields[field, _KIND] != _OBJECT:
                begins, at = _following(text, at, fields[field, _REGISTER], registers)
                if begins:
                    depth += 1
                    field = _begin(field, fields, registers)
                    continue
        elif kind == _INTEGERS:
            at = _integers(text, at, register, registers)
        elif kind == _FORGOTTEN:
            partition_count, at = _forgotten(text, at, registers, parts, partition_count)
        elif kind == _RECORDS:
            registers[register], at = _records(at)
        elif kind in (_API, _VERSION):
            field, at = _selected(at, kind, field, roots, fields, registers)
            if at >= 0:
                continue
        elif kind == _TO_CONNECTION:
            at = _connection_after(at)
        elif kind == _TO_LINE_END:
            registers[register] = at - fields[field, _SIZE] - text
            return 0, _next_line(at)
        elif kind == _LINE_END:
            return partition_count, (at + 1 if _byte(at) == NEWLINE else -1)
        if at < 0:
            return 0, -1
        field = fields[field, _NEXT]


@compiled
def _same(text: int, parts: Array, left: int, right: int, string: int) -> bool:
    """Whether two partitions have equal strings in the register `string`."""
    start, size = parts[left, string - TOPIC], parts[left, string + 1 - TOPIC]
    start_right = parts[right, string - TOPIC]
    if start == NONE or start_right == NONE:
        return bool(start == start_right)
    if size != parts[right, string + 1 - TOPIC]:
        return False
    for number in range(size):
        if _byte(text + start + number) != _byte(text + start_right + number):
            return False
    return True


@compiled
def _same_partition(text: int, parts: Array, left: int, right: int) -> bool:
    """Whether two rows have the same topic, topic id and partition."""
    return (
        parts[left, _PARTITION_ID - TOPIC] == parts[right, _PARTITION_ID - TOPIC]
        and _same(text, parts, left, right, TOPIC)
        and _same(text, parts, left, right, _TOPIC_ID)
    )


@compiled
def _any_twice(text: int, parts: Array, first: int, end: int) -> bool:
    """Whether two rows between `first` and `end` have the same partition."""
    for left in range(first, end):
        for right in range(left + 1, end):
            if _same_partition(text, parts, left, right):
                return True
    return False


@compiled
def _join_answers(text: int, registers: Array, parts: Array, partition_count: int) -> bool:
    """Merge answers into the rows of requested partitions, as fetch.rows does.

    False if a partition was answered twice, or, except in a Fetch, requested twice: the decoder reads such lines.
    """
    answers = 0  # index of the first answer: a response follows its request
    while answers < partition_count and parts[answers, _IN_RESPONSE - TOPIC] != 1:
        answers += 1
    if answers == partition_count or parts[0, _IN_REQUEST - TOPIC] != 1:
        return True
    if _any_twice(text, parts, answers, partition_count) or (
        registers[_TABLE] != _FETCHES and _any_twice(text, parts, 0, answers)
    ):
        return False
    likely = answers
    for asked in range(answers):
        if parts[asked, _IN_REQUEST - TOPIC] != 1:
            break
        for number in range(partition_count - answers):
            answer = answers + (likely - answers + number) % (partition_count - answers)
            if parts[answer, _IN_RESPONSE - TOPIC] == 1 and _same_partition(text, parts, asked, answer):
                for register in range(_ANSWER - TOPIC, FETCH_END - TOPIC):
                    parts[asked, register] = parts[answer, register]
                parts[asked, _IN_RESPONSE - TOPIC] = 1
                parts[answer, _IN_RESPONSE - TOPIC] = 0
                likely = answer + 1
                break
    return True


@compiled
def _fill_fetch_defaults(registers: Array) -> None:
    """Fill the request's registers of a Fetch, as fetch.rows does."""
    if registers[_SESSION_EPOCH] == 0:
        registers[_SESSION] = registers[_ANSWERED_SESSION]
    if registers[_API_VERSION] >= _REPLICA_STATE and registers[_REPLICA_EPOCH] == NONE:
        registers[_REPLICA] = registers[_REPLICA_EPOCH] = -1


@compiled
def _write_string(text: int, registers: Array, string: int, characters: Array, end: int) -> int:
    """Append a string of the row to `characters`, which end at `end`; returns their new end."""
    size = registers[string + 1] if registers[string] != NONE else 0
    for at in range(size):
        characters[end + at] = _byte(text + registers[string] + at)
    return end + size


@compiled
def _write_row(text: int, registers: Array, rows: Array, row: int, characters: Array, ends: Array) -> bool:
    """Write a row of the result; False if a column has no space for its characters."""
    for number, string in enumerate(_STRINGS):
        end = ends[number, row]
        if registers[string] != NONE and end + registers[string + 1] > characters.shape[1]:
            return False
        ends[number, row + 1] = _write_string(text, registers, string, characters[number], end)
    for number in range(registers[_TABLE_END]):
        rows[number, row] = registers[number]
    return True


@compiled
def _fill_hints(registers: Array) -> None:
    """Fill the tagged fields of an answer that hold their defaults, as fetch.rows does."""
    if registers[_API_VERSION] >= _TAGGED_FIELDS and registers[_IN_RESPONSE]:
        for number in range(_HINTS, _AFTER_HINTS):
            if registers[number] == NONE:
                registers[number] = -1


@compiled
def _is_like_others(registers: Array) -> bool:
    """The row may belong to a run: it was served as requests are that change nothing.

    An incremental Fetch whose answer leaves the partition out was accepted and had nothing to deliver.
    """
    answered, asked = registers[_IN_RESPONSE] == 1, registers[_IN_REQUEST] == 1
    if registers[_REQUEST_ERROR] != 0 or registers[_IS_FORGOTTEN] == 1 or registers[_PARTITION_ID] < 0:
        return False
    high = registers[_HIGH_WATERMARK]
    if answered:
        if registers[_ANSWER] != 0 or high < 0 or registers[_LAST_STABLE] > high or registers[_LOG_START] > high:
            return False
    elif not asked or registers[_SESSION_EPOCH] <= 0:
        return False
    if asked and registers[_FETCH_OFFSET] < 0:
        return False
    for register in _CHANGES:
        if registers[register] >= 0:
            return False
    last = registers[_LAST_FETCHED]
    if last >= 0 and last != registers[_CURRENT_EPOCH]:
        return False
    # such an answer may be the one whose high watermark is furthest above its follower's log end
    ahead = answered and asked and registers[_REPLICA] >= 0 and high > registers[_FETCH_OFFSET]
    return not (ahead and registers[_TOTAL_TIME] < _WAITED_US)


@compiled
def _mixed(value: int, other: int) -> int:
    mixed = (value ^ other) * -7046029254386353131  # odd, and half of its bits are set
    return mixed ^ (mixed >> 29)


@compiled
def _hash_of_string(value: int, text: int, registers: Array, string: int) -> int:
    start, size = registers[string], registers[string + 1]
    if start == NONE:
        return _mixed(value, -1)
    for at in range(text + start, text + start + size - 7, 8):
        value = _mixed(value, int64(_word(at)))  # type: ignore[arg-type]
    for at in range(text + start + (size & -8), text + start + size):
        value = value * 31 + _byte(at)
    return _mixed(value, size)


@compiled
def _same_string(text: int, registers: Array, string: int, output: int, start: int, size: int) -> bool:
    """Whether a string of the row has these characters of the output; an absent one is empty there."""
    if registers[string] == NONE:
        return size == 0
    if registers[string + 1] != size:
        return False
    own, other = text + registers[string], output + start
    for at in range(0, size - 7, 8):
        if _word(own + at) != _word(other + at):
            return False
    for at in range(size & -8, size):
        if _byte(own + at) != _byte(other + at):
            return False
    return True


@compiled
def _same_strings(text: int, registers: Array, folded: Folded, row: int, strings: Any) -> bool:
    """Whether the row has the strings of a row of the output, by their numbers."""
    for number in strings:
        ends = folded.ends[number]
        at = folded.texts[number].ctypes.data
        if not _same_string(text, registers, _FETCH_STRINGS[number], at, ends[row], ends[row + 1] - ends[row]):
            return False
        null = folded.rows[row, _FETCH_STRINGS[number]] == NONE
        if null != (registers[_FETCH_STRINGS[number]] == NONE):
            return False
    return True


@compiled
def _flags(registers: Array) -> int:
    """What differs by partition and is equal in a run beside _LIKE: whether the row is the request's first, and has records."""
    is_first, has_records = registers[PARTITION] == 0, registers[_RECORDS_SIZE] > 0
    return 2 * is_first + has_records  # type: ignore[no-any-return]


@cast(Callable[[Function], Function], njit(cache=True, **_OPTIONS))
def partition_key(text: int, registers: Array) -> int:
    """A hash of the row's topic, by its id if there is one, and partition."""
    topic = TOPIC if registers[_TOPIC_ID] == NONE else _TOPIC_ID
    return _hash_of_string(_mixed(registers[_PARTITION_ID], 0), text, registers, topic)


_INTERVALS: Final = 1 << 30  # more than a partition has edges


@compiled
def _edges_of(text: int, registers: Array, folded: Folded) -> tuple[int, int]:
    """The first edge of the row's partition alone, and the one after its last."""
    keys = folded.edge_keys
    at = 0
    if len(keys):
        key = partition_key(text, registers)
        found = searchsorted(keys, key)
        if found < len(keys) and keys[found] == key:
            at = int(found) + 1
    return folded.edge_ends[at - 1 if at else 0], folded.edge_ends[at]


@compiled
def _interval(folded: Folded, first: int, end: int, time: int) -> int:
    """The interval that a time is in: between two of the edges of all partitions, and between two of its partition's own."""
    of_all = int(searchsorted(folded.edges[: folded.edge_ends[0]], time))
    own = int(searchsorted(folded.edges[first:end], time))
    return of_all * _INTERVALS + own


@compiled
def _find_run(
    text: int, registers: Array, folded: Folded, line_hash: int, partition_hash: int, interval: int, first_edge: int, end: int
) -> int:  # fmt: skip
    """The slot of the row's run, or a free one."""
    value = _mixed(line_hash ^ partition_hash, interval * 4 + _flags(registers))
    for register in (_IN_REQUEST, _IN_RESPONSE, _CURRENT_EPOCH):
        value = _mixed(value, registers[register])
    mask = len(folded.slots) - 1
    slot = value & mask
    span = registers[_TIME] // _RUN_MS
    while folded.slots[slot] >= 0:
        first = folded.runs[folded.slots[slot], _RUN_FIRST]
        row = folded.rows[first]
        same = row[_TIME] // _RUN_MS == span and _flags(row) == _flags(registers)
        if same and len(folded.edges):
            same = _interval(folded, first_edge, end, row[_TIME]) == interval
        if same:
            for register in _LIKE:
                if row[register] != registers[register]:
                    same = False
                    break
        if same and _same_strings(text, registers, folded, first, (0, 1, 2, 3, 4, 5)):
            break
        slot = (slot + 1) & mask
    return slot


@compiled
def _find_peak(text: int, registers: Array, folded: Folded, partition_hash: int, interval: int) -> int:
    """The slot of the peak of the row's partition and span, or a free one. Nothing else divides the rows of an interval."""
    span = registers[_TIME] // _SPAN_MS
    value = _mixed(_mixed(partition_hash, span), interval)
    mask = len(folded.peak_slots) - 1
    slot = value & mask
    while folded.peak_slots[slot] >= 0:
        index = folded.peak_slots[slot]
        peak, row = folded.peaks[index], folded.peak_rows[index, 0]
        same = peak[_PEAK_SPAN] == span and peak[_PEAK_INTERVAL] == interval
        same = same and row[_PARTITION_ID] == registers[_PARTITION_ID] and row[_LOG_START] == registers[_LOG_START]
        first = folded.runs[peak[_PEAK_LOW_RUN], _RUN_FIRST]
        if same and _same_strings(text, registers, folded, first, _TOPIC_STRINGS):
            break
        slot = (slot + 1) & mask
    return slot


@compiled
def _copy(registers: Array, row: Array) -> None:
    for number in range(FETCH_END):
        row[number] = registers[number]


@compiled
def _note_peak(
    text: int, registers: Array, folded: Folded, run: int, partition_hash: int, interval: int, is_first: bool
) -> None:  # fmt: skip
    """Remember the row if it has the lowest or the highest high watermark of its span so far, or has it again."""
    slot = _find_peak(text, registers, folded, partition_hash, interval)
    index, high = folded.peak_slots[slot], registers[_HIGH_WATERMARK]
    is_new = index < 0
    if is_new:
        index = folded.filled[_FILLED_PEAKS]
        folded.filled[_FILLED_PEAKS] += 1
        folded.peak_slots[slot] = index
        folded.peaks[index, _PEAK_SPAN] = registers[_TIME] // _SPAN_MS
        folded.peaks[index, _PEAK_INTERVAL] = interval
    peak = folded.peaks[index]
    for column, number, beyond in (
        (_PEAK_LOW, 0, is_new or high <= peak[_PEAK_LOW]),
        (_PEAK_HIGH, 1, is_new or high >= peak[_PEAK_HIGH]),
    ):
        if beyond:
            peak[column], peak[column + 1], peak[column + 2] = high, run, is_first
            _copy(registers, folded.peak_rows[index, number])


@compiled
def _put_row(text: int, registers: Array, folded: Folded) -> int:
    """Append a row of the line to the output; returns its index."""
    row: int = folded.filled[_FILLED_ROWS]
    folded.filled[_FILLED_ROWS] += 1
    _copy(registers, folded.rows[row])
    folded.rows[row, FETCH_END] = folded.rows[row, FETCH_END + 1] = NONE
    for number, string in enumerate(_FETCH_STRINGS):
        end = folded.ends[number, row]
        folded.ends[number, row + 1] = _write_string(text, registers, string, folded.texts[number], end)
    return row


@compiled
def _fold(text: int, registers: Array, folded: Folded, line_hash: int) -> None:
    """Add a row to its run, or to the output."""
    first_edge, end = _edges_of(text, registers, folded)
    interval = _interval(folded, first_edge, end, registers[_TIME])
    if not _is_like_others(registers) or _interval(folded, first_edge, end, registers[_ARRIVAL]) != interval:
        _put_row(text, registers, folded)
        return
    partition_hash = _mixed(registers[_PARTITION_ID], registers[_LOG_START])
    for number in _TOPIC_STRINGS:
        partition_hash = _hash_of_string(partition_hash, text, registers, _FETCH_STRINGS[number])
    slot = _find_run(text, registers, folded, line_hash, partition_hash, interval, first_edge, end)
    index = folded.slots[slot]
    goes_on = index >= 0
    if goes_on:
        last = folded.last[index]
        for register in _RISING:
            goes_on = goes_on and registers[register] >= last[register]
    if goes_on:
        run = folded.runs[index]
        run[_RUN_ROWS] += 1
        run[_RUN_ARRIVAL] = min(run[_RUN_ARRIVAL], registers[_ARRIVAL])
    else:
        index = folded.filled[_FILLED_RUNS]
        folded.filled[_FILLED_RUNS] += 1
        folded.slots[slot] = index
        run = folded.runs[index]
        run[_RUN_FIRST] = _put_row(text, registers, folded)
        run[_RUN_ROWS] = run[_RUN_WRITTEN] = 1
        run[_RUN_ARRIVAL] = registers[_ARRIVAL]
    _copy(registers, folded.last[index])
    if registers[_IN_RESPONSE] == 1:
        _note_peak(text, registers, folded, index, partition_hash, interval, not goes_on)


@compiled
def _has_space(registers: Array, parts: Array, folded: Folded, partition_count: int) -> bool:
    """Whether all rows of a line can be folded: then none of them is lost or folded twice."""
    more = max(partition_count, 1)
    filled = folded.filled
    if filled[_FILLED_ROWS] + more > len(folded.rows) or filled[_FILLED_PEAKS] + more > len(folded.peaks):
        return False
    if filled[_FILLED_RUNS] + more > len(folded.runs):
        return False
    for number, string in enumerate(_FETCH_STRINGS):
        longest = max(registers[string + 1], 0)
        if string >= TOPIC:
            longest = 0
            for part in range(partition_count):
                longest = max(longest, parts[part, string + 1 - TOPIC])
        if folded.ends[number, filled[_FILLED_ROWS]] + more * longest > folded.texts.shape[1]:
            return False
    return True


@compiled
def _hash_of_line(text: int, registers: Array) -> int:
    """What the runs of a line's rows have in common."""
    value = _mixed(registers[_SESSION], registers[_API_VERSION])
    for string in _FETCH_STRINGS:
        if string < TOPIC:
            value = _hash_of_string(value, text, registers, string)
    return _mixed(value, registers[_TIME] // _RUN_MS)


@compiled
def _put_again(row: Array, of: int, folded: Folded) -> int:
    """Append a row to the output, with the strings of the output's row `of`; returns its index."""
    to: int = folded.filled[_FILLED_ROWS]
    folded.filled[_FILLED_ROWS] += 1
    _copy(row, folded.rows[to])
    folded.rows[to, FETCH_END] = folded.rows[to, FETCH_END + 1] = NONE
    for number in range(len(folded.ends)):
        end = folded.ends[number, to]
        for at in range(folded.ends[number, of], folded.ends[number, of + 1]):
            folded.texts[number, end] = folded.texts[number, at]
            end += 1
        folded.ends[number, to + 1] = end
    return to


@compiled
def _same_place(row: Array, other: Array) -> bool:
    return bool(row[_BYTE_OFFSET] == other[_BYTE_OFFSET] and row[PARTITION] == other[PARTITION])


@cast(Callable[[Function], Function], njit(cache=True, error_model="numpy"))
def close_runs(folded: Folded) -> None:
    """Append what remains of the runs besides their first rows, and empty them.

    Needs space for a row per run and two per peak.
    """
    for index in range(folded.filled[_FILLED_PEAKS]):
        peak, rows = folded.peaks[index], folded.peak_rows[index]
        for column, number in ((_PEAK_LOW, 0), (_PEAK_HIGH, 1)):
            run = folded.runs[peak[column + 1]]
            is_last = _same_place(rows[number], folded.last[peak[column + 1]])
            if peak[column + 2] or is_last or (number == 1 and _same_place(rows[0], rows[1])):
                continue
            _put_again(rows[number], run[_RUN_FIRST], folded)
            run[_RUN_WRITTEN] += 1
    for index in range(folded.filled[_FILLED_RUNS]):
        run = folded.runs[index]
        if run[_RUN_ROWS] > 1:
            row = _put_again(folded.last[index], run[_RUN_FIRST], folded)
            if run[_RUN_ROWS] - run[_RUN_WRITTEN] > 1:
                folded.rows[row, FETCH_END] = run[_RUN_ROWS] - run[_RUN_WRITTEN]
                folded.rows[row, FETCH_END + 1] = run[_RUN_ARRIVAL]
    folded.slots[:] = -1
    folded.peak_slots[:] = -1
    folded.filled[_FILLED_RUNS] = folded.filled[_FILLED_PEAKS] = 0


@compiled
def _fill_line_columns(registers: Array, byte_offset: int, line: int, time: int) -> None:
    """The columns that all rows of a line have in common."""
    registers[_BYTE_OFFSET], registers[_LINE_IN_SPLIT] = byte_offset, line
    registers[_TIME], registers[_ARRIVAL] = time, time - (registers[_TOTAL_TIME] + 999) // 1000
    if registers[_TABLE] == _FETCHES:
        _fill_fetch_defaults(registers)


@compiled
def _write(
    text: int, registers: Array, parts: Array, partition_count: int, rows: Array, row: int, characters: Array, ends: Array,
    folded: Folded, folds: bool,
) -> int:  # fmt: skip
    """Write a line's rows, in the way of its API. Returns the next row; -1 without space. folds: see `_write_rows`."""
    if registers[_TREATMENT] == _ANSWERS:
        return _write_answers(text, registers, parts, partition_count, rows, row, characters, ends)
    return _write_rows(text, registers, parts, partition_count, rows, row, characters, ends, folded, folds)


@compiled
def _write_rows(
    text: int, registers: Array, parts: Array, partition_count: int, rows: Array, row: int, characters: Array, ends: Array,
    folded: Folded, folds: bool,
) -> int:  # fmt: skip
    """Write a line's rows: requested, then answered only, then forgotten partitions; one row of a line without partitions.

    Returns the next row; -1 without space. folds: the rows go to `folded`, which needs space for them.
    """
    line_hash = _hash_of_line(text, registers) if folds else 0
    first = row
    for turn in (_IN_REQUEST, _IN_RESPONSE, _IS_FORGOTTEN):
        for partition in range(partition_count):
            if parts[partition, turn - TOPIC] != 1 or (
                turn == _IN_RESPONSE and parts[partition, _IN_REQUEST - TOPIC] == 1
            ):
                continue
            for number in range(TOPIC, registers[_TABLE_END]):
                registers[number] = parts[partition, number - TOPIC]
            registers[PARTITION] = row - first
            _fill_hints(registers)
            if folds:
                _fold(text, registers, folded, line_hash)
            elif not _write_row(text, registers, rows, row, characters, ends):
                return -1
            row += 1
    if row == first:
        for number in range(TOPIC, registers[_TABLE_END]):
            registers[number] = NONE
        registers[PARTITION] = registers[_IN_REQUEST] = registers[_IN_RESPONSE] = registers[_IS_FORGOTTEN] = 0
        if folds:
            _put_row(text, registers, folded)
        elif not _write_row(text, registers, rows, row, characters, ends):
            return -1
        row += 1
    return row


@compiled
def _write_answers(
    text: int, registers: Array, parts: Array, partition_count: int, rows: Array, row: int, characters: Array, ends: Array
) -> int:  # fmt: skip
    """Write a row for each partition in a line's response. Returns the next row; -1 without space."""
    first = row
    for partition in range(partition_count):
        if parts[partition, _IN_RESPONSE - TOPIC] == 1:
            for number in range(TOPIC, registers[_TABLE_END]):
                registers[number] = parts[partition, number - TOPIC]
            registers[PARTITION] = row - first
            if not _write_row(text, registers, rows, row, characters, ends):
                return -1
            row += 1
    return row


@compiled
def _in_time(state: Array, time: int) -> bool:
    """Advance the clock as LogClock.read does; False if LogClock must read the line itself."""
    if time < state[_LATEST] - _LATE_MS:
        return False
    if time > state[_LATEST]:
        if time > state[_LATEST] + _LATE_MS:
            state[_LEAP_FROM], state[_LEAP_TO] = state[_LATEST], time
        state[_LATEST] = time
    return True


@compiled
def _is_in_minute(at: int, state: Array) -> bool:
    """Whether a line has the minute that the state holds."""
    return bool(
        _word(at) == uint64(state[_FIRST_WORD])
        and _word(at + 8) == uint64(state[_MIDDLE_WORD])
        and _word(at + 10) == uint64(state[_LAST_WORD])
    )


@compiled
def _milliseconds(at: int) -> int:
    """The milliseconds of `SS,mmm`; -1 for other text."""
    second, comma = _digits(at)
    fraction, end = _digits(at + 3)
    if comma != at + 2 or _byte(comma) != 44 or second > 59 or end != at + 6:
        return -1
    return 1000 * second + fraction


@compiled
def _clear(registers: Array) -> None:
    """Set the registers for a new line."""
    for number in range(len(registers)):
        registers[number] = NONE
    registers[_API_NUMBER], registers[_TREATMENT] = 0, _AS_ROWS
    registers[_TABLE], registers[_TABLE_END] = _FETCHES, FETCH_END


@compiled
def _write_note(note: Array, start: int, end: int, registers: Array, line: int, time: int) -> None:
    """Note the place and time of a line."""
    note[_NOTED_START], note[_NOTED_HEADER_END], note[_NOTED_END] = start, registers[_HEADER_END], end
    note[_NOTED_LINE], note[_NOTED_TIME] = line, time


@cast(Callable[[Function], Function], njit(cache=True, **_OPTIONS))  # cached with all that it calls
def scan(
    data: Array, size: int, roots: Array, fields: Array, literals: Array, state: Array,
    registers: Array, parts: Array, opened: Array, filled: Array, rows: Array, characters: Array, ends: Array,
    counts: Array, notes: Array, folded: Folded,
) -> int:  # fmt: skip
    """Scan lines from state[POSITION] to `size`, up to the first that the scanner does not take; returns a Stop.

    Needs 64 newlines after the text. Each row of the result fills a column of its table in `rows`, from the table's count
    in `filled` on; its strings are appended to the table's `characters`, and their ends to `ends`. Noted lines fill rows of
    `notes` from state[NOTES] on. `counts` has the number of lines of each API. folded: where rows of Fetch go instead, if it is active.
    """
    text, words, masks = data.ctypes.data, literals[0].ctypes.data, literals[1].ctypes.data
    at, end = text + state[_POSITION], text + size
    while at < end:
        if _word(at + 24) != _LEVEL or not _fits(at + 32, _word(at + 32), words, masks, fields[0, _SIZE]):
            return _OTHER
        has_clock_time = state[_CLOCK_TIME] != NONE
        if not has_clock_time and not _is_in_minute(at, state):
            return _UNKNOWN_MINUTE
        milliseconds = _milliseconds(at + 18)
        if milliseconds < 0:
            return _OTHER
        _clear(registers)
        partition_count, after = _line(
            text, at + 32 + fields[0, _SIZE], fields[0, _NEXT], roots, fields, words, masks, registers, parts, opened
        )
        if after < 0:
            return _OTHER
        if registers[_TREATMENT] != _COUNTED:  # the clock does not read counted lines
            time = state[_CLOCK_TIME] if has_clock_time else state[_MINUTE] + milliseconds + state[_BEHIND]
            table = registers[_TABLE]
            row = filled[table]
            if registers[_TREATMENT] == _NOTED:
                if state[_NOTES] == len(notes):
                    return _NO_ROOM_FOR_NOTES
                _write_note(notes[state[_NOTES]], at - text, after - 1 - text, registers, state[_LINE], time)
            else:
                if registers[_TREATMENT] == _AS_ROWS and not _join_answers(text, registers, parts, partition_count):
                    return _OTHER
                _fill_line_columns(registers, state[_OFFSET] + at - text, state[_LINE], time)
                folds = table == _FETCHES and folded.filled[_FOLDS] != 0
                if folds:
                    if not has_clock_time and not _in_time(state, time):
                        return _LATE
                    has_clock_time = True  # its time is read: the line must not be folded twice
                    if not _has_space(registers, parts, folded, partition_count):
                        return _UNFOLDED
                elif row + partition_count >= rows.shape[2]:
                    return _FULL
                row = _write(
                    text, registers, parts, partition_count, rows[table], row, characters[table], ends[table], folded, folds
                )  # fmt: skip
                if row < 0:
                    return _FULL
                if folds:
                    row = 0  # the rows are in `folded`
            if not has_clock_time and not _in_time(state, time):
                return _LATE
            state[_CLOCK_TIME] = NONE
            state[_NOTES] += registers[_TREATMENT] == _NOTED
            filled[table] = row
        if registers[_TREATMENT] != _NOTED:
            counts[registers[_API_NUMBER]] += 1
        at, state[_POSITION] = after, after - text
        state[_LINE] += 1
    return _ENDED
