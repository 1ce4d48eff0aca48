"""Decompresses record batches, up to LIMIT bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import pyarrow as pa

LIMIT: Final = 1 << 26  # bytes; the raft log's batches hold at most 8 MiB
_PIECE: Final = 1 << 16
# snappy-java's stream: this mark, two int32 versions, then blocks with an int32 length each
_XERIAL: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = len(_XERIAL) + 8


class BadCompressionError(ValueError):
    """The compressed records can't be read; the message is the quarantine reason."""


def decompressed(data: bytes, codec: int) -> bytes:
    """The plain records of a batch. codec: from its attributes (CompressionType). Raises BadCompressionError."""
    if codec == 0:
        return data
    known = _CODECS.get(codec)
    if known is None:
        raise BadCompressionError("compression of an unknown kind")
    name, decompress = known
    try:
        return decompress(data)
    except (zlib.error, OSError, pa.ArrowException, EOFError, IndexError) as error:
        raise BadCompressionError(f"{name} data of the batch are damaged") from error


def _gzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    plain = stream.decompress(data, LIMIT + 1)
    if len(plain) <= LIMIT and not stream.eof:
        raise EOFError
    return _bounded(plain)


def _streamed(name: str) -> Callable[[bytes], bytes]:
    def decompress(data: bytes) -> bytes:
        parts, size = [], 0
        with pa.CompressedInputStream(pa.BufferReader(data), name) as stream:
            while (piece := stream.read(_PIECE)) and size <= LIMIT:
                parts.append(piece)
                size += len(piece)
        return _bounded(b"".join(parts))

    return decompress


def _snappy(data: bytes) -> bytes:
    if not data.startswith(_XERIAL):
        return _snappy_block(data, LIMIT)
    parts, size, at = [], 0, _XERIAL_HEADER
    while at < len(data):
        length = int.from_bytes(data[at : at + 4])
        at += 4
        if at + length > len(data):
            raise EOFError
        parts.append(_snappy_block(data[at : at + length], LIMIT - size))
        size += len(parts[-1])
        at += length
    return b"".join(parts)


def _snappy_block(block: bytes, limit: int) -> bytes:
    """Decompresses a block. It begins with its plain size as a varint, which the codec needs as an argument."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            break
    if size > limit:
        raise BadCompressionError(_TOO_LARGE)
    plain: bytes = pa.Codec("snappy").decompress(block, decompressed_size=size, asbytes=True)
    return plain


def _bounded(plain: bytes) -> bytes:
    if len(plain) > LIMIT:
        raise BadCompressionError(_TOO_LARGE)
    return plain


_TOO_LARGE: Final = f"the batch decompresses to more than {LIMIT >> 20} MiB"
_CODECS: Final[dict[int, tuple[str, Callable[[bytes], bytes]]]] = {
    1: ("gzip", _gzip),
    2: ("snappy", _snappy),
    3: ("lz4", _streamed("lz4")),
    4: ("zstd", _streamed("zstd")),
}
