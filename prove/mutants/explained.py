"""Mutants that no case can kill, with the reason: `explained.toml`, whose entries are checked against the mutants that there are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from epochaudit.toml import read
from prove.mutants.operators import Mutant

FILE: Final = Path(__file__).with_name("explained.toml")

Key = tuple[str, str, str, str, str, int]


class ExplainedError(ValueError):
    """The file of explanations can't be used; the message states what is wrong."""


class Explanation(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a mutant behaves like the original, or differs only where there is nothing to tell apart. Fields as in `Mutant`."""

    module: str
    scope: str
    operator: str
    before: str
    reason: str
    after: str = ""
    nth: int = 0

    @property
    def key(self) -> Key:
        """That of its mutant."""
        return self.module, self.scope, self.operator, self.before, self.after, self.nth


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    mutant: tuple[Explanation, ...] = ()


def explanations(file: Path = FILE) -> dict[Key, Explanation]:
    """The explanations by their mutants' keys. Raises ExplainedError."""
    listed = read(file, "explanations", _File, ExplainedError).mutant
    found = {one.key: one for one in listed}
    if len(found) < len(listed):
        raise ExplainedError(f"{file}: two entries explain the same mutant")
    return found


def stale(
    known: Mapping[Key, Explanation], mutants: Iterable[Mutant], killed: Collection[Key]
) -> list[tuple[Explanation, str]]:
    """Explanations of mutants that there are no more, and of killed ones, each with what is wrong.

    mutants: all of some modules, also those that were not tested; explanations of other modules are not checked.
    """
    there = {mutant.key for mutant in mutants}
    modules = {module for module, *_ in there}
    without_mutant = [
        (one, "there is no such mutant") for key, one in known.items() if one.module in modules and key not in there
    ]
    return without_mutant + [(one, "a case kills it") for key, one in known.items() if key in killed]
