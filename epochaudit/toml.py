"""Reads TOML into declared Structs. An error names the file, the table, the key, what is expected and what was found."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from datetime import date, datetime, time
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct, ValidationError, convert, inspect

T = TypeVar("T", bound=Struct)

_TYPES: Final = (date, datetime, time)  # TOML has them; without this, msgspec would also take strings
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(.*)`")
_PATH: Final = re.compile(r" - at `\$(?:\.[\w-]+|\[(?:\d+|\.\.\.)\])+`\Z")
_STEP: Final = re.compile(r"\.([\w-]+)|\[(\d+)\]")
_NAMES: Final[dict[type[inspect.Type], tuple[str, str]]] = {
    inspect.StrType: ("a string", "strings"),
    inspect.IntType: ("an integer", "integers"),
    inspect.BoolType: ("true or false", "true and false"),
    inspect.DateType: ("a date like 2027-02-20, without quotes", "dates"),
    inspect.StructType: ("a table", "tables"),
}


def read(path: Path, what: str, shape: type[T], failure: type[Exception]) -> T:
    """The content of a TOML file; what is wrong with it is raised as a `failure`. what: the kind of file, for messages."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise failure(f"can't read {what} {path}: {error.strerror}") from error
    return parsed(content, str(path), shape, failure)


def parsed(content: bytes, name: str, shape: type[T], failure: type[Exception]) -> T:
    """TOML text as a Struct; what is wrong with it is raised as a `failure`. name: of the file."""
    try:
        table = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise failure(f"{name} is not valid TOML: {error}") from error
    try:
        return convert(table, shape, strict=True, builtin_types=_TYPES)
    except ValidationError as error:
        raise failure(_explained(str(error), table, name, shape)) from error


def _explained(message: str, table: Any, where: str, shape: type[Struct]) -> str:
    """msgspec's message with the table, the key and the value of its path, and the types of `shape`.

    Of a list of tables the path names the table's number; what is wrong in any other list is wrong with the list.
    """
    kind: inspect.Type = inspect.type_info(shape)
    found, key = table, ""
    path = _PATH.search(message)
    problem = message[: path.start()] if path else message
    for name, number in _STEP.findall(path[0]) if path else ():
        if name and isinstance(kind, inspect.StructType):
            kind, found, key = _field(kind, name).type, found[name], name
        elif isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.StructType):
            kind, found = kind.item_type, found[int(number)]
            where, key = f"{where}, [[{key}]] {int(number) + 1}", ""
        else:
            break
    if isinstance(kind, inspect.StructType):
        if unknown := _UNKNOWN.fullmatch(problem):
            return (
                f"{where}: unknown key {unknown[1]!r}{_hint(unknown[1], [field.encode_name for field in kind.fields])}"
            )
        if missing := _MISSING.fullmatch(problem):
            return f"{where}: {missing[1]} is missing; it has to be {_described(_field(kind, missing[1]).type)}"
    return f"{where}{key and f': {key}'} has to be {_described(kind)}, found {found!r}"


def _field(table: inspect.StructType, name: str) -> inspect.Field:
    return next(field for field in table.fields if field.encode_name == name)


def _hint(key: str, known: Sequence[str]) -> str:
    near = get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(known)}"


def _described(kind: inspect.Type) -> str:
    """What a value has to be: a field's own description (msgspec.Meta), or its type."""
    match kind:
        case inspect.Metadata(extra_json_schema={"description": str(description)}):
            return description
        case inspect.UnionType(types=[one, inspect.NoneType()] | [inspect.NoneType(), one]):
            return _described(one)
        case inspect.LiteralType(values=values):
            return f"one of {', '.join(map(str, values))}"
        case inspect.VarTupleType(item_type=inspect.LiteralType(values=values)):
            return f"a list of any of {', '.join(map(str, values))}"
        case inspect.VarTupleType(item_type=item):
            return f"a list of {_NAMES[type(item)][1]}"
        case inspect.DictType(value_type=value):
            return f"a table of {_NAMES[type(value)][1]}"
    return _NAMES[type(kind)][0]
