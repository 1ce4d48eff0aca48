"""Parses the notation of schemas.py into trees of fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from epochaudit.sources.request_log.text_grammar.schemas import NEVER

_TOKEN: Final = re.compile(
    r"(?P<names>[\w|']+)(?P<kind>[$!#@*%^~]?[#-]?)(?P<null>\??)"
    r"(?::(?P<first>\d+)(?:(?P<more>\+)|-(?P<last>\d+))?)?(?P<open>[\[(]?)|(?P<close>[\])])|(?P<space> )"
)
_CLOSED: Final = {"]": "[", ")": "("}


@dataclass(frozen=True)
class Field:
    """names: as schemas.py gives them. kind: its mark there, `[` of an array of structs. versions: first and last."""

    names: tuple[str, ...]
    kind: str
    nullable: bool
    versions: tuple[int, int]
    fields: tuple[Field, ...] = ()

    def printed(self, version: int) -> bool:
        """Whether a struct of that version has the field."""
        return self.versions[0] <= version <= self.versions[1]


def parsed(notation: str) -> tuple[Field, ...]:
    """The fields of a struct."""
    tokens = _tokens(notation)
    return tuple(_struct(tokens, ""))


def every_name(fields: tuple[Field, ...]) -> Iterator[str]:
    """All names that any version prints, of all depths."""
    for field in fields:
        yield from field.names
        yield from every_name(field.fields)


def _tokens(notation: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(notation):
        match = _TOKEN.match(notation, at)
        if match is None:
            raise ValueError(notation[at:])
        at = match.end()
        if not match["space"]:
            yield match


def _struct(tokens: Iterator[re.Match[str]], opened: str) -> Iterator[Field]:
    """The fields up to the bracket that closes `opened`."""
    for token in tokens:
        if token["close"]:
            if _CLOSED[token["close"]] != opened:
                raise ValueError(f"{opened} is closed by {token['close']}")
            return
        fields = tuple(_struct(tokens, token["open"])) if token["open"] else ()
        first = int(token["first"] or 0)
        last = NEVER if token["more"] or not token["first"] else int(token["last"] or first)
        kind = token["kind"] or token["open"]
        yield Field(tuple(token["names"].split("|")), kind, bool(token["null"]), (first, last), fields)
