"""From the text of a struct's values to the values, and the struct types that take them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, get_args, get_origin

from msgspec import NODEFAULT, Struct, defstruct
from msgspec import field as default_of
from msgspec.structs import fields

from epochaudit.sources.text_request_log_apis.grammar import INTEGER

_DIGITS: Final = re.compile(INTEGER, re.ASCII)
_SIZED_RECORDS: Final = re.compile(r"\w+Records\(size=(\d{1,19}), ", re.ASCII)
_UNREAD: Final = "unread_"  # of the last group of those that find all elements of an array: always empty
_POSITIONS: Final = re.compile(r", start=(\d{1,10}), end=(\d{1,10})\)\Z", re.ASCII)
_LONGEST_POSITIONS: Final = len(", start=2147483647, end=2147483647)")
_KEPT_LISTS: Final = 10_000

Value = Any  # text, None, or a list of values
Groups = Sequence[str | None]
Build = Callable[[Groups], list[Value]]


def expressions(kinds: Iterable[str], first: int) -> tuple[list[str], int]:
    """For each value, by its kind, an expression of the groups `g` from number `first` on; the number after them."""
    found, at = [], first
    for kind in kinds:
        groups = [f"g[{at + number}]" for number in range(len(kind) if kind.startswith("^") else 1)]
        at += len(groups)
        if kind.startswith("^"):
            found.append(f"{displayed(groups)} if {groups[0]} else None")
        else:
            found.append(f"{_NAMES[kind]}({groups[0]})" if kind in _NAMES else groups[0])
    return found, at


def displayed(values: Iterable[str]) -> str:
    """The expression of a list."""
    return f"[{', '.join(values)}]"


def evaluated(expression: str) -> Build:
    """What makes the values of the groups."""
    # One expression takes half the time of a loop; it is made of numbers and the names below only.
    build: Build = eval(f"lambda g: {expression}", dict(_FUNCTIONS))  # noqa: S307
    return build


def builder(kinds: Sequence[str]) -> Build | None:
    """What makes the values of fields of these kinds; None if they are the groups themselves."""
    if not any(kind in _NAMES or kind.startswith("^") for kind in kinds):
        return None
    return evaluated(displayed(expressions(kinds, 0)[0]))


class _Integers(dict[str | None, list[int] | None]):
    """`1,2,3` as a list; few texts differ."""

    def __missing__(self, text: str | None) -> list[int] | None:
        if len(self) > _KEPT_LISTS:
            self.clear()
        self[text] = found = None if text is None else list(map(int, text.split(","))) if text else []
        return found


def _wrapped(text: str | None) -> list[str] | None:
    """`{partition=1},{partition=2}`."""
    return None if text is None else _DIGITS.findall(text)


def _strings(text: str | None) -> list[str] | None:
    return None if text is None else text.split(",") if text else []


def _size(text: str | None) -> int | None:
    """Bytes of a record set, which each release and kind prints in its own way; None where it tells none."""
    if text is None or text == "[]":
        return None if text is None else 0
    if text.startswith("FileRecords(file= "):
        found = _POSITIONS.search(text, max(0, len(text) - _LONGEST_POSITIONS))
        return int(found[2]) - int(found[1]) if found else None
    found = _SIZED_RECORDS.match(text)
    return int(found[1]) if found else None


_NAMES: Final = {"#": "integers", "@": "wrapped", "$#": "strings", "*": "size"}  # by kinds of schemas.py
_FUNCTIONS: Final = {"integers": _Integers().__getitem__, "wrapped": _wrapped, "strings": _strings, "size": _size}


def not_null(kind: Any) -> Any:
    """The type without None."""
    return kind if get_origin(kind) is list else next(member for member in get_args(kind) if member is not type(None))


def array_like(struct: type[Struct], found: list[tuple[str, Any]]) -> type[Struct]:
    """The struct as an array of the values that were found, with the methods of the original and its defaults."""
    defaults: list[tuple[str, Any, Any]] = []
    read = {name for name, _ in found}
    for known in fields(struct):
        if known.name not in read and known.default is not NODEFAULT:
            defaults.append((known.name, known.type, known.default))
        elif known.name not in read and known.default_factory is not NODEFAULT:
            defaults.append((known.name, known.type, default_of(default_factory=known.default_factory)))
    methods = {
        name: value
        for base in reversed(struct.__mro__)
        if issubclass(base, Struct) and base is not Struct
        for name, value in vars(base).items()
        if not name.startswith("__") and (callable(value) or isinstance(value, property))
    }
    unread = (_UNREAD, str, "")
    return defstruct(struct.__name__, [*found, unread, *defaults], namespace=methods, array_like=True, gc=False)
