"""Judges examples with a mutant. It is killed if one of them then has a wrong verdict, or if it fails."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import judge
from epochaudit.rules.rule import VERDICTS, Rule
from epochaudit.spark.memo import unpersist
from prove.mutants.examples import Examples, labelled
from prove.mutants.loading import Loaded, dependents, load, path_of
from prove.mutants.operators import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from epochaudit.rules.judge import Judgement

FRAMES_MODULE: Final = "epochaudit.replay.frames"
_INFERRED_IDS: Final = "epochaudit.replay.state.inferred_topic_ids"
_PER_PASS: Final = 30  # mutants of a rule that one query evaluates


Death = tuple[str | None, str | None]
"""The example that kills a mutant, or the error."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed by an example, by an error, or by nothing."""

    mutant: Mutant
    example: str | None = None
    error: str | None = None

    @property
    def survives(self) -> bool:
        """No example notices it."""
        return self.example is None and self.error is None


@dataclass(frozen=True)
class _Variant:
    """A rule as one of the mutants has it."""

    label: str
    rule: Rule


class Bench:
    """Judges the same examples with all mutants, in one session."""

    def __init__(self, examples: Examples) -> None:
        self._examples = examples
        self._frame_of = {rule.id: rule.frame for rule in catalogue()}

    def outcomes(self, name: str, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        """What becomes of mutants of the module of that name. Raises NotGreenError."""
        tree = ast.parse(path_of(name).read_text("utf-8"))
        if not mutants:
            return
        if FRAMES_MODULE in dependents(name):
            yield from self._of_frames(name, tree, mutants)
        else:
            yield from self._of_rules(name, tree, mutants)

    # mutants of rules: all are evaluated over one frame

    def _of_rules(self, name: str, tree: ast.Module, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        for rule in load(name, tree).rules():
            self._examples.expect(judge(self._rows(rule.id), [rule], VERDICTS))
        for first in range(0, len(mutants), _PER_PASS):
            some = mutants[first : first + _PER_PASS]
            found: dict[str, Outcome] = {}
            variants = {}
            for number, mutant in enumerate(some):
                try:
                    variants[str(number)] = load(name, mutant.tree(tree)).rules()
                except Exception as error:  # whatever the mutation causes
                    found[str(number)] = Outcome(mutant, error=_named(error))
            for label, (example, failure) in self._killed_rules(variants).items():
                found[label] = Outcome(some[int(label)], example, failure)
            for number, mutant in enumerate(some):
                yield found.get(str(number), Outcome(mutant))

    def _killed_rules(self, variants: Mapping[str, Sequence[Rule]]) -> dict[str, Death]:
        """Label -> the example, or the error, that kills the mutant of that label. variants: label -> the mutant's rules."""
        killed: dict[str, Death] = {}
        by_rule: dict[str, list[_Variant]] = defaultdict(list)
        for label, rules in variants.items():
            for rule in rules:
                by_rule[rule.id].append(_Variant(label, rule))
        for rule_id, of_rule in sorted(by_rule.items()):
            alive = [variant for variant in of_rule if variant.label not in killed]
            killed |= self._judged(rule_id, alive)
        return killed

    def _judged(self, rule_id: str, variants: Sequence[_Variant]) -> dict[str, Death]:
        """The killed ones among variants of one rule. If the query fails, those of each half."""
        if not variants:
            return {}
        try:
            rules = [labelled(variant.rule, variant.label) for variant in variants]
            noticed = self._examples.noticed(judge(self._rows(rule_id), rules, VERDICTS))
        except Exception as error:  # whatever the mutations cause
            if len(variants) == 1:
                return {variants[0].label: (None, _named(error))}
            half = len(variants) // 2
            return self._judged(rule_id, variants[:half]) | self._judged(rule_id, variants[half:])
        return {label: (example, None) for label, example in noticed.items()}

    def _rows(self, rule_id: str) -> DataFrame:
        return self._examples.rows(self._frame_of[rule_id], rule_id)

    # mutants of frames: each has frames of its own

    def _of_frames(self, name: str, tree: ast.Module, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        frames = self._frames_that_read(name)
        unmutated = load(name, tree)
        for frame in frames:
            with self._identified(unmutated, frame) as events:
                self._examples.expect(_judgement(unmutated, frame, events))
        for mutant in mutants:
            try:
                loaded = load(name, mutant.tree(tree))
            except Exception as error:  # whatever the mutation causes
                yield Outcome(mutant, error=_named(error))
            else:
                killing, example, failure = self._killed_frame(loaded, frames)
                if example is not None:  # the next mutant is likely to be killed by the same frame
                    frames.sort(key=lambda frame: frame != killing)
                yield Outcome(mutant, example, failure)

    def _frames_that_read(self, name: str) -> list[str]:
        """The frames that the module makes, or is read by, those with the fewest examples first."""
        reached = {name, *dependents(name)}
        frames = {self._frame_of[rule.id] for rule in catalogue()}
        read = [frame for frame in frames if FRAMES[frame].of.__module__ in reached]
        if name == _INFERRED_IDS:
            read = list(frames)
        return sorted(read, key=lambda frame: (self._examples.size(frame), frame))

    def _killed_frame(self, loaded: Loaded, frames: Sequence[str]) -> tuple[str | None, str | None, str | None]:
        """The frame and the first example with a wrong verdict in a mutant's frames, or the error."""
        for frame in frames:
            try:
                with self._identified(loaded, frame) as events:
                    noticed = self._examples.noticed(_judgement(loaded, frame, events))
            except Exception as error:  # whatever the mutation causes
                return frame, None, _named(error)
            if noticed:
                return frame, next(iter(noticed.values())), None
        return None, None, None

    @contextmanager
    def _identified(self, loaded: Loaded, frame: str) -> Iterator[DataFrame]:
        """The events with inferred topic ids: another DataFrame for each mutant, so that none reads the checkpoints of another."""
        infer: Callable[[DataFrame], DataFrame] = loaded.module(_INFERRED_IDS).with_inferred_topic_ids
        identified = infer(self._examples.events(frame).select("*"))
        try:
            yield identified
        finally:
            unpersist(identified)


def _judgement(loaded: Loaded, frame: str, events: DataFrame) -> Judgement:
    """All rules of a mutant's frame."""
    fresh = {rule.id: rule for rule in loaded.rules()}
    rules = [fresh.get(rule.id, rule) for rule in catalogue() if rule.frame == frame]
    return judge(loaded.module(FRAMES_MODULE).FRAMES[frame].of(events), rules, VERDICTS)


def _named(error: BaseException) -> str:
    first: Any = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first[0][:120]}"
