"""Record batches: what is written comes back, and damage costs no more than the batches that it hits."""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from epochaudit.sources.record_batches import batches as record_batches
from epochaudit.sources.record_batches import compression as record_compression
from epochaudit.sources.record_batches.batches import (
    BAD_CHECKSUM,
    CUT_OFF,
    NO_BATCH,
    UNREADABLE,
    BadRecordError,
    Batch,
    Damage,
    Padding,
    Record,
    batches,
    begun_batch,
    records,
)
from tests.sources.batch_writer import CODECS, TIME, Written, batch, compressed, control, unsigned

VALUES = (
    Written(b"one"),
    Written(None, key=b"key", time_delta=25),
    Written(b"", headers=(("name", b"value"), ("", None)), time_delta=-3),
    Written(b"x" * 700, time_delta=5),
)
READ = [
    (7, TIME, None, b"one", ()),
    (8, TIME + 25, b"key", None, ()),
    (9, TIME - 3, None, b"", (("name", b"value"), ("", None))),
    (10, TIME + 5, None, b"x" * 700, ()),
]
LOG = [batch(number * 10, *(bytes([number]) * n for n in range(1, number + 2)), epoch=number) for number in range(5)]


class Forward(io.RawIOBase):
    """A stream that can only be read forward, a few bytes at a time."""

    def __init__(self, content: bytes) -> None:
        self._inner = io.BytesIO(content)

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, 7))


class Breaking(Forward):
    """A compressed stream that breaks at its end."""

    def read(self, size: int = -1) -> bytes:
        piece = super().read(size)
        if not piece:
            raise EOFError
        return piece


def framed(data: bytes, stream: Any = io.BytesIO) -> list[Batch | Damage | Padding]:
    found = list(batches(cast(BinaryIO, stream(data))))
    at = 0
    for one in found:
        assert one.byte_offset == at
        at += one.size
    assert at == len(data)
    return found


def bases(data: bytes) -> list[int]:
    return [one.base_offset for one in framed(data) if isinstance(one, Batch)]


def damages(data: bytes) -> list[tuple[int, int, str]]:
    return [(one.byte_offset, one.size, one.reason) for one in framed(data) if isinstance(one, Damage)]


@pytest.mark.parametrize("stream", [io.BytesIO, Forward])
@pytest.mark.parametrize("codec", CODECS)
def test_what_is_written_comes_back(codec: str, stream: Any) -> None:
    [found] = framed(batch(7, *VALUES, codec=codec, epoch=12), stream)
    assert isinstance(found, Batch)
    assert (found.base_offset, found.last_offset, found.raft_epoch, found.is_control) == (7, 10, 12, False)
    assert [tuple(record) for record in records(found)] == READ


def test_snappy_without_blocks() -> None:
    plain = compressed(batch(0, b"x")[61:], "none")
    [found] = framed(batch(0, b"x", codec="snappy", content=pa.compress(plain, "snappy", asbytes=True)))
    assert isinstance(found, Batch)
    assert [record.value for record in records(found)] == [b"x"]


def test_the_broker_may_set_the_time() -> None:
    [found] = framed(batch(7, *VALUES, append_time_ms=99))
    assert isinstance(found, Batch)
    assert [record.time_ms for record in records(found)] == [99] * 4


def test_control_batches_are_recognised() -> None:
    [found] = framed(batch(0, control(2, b"\0\0"), control=True))
    assert isinstance(found, Batch)
    assert found.is_control
    assert [record.key for record in records(found)] == [b"\0\0\0\2"]


def test_a_batch_may_have_lost_its_records_to_compaction() -> None:
    [found] = framed(batch(5))
    assert isinstance(found, Batch)
    assert list(records(found)) == []


@pytest.mark.parametrize("zeros", [1, 11, 60, 61, 62, 5_000, 3 << 20])
def test_zeros_at_the_end_are_an_active_segment_not_damage(zeros: int) -> None:
    data = b"".join(LOG)
    *found, padding = framed(data + bytes(zeros))
    assert len(found) == len(LOG)
    assert padding == Padding(len(data), zeros)


def test_zeros_in_the_middle_are_damage() -> None:
    data = LOG[0] + bytes(500) + LOG[1]
    assert bases(data) == [0, 10]
    assert damages(data) == [(len(LOG[0]), 500, NO_BATCH)]


def test_a_batch_cut_at_any_byte_costs_only_itself() -> None:
    for length in range(1, len(LOG[1])):
        assert bases(LOG[1][length:] + LOG[2]) == [20]
        data = LOG[0] + LOG[1][:length]
        assert bases(data) == [0]
        if LOG[1][:length].strip(b"\0"):
            assert damages(data) == [(len(LOG[0]), length, CUT_OFF)]


def test_a_changed_byte_costs_only_its_batch() -> None:
    data = b"".join(LOG)
    start, end = len(LOG[0] + LOG[1]), len(LOG[0] + LOG[1] + LOG[2])
    for at in range(start, end):
        changed = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        read = bases(changed)
        if at - start < 8 or 12 <= at - start < 16:
            assert len(read) >= 4  # base offset and leader epoch are not under the checksum
        else:
            assert read == [0, 10, 30, 40]
            [(offset, size, _)] = damages(changed)
            assert (offset, size) == (start, end - start)


def test_the_reason_for_a_lost_batch_is_reported() -> None:
    start = len(LOG[0])
    body = bytearray(b"".join(LOG))
    body[start + 70] ^= 1
    assert damages(bytes(body)) == [(start, len(LOG[1]), BAD_CHECKSUM)]
    assert damages(LOG[0] + b"garbage" * 30 + LOG[1]) == [(start, 210, NO_BATCH)]


def test_a_damaged_length_in_the_middle_does_not_swallow_the_rest() -> None:
    body = bytearray(b"".join(LOG))
    struct.pack_into(">i", body, len(LOG[0]) + 8, 1 << 20)
    assert bases(bytes(body)) == [0, 20, 30, 40]
    assert damages(bytes(body)) == [(len(LOG[0]), len(LOG[1]), NO_BATCH)]


def test_a_broken_compressed_file_gives_what_came_before_the_defect() -> None:
    data = b"".join(LOG)
    *found, cut, broken = list(batches(cast(BinaryIO, Breaking(data[:-5]))))
    assert [one.base_offset for one in found if isinstance(one, Batch)] == [0, 10, 20, 30]
    assert isinstance(cut, Damage)
    assert isinstance(broken, Damage)
    assert (cut.reason, broken.reason) == (CUT_OFF, UNREADABLE)


def test_the_beginning_of_a_batch_can_be_looked_at() -> None:
    begun = begun_batch(LOG[4][:75])
    assert begun is not None
    assert next(records(begun)) == Record(40, TIME, None, b"\4")
    assert begun_batch(b"text" * 100) is None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("content", [b"", b"nonsense" * 9, b"\x82SNAPPY\0" + bytes(8) + b"\xff\xff\xff\xff\0"])
def test_damaged_compressed_records_are_reported(codec: str, content: bytes) -> None:
    [found] = framed(batch(0, b"x", codec=codec, content=content))
    assert isinstance(found, Batch)
    with pytest.raises(BadRecordError):
        list(records(found))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_bounded(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_compression, "LIMIT", 1 << 20)
    [found] = framed(batch(0, b"x", codec=codec, content=compressed(bytes(1 << 21), codec)))
    assert isinstance(found, Batch)
    with pytest.raises(BadRecordError, match="more than"):
        list(records(found))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x7e\0", "past the end of its batch"),
        (b"\0", "past the end of its batch"),
        (b"\x0e\0\0\0\1\x7e\0\0", "past its end"),
        (b"\x0c\0\0\0\1\1\x7e", "headers reach past its end"),
        (b"\x10\0\0\0\1\1\0\0\0", "longer than its fields"),
        (b"\x0c\0\0\x0e\1\1\0", "outside of its batch"),
        (b"\x0c\0\0\0\1\1\0more", "follow the last record"),
        (b"\xff" * 12, "too long"),
    ],
)
def test_malformed_records_are_reported(content: bytes, reason: str) -> None:
    [found] = framed(batch(0, b"x", content=content))
    assert isinstance(found, Batch)
    with pytest.raises(BadRecordError, match=reason):
        list(records(found))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 5), st.binary(max_size=200))
def test_garbage_around_batches_costs_none_of_them(before: bytes, place: int, after: bytes) -> None:
    data = b"".join([*LOG[:place], before, *LOG[place:], after])
    assert [base for base in bases(data) if base in range(0, 50, 10)] == [0, 10, 20, 30, 40]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_flipped_bytes_never_break_the_reading(data: st.DataObject) -> None:
    body = bytearray(b"".join(LOG))
    for _ in range(data.draw(st.integers(1, 6))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    for found in framed(bytes(body)):
        if isinstance(found, Batch):
            assert [record.value for record in records(found)]


def test_what_looks_like_headers_does_not_make_the_search_slow() -> None:
    size = 1 << 18
    header = struct.pack(">qiibIhiqqqhii", 0, size, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    data = header * (size // len(header)) * 2
    summed = []

    def counted(checked: bytes) -> int:
        summed.append(len(checked))
        return 1

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(record_batches.google_crc32c, "value", counted)
        patched.setattr(record_batches, "LARGEST_BATCH", 1 << 19)
        framed(data)
    assert sum(summed) < 20 * len(data)


def test_varints_are_those_of_the_wire() -> None:
    for value in (0, 1, 127, 128, 300, 1 << 31, (1 << 64) - 1):
        assert record_batches.unsigned_varint(unsigned(value), 0) == (value, len(unsigned(value)))
