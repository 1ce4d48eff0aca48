"""The catalogue: the rules of this package's rule folders and of installed plug-ins.

A plug-in is a package with an entry point of the group `epochaudit.rules` that names a module with rules.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from itertools import pairwise
from typing import Final

import epochaudit.rules as rules_package
from epochaudit.rules.rule import Rule

PLUG_INS: Final = "epochaudit.rules"
FAMILIES: Final = {
    "CE": "controller epoch",
    "BE": "broker epoch",
    "UF": "unfencing",
    "SR": "StopReplica",
    "LI": "LeaderAndIsr",
    "UM": "UpdateMetadata",
    "TI": "topic ids",
    "IS": "ISR eligibility",
    "LD": "leadership",
    "EL": "eligible leader replicas",
    "DA": "log directories",
    "RA": "metadata quorum",
    "EP": "epoch arithmetic",
    "FF": "fetch fencing",
    "LO": "ListOffsets fencing",
    "OE": "OffsetForLeaderEpoch fencing",
    "TR": "truncation",
    "CO": "committed offsets",
    "MD": "client metadata",
    "HW": "high watermark",
    "AW": "acknowledged writes",
    "PE": "producer epochs",
    "GE": "group generations",
    "SH": "share groups",
    "LH": "leader hints",
    "LS": "log start offsets",
}


class UnknownRule(ValueError):
    """A selection names no rule, proposal or family of the catalogue."""


class PlugInError(ValueError):
    """A plug-in can't be used: its module fails to load, one of its rules has the id of another rule, or names no frame."""


@cache
def catalogue() -> tuple[Rule, ...]:
    """All rules, ordered by id. Reading it starts no Spark session. Raises PlugInError."""
    for module in pkgutil.walk_packages(rules_package.__path__, prefix=f"{rules_package.__name__}."):
        importlib.import_module(module.name)
    for plug_in in entry_points(group=PLUG_INS):
        try:
            plug_in.load()
        except Exception as error:  # whatever its code does
            raise PlugInError(f"plug-in {plug_in.name} can't be loaded: {type(error).__name__}: {error}") from error
    rules = sorted((cls() for cls in _subclasses(Rule) if "id" in vars(cls)), key=lambda rule: rule.id)
    doubled = {a.id for a, b in pairwise(rules) if a.id == b.id}
    if doubled:
        raise PlugInError(f"two rules share the id {', '.join(sorted(doubled))}")
    return tuple(rules)


def _subclasses(cls: type[Rule]) -> Iterable[type[Rule]]:
    for sub in cls.__subclasses__():
        yield sub
        yield from _subclasses(sub)


def family_title(family: str) -> str:
    """The topic of a family's rules; the family's letters if this package does not know it."""
    return FAMILIES.get(family, family)


def selected(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> tuple[Rule, ...]:
    """The rules whose id (`SR-01`), family (`SR`) or proposal (`KIP-570`) is selected (all, if nothing is) and not ignored.

    Raises UnknownRule for a name that matches nothing.
    """
    included, excluded = _known_names(select), _known_names(ignore)
    return tuple(
        rule for rule in catalogue() if (not included or included & _names(rule)) and not excluded & _names(rule)
    )


def names_rules_only(select: Iterable[str]) -> bool:
    """Whether a selection names rules by their ids, and neither a family nor a KIP."""
    return {name.strip().upper() for name in select} <= {rule.id for rule in catalogue()}


def _names(rule: Rule) -> set[str]:
    return {rule.id, rule.family, rule.kip.upper()}


def _known_names(selection: Iterable[str]) -> set[str]:
    names = {name.strip().upper() for name in selection}
    known = set().union(*(_names(rule) for rule in catalogue()))
    if unknown := sorted(names - known):
        near = get_close_matches(unknown[0], known, n=3)
        hint = f"did you mean {', '.join(near)}?" if near else "`epochaudit rules` lists them"
        raise UnknownRule(f"{', '.join(unknown)}: no such rule, family or KIP; {hint}")
    return names
