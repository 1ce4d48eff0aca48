"""Executes a mutant beside the originals, with all modules of frames and rules that import it."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import pyspark.sql.functions as F

import epochaudit
import epochaudit.replay
import epochaudit.rules
from epochaudit.rules.rule import Rule, passed, violation
from prove.mutants.operators import LITERAL, PASSED, VIOLATION

ROOT: Final = Path(epochaudit.__file__).parents[1]
_NAMES: Final = {LITERAL: F.lit, PASSED: passed, VIOLATION: violation}
_MACHINERY: Final = {f"epochaudit.rules.{name}" for name in ("catalogue", "judge", "messages", "rule")}


@dataclass(frozen=True)
class Loaded:
    """The modules of a mutant, by name: the mutated one, and those that import it. They are not in `sys.modules`."""

    modules: Mapping[str, ModuleType]

    def rules(self) -> list[Rule]:
        """The rules that these modules declare, by id."""
        classes = [
            value
            for name, module in self.modules.items()
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == name and "id" in vars(value)
        ]
        return sorted((cls() for cls in classes), key=lambda rule: rule.id)

    def module(self, name: str) -> ModuleType:
        """The mutant's module of that name; the original if the mutation does not reach it."""
        return self.modules.get(name) or importlib.import_module(name)


def load(name: str, tree: ast.Module) -> Loaded:
    """Execute a module's tree, then the modules that import it, in their order. Raises whatever they raise."""
    importers = dependents(name)
    saved = {one: sys.modules.get(one) for one in (name, *importers)}
    fresh = {}
    try:
        for one in (name, *importers):
            code = compile(tree, str(path_of(name)), "exec", dont_inherit=True) if one == name else _code(one)
            module = fresh[one] = ModuleType(one)
            module.__file__, module.__package__ = str(path_of(one)), one.rpartition(".")[0]
            vars(module).update(_NAMES)
            sys.modules[one] = module  # importers find it, and so do dataclasses
            exec(code, vars(module))  # noqa: S102 - our own modules, changed by our own operators
    finally:
        for one, module_before in saved.items():
            if module_before is None:
                sys.modules.pop(one, None)
            else:
                sys.modules[one] = module_before
    return Loaded(fresh)


@cache
def dependents(name: str) -> tuple[str, ...]:
    """The modules of frames and rules that import it, also through others, each after what it imports."""
    reached = {name}
    ordered = []
    for module in _in_order():
        if module != name and _imports(module) & reached:
            reached.add(module)
            ordered.append(module)
    return tuple(ordered)


def path_of(name: str) -> Path:
    """A module's file."""
    plain = ROOT.joinpath(*name.split("."))
    return plain / "__init__.py" if plain.is_dir() else plain.with_suffix(".py")


def module_of(path: str) -> str:
    """The module of a file, which is given from the root of the sources."""
    return path.removesuffix(".py").replace("/", ".")


@cache
def modules() -> tuple[str, ...]:
    """The modules of frames and rules, without the machinery that evaluates them."""
    packages = (epochaudit.replay, epochaudit.rules)
    found = (m.name for one in packages for m in pkgutil.walk_packages(one.__path__, f"{one.__name__}.") if not m.ispkg)
    return tuple(sorted(set(found) - _MACHINERY))


@cache
def _in_order() -> tuple[str, ...]:
    """All of `modules`, each after those that it imports."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        if name not in ordered:
            for imported in sorted(_imports(name)):
                add(imported)
            ordered[name] = None

    for name in modules():
        add(name)
    return tuple(ordered)


@cache
def _imports(name: str) -> frozenset[str]:
    known = set(modules())
    nodes = ast.walk(ast.parse(path_of(name).read_text("utf-8")))
    return frozenset(node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module in known)


@cache
def _code(name: str) -> CodeType:
    return compile(path_of(name).read_text("utf-8"), str(path_of(name)), "exec", dont_inherit=True)
