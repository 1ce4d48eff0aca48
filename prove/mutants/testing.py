"""Judges the cases of rules with a mutant. It is killed if a case then has another verdict, reason or sentence, or if it fails."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import judge
from epochaudit.rules.messages import with_messages
from epochaudit.rules.rule import VERDICTS, Rule
from epochaudit.spark.memo import unpersist
from prove.mutants.loading import Loaded, dependents, load, path_of
from prove.mutants.operators import Mutant
from tests.rules.case_files import Case, Expected
from tests.rules.judging import CASES, agrees, events_of, given_verdict

if TYPE_CHECKING:
    from collections.abc import Callable

FRAMES_MODULE: Final = "epochaudit.replay.frames"
_INFERRED_IDS: Final = "epochaudit.replay.state.inferred_topic_ids"
_PER_PASS: Final = 30  # mutants of a rule that one query evaluates
_NUMBER: Final = "~"  # in no rule id


Death = tuple[str | None, str | None]
"""The case that kills a mutant, or the error."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: killed by a case, by an error, or by nothing."""

    mutant: Mutant
    case: str | None = None
    error: str | None = None

    @property
    def survives(self) -> bool:
        """No case notices it."""
        return self.case is None and self.error is None


class NotGreenError(Exception):
    """A case fails without a mutation: nothing can be learnt of mutants."""


@dataclass(frozen=True)
class _Variant:
    """A rule as one of the mutants has it."""

    label: str
    rule: Rule


class Bench:
    """The cases' events and frames in one session, for all mutants."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cases: dict[str, list[Case]] = defaultdict(list)
        for case in CASES:
            self._cases[case.rule].append(case)
        self._frame_of = {rule.id: rule.frame for rule in catalogue()}
        self._events: dict[str, DataFrame] = {}
        self._frames: dict[str, DataFrame] = {}

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
        killed = self._killed_rules({"original": load(name, tree).rules()})
        if killed:
            raise NotGreenError(f"{name} without a mutation: {killed}")
        for first in range(0, len(mutants), _PER_PASS):
            some = mutants[first : first + _PER_PASS]
            found: dict[str, Outcome] = {}
            variants = {}
            for number, mutant in enumerate(some):
                try:
                    variants[str(number)] = load(name, mutant.tree(tree)).rules()
                except Exception as error:  # whatever the mutation causes
                    found[str(number)] = Outcome(mutant, error=_named(error))
            for label, (case, failure) in self._killed_rules(variants).items():
                found[label] = Outcome(some[int(label)], case, failure)
            for number, mutant in enumerate(some):
                yield found.get(str(number), Outcome(mutant))

    def _killed_rules(self, variants: Mapping[str, Sequence[Rule]]) -> dict[str, Death]:
        """Label -> the case, or the error, that kills the mutant of that label. variants: label -> the mutant's rules."""
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
        cases = self._cases[rule_id]
        try:
            rules = [_labelled(variant) for variant in variants]
            names = [case.cluster for case in cases]
            judgement = judge(self._frame(rule_id).where(F.col("cluster").isin(*names)), rules, VERDICTS)
            rows = with_messages(judgement.rows, judgement.messages()).collect()
        except Exception as error:  # whatever the mutations cause
            if len(variants) == 1:
                return {variants[0].label: (None, _named(error))}
            half = len(variants) // 2
            return self._judged(rule_id, variants[:half]) | self._judged(rule_id, variants[half:])
        found = _by_variant(rows, cases)
        killed: dict[str, Death] = {}
        for variant in variants:
            case = _failing(cases, found[variant.label])
            if case is not None:
                killed[variant.label] = (case, None)
        return killed

    def _frame(self, rule_id: str) -> DataFrame:
        """The unmutated frame of a rule, over the cases of all its rules."""
        frame = self._frame_of[rule_id]
        if frame not in self._frames:
            identified = _identified(Loaded({}), self._events_of(frame))
            self._frames[frame] = FRAMES[frame].of(identified).localCheckpoint()
            unpersist(identified)
        return self._frames[frame]

    # mutants of frames: each has frames of its own

    def _of_frames(self, name: str, tree: ast.Module, mutants: Sequence[Mutant]) -> Iterator[Outcome]:
        frames = self._frames_that_read(name)
        killed = self._killed_frame(load(name, tree), frames)
        if killed != (None, None):
            raise NotGreenError(f"{name} without a mutation: {killed}")
        for mutant in mutants:
            try:
                loaded = load(name, mutant.tree(tree))
            except Exception as error:  # whatever the mutation causes
                yield Outcome(mutant, error=_named(error))
            else:
                case, failure = self._killed_frame(loaded, frames)
                if case is not None:  # the next mutant is likely to be killed by the same frame
                    rule_id = case.partition(" ")[0]
                    frames.sort(key=lambda frame: frame != self._frame_of[rule_id])
                yield Outcome(mutant, case, failure)

    def _frames_that_read(self, name: str) -> list[str]:
        """The frames that the module makes, or is read by, those with the fewest cases first."""
        reached = {name, *dependents(name)}
        frames = {self._frame_of[rule.id] for rule in catalogue()}
        read = [frame for frame in frames if FRAMES[frame].of.__module__ in reached]
        if name == _INFERRED_IDS:
            read = list(frames)
        return sorted(read, key=lambda frame: (len(self._cases_of(frame)), frame))

    def _killed_frame(self, loaded: Loaded, frames: Collection[str]) -> Death:
        """The first case that fails with a mutant's frames, or the error."""
        mutated = loaded.module(FRAMES_MODULE).FRAMES
        fresh = {rule.id: rule for rule in loaded.rules()}
        for frame in frames:
            rules = [fresh.get(rule.id, rule) for rule in catalogue() if rule.frame == frame]
            cases = self._cases_of(frame)
            identified = None
            try:
                identified = _identified(loaded, self._events_of(frame))
                judgement = judge(mutated[frame].of(identified), rules, VERDICTS)
                rows = with_messages(judgement.rows, judgement.messages()).collect()
            except Exception as error:  # whatever the mutation causes
                return None, _named(error)
            finally:
                if identified is not None:
                    unpersist(identified)
            case = _failing(cases, _by_variant(rows, cases)[""])
            if case is not None:
                return case, None
        return None, None

    def _cases_of(self, frame: str) -> list[Case]:
        return [case for rule, cases in self._cases.items() if self._frame_of[rule] == frame for case in cases]

    def _events_of(self, frame: str) -> DataFrame:
        if frame not in self._events:
            self._events[frame] = events_of(self._spark, self._cases_of(frame))
        return self._events[frame]


def _identified(loaded: Loaded, events: DataFrame) -> DataFrame:
    """The events with inferred topic ids: another DataFrame for each mutant, so that none reads the checkpoints of another."""
    infer: Callable[[DataFrame], DataFrame] = loaded.module(_INFERRED_IDS).with_inferred_topic_ids
    return infer(events.select("*"))


def _labelled(variant: _Variant) -> Rule:
    """The rule with the mutant's label in its id, so that one pass judges several."""
    vars(variant.rule)["id"] = f"{variant.rule.id.partition(_NUMBER)[0]}{_NUMBER}{variant.label}"
    return variant.rule


def _by_variant(rows: Sequence[Row], cases: Sequence[Case]) -> dict[str, dict[str, list[Expected]]]:
    """Label -> case -> what the mutant gives; label "" of rules without one. Of other rules' cases nothing is compared."""
    labels = {case.cluster: case for case in cases}
    found: dict[str, dict[str, list[Expected]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        rule, _, label = row.rule.partition(_NUMBER)
        case = labels[row.cluster]
        if case.rule == rule:
            found[label][case.cluster].append(given_verdict(rule, row, case.labels))
    return found


def _failing(cases: Sequence[Case], found: Mapping[str, list[Expected]]) -> str | None:
    return next((case.cluster for case in cases if not agrees(case, found.get(case.cluster, []))), None)


def _named(error: BaseException) -> str:
    first: Any = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {first[0][:120]}"
