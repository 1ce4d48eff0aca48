"""Where values end in a printed struct, as regular expressions.

Nothing is quoted or escaped in the text, and strings are what clients chose. A string goes as far as the next name of
the API's schemas that stands where a field can begin (after `,` or `{`); as every version prints exactly the fields it
has, in order, a string that holds such a name leaves the rest unreadable, and the line is refused rather than guessed.
All repetitions are possessive: a line is read in time linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NULL: Final = "null"
TAGGED: Final = "_tagged_fields"
INTEGER: Final = r"[-\d]++"  # what is none is refused when it is converted, and matching less takes less time
_LISTED: Final = r"-?\d{1,19}+"
NO_TAGS: Final = r"_tagged_fields=\{(?:\d{1,9}=[^{}]*+)?\}"
_WRAPPED: Final = rf"\{{\w+={INTEGER}\}}"
_ABORTED: Final = rf"\{{producer_id={INTEGER},first_offset={INTEGER}(?:,_tagged_fields=\{{\}})?\}}"
# by the kinds of schemas.py
PLAIN: Final = {
    "": INTEGER,
    "!": "true|false",
    "#": rf"(?:{_LISTED}(?:,{_LISTED})*+)?",
    "@": rf"(?:{_WRAPPED}(?:,{_WRAPPED})*+)?",
    "$-": r"[^\[\]{}=,]*+",
    "$#": r"[^\[\]{}=]*+",
    "~": r"null|java\.nio\.\w++\[pos=\d++ lim=\d++ cap=\d++\]",
    "%": rf"null|\[(?:{_ABORTED}(?:,{_ABORTED})*+)?\]",
}


class Misprinted(Exception):
    """The text is not the struct that its version prints."""


@dataclass(frozen=True)
class Grammar:
    """What all structs of one version of a request or response share. names: all names of the API's schemas."""

    version: int
    has_tags: bool
    names: str

    @classmethod
    def of(cls, version: int, flexible: int, names: Iterable[str]) -> Grammar:
        """For one version of an API."""
        return cls(version, version >= flexible, named({*names, TAGGED}))

    def string(self, following: str, begins: str) -> str:
        """A string, as far as the field `following`; if none follows, brackets and what is after them mark its end.

        Looking first for that field, or for the first field of a struct of the same kind, spares nearly all strings the
        search for any other name.
        """
        if following:
            return rf"[^,{{]*+(?:(?!,{following})[,{{](?!{self.names})[^,{{]*+)*+"
        ended = self._ended(begins)
        return rf"[^,{{}}]*+(?:(?:[,{{](?!{self.names})|\}}(?!{ended}))[^,{{}}]*+)*+"

    def records(self, following: str, begins: str) -> str:
        """A record set: where a slice of a file starts and ends, or in the third group what else there is.

        Those kinds that are most common are looked for as releases print them; others end as a string does.
        """
        sliced = rf"FileRecords\(file= [^,(){{}}]*+, start=({INTEGER}), end=({INTEGER})\)(?=[,}}])"
        common = r"(?:\[\]|(?:File|Memory)Records\([^(){}]*+\))(?=[,}])"
        return rf"(?:{sliced}|({common}|{self.string(following, begins)}))"

    def null(self, following: str, begins: str) -> str:
        """What a null prints, where the field ends after it."""
        return NULL + (rf"(?=,{following})" if following else rf"(?=\}}{self._ended(begins)})")

    def _ended(self, begins: str) -> str:
        """What follows a struct's closing brace; `begins`: the first field of a struct of the same kind."""
        return rf"(?:,\{{{begins}|[\]}}]{{0,16}}+(?:,\{{?{self.names}|,response:[{{ ]| from connection ))"


def named(names: Iterable[str]) -> str:
    """A pattern for any of the names and the sign after it, the longest first."""
    alternatives = [re.escape(name) for name in sorted(names, key=len, reverse=True)]
    return (f"(?:{'|'.join(alternatives)})" if len(alternatives) > 1 else alternatives[0]) + "="
