"""The texts that a class builds: log messages, messages of exceptions, and what toString prints.

A text is built of constants and values. Compilers write that in several ways: as one constant with `{}` or `%s`, as calls of
StringBuilder.append, as the recipe of an invokedynamic (Java 9 on), or as a StringContext (Scala 2.12). The instructions of a method
are read in their order, without following jumps. So where a value is one of several constants, as in `if (x) "a" else "b"`, the text
has a choice of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lab.statements.class_file import (
    AASTORE,
    ACONST_NULL,
    ATHROW,
    BIPUSH,
    LDC,
    LDC_W,
    NEW,
    POP,
    POP2,
    RETURNS,
    STORES,
    ClassFile,
    Instruction,
    Member,
    Method,
)

LEVELS: Final = ("trace", "debug", "info", "warn", "error", "fatal")
_BUILDERS: Final = ("java/lang/StringBuilder", "scala/collection/mutable/StringBuilder", "java/lang/StringBuffer")
_STRING_CONTEXT: Final = "scala/StringContext"
_INTERPOLATORS: Final = ("s", "f", "raw", "standardInterpolator")
_RECIPE: Final = re.compile(r"[\x01\x02]")
_BRACES: Final = re.compile(r"\{\}")
_CONVERSIONS: Final = re.compile(r"%(?:\d+\$)?[-#+ 0,(]*\d*(?:\.\d+)?[bcdefgosxBSX]")
_FUNCTION: Final = "scala/Function0"
_LOGGERS: Final = ("org/slf4j/Logger", "com/typesafe/scalalogging/Logger")
_WRAPPING: Final = ("augmentString", "wrapString", "stripMargin")  # of Scala: what they return is the text itself
_STRING_OPS: Final = "scala/collection/immutable/StringOps"
_TEXT_TYPES: Final = ("Ljava/lang/String;)", "Ljava/lang/Object;)", "Ljava/lang/CharSequence;)")


@dataclass(frozen=True)
class Value:
    """A part of a text that is no constant."""


@dataclass(frozen=True)
class Choice:
    """A part of a text that is one of several texts, or a value."""

    texts: tuple[Text, ...]


Part = str | Value | Choice
Text = tuple[Part, ...]
VALUE: Final = Value()


@dataclass(frozen=True)
class Statement:
    """A text that a method builds. level: of the logger that it is passed to, empty if none is found; thrown: by an exception."""

    method: str
    text: Text
    level: str = ""
    thrown: bool = False


def shown(text: Text) -> str:
    """A text to read: values as `{}`, choices as `{a|b}`."""
    return "".join(
        part
        if isinstance(part, str)
        else "{}"
        if isinstance(part, Value)
        else "{" + "|".join(map(shown, part.texts)) + "}"
        for part in text
    )


def begins_with_name(text: Text, name: str) -> bool:
    """Whether it is the printed form of a class: its name and a bracket."""
    first = text[0] if text else ""
    return isinstance(first, str) and first.startswith(tuple(f"{name}{bracket}" for bracket in "([{"))


def with_values(text: Text, marks: re.Pattern[str], values: Sequence[Text] = ()) -> Text:
    """The text with values, or a choice of texts, in place of the marks in its constants."""
    filled: Part = Choice(tuple(values)) if values else VALUE
    parts: list[Part] = []
    for part in text:
        if not isinstance(part, str):
            parts.append(part)
            continue
        for number, piece in enumerate(marks.split(part)):
            parts.extend([filled, piece] if number else [piece])
    return _joined(parts)


def _joined(parts: Sequence[Part]) -> Text:
    """Without empty constants, neighbours as one."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return tuple(joined)


@dataclass
class _Frame:
    """A text that is being built. names: of a StringContext, whose constants precede its values."""

    owner: str
    parts: list[Part] = field(default_factory=list)
    constants: list[Part] | None = None
    outer: list[Text] = field(default_factory=list)


class _Reader:
    """One pass over a method's instructions."""

    def __init__(self, method: Method, levels: dict[str, str]) -> None:
        self._method, self._levels = method, levels
        self._pending: list[Text] = []  # texts that no instruction has taken yet
        self._frames: list[_Frame] = []
        self._last: Instruction | None = None
        self._pushed = False  # the last instruction pushed the last pending text
        self.found: list[Statement] = []

    def read(self, instructions: Iterator[Instruction]) -> list[Statement]:
        for instruction in instructions:
            pushed, self._pushed = self._pushed, False
            self._step(instruction, pushed)
            self._last = instruction
        self._statements_end()
        return self.found

    def _step(self, one: Instruction, pushed: bool) -> None:
        if one.opcode in (LDC, LDC_W) and one.text is not None:
            self._push((one.text,) if one.text else ())
        elif one.opcode == NEW and one.name in (*_BUILDERS, _STRING_CONTEXT):
            self._frames.append(_Frame(one.name, outer=self._pending))
            self._pending = []
        elif one.member is not None:
            self._call(one.member, pushed)
        elif one.dynamic is not None:
            if one.dynamic.bootstrap == "makeConcatWithConstants":
                self._recipe([argument for argument in one.dynamic.arguments if isinstance(argument, str)])
        elif one.opcode == AASTORE and self._frames and self._frames[-1].owner == _STRING_CONTEXT:
            self._frames[-1].parts.append(self._taken(pushed))
        elif one.opcode in RETURNS:
            self._statements_end(returned=True)
        elif one.opcode in STORES and not self._frames and pushed:
            self._state(self._pending.pop())
        elif one.opcode in (POP, POP2) or (one.opcode == ATHROW and not self._throws_null()):
            self._statements_end()

    def _throws_null(self) -> bool:
        """Scala checks within an expression that an inlined argument is not null."""
        return self._last is not None and self._last.opcode == ACONST_NULL

    def _push(self, text: Text) -> None:
        self._pending.append(text)
        self._pushed = True

    def _taken(self, pushed: bool) -> Part:
        """What the pending texts are as one part. pushed: the instruction before pushed the last of them, so it is no value."""
        texts, self._pending = self._pending, []
        if len(texts) == 1 and pushed and not texts[0]:
            return ""
        if len(texts) == 1 and pushed:
            return texts[0][0] if len(texts[0]) == 1 else Choice((texts[0],))
        return Choice(tuple(texts)) if texts else VALUE

    def _call(self, member: Member, pushed: bool) -> None:
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.owner == member.owner:
            if frame.owner == _STRING_CONTEXT:
                return self._context(frame, member)
            return self._builder(frame, member, pushed)
        if member.owner in _LOGGERS and member.name in LEVELS:
            return self._logged(member.name, pushed)
        if member.name in ("format", "formatted", "format$extension") and self._pending:
            first, *others = self._pending
            self._pending = []
            return self._push(with_values(first, _CONVERSIONS, [text for text in others if text]))
        if member.name == "<init>" and member.owner.endswith(("Exception", "Error")):
            self.found.extend(Statement(self._method.name, text, thrown=True) for text in self._pending if text)
            self._pending = []
        elif member.name in _WRAPPING or member.owner == _STRING_OPS:
            self._pushed = pushed
        elif pushed and any(kind in member.descriptor for kind in _TEXT_TYPES):
            self._state(self._pending.pop())
        return None

    def _builder(self, frame: _Frame, member: Member, pushed: bool) -> None:
        if member.name == "append":
            last = self._last
            if member.descriptor.startswith("(C)") and last is not None and last.opcode == BIPUSH:
                frame.parts.append(chr(last.byte))
            else:
                frame.parts.append(self._taken(pushed))
        elif member.name == "<init>" and self._pending:
            frame.parts.append(self._taken(pushed))
        elif member.name in ("toString", "result"):
            self._close(_flat(frame.parts))

    def _context(self, frame: _Frame, member: Member) -> None:
        if member.name == "<init>":
            frame.constants, frame.parts = frame.parts, []
        elif member.name in _INTERPOLATORS and frame.constants is not None:
            constants = frame.constants
            values = [*frame.parts, *[VALUE] * len(constants)]
            parts = [part for pair in zip(constants, values, strict=False) for part in pair][: 2 * len(constants) - 1]
            self._close(_flat(parts))

    def _close(self, text: Text) -> None:
        self._pending = self._frames.pop().outer
        self._push(text)

    def _recipe(self, arguments: Sequence[str]) -> None:
        recipe, *constants = arguments
        values = tuple(text for text in self._pending if text)
        parts: list[Part] = []
        for mark, piece in zip([None, *_RECIPE.findall(recipe)], _RECIPE.split(recipe), strict=True):
            if mark == "\x01":
                parts.append(Choice(values) if values else VALUE)
            elif mark == "\x02":
                parts.append(constants.pop(0))
            parts.append(piece)
        self._push(_flat(parts))

    def _logged(self, level: str, pushed: bool) -> None:
        """The first text with a mark is the message; if none has, the one that was pushed last, or else the first."""
        texts, self._pending = [text for text in self._pending if text], []
        if not texts:
            return
        unmarked = len(texts) - 1 if pushed else 0
        first = next((number for number, text in enumerate(texts) if _has_mark(text)), unmarked)
        self.found.extend(Statement(self._method.name, text) for text in texts[:first])
        self.found.append(Statement(self._method.name, with_values(texts[first], _BRACES, texts[first + 1 :]), level))

    def _state(self, text: Text) -> None:
        if text:
            self.found.append(Statement(self._method.name, with_values(text, _BRACES)))

    def _statements_end(self, *, returned: bool = False) -> None:
        level = self._levels.get(self._method.name, "") if returned else ""
        for text in self._pending:
            if text:
                self.found.append(Statement(self._method.name, with_values(text, _BRACES), level))
        self._pending = []


def _flat(parts: Sequence[Part]) -> Text:
    """Texts within a text as its own parts."""
    flat: list[Part] = []
    for part in parts:
        if isinstance(part, Choice) and len(part.texts) == 1 and len(part.texts[0]) > 1:
            flat.extend(part.texts[0])
        else:
            flat.append(part)
    return _joined(flat)


def _has_mark(text: Text) -> bool:
    return any(isinstance(part, str) and "{}" in part for part in text)


def statements(of: ClassFile) -> list[Statement]:
    """All texts of a class, in the order of its methods."""
    levels = _levels_of_lambdas(of)
    return [statement for method in of.methods for statement in _Reader(method, levels).read(of.instructions(method))]


def _levels_of_lambdas(of: ClassFile) -> dict[str, str]:
    """Method -> level of the logger that calls it for its message: Scala passes messages as functions."""
    levels: dict[str, str] = {}
    if not of.names(_FUNCTION):
        return levels
    for method in of.methods:
        functions: list[str] = []  # since the last call of a logger: of the message, perhaps of an exception
        for one in of.instructions(method):
            if one.dynamic is not None and one.dynamic.bootstrap in ("metafactory", "altMetafactory"):
                functions += [argument.name for argument in one.dynamic.arguments if isinstance(argument, Member)][:1]
            elif one.member is not None and one.member.name in LEVELS:
                arguments = one.member.descriptor.count(f"L{_FUNCTION};")
                levels.update(dict.fromkeys(functions[-arguments:][:1] if arguments else (), one.member.name))
                functions.clear()
    return levels


RECORD_BOOTSTRAP: Final = "bootstrap"


def printed(of: ClassFile) -> list[Text]:
    """What the class's own toString may print; none if it has none, or if it is built otherwise."""
    name = of.name.rpartition("/")[2].rpartition("$")[2] or of.name.rpartition("/")[2]
    found = []
    for method in of.methods:
        if method.name != "toString" or not method.descriptor.startswith("()"):
            continue
        for one in of.instructions(method):
            if one.dynamic is not None and one.dynamic.bootstrap == RECORD_BOOTSTRAP:
                fields = next((text for text in one.dynamic.arguments if isinstance(text, str) and text), "").split(";")
                parts: list[Part] = [f"{name}["]
                for number, component in enumerate(fields):
                    parts += [f"{', ' if number else ''}{component}=", VALUE]
                found.append(_joined([*parts, "]"]))
        found += [statement.text for statement in _Reader(method, {}).read(of.instructions(method))]
    return [text for text in found if isinstance(text[0], str) and len(text) > 1]
