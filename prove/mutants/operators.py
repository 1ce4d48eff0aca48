"""The mutants of a module's source. Each changes one place of its syntax tree."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

CONDITION_DROPPED: Final = "condition dropped"
NEGATION_DROPPED: Final = "negation dropped"
BOUND_SHIFTED: Final = "bound shifted"
COMPARISON_NEGATED: Final = "comparison negated"
CONSTANT_CHANGED: Final = "constant changed"
SIGN_CHANGED: Final = "sign changed"
FUNCTION_SWAPPED: Final = "function swapped"
ARGUMENT_DROPPED: Final = "argument dropped"
STEP_DROPPED: Final = "step dropped"
BRANCH_DROPPED: Final = "branch dropped"
CONDITION_ALWAYS: Final = "condition always true"
CONDITION_NEVER: Final = "condition never true"
LAST_BRANCH_CHANGED: Final = "last branch changed"
JOIN_CHANGED: Final = "join changed"
ELEMENT_DROPPED: Final = "element dropped"
CHOICE_FIXED: Final = "choice fixed"

LITERAL: Final = "_literal"
PASSED: Final = "_passed"
VIOLATION: Final = "_violation"
"""Names that mutants use, which `loading` gives them: `F.lit`, `passed` and `violation`."""

_BRANCHES: Final = {"passed", "fenced", "violation", "exposed", "unverifiable"}
_TEXTS: Final = {"expected", "observed", "because", "evidence", "caused_by", "reason"}
_SHIFTED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
_NEGATED: Final[Mapping[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
_PAIRS: Final = (
    ("min", "max"), ("min_by", "max_by"), ("array_min", "array_max"), ("least", "greatest"), ("first", "last"), ("lag", "lead"),
    ("asc", "desc"), ("exists", "forall"), ("isNull", "isNotNull"), ("bool_or", "bool_and"), ("array_union", "array_intersect"),
)  # fmt: skip
_SWAPS: Final = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}}
_JOINS: Final = {"left": "inner", "inner": "left", "left_anti": "left_semi", "left_semi": "left_anti"}
_DROPS_ARGUMENTS: Final = {"coalesce", "isin", "partitionBy", "groupBy", "orderBy"}
_STEPS: Final = {"where", "filter", "distinct", "dropDuplicates", "otherwise"}
_NULL_CHECKS: Final = {"isNull", "isNotNull"}
_CONDITIONAL: Final = {*_BRANCHES, "when", "where"}
_SCALED_FROM: Final = 100  # a number of milliseconds, not a count: it is doubled

_Path = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Mutant:
    """One change: `before` became `after` in the function `scope` of `module`, the `nth` such change there, from 0.

    path: to the changed node of the module's tree; node: what replaces it.
    """

    module: str
    scope: str
    line: int
    operator: str
    before: str
    after: str
    nth: int
    path: _Path
    node: ast.expr

    @property
    def key(self) -> tuple[str, str, str, str, str, int]:
        """What identifies it while lines move."""
        return self.module, self.scope, self.operator, self.before, self.after, self.nth

    def tree(self, original: ast.Module) -> ast.Module:
        """The module's tree with the change."""
        tree = deepcopy(original)
        *way, (field, index) = self.path
        parent: ast.AST = tree
        for step, at in way:
            child = getattr(parent, step)
            parent = child if at is None else child[at]
        if index is None:
            setattr(parent, field, deepcopy(self.node))
        else:
            getattr(parent, field)[index] = deepcopy(self.node)
        return ast.fix_missing_locations(tree)

    def __str__(self) -> str:
        where = f"{self.module}:{self.line} {self.scope or 'module'}"
        return f"{where}: {self.operator}: {self.before}" + (f" -> {self.after}" if self.after else "")


def mutants_of(module: str, source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its source. module: its path, for reports."""
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for change in _Finder().changes(ast.parse(source)):
        key = (change.scope, change.operator, change.before, change.after)
        found.append(Mutant(module=module, nth=seen[key], **vars(change)))
        seen[key] += 1
    return found


@dataclass(frozen=True)
class _Change:
    scope: str
    line: int
    operator: str
    before: str
    after: str
    path: _Path
    node: ast.expr


class _Finder:
    """Walks a tree past texts, annotations, decorators and imports."""

    def changes(
        self, node: ast.AST, path: _Path = (), scope: str = "", parent: ast.AST | None = None
    ) -> Iterator[_Change]:
        if isinstance(node, ast.expr):
            line = node.lineno
            for operator, before, after, changed in _replacements(node, parent):
                yield _Change(scope, line, operator, before, after, path, changed)
        for name, index, child in _children(node):
            inner = scope
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{scope}.{child.name}" if scope else child.name
            yield from self.changes(child, (*path, (name, index)), inner, node)


def _children(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    """The parts of a node that are mutated, with their places."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return
    skipped = {"decorator_list", "annotation", "returns", "ctx", "keywords" if isinstance(node, ast.ClassDef) else ""}
    if isinstance(node, ast.Assign | ast.AnnAssign) and _is_text(node):
        return
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            is_text = isinstance(child, ast.keyword) and child.arg in _TEXTS
            types_only = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            if isinstance(child, ast.AST) and not (is_docstring or is_text or types_only):
                yield name, index, child


def _is_text(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(target, ast.Name) and target.id in _TEXTS for target in targets)


def _replacements(node: ast.expr, parent: ast.AST | None) -> Iterator[tuple[str, str, str, ast.expr]]:
    """Operator, what is shown as changed, what as its replacement, and the node that takes this node's place.

    A condition is not negated where it is dropped or always true in another mutant: whatever kills that one kills its negation, too.
    """
    is_condition = _is_chain(parent) or (isinstance(parent, ast.Call) and _name(parent) in _CONDITIONAL)
    match node:
        case ast.Compare(ops=[operator]):
            yield from _of_comparison(node, operator, negated=not is_condition)
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
            if not (isinstance(parent, ast.BinOp) and type(parent.op) is type(node.op)):
                yield from _of_chain(node)
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not (_is_sequence(node.left) or _is_sequence(node.right)):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield _changed(SIGN_CHANGED, node, ast.BinOp(node.left, other, node.right))
        case ast.UnaryOp(op=ast.Invert() | ast.Not()) if not is_condition:
            yield _changed(NEGATION_DROPPED, node, node.operand)
        case ast.IfExp():
            yield _changed(CHOICE_FIXED, node, node.body)
            yield _changed(CHOICE_FIXED, node, node.orelse)
        case ast.Constant(value=bool()):
            yield _changed(CONSTANT_CHANGED, node, ast.Constant(not node.value))
        case ast.Constant(value=int()) if not (isinstance(parent, ast.Compare) and type(parent.ops[0]) in _SHIFTED):
            value = int(str(node.value))
            yield _changed(CONSTANT_CHANGED, node, ast.Constant(value * 2 if value >= _SCALED_FROM else value + 1))
        case ast.Tuple():
            yield from _of_tuple(node, parent)
        case ast.Call():
            yield from _of_call(node, is_condition)


def _changed(operator: str, before: ast.expr, after: ast.expr) -> tuple[str, str, str, ast.expr]:
    return operator, _shown(before), _shown(after), after


def _shown(node: ast.expr) -> str:
    return ast.unparse(node).replace(f"{LITERAL}(True)", "true").replace(f"{LITERAL}(False)", "false")


def _is_sequence(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_chain(node: ast.AST | None) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr)


def _of_comparison(
    node: ast.Compare, operator: ast.cmpop, *, negated: bool
) -> Iterator[tuple[str, str, str, ast.expr]]:
    for name, others in ((BOUND_SHIFTED, _SHIFTED), (COMPARISON_NEGATED, _NEGATED if negated else {})):
        if type(operator) in others:
            yield _changed(name, node, ast.Compare(node.left, [others[type(operator)]()], node.comparators))


def _of_chain(node: ast.BinOp) -> Iterator[tuple[str, str, str, ast.expr]]:
    """`a & b & c` without each of its operands. Whatever kills these kills a swap of & and |, too."""
    operands = list(_operands(node, type(node.op)))
    for dropped in operands:
        rest = [operand for operand in operands if operand is not dropped]
        chain = rest[0]
        for operand in rest[1:]:
            chain = ast.BinOp(chain, node.op, operand)
        sign = "&" if isinstance(node.op, ast.BitAnd) else "|"
        yield CONDITION_DROPPED, f"{sign} {ast.unparse(dropped)}", "", chain


def _operands(node: ast.expr, operator: type[ast.operator]) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, operator):
        yield from _operands(node.left, operator)
        yield from _operands(node.right, operator)
    else:
        yield node


def _of_tuple(node: ast.Tuple, parent: ast.AST | None) -> Iterator[tuple[str, str, str, ast.expr]]:
    """Without each branch of a part of a verdict; without each event type or error code of a constant."""
    constant = isinstance(parent, ast.AnnAssign | ast.Assign) and _is_constant(parent)
    constant = constant and all(_is_event_type(one) for one in node.elts)
    for index, element in enumerate(node.elts):
        branch = element.value if isinstance(element, ast.Starred) else element
        is_branch = isinstance(branch, ast.Call) and _name(branch) in _BRANCHES
        if is_branch or (constant and len(node.elts) > 1):
            rest: list[ast.expr] = [one for at, one in enumerate(node.elts) if at != index]
            operator = BRANCH_DROPPED if is_branch else ELEMENT_DROPPED
            yield operator, ast.unparse(element), "", ast.Tuple(rest, ast.Load())


def _is_constant(node: ast.Assign | ast.AnnAssign) -> bool:
    target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
    return isinstance(target, ast.Name) and target.id.isupper()


def _is_event_type(node: ast.expr) -> bool:
    """`"STOP_REPLICA"`, `STARTS` or `Errors.NONE`, but no name of a column."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value.isupper()
    return isinstance(node, ast.Name | ast.Attribute | ast.Starred)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _of_call(node: ast.Call, is_condition: bool) -> Iterator[tuple[str, str, str, ast.expr]]:
    name = _name(node)
    if name in _SWAPS and not (is_condition and name in _NULL_CHECKS):
        yield _changed(FUNCTION_SWAPPED, node, _called(node, _SWAPS[name]))
    if name in _DROPS_ARGUMENTS and len(node.args) > 1:
        for index, argument in enumerate(node.args):
            rest = [one for at, one in enumerate(node.args) if at != index]
            if is_condition and ast.unparse(argument) == "F.lit(False)":
                continue  # a null condition counts as false
            yield ARGUMENT_DROPPED, f"{name}: {ast.unparse(argument)}", "", ast.Call(node.func, rest, node.keywords)
    if name == "holds":
        if not is_condition:
            yield ARGUMENT_DROPPED, ast.unparse(node), "", node.args[0]
        unless = ast.Call(node.func, [ast.UnaryOp(ast.Invert(), node.args[0])], [])
        yield _changed(CONSTANT_CHANGED, node, ast.UnaryOp(ast.Invert(), unless))  # true where it is null
    if name in _STEPS and isinstance(node.func, ast.Attribute):
        of_array = isinstance(node.func.value, ast.Name) and node.func.value.id == "F"
        what = node.args[-1] if node.args else None
        shown = f".{name}({ast.unparse(what) if what is not None else ''})"
        yield STEP_DROPPED, shown, "", _as_column(node.args[0]) if of_array else node.func.value
    if name in _JOINS.values() or name == "join":
        yield from _of_join(node)
    if name == "when" or name in _BRANCHES:
        yield from _of_condition(node, never=name == "when")
    if name == "first_of":
        yield from _of_verdict(node)


def _as_column(argument: ast.expr) -> ast.expr:
    """The argument of a function that takes a column or its name."""
    return ast.Call(ast.Attribute(ast.Name("F", ast.Load()), "coalesce", ast.Load()), [argument], [])


def _called(node: ast.Call, name: str) -> ast.Call:
    func: ast.expr = ast.Name(name, ast.Load())
    if isinstance(node.func, ast.Attribute):
        func = ast.Attribute(node.func.value, name, ast.Load())
    return ast.Call(func, node.args, node.keywords)


def _of_join(node: ast.Call) -> Iterator[tuple[str, str, str, ast.expr]]:
    for index, argument in enumerate(node.args):
        if isinstance(argument, ast.Constant) and argument.value in _JOINS:
            other = ast.Constant(_JOINS[str(argument.value)])
            args = [other if at == index else one for at, one in enumerate(node.args)]
            yield JOIN_CHANGED, str(argument.value), str(other.value), ast.Call(node.func, args, node.keywords)


def _of_condition(node: ast.Call, *, never: bool) -> Iterator[tuple[str, str, str, ast.expr]]:
    """A branch that is always taken, unless each operand of its condition is dropped anyway; of a `when`, never."""
    if not node.args or (isinstance(node.args[0], ast.Constant) and node.args[0].value is None):
        return
    condition, *rest = node.args
    for operator, value, wanted in (
        (CONDITION_ALWAYS, True, not _is_chain(condition)),
        (CONDITION_NEVER, False, never),
    ):
        if wanted:
            literal = ast.Call(ast.Name(LITERAL, ast.Load()), [ast.Constant(value)], [])
            yield operator, ast.unparse(condition), "", ast.Call(node.func, [literal, *rest], node.keywords)


def _of_verdict(node: ast.Call) -> Iterator[tuple[str, str, str, ast.expr]]:
    for index, branch in enumerate(node.args):
        rest = [one for at, one in enumerate(node.args) if at != index]
        yield BRANCH_DROPPED, ast.unparse(branch), "", ast.Call(node.func, rest, node.keywords)
    for index, last in enumerate(node.keywords):
        if last.arg == "otherwise":
            is_pass = isinstance(last.value, ast.Call) and _name(last.value) == "passed"
            other = ast.Call(ast.Name(VIOLATION if is_pass else PASSED, ast.Load()), [], [])
            keywords = [ast.keyword("otherwise", other) if at == index else one for at, one in enumerate(node.keywords)]
            shown = "violation" if is_pass else "passed"
            yield LAST_BRANCH_CHANGED, ast.unparse(last.value), shown, ast.Call(node.func, node.args, keywords)
