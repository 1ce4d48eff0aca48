"""Parses a printed struct by its schema: a regular expression for fields between arrays, a loop for each array."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import fields

from epochaudit.sources.request_log.text_grammar.fields import Field
from epochaudit.sources.request_log.text_grammar.grammar import (
    INTEGER,
    NO_TAGS,
    NULL,
    PLAIN,
    TAGGED,
    Grammar,
    Misprinted,
    named,
)
from epochaudit.sources.request_log.text_grammar.values import (
    Build,
    Value,
    constructed,
    evaluated,
    expressions,
    listed,
    named_struct,
    not_null,
)

Read = Callable[[str, int], tuple[Value, int]]  # (text, where the value starts) -> (value, where it ends)


@dataclass(frozen=True)
class Reader:
    """Reads one struct.

    read(text, at) -> (the struct that starts there, where it ends); raises Misprinted, or ValueError for what is no
    number. flat(first) -> the pattern of the whole struct where its arrays hold one struct at most; the expression of the
    struct by the groups `g`, numbered from `first` on; the number of the group after them. `is_flat`: it is worth trying.
    """

    read: Read
    flat: Callable[[int], tuple[str, str, int]]
    is_flat: bool


def reader(grammar: Grammar, schema: tuple[Field, ...], struct: type[Struct]) -> Reader:
    """How the struct is read where its fields are those of the schema."""
    compiled = _Compiled(grammar, schema, struct)
    return Reader(compiled.read, compiled.flat, compiled.is_flat)


@dataclass(frozen=True)
class _Part:
    """Fields up to an array of structs, or to the struct's end."""

    pattern: str
    kinds: tuple[str, ...]
    element: _Compiled | None = None
    nullable: bool = False


@dataclass(frozen=True)
class _Run:
    """How a part is read. The pattern goes on over empty arrays to the struct's end if no other value is left there."""

    match: Callable[[str, int], re.Match[str] | None]
    build: Build
    array: Read | None
    empty_arrays: int


class _Compiled:
    """One struct's text as runs of fields between arrays of structs, which are read element by element."""

    def __init__(self, grammar: Grammar, schema: tuple[Field, ...], struct: type[Struct] | None) -> None:
        self._grammar = grammar
        self._struct_fields = {} if struct is None else {known.name: known for known in fields(struct)}
        self._value_names: list[str] = []  # the names of the values, in the order of the text
        self._parts: list[_Part] = []
        self._reads_over = False
        self.has_nulls = False  # values that `findall` can't distinguish from empty ones
        self._pattern, self._kinds, self._separator = r"\{", list[str](), ""
        schema = tuple(field for field in schema if field.printed(grammar.version))
        self._begins = named(schema[0].names)
        self._struct(schema)
        self._name = "list" if struct is None else named_struct(struct, self._value_names)
        self._construct = evaluated(f"{self._name}(*g)")
        self._runs = [self._run(number) for number in range(len(self._parts))]

    def read(self, text: str, at: int) -> tuple[Any, int]:
        """The struct that starts there, and where it ends."""
        values: list[Value] = []
        for run in self._runs:
            match = run.match(text, at)
            if match is None:
                raise Misprinted
            values += run.build(match.groups())
            at = match.end()
            if run.array is None:
                break
            if text[at - 1] == "}":
                values += [[] for _ in range(run.empty_arrays)]
                break
            elements, at = run.array(text, at)
            values.append(elements)
        return self._construct(values), at

    def flat(self, first: int) -> tuple[str, str, int]:
        """See Reader. An empty group before the struct of an array shows that there is one."""
        pattern, at, found = "", first, list[str]()
        for part in self._parts:
            pattern += part.pattern
            own, at = expressions(part.kinds, at)
            found += own
            if part.element:
                inner, values, after = part.element.flat(at + 1)
                pattern += rf"\[(?:(){inner})?\]"
                found.append(f"[] if g[{at}] is None else [{values}]")
                at = after
        return pattern, constructed(self._name, found), at

    @property
    def is_flat(self) -> bool:
        """Whether `flat` is worth trying: arrays that are read over hold many structs as a rule."""
        return not self._reads_over and all(part.element.is_flat for part in self._parts if part.element)

    @property
    def is_leaf(self) -> bool:
        """Whether it holds no array of structs."""
        return self._parts[0].element is None

    def _run(self, number: int) -> _Run:
        part, later = self._parts[number], self._parts[number + 1 :]
        pattern, array = part.pattern, None
        if part.element:
            array = _array_of(part.element, part.nullable)
            if not any(after.kinds for after in later):
                pattern += "(?:" + "".join(rf"\[\]{after.pattern}" for after in later) + ")?"
        empty = sum(1 for after in self._parts[number:] if after.element)
        return _Run(re.compile(pattern, re.ASCII).match, evaluated(listed(expressions(part.kinds, 0)[0])), array, empty)

    def _struct(self, schema: tuple[Field, ...]) -> None:
        tagged = [field for field in schema if field.kind == "^"]
        self._fields(tuple(field for field in schema if field.kind != "^"), closes=not self._grammar.has_tags)
        if self._grammar.has_tags:
            self._pattern += self._separator + (self._tags(tagged) if tagged else NO_TAGS)
        self._pattern += r"\}"
        self._end_part()

    def _fields(self, schema: tuple[Field, ...], closes: bool) -> None:
        following = [named(field.names) for field in schema[1:]] + ["" if closes else f"{TAGGED}="]
        for field, after in zip(schema, following, strict=True):
            if field.kind == "(":
                self._pattern += rf"{self._separator}(?:{field.names[0]}=\{{)?"
                self._separator = ""
                self._fields(tuple(inner for inner in field.fields if inner.printed(self._grammar.version)), False)
                self._pattern += r"\}?"
            else:
                self._pattern += self._separator + named(field.names)
                self._separator = ","
                self._value(field, after)

    def _value(self, field: Field, following: str) -> None:
        name = field.names[0]
        is_field = name in self._struct_fields
        if field.kind == "[" and is_field:
            self._array(field, name)
            return
        pattern = self._text_of(field, following)
        if field.kind != "*":
            pattern = ("(" if is_field else "(?:") + pattern + ")"
        if field.kind in ("#", "@", "$#"):
            pattern = rf"\[{pattern}\]"
        self._pattern += f"(?:{self._grammar.null(following, self._begins)}|{pattern})" if field.nullable else pattern
        if is_field:
            self._kinds.append("records" if field.kind == "*" else field.kind)
            self.has_nulls = self.has_nulls or field.nullable
            self._value_names.append(name)

    def _text_of(self, field: Field, following: str) -> str:
        if field.kind == "$":
            return self._grammar.string(following, self._begins)
        if field.kind == "*":
            return self._grammar.records(following, self._begins)
        if field.kind == "[":
            self._reads_over = True
            return self._unread(field)
        return PLAIN[field.kind]

    def _tags(self, tagged: list[Field]) -> str:
        """Tagged structs of integers; those that hold their default are not printed."""
        patterns = []
        for tag, field in enumerate(tagged):
            inner = ",".join(f"{name}=({INTEGER})" for member in field.fields for name in member.names)
            patterns.append(rf"(?:(?:, )?{tag}=\{{{inner},_tagged_fields=\{{\}}\}})?")
            [struct] = get_args(self._struct_fields[field.names[0]].type)[:1]
            name = named_struct(struct, [name for member in field.fields for name in member.names])
            self._kinds.append(f"{name}*{len(field.fields)}")
            self._value_names.append(field.names[0])
        return r"_tagged_fields=\{" + "".join(patterns) + r"\}"

    def _unread(self, field: Field) -> str:
        """The pattern of an array of structs that is skipped."""
        struct = _Compiled(self._grammar, field.fields, None).flat(0)[0]
        return rf"\[(?:{struct}(?:,{struct})*+)?\]"

    def _array(self, field: Field, name: str) -> None:
        """An array of structs ends the part."""
        element = _Compiled(self._grammar, field.fields, get_args(not_null(self._struct_fields[name].type))[0])
        self._end_part(element, field.nullable)
        self._value_names.append(name)

    def _end_part(self, element: _Compiled | None = None, nullable: bool = False) -> None:
        self._parts.append(_Part(self._pattern, tuple(self._kinds), element, nullable))
        self._pattern, self._kinds = "", []


def _array_of(element: _Compiled, nullable: bool) -> Read:
    """Reads `[{…},{…}]`, `[]` and, where it may be, `null`."""
    each = _leaves(element) or _structs(element)

    def read(text: str, at: int) -> tuple[Value, int]:
        if text.startswith("[]", at):
            return [], at + 2
        if text.startswith("[", at):
            return each(text, at + 1)
        if nullable and text.startswith(NULL, at):
            return None, at + len(NULL)
        raise Misprinted

    return read


def _structs(element: _Compiled) -> Read:
    def read(text: str, at: int) -> tuple[Value, int]:
        values = []
        while True:
            value, at = element.read(text, at)
            values.append(value)
            if text.startswith("]", at):
                return values, at + 1
            if not text.startswith(",", at):
                raise Misprinted
            at += 1

    return read


def _leaves(element: _Compiled) -> Read | None:
    """Elements without arrays of structs: most of every large request. All are found at once up to the first `}]`.

    That is seldom not the array's end, but one of text or of aborted transactions; then they are read one by one.
    """
    if not element.is_leaf:
        return None
    pattern, expression, _ = element.flat(0)
    pattern, build = pattern + r"(?:,(?=\{)|\])", evaluated(expression)
    find_all = re.compile(rf"{pattern}|((?s:.+))", re.ASCII).findall
    match_next = re.compile(pattern, re.ASCII).match

    def read(text: str, at: int) -> tuple[Value, int]:
        if not element.has_nulls:
            end = text.find("}]", at) + len("}]")
            found = find_all(text, at, end)
            if found and not found[-1][-1]:
                return list(map(build, found)), end
        values: list[Value] = []
        while True:
            match = match_next(text, at)
            if match is None:
                raise Misprinted
            values.append(build(match.groups()))
            at = match.end()
            if text[at - 1] == "]":
                return values, at

    return read
