"""Writes class files with methods of a few instructions, as compilers of Java and Scala write log statements."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Code = Sequence[tuple[object, ...]]
"""Instructions: `("ldc", text)`, `("new", class)`, `("call", class, method, descriptor)`, `("dynamic", bootstrap, arguments, descriptor)`,
or an opcode with its operands as numbers."""


@dataclass
class Pool:
    """A constant pool; each constant is written once."""

    entries: list[bytes] = field(default_factory=list)
    bootstraps: list[bytes] = field(default_factory=list)

    def add(self, entry: bytes) -> int:
        if entry not in self.entries:
            self.entries.append(entry)
        return self.entries.index(entry) + 1

    def utf8(self, text: str) -> int:
        return self.add(struct.pack(">BH", 1, len(text.encode())) + text.encode())

    def named(self, tag: int, text: str) -> int:
        """A class (7) or a string (8)."""
        return self.add(struct.pack(">BH", tag, self.utf8(text)))

    def member(self, owner: str, name: str, descriptor: str) -> int:
        return self.add(struct.pack(">BHH", 10, self.named(7, owner), self.name_and_type(name, descriptor)))

    def name_and_type(self, name: str, descriptor: str) -> int:
        return self.add(struct.pack(">BHH", 12, self.utf8(name), self.utf8(descriptor)))

    def handle(self, owner: str, name: str) -> int:
        return self.add(struct.pack(">BBH", 15, 6, self.member(owner, name, "()V")))

    def dynamic(self, bootstrap: str, arguments: Sequence[str], descriptor: str) -> int:
        """arguments: strings, or methods as `class.method`."""
        indexes = [
            self.handle(*argument.rsplit(".", 1)) if argument.startswith("kafka/") else self.named(8, argument)
            for argument in arguments
        ]
        self.bootstraps.append(
            struct.pack(f">HH{len(indexes)}H", self.handle("java/Bootstraps", bootstrap), len(indexes), *indexes)
        )
        return self.add(struct.pack(">BHH", 18, len(self.bootstraps) - 1, self.name_and_type("apply", descriptor)))


def class_file(
    name: str, methods: Mapping[str, Code], *, parent: str = "java/lang/Object", interfaces: Sequence[str] = ()
) -> bytes:
    """A class of these methods."""
    pool = Pool()
    code_name, bootstraps_name = pool.utf8("Code"), pool.utf8("BootstrapMethods")
    bodies = []
    for method, code in methods.items():
        content = b"".join(_instruction(pool, *one) for one in code)
        attribute = struct.pack(">HHI", 9, 9, len(content)) + content + struct.pack(">HH", 0, 0)
        head = struct.pack(">HHHH", 1, pool.utf8(method), pool.utf8("()Ljava/lang/String;"), 1)
        bodies.append(head + struct.pack(">HI", code_name, len(attribute)) + attribute)
    this, above = pool.named(7, name), pool.named(7, parent)
    implemented = [pool.named(7, interface) for interface in interfaces]
    tail = struct.pack(f">HHHH{len(implemented)}H", 1, this, above, len(implemented), *implemented)
    tail += struct.pack(">HH", 0, len(bodies)) + b"".join(bodies)
    if pool.bootstraps:
        content = struct.pack(">H", len(pool.bootstraps)) + b"".join(pool.bootstraps)
        tail += struct.pack(">HHI", 1, bootstraps_name, len(content)) + content
    else:
        tail += struct.pack(">H", 0)
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 61, len(pool.entries) + 1)
    return head + b"".join(pool.entries) + tail


def _instruction(pool: Pool, kind: object, *operands: object) -> bytes:
    texts = [str(operand) for operand in operands]
    if kind == "ldc":
        return struct.pack(">BH", 19, pool.named(8, texts[0]))
    if kind == "new":
        return struct.pack(">BH", 187, pool.named(7, texts[0]))
    if kind == "call":
        return struct.pack(">BH", 182, pool.member(texts[0], texts[1], texts[2]))
    if kind == "dynamic":
        arguments = operands[1]
        assert isinstance(arguments, tuple)
        return struct.pack(">BHH", 186, pool.dynamic(texts[0], arguments, texts[2]), 0)
    assert isinstance(kind, int)
    return bytes([kind, *(int(operand) for operand in texts)])
