"""Class files of the JVM, as far as log statements need them: names, constants, and the code of methods.

The format is chapter 4 of the Java Virtual Machine Specification; instructions are those of chapter 6. This takes few of them, and
no library for it on PyPI has had a release since 2023.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = 0xCAFEBABE
_UTF8, _CLASS, _STRING, _NAME_AND_TYPE, _METHOD_HANDLE = 1, 7, 8, 12, 15
_TWO_SLOTS: Final = (5, 6)  # Long and Double
_FORMATS: Final = {
    3: ">i", 4: ">f", 5: ">q", 6: ">d", _CLASS: ">H", _STRING: ">H", 9: ">HH", 10: ">HH", 11: ">HH", _NAME_AND_TYPE: ">HH",
    _METHOD_HANDLE: ">BH", 16: ">H", 17: ">HH", 18: ">HH", 19: ">H", 20: ">H",
}  # fmt: skip

ACONST_NULL, BIPUSH, LDC, LDC_W, INVOKEDYNAMIC, NEW, ATHROW, AASTORE, POP, POP2 = (
    1,
    16,
    18,
    19,
    186,
    187,
    191,
    83,
    87,
    88,
)
INVOKES: Final = range(182, 187)  # virtual, special, static, interface, dynamic
RETURNS: Final = range(172, 178)
STORES: Final = (58, *range(75, 79), 179, 181)  # astore, astore_0 to astore_3, putstatic, putfield
_TABLESWITCH, _LOOKUPSWITCH, _WIDE, _IINC = 170, 171, 196, 132
_LENGTHS: Final = {
    **dict.fromkeys((BIPUSH, LDC, *range(21, 26), *range(54, 59), 169, 188), 2),
    **dict.fromkeys((17, LDC_W, 20, _IINC, *range(153, 169), *range(178, 185), NEW, 189, 192, 193, 198, 199), 3),
    197: 4,
    **dict.fromkeys((185, INVOKEDYNAMIC, 200, 201), 5),
}
"""Bytes of an instruction with its operands, if not 1."""


@dataclass(frozen=True)
class Member:
    """A method that an instruction names: its class, its name, its descriptor. owner: empty for invokedynamic."""

    owner: str
    name: str
    descriptor: str


@dataclass(frozen=True)
class Dynamic:
    """The call site of an invokedynamic: the bootstrap method, its constants, and the descriptor of the call."""

    bootstrap: str
    arguments: Sequence[str | Member]
    descriptor: str


@dataclass(frozen=True)
class Instruction:
    """An instruction with what it names: the text of a string, a class (new), a method, or a byte."""

    opcode: int
    text: str | None = None
    name: str = ""
    member: Member | None = None
    dynamic: Dynamic | None = None
    byte: int = 0


@dataclass(frozen=True)
class Method:
    """A method. code: its instructions, none if it is abstract."""

    name: str
    descriptor: str
    code: bytes


class ClassFile:
    """A class. Names have slashes, as in the file: `kafka/log/LogManager$`."""

    def __init__(self, data: bytes) -> None:
        if struct.unpack_from(">I", data)[0] != _MAGIC:
            raise ValueError("not a class file")
        self._data = data
        self._constants: list[tuple[int, tuple[int, ...] | str]] = [(0, ())]
        place = self._read_constants(8)
        _, this, parent, count = struct.unpack_from(">HHHH", data, place)
        self.name = self._class(this)
        self.parent = self._class(parent) if parent else ""
        place += 8
        self.interfaces = tuple(self._class(index) for index in struct.unpack_from(f">{count}H", data, place))
        _, place = self._members(place + 2 * count)
        self.methods, place = self._members(place)
        self._bootstraps = self._read_bootstraps(place)

    def _read_constants(self, place: int) -> int:
        count = struct.unpack_from(">H", self._data, place)[0]
        place += 2
        while len(self._constants) < count:
            tag = self._data[place]
            place += 1
            if tag == _UTF8:
                size = struct.unpack_from(">H", self._data, place)[0]
                self._constants.append((tag, self._data[place + 2 : place + 2 + size].decode("utf-8", "replace")))
                place += 2 + size
            else:
                values = struct.unpack_from(_FORMATS[tag], self._data, place)
                self._constants.append((tag, values))
                place += struct.calcsize(_FORMATS[tag])
                if tag in _TWO_SLOTS:
                    self._constants.append((0, ()))
        return place

    def _values(self, index: int) -> tuple[int, ...]:
        values = self._constants[index][1]
        return () if isinstance(values, str) else values

    def _utf8(self, index: int) -> str:
        text = self._constants[index][1]
        return text if isinstance(text, str) else ""

    def _class(self, index: int) -> str:
        return self._utf8(self._values(index)[0])

    def _member(self, index: int) -> Member:
        owner, name_and_type = self._values(index)
        name, descriptor = self._values(name_and_type)
        return Member(self._class(owner), self._utf8(name), self._utf8(descriptor))

    def _constant(self, index: int) -> str | Member:
        """A bootstrap method's argument: the text of a string, the method of a handle; empty if it is neither."""
        tag = self._constants[index][0]
        if tag == _STRING:
            return self._utf8(self._values(index)[0])
        if tag == _METHOD_HANDLE:
            return self._member(self._values(index)[1])
        return ""

    def names(self, text: str) -> bool:
        """Whether some constant has this text, such as a descriptor that names a class."""
        return text.encode() in self._data

    def _attributes(self, place: int) -> tuple[dict[str, tuple[int, int]], int]:
        """Name -> begin and end of its content; where the attributes end."""
        found = {}
        count = struct.unpack_from(">H", self._data, place)[0]
        place += 2
        for _ in range(count):
            name, size = struct.unpack_from(">HI", self._data, place)
            found[self._utf8(name)] = (place + 6, place + 6 + size)
            place += 6 + size
        return found, place

    def _members(self, place: int) -> tuple[tuple[Method, ...], int]:
        """Fields or methods."""
        found = []
        count = struct.unpack_from(">H", self._data, place)[0]
        place += 2
        for _ in range(count):
            _, name, descriptor = struct.unpack_from(">HHH", self._data, place)
            attributes, place = self._attributes(place + 6)
            begin = attributes.get("Code", (0, 0))[0]
            size = struct.unpack_from(">I", self._data, begin + 4)[0] if begin else 0
            found.append(
                Method(
                    self._utf8(name), self._utf8(descriptor), self._data[begin + 8 : begin + 8 + size] if begin else b""
                )
            )
        return tuple(found), place

    def _read_bootstraps(self, place: int) -> list[tuple[str, Sequence[str | Member]]]:
        place = self._attributes(place)[0].get("BootstrapMethods", (0, 0))[0]
        if not place:
            return []
        found: list[tuple[str, Sequence[str | Member]]] = []
        count = struct.unpack_from(">H", self._data, place)[0]
        place += 2
        for _ in range(count):
            handle, size = struct.unpack_from(">HH", self._data, place)
            arguments = struct.unpack_from(f">{size}H", self._data, place + 4)
            method = self._constant(handle)
            name = method.name if isinstance(method, Member) else ""
            found.append((name, tuple(self._constant(index) for index in arguments)))
            place += 4 + 2 * size
        return found

    def instructions(self, method: Method) -> Iterator[Instruction]:
        """The instructions in the order of the code, each with what it names."""
        code, place = method.code, 0
        while place < len(code):
            opcode = code[place]
            yield self._instruction(opcode, code, place)
            place += _length(opcode, code, place)

    def _instruction(self, opcode: int, code: bytes, place: int) -> Instruction:
        if opcode == BIPUSH:
            return Instruction(opcode, byte=code[place + 1])
        if opcode in (LDC, LDC_W):
            index = code[place + 1] if opcode == LDC else struct.unpack_from(">H", code, place + 1)[0]
            tag = self._constants[index][0]
            return Instruction(opcode, text=self._utf8(self._values(index)[0]) if tag == _STRING else None)
        if opcode in INVOKES or opcode == NEW:
            index = struct.unpack_from(">H", code, place + 1)[0]
            if opcode == NEW:
                return Instruction(opcode, name=self._class(index))
            if opcode != INVOKEDYNAMIC:
                return Instruction(opcode, member=self._member(index))
            bootstrap, name_and_type = self._values(index)
            name, arguments = self._bootstraps[bootstrap]
            return Instruction(opcode, dynamic=Dynamic(name, arguments, self._utf8(self._values(name_and_type)[1])))
        return Instruction(opcode)


def _length(opcode: int, code: bytes, place: int) -> int:
    if opcode == _WIDE:
        return 6 if code[place + 1] == _IINC else 4
    if opcode not in (_TABLESWITCH, _LOOKUPSWITCH):
        return _LENGTHS.get(opcode, 1)
    operands = (place + 4) // 4 * 4  # aligned within the method
    if opcode == _TABLESWITCH:
        low, high = struct.unpack_from(">ii", code, operands + 4)
        return int(operands + 12 + 4 * (high - low + 1) - place)
    pairs = struct.unpack_from(">i", code, operands + 4)[0]
    return int(operands + 8 + 8 * pairs - place)
