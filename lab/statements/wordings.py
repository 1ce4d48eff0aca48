"""Whether a pattern of a log line and a text of a class fit: whether there is a message of that text that the pattern reads.

Pattern and text are automata; the text's is walked through the pattern's. A value of a text may print anything without a space,
and anything between brackets. Where the pattern names a class, as in `TruncationState(`, the value must be what that class prints.
Lookaheads of a pattern are not considered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from lab.statements.texts import Choice, Part, Text

_ALL: Final = (1 << 256) - 1
_NAME: Final = re.compile(r"(?:^|[^A-Za-z])([A-Z][A-Za-z]*[a-z][A-Za-z]*)$")
_DEEPEST: Final = 3


def _mask(characters: Iterable[int]) -> int:
    mask = 0
    for character in characters:
        mask |= 1 << character
    return mask


def _of(text: bytes) -> int:
    return _mask(text)


_SPACE, _COMMA, _OPENING, _CLOSING, _LINE = _of(b" "), _of(b","), _of(b"([{"), _of(b")]}"), _of(b"\n")
_PRINTABLE: Final = _ALL & ~_mask(range(32))
_PLAIN: Final = _PRINTABLE & ~(_SPACE | _COMMA | _OPENING | _CLOSING)
_DIGIT, _BLANK = _of(b"0123456789"), _of(b" \t\n\r\f\v")
_WORD: Final = _mask(c for c in range(128) if chr(c).isalnum() or chr(c) == "_")
_CATEGORIES: Final = {
    op.CATEGORY_DIGIT: _DIGIT,
    op.CATEGORY_SPACE: _BLANK,
    op.CATEGORY_WORD: _WORD,
    op.CATEGORY_NOT_DIGIT: _ALL & ~_DIGIT,
    op.CATEGORY_NOT_SPACE: _ALL & ~_BLANK,
    op.CATEGORY_NOT_WORD: _ALL & ~_WORD,
}

# State -> its transitions (characters, next state) within a value. Outside of brackets a space follows a comma or precedes a bracket.
_OUTSIDE, _AFTER_COMMA, _BEFORE_BRACKET, _AFTER_SPACE, _DEPTH = 0, 1, 2, 3, 4
_VALUE: Final[Sequence[Sequence[tuple[int, int]]]] = (
    ((_PLAIN, _OUTSIDE), (_COMMA, _AFTER_COMMA), (_OPENING, _DEPTH), (_SPACE, _BEFORE_BRACKET)),
    ((_PLAIN, _OUTSIDE), (_COMMA, _AFTER_COMMA), (_OPENING, _DEPTH), (_SPACE, _AFTER_SPACE)),
    ((_OPENING, _DEPTH),),
    ((_PLAIN, _OUTSIDE), (_OPENING, _DEPTH)),
    *(
        (
            (_PRINTABLE & ~(_OPENING | _CLOSING), _DEPTH + depth),
            (_OPENING, _DEPTH + min(depth + 1, _DEEPEST)),
            (_CLOSING, _DEPTH + depth - 1 if depth else _OUTSIDE),
        )
        for depth in range(_DEEPEST + 1)
    ),
)
_VALUE_ENDS: Final = (_OUTSIDE, _AFTER_COMMA)

States = frozenset[int]
Printed = Callable[[str], Sequence[Text] | None]
"""Name of a class -> what begins with it: none if the release has no such class, None if it is not known."""

_NOT_KAFKAS: Final = ("List", "Map", "Optional", "Set", "Some")


class Wording:
    """The automaton of a pattern. `names`: the classes whose printed form the pattern spells out."""

    def __init__(self, pattern: bytes) -> None:
        # Of each state: characters, the class whose bracket they are, the next state.
        self._moves: list[list[tuple[int, str, int]]] = []
        self._jumps: list[list[int]] = []
        self._groups: dict[int, Any] = {}
        self._steps: dict[tuple[States, int], States] = {}
        self._values: dict[tuple[States, frozenset[str]], States] = {}
        self._run = ""  # the constant text before
        self.names: set[str] = set()
        begin = self._state()
        self._end = self._sequence(_parser.parse(pattern), begin)
        self.begin = self._closed([begin])

    def ends(self, states: States) -> bool:
        return self._end in states

    def _state(self) -> int:
        self._moves.append([])
        self._jumps.append([])
        return len(self._moves) - 1

    def _move(self, state: int, characters: int, name: str = "") -> int:
        target = self._state()
        self._moves[state].append((characters, name, target))
        return target

    def _sequence(self, items: Iterable[tuple[Any, Any]], state: int) -> int:
        for kind, value in items:
            state = self._item(kind, value, state)
        return state

    def _item(self, kind: Any, value: Any, state: int) -> int:
        if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            return self._characters(kind, value, state)
        if kind is op.SUBPATTERN:
            group, _, _, items = value
            if group is not None:
                self._groups[group] = items
            return self._sequence(items, state)
        if kind is op.BRANCH:
            run, end = self._run, self._state()
            for items in value[1]:
                self._run = run
                self._jumps[self._sequence(items, state)].append(end)
            return end
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            least, most, items = value
            return self._repeat(least, most, items, state)
        if kind is op.GROUPREF:
            return self._sequence(self._groups[value], state)
        return state  # lookaheads, ends of words

    def _characters(self, kind: Any, value: Any, state: int) -> int:
        characters = _characters(kind, value)
        name = ""
        if characters & ~_OPENING == 0 and (match := _NAME.search(self._run)):
            name = match[1]
            self.names.add(name)
        self._run = self._run + chr(value) if kind is op.LITERAL else ""
        return self._move(state, characters, name)

    def _repeat(self, least: int, most: int, items: Any, state: int) -> int:
        run = self._run
        for _ in range(least):
            state = self._sequence(items, state)
        end = self._state()
        self._jumps[state].append(end)
        if most > 50:  # without an end
            begin = self._state()
            self._jumps[state].append(begin)
            self._jumps[self._sequence(items, begin)] += [begin, end]
        else:
            for _ in range(most - least):
                state = self._sequence(items, state)
                self._jumps[state].append(end)
        self._run = run if least == 0 else ""
        return end

    def _closed(self, states: Iterable[int]) -> States:
        found, queue = set(states), list(states)
        while queue:
            for target in self._jumps[queue.pop()]:
                if target not in found:
                    found.add(target)
                    queue.append(target)
        return frozenset(found)

    def after_constant(self, states: States, constant: str) -> States:
        for byte in constant.encode():
            if not states:
                break
            step = self._steps.get((states, byte))
            if step is None:
                mask = 1 << byte
                targets = {
                    target for state in states for characters, _, target in self._moves[state] if characters & mask
                }
                step = self._steps[states, byte] = self._closed(targets)
            states = step
        return states

    def after_value(self, states: States, barred: frozenset[str] = frozenset()) -> States:
        """After any value. barred: classes whose printed form is known, so that a value is not it by chance."""
        known = self._values.get((states, barred))
        if known is not None:
            return known
        found = {(state, _OUTSIDE) for state in states}
        queue = list(found)
        while queue:
            state, place = queue.pop()
            for characters, name, target in self._moves[state]:
                if name in barred:
                    continue
                for allowed, after in _VALUE[place]:
                    if characters & allowed:
                        for closed in self._closed([target]):
                            if (closed, after) not in found:
                                found.add((closed, after))
                                queue.append((closed, after))
        ends = frozenset(state for state, place in found if place in _VALUE_ENDS)
        self._values[states, barred] = ends
        return ends


def _characters(kind: Any, value: Any) -> int:
    if kind is op.ANY:
        return _ALL & ~_LINE
    if kind is op.LITERAL:
        return 1 << int(value)
    if kind is op.NOT_LITERAL:
        return _ALL & ~(1 << int(value))
    mask, negated = 0, False
    for item, content in value:
        if item is op.NEGATE:
            negated = True
        elif item is op.RANGE:
            mask |= _mask(range(content[0], content[1] + 1))
        elif item is op.CATEGORY:
            mask |= _CATEGORIES[content]
        else:
            mask |= 1 << int(content)
    return _ALL & ~mask if negated else mask


class Fit:
    """Texts against one pattern. known: what classes print. prefixes: texts that loggers put before their messages."""

    def __init__(self, wording: Wording, known: Printed, prefixes: Sequence[Text] = ()) -> None:
        self._wording = wording
        found = {name: known(name) for name in wording.names if name not in _NOT_KAFKAS}
        self._printed = [text for texts in found.values() for text in texts or ()]
        self._barred = frozenset(name for name, texts in found.items() if texts is not None)
        self._after_values: dict[
            tuple[States, Part, int, int], States
        ] = {}  # by the identity of `others`, which callers keep
        begin = wording.begin
        self._begin = begin.union(*(self._after(begin, prefix, (), 0) for prefix in prefixes))

    def fits(self, text: Text, ending: str, others: Sequence[Text] = ()) -> bool:
        """Whether the pattern reads some message of this text. others: texts that a value may be, besides."""
        after = self._after(self._begin, text, others, _DEEPEST)
        return self._wording.ends(self._wording.after_constant(after, ending))

    def _after(self, states: States, text: Text, others: Sequence[Text], depth: int) -> States:
        for part in text:
            states = self._after_part(states, part, others, depth)
            if not states:
                break
        return states

    def _after_part(self, states: States, part: Part, others: Sequence[Text], depth: int) -> States:
        if isinstance(part, str):
            return self._wording.after_constant(states, part)
        known = self._after_values.get((states, part, depth, id(others)))
        if known is not None:
            return known
        found = self._wording.after_value(states, self._barred)
        texts: list[Text] = list(part.texts) if isinstance(part, Choice) else []
        if depth:
            texts += self._printed
            texts += others
        for text in texts:
            found |= self._after(states, text, (), depth - 1 if depth else 0)
        self._after_values[states, part, depth, id(others)] = found
        return found


def begins(text: Text, beginning: str, others: Sequence[Text] = ()) -> bool:
    """Whether a message of this text begins with the beginning, perhaps after a prefix in brackets. others: as for `fits`."""
    return len(beginning) in _reached(text, {0}, beginning, others, prefixed=True)


def _reached(
    text: Text, places: set[int], beginning: str, others: Sequence[Text] = (), *, prefixed: bool = False
) -> set[int]:
    """How much of the beginning the text may print. places: how much was printed before."""
    end = len(beginning)
    for number, part in enumerate(text):
        if end in places or not places:
            break
        if isinstance(part, str):
            pieces = [part, *_PREFIX.split(part, maxsplit=1)[1:]] if prefixed and number == 0 else [part]
            places = {
                min(place + len(piece), end)
                for piece in pieces
                for place in places
                if beginning.startswith(piece[: end - place], place)
            }
        else:
            after = {
                stop
                for place in places
                for stop in range(place, end + 1)
                if _VALUE_LIKE.fullmatch(beginning, place, stop)
            }
            for one in (*(part.texts if isinstance(part, Choice) else ()), *others):
                after |= _reached(one, places, beginning)
            places = after
    return places


_PREFIX: Final = re.compile(r"\A\[[^\]]*\],? ")
_VALUE_LIKE: Final = re.compile(r"(?:[^ ([{]|, |[(\[{].*)*")


def constant_words(text: Text) -> int:
    """The number of letters in the words of a text's constants: how much of a message the text itself determines."""
    return sum(len(word) for part in text if isinstance(part, str) for word in re.findall(r"[A-Za-z]{2,}", part))
