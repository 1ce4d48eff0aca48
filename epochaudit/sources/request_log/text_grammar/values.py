"""Makes the structs of request_log.apis from the groups of a match, by expressions generated from schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, get_args, get_origin

from msgspec import NODEFAULT, Struct, defstruct
from msgspec import field as default_of
from msgspec.structs import fields

from epochaudit.sources.request_log.text_grammar.grammar import INTEGER

_DIGITS: Final = re.compile(INTEGER, re.ASCII)
_SIZED_RECORDS: Final = re.compile(r"\w+Records\(size=(\d{1,19}), ", re.ASCII)
_POSITIONS: Final = re.compile(r", start=(\d{1,10}), end=(\d{1,10})\)\Z", re.ASCII)
_LONGEST_POSITIONS: Final = len(", start=2147483647, end=2147483647)")
_CACHED_LISTS: Final = 10_000

Value = Any  # of a field: text, a number, None, a struct, or a list of these
Groups = Sequence[str | None]
Build = Callable[[Groups], Any]


def expressions(kinds: Iterable[str], first: int) -> tuple[list[str], int]:
    """For each value, by its kind, an expression of the groups `g` from number `first` on; the number after them."""
    found, at = [], first
    for kind in kinds:
        name, _, count = kind.partition("*")
        groups = [f"g[{at + number}]" for number in range(int(count or 1))]
        at += len(groups)
        if kind == "records":
            groups = [f"g[{at - 1 + number}]" for number in range(3)]
            at += 2
            found.append("int({1}) - int({0}) if {1} else size({2})".format(*groups))
        elif count:
            found.append(f"{constructed(name, (f'int({group})' for group in groups))} if {groups[0]} else None")
        else:
            found.append(_EXPRESSIONS[kind].format(groups[0]))
    return found, at


def listed(values: Iterable[str]) -> str:
    """The expression of a list."""
    return f"[{', '.join(values)}]"


def constructed(name: str, values: Iterable[str]) -> str:
    """The expression of a struct, which `named_struct` gave the name."""
    return f"{name}({', '.join(values)})"


def evaluated(expression: str) -> Build:
    """What makes the value of the groups."""
    # One expression takes half the time of a loop. It consists of numbers and names of this module only.
    build: Build = eval(f"lambda g: {expression}", dict(_NAMES))  # noqa: S307
    return build


class _Integers(dict[str | None, list[int] | None]):
    """`1,2,3` as a list, cached as few texts differ."""

    def __missing__(self, text: str | None) -> list[int] | None:
        if len(self) > _CACHED_LISTS:
            self.clear()
        self[text] = found = None if text is None else list(map(int, text.split(","))) if text else []
        return found


def _wrapped(text: str | None) -> list[int] | None:
    """`{partition=1},{partition=2}`."""
    return None if text is None else list(map(int, _DIGITS.findall(text)))


def _strings(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",") if text else []


def _size(text: str | None) -> int | None:
    """Bytes of a record set, which each release and kind prints in its own way; None where it states none."""
    if text is None or text == "[]":
        return None if text is None else 0
    if text.startswith("FileRecords(file= "):
        found = _POSITIONS.search(text, max(0, len(text) - _LONGEST_POSITIONS))
        return int(found[2]) - int(found[1]) if found else None
    found = _SIZED_RECORDS.match(text)
    return int(found[1]) if found else None


_NAMES: Final[dict[str, Any]] = {
    "integers": _Integers().__getitem__,
    "wrapped": _wrapped,
    "strings": _strings,
    "size": _size,
}
_EXPRESSIONS: Final = {
    "": "int({})",
    "!": "({} == 'true')",
    "$": "{}",
    "$-": "{}",
    "#": "integers({})",
    "@": "wrapped({})",
    "$#": "strings({})",
}


def not_null(kind: Any) -> Any:
    """The type without None."""
    return kind if get_origin(kind) is list else next(member for member in get_args(kind) if member is not type(None))


def named_struct(struct: type[Struct], found: Sequence[str]) -> str:
    """The name in expressions of a struct like that one which takes the fields that were found by position."""
    known = {field.name: field for field in fields(struct)}
    defaults: list[tuple[str, Any, Any]] = []
    for field in known.values():
        if field.name not in found and field.default is not NODEFAULT:
            defaults.append((field.name, Any, field.default))
        elif field.name not in found and field.default_factory is not NODEFAULT:
            defaults.append((field.name, Any, default_of(default_factory=field.default_factory)))
    methods = {
        name: value
        for base in reversed(struct.__mro__)
        if issubclass(base, Struct) and base is not Struct
        for name, value in vars(base).items()
        if not name.startswith("__") and (callable(value) or isinstance(value, property))
    }
    name = f"struct{len(_NAMES)}"
    _NAMES[name] = defstruct(struct.__name__, [*found, *defaults], namespace=methods, gc=False)
    return name
