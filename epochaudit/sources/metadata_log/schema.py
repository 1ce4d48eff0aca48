"""Binary records of the KRaft metadata log as fields, by the layouts of schemas/metadata_records.toml.

`read_record` returns a record's type, version and data as `kafka-dump-log` prints them: field names in camel case, ids as
base64, and only written tagged fields. Wire format: Kafka's message generator and MetadataRecordSerde.
"""

from __future__ import annotations

import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

from epochaudit.events.package_data import package_data
from epochaudit.sources.record_batches.batches import BadRecordError, unsigned_varint

Fields = dict[str, object]

PREVIEW_FRAME: Final = 0  # Kafka 2.8
FRAME: Final = 1
UNKNOWN: Final = "UNKNOWN_RECORD_"
UNKNOWN_CONTROL: Final = "UNKNOWN_CONTROL_RECORD_"

_ID_SIZE: Final = 16
_NUMBERS: Final = {
    "int8": Struct(">b"), "int16": Struct(">h"), "uint16": Struct(">H"), "int32": Struct(">i"), "int64": Struct(">q"),
}  # fmt: skip


class Content(NamedTuple):
    """A record's content. fields: None if the layout of the type or version is not known."""

    type: str
    version: int
    fields: Fields | None


@dataclass(frozen=True)
class Field:
    """A field of a layout. oldest, newest: versions that have it. struct: the fields of its type; None for a scalar."""

    name: str
    type: str
    is_array: bool
    struct: Shape | None
    oldest: int
    newest: int
    tag: int | None
    nullable: bool

    def is_in(self, version: int) -> bool:
        """The version has the field."""
        return self.oldest <= version <= self.newest


class Shape:
    """The fields of a record type or struct, in their order."""

    def __init__(self, fields: tuple[Field, ...]) -> None:
        self._fields = fields
        self._inside: dict[int, tuple[list[Field], dict[int, Field], list[str]]] = {}

    def inside(self, version: int) -> tuple[list[Field], dict[int, Field], list[str]]:
        """(untagged fields, tag -> field, names of all in order) of a version."""
        if version not in self._inside:
            fields = [field for field in self._fields if field.is_in(version)]
            tagged = {field.tag: field for field in fields if field.tag is not None}
            untagged = [field for field in fields if field.tag is None]
            self._inside[version] = untagged, tagged, [field.name for field in fields]
        return self._inside[version]


@dataclass(frozen=True)
class Layout:
    """The wire format of some versions of a record type, in records of one frame version."""

    oldest: int
    newest: int
    frame: int
    flexible: bool
    shape: Shape


@dataclass(frozen=True)
class RecordType:
    """A record type and its layouts, the current one first; empty if only the name is known."""

    name: str
    key: int
    layouts: tuple[Layout, ...]


@cache
def record_types(kind: str) -> Mapping[int, RecordType]:
    """key -> record type. kind: `records` or `control`."""
    read = tomllib.loads((package_data("schemas") / "metadata_records.toml").read_text())
    types = (_record_type(name, definition, read["structs"]) for name, definition in read[kind].items())
    return {known.key: known for known in types}


def _record_type(name: str, definition: Mapping[str, Any], structs: Mapping[str, Any]) -> RecordType:
    layouts = [definition, *definition.get("earlier", ())] if "fields" in definition else []
    return RecordType(name, definition["key"], tuple(_layout(layout, structs) for layout in layouts))


def _layout(definition: Mapping[str, Any], structs: Mapping[str, Any]) -> Layout:
    oldest, newest = _versions(definition["versions"])
    shape = _shape(definition["fields"], structs)
    return Layout(oldest, newest, definition.get("frame", FRAME), definition.get("flexible", True), shape)


def _shape(definition: list[Mapping[str, Any]], structs: Mapping[str, Any]) -> Shape:
    return Shape(tuple(_field(field, structs) for field in definition))


def _field(definition: Mapping[str, Any], structs: Mapping[str, Any]) -> Field:
    kind = definition["type"].removeprefix("[]")
    oldest, newest = _versions(definition.get("versions", "0+"))
    return Field(
        name=definition["name"],
        type=kind,
        is_array=definition["type"].startswith("[]"),
        struct=_shape(structs[kind], structs) if kind in structs else None,
        oldest=oldest,
        newest=newest,
        tag=definition.get("tag"),
        nullable=definition.get("nullable", False),
    )


def _versions(printed: str) -> tuple[int, int]:
    """`2+`, `0-3` or `1`."""
    oldest, _, newest = printed.partition("-")
    if oldest.endswith("+"):
        return int(oldest[:-1]), 1 << 15
    return int(oldest), int(newest or oldest)


def read_record(value: bytes) -> Content:
    """Parses a record of the metadata log: frame version, type, version, fields. Raises BadRecordError."""
    frame, at = unsigned_varint(value, 0)
    if frame not in (FRAME, PREVIEW_FRAME):
        raise BadRecordError("a frame version that is not known")
    key, at = unsigned_varint(value, at)
    version, at = unsigned_varint(value, at)
    if key > _NEWEST or version > _NEWEST:
        raise BadRecordError("a record type or version that is out of its range")
    known = record_types("records").get(key)
    if known is None:
        return Content(f"{UNKNOWN}{key}", version, None)
    return Content(known.name, version, _read(known, version, frame, value, at))


def read_control_record(key: bytes | None, value: bytes | None) -> Content:
    """Parses a control record of the raft log. Raises BadRecordError.

    Its key holds the type. Its value begins with the version, from Kafka 3.0 on.
    """
    if key is None or len(key) < _CONTROL_KEY.size or value is None or len(value) < _NUMBERS["int16"].size:
        raise BadRecordError("a control record without its type")
    _, number = _CONTROL_KEY.unpack_from(key)
    (version,) = _NUMBERS["int16"].unpack_from(value)
    known = record_types("control").get(number)
    if known is None:
        return Content(f"{UNKNOWN_CONTROL}{number}", version, None)
    try:
        fields = _read(known, version, FRAME, value, 0)
    except BadRecordError:
        preview = _read_preview(known, value)
        if preview is None:
            raise
        return preview
    if fields is None and (preview := _read_preview(known, value)) is not None:
        return preview
    return Content(known.name, version, fields)


def _read_preview(known: RecordType, value: bytes) -> Content | None:
    """A control record of Kafka 2.8, whose value begins with its first field; None if it is none."""
    try:
        fields = _read(known, 0, PREVIEW_FRAME, value, 0)
    except BadRecordError:
        return None
    return None if fields is None else Content(known.name, 0, fields)


_NEWEST: Final = (1 << 15) - 1
_CONTROL_KEY: Final = Struct(">hh")


def _read(known: RecordType, version: int, frame: int, value: bytes, at: int) -> Fields | None:
    """The fields by the first layout that consumes all bytes; None if no layout has the version. Raises BadRecordError."""
    fault: BadRecordError | None = None
    for layout in known.layouts:
        if layout.frame != frame or not layout.oldest <= version <= layout.newest:
            continue
        reader = _Reader(value, at, layout.flexible, version)
        try:
            fields = reader.struct(layout.shape)
            if reader.at == len(value):
                return fields
            fault = BadRecordError("bytes follow the record's last field")
        except BadRecordError as error:
            fault = error
    if fault is not None:
        raise fault
    return None


class _Reader:
    """Reads values of one version. at: position in the data."""

    def __init__(self, data: bytes, at: int, flexible: bool, version: int) -> None:
        self._data = data
        self.at = at
        self._flexible = flexible
        self._version = version

    def struct(self, shape: Shape) -> Fields:
        """The fields of the version in the layout's order; tagged ones only if they are written."""
        untagged, tagged, order = shape.inside(self._version)
        read: Fields = {field.name: self._field(field) for field in untagged}
        if self._flexible and (found := self._tagged(tagged)):
            read |= found
            return {name: read[name] for name in order if name in read}
        return read

    def _tagged(self, known: Mapping[int, Field]) -> Fields:
        read: Fields = {}
        for _ in range(self._within(self._unsigned())):
            tag = self._unsigned()
            end = self._within(self._unsigned()) + self.at
            field = known.get(tag)
            if field is not None:
                read[field.name] = self._field(field)
                if self.at != end:
                    raise BadRecordError("a tagged field is not as long as it states")
            self.at = end
        return read

    def _field(self, field: Field) -> object:
        if not field.is_array:
            return self._value(field, field.nullable)
        count = self._length("int32", field.nullable)
        return None if count is None else [self._value(field, False) for _ in range(count)]

    def _value(self, field: Field, nullable: bool) -> object:
        if field.struct is not None:
            return self.struct(field.struct)
        number = _NUMBERS.get(field.type)
        return _READ[field.type](self, nullable) if number is None else self._number(number)

    def _number(self, number: Struct) -> int:
        value: int = number.unpack(self._bytes(number.size))[0]
        return value

    def _bool(self, nullable: bool) -> bool:  # noqa: ARG002  only strings and arrays are nullable
        return self._bytes(1) != b"\0"

    def _uuid(self, nullable: bool) -> str:  # noqa: ARG002
        return urlsafe_b64encode(self._bytes(_ID_SIZE)).decode().rstrip("=")

    def _string(self, nullable: bool) -> str | None:
        size = self._length("int16", nullable)
        if size is None:
            return None
        try:
            return self._bytes(size).decode()
        except UnicodeDecodeError as error:
            raise BadRecordError("a string that is not UTF-8") from error

    def _length(self, inflexible: str, nullable: bool) -> int | None:
        """The length of a string or array. Null is -1; flexible versions write all lengths plus one."""
        size = self._unsigned() - 1 if self._flexible else self._number(_NUMBERS[inflexible])
        if size == -1 and nullable:
            return None
        return self._within(size)

    def _within(self, size: int) -> int:
        """A number of bytes, or of elements of at least one byte, checked against the remaining bytes."""
        if not 0 <= size <= len(self._data) - self.at:
            raise BadRecordError("a length reaches past the end of the record")
        return size

    def _bytes(self, size: int) -> bytes:
        if size > len(self._data) - self.at:
            raise BadRecordError("the record is cut off")
        self.at += size
        return self._data[self.at - size : self.at]

    def _unsigned(self) -> int:
        value, self.at = unsigned_varint(self._data, self.at)
        return value


# Not an attribute of the reader: bound methods would form reference cycles, and garbage collection is off in scan tasks.
_READ: Final[Mapping[str, Callable[[_Reader, bool], object]]] = {
    "bool": _Reader._bool,
    "string": _Reader._string,
    "uuid": _Reader._uuid,
}
