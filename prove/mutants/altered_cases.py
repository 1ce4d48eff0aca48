"""Cases with random changes, in which a mutant may differ from the rule: proposals for new cases.

What the rule gives in an altered case is not known to be right, so such a case kills no mutant. It shows that a case is missing, and which.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame

from epochaudit.events.schema import EVENTS
from epochaudit.replay.frames import FRAMES
from epochaudit.replay.state.inferred_topic_ids import with_inferred_topic_ids
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.messages import with_messages
from epochaudit.spark.memo import unpersist
from prove.mutants.examples import Examples, rule_and_label
from tests.rules import judging
from tests.rules.case_files import NULL, Case, Expected, case_of, sections, table_lines, table_of
from tests.rules.judging import events_of, given_verdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from epochaudit.rules.judge import Judgement

_FOLDER: Final = Path(judging.__file__).parent
_LABEL: Final = "#"
_EVENT_TYPE: Final = "event_type"
# with another one of these, a row is about something else
_NOT_ALTERED: Final = (_LABEL, _EVENT_TYPE, "topic", "partition")
_NEVER_BLANK: Final = ("broker_id",)  # a record without it is no record
_SINGLE: Final = 0.7  # share of altered cases with one change
_FILLED: Final = 0.03  # share of blank cells that may get a value
_NUMBER: Final = re.compile(r"-?\d{1,15}")

Rows = list[list[str]]
Values = dict[tuple[str, str], set[str]]
"""(event type, column) -> its cells in the rule's file."""


@dataclass(frozen=True)
class AlteredCase:
    """A case with its changes. lines: those of its table."""

    case: Case
    lines: tuple[str, ...]
    heading: str
    changes: tuple[str, ...]

    def proposal(self, given: Sequence[Expected]) -> str:
        """The section of the rule's case file, with what the rule gives."""
        verdicts = []
        for one in sorted(given):
            reason = f": {one.reason}" if one.reason else ""
            place = f" at {one.label}" if one.label else ""
            verdicts += [f"- {one.rule} {one.verdict}{place}{reason}", *(f"  {line}" for line in one.sentences)]
        heading = f"## {self.heading}: {', '.join(self.changes)}"
        return "\n".join([f"{self.case.rule}, to be checked:", "", heading, "", *self.lines, "", *verdicts, ""])


class AlteredCases(Examples):
    """Altered cases of each rule. A mutant is noticed if it gives another result than the rule."""

    def __init__(self, spark: SparkSession, count: int, seed: int) -> None:
        self._spark = spark
        self._count = count
        self._seed = seed
        self._events: dict[str, DataFrame] = {}
        self._frames: dict[str, DataFrame] = {}
        self._cases: dict[str, AlteredCase] = {}
        self._given: dict[str, dict[str, list[Expected]]] = {}
        self._chosen: dict[str, None] = {}
        self._proposed: set[str] = set()

    def events(self, frame: str, /) -> DataFrame:
        """Those of the altered cases of all its rules."""
        if frame not in self._events:
            of_frame = [one for rule in catalogue() if rule.frame == frame for one in self._altered(rule.id)]
            self._events = {frame: events_of(self._spark, [one.case for one in of_frame])}
        return self._events[frame]

    def rows(self, frame: str, rule_id: str, /) -> DataFrame:
        """Those of a rule's altered cases."""
        if rule_id not in self._frames:
            altered = self._altered(rule_id)
            parts = list(self._parts(frame, altered))
            self._frames = {rule_id: reduce(DataFrame.unionByName, parts)}  # the former rule's are not read again
        return self._frames[rule_id]

    def _altered(self, rule_id: str) -> list[AlteredCase]:
        altered = altered_cases(rule_id, self._count, self._seed)
        self._cases |= {one.case.cluster: one for one in altered}
        return altered

    def _parts(self, frame: str, altered: Sequence[AlteredCase]) -> Iterator[DataFrame]:
        """The frame, in several parts if it fails for some of the cases. These are printed and left out."""
        events = events_of(self._spark, [one.case for one in altered])
        identified = with_inferred_topic_ids(events)
        try:
            yield FRAMES[frame].of(identified).localCheckpoint()
        except Exception as error:  # whatever the frame fails with
            if len(altered) == 1:
                print(f"{frame} fails: {error}", altered[0].proposal([]), sep="\n", file=sys.stderr)
            else:
                half = len(altered) // 2
                yield from self._parts(frame, altered[:half])
                yield from self._parts(frame, altered[half:])
        finally:
            unpersist(identified)
            events.unpersist()

    def size(self, _frame: str, /) -> int:
        """Altered cases of a rule."""
        return self._count

    def noticed(self, judgement: Judgement) -> dict[str, str]:
        """Of those that the mutant judges differently one that is chosen already, or that notices most mutants, with few changes."""
        differing: dict[str, list[str]] = defaultdict(list)
        for (rule, label), found in self._results(judgement).items():
            right = self._given[rule]
            if clusters := [one for one in right.keys() | found.keys() if right.get(one) != found.get(one)]:
                differing[label] += clusters
        noticing = Counter(cluster for clusters in differing.values() for cluster in clusters)
        chosen = {}
        for label, clusters in sorted(differing.items(), key=lambda item: len(item[1])):
            best = min(
                clusters,
                key=lambda one: (
                    one not in self._chosen,
                    len(self._cases[one].changes),
                    -noticing[one],
                    len(self._cases[one].lines),
                    one,
                ),
            )
            self._chosen[best] = None
            chosen[label] = best
        return chosen

    def expect(self, judgement: Judgement) -> None:
        """Take what the rule gives for right."""
        for (rule, _), given in self._results(judgement).items():
            self._given[rule] = given

    def proposals(self) -> Iterator[str]:
        """The sections of those that were chosen since the last call."""
        new = [cluster for cluster in self._chosen if cluster not in self._proposed]
        self._proposed.update(new)
        for cluster in new:
            altered = self._cases[cluster]
            yield altered.proposal(self._given[altered.case.rule].get(cluster, []))

    def _results(self, judgement: Judgement) -> dict[tuple[str, str], dict[str, list[Expected]]]:
        """(rule, label) -> altered case -> what it gives, sorted."""
        results: dict[tuple[str, str], dict[str, list[Expected]]] = {
            rule_and_label(rule.id): defaultdict(list) for rule in judgement.rules
        }
        for row in with_messages(judgement.rows, judgement.messages()).collect():
            rule, label = rule_and_label(row.rule)
            case = self._cases[row.cluster].case
            if case.rule == rule:
                results[rule, label][row.cluster].append(given_verdict(rule, row, case.labels))
        return {key: {case: sorted(given) for case, given in of_key.items()} for key, of_key in results.items()}


def altered_cases(rule: str, count: int, seed: int) -> list[AlteredCase]:
    """At most `count` different altered cases of a rule's file, the same for a seed."""
    random = Random(f"{seed} {rule}")
    (path,) = _FOLDER.glob(f"*/{rule}.md")
    tables = [(heading, *table_of(body)) for heading, body in sections(path.read_text("utf-8"))]
    values: Values = defaultdict(set)
    for _, header, rows in tables:
        for row in rows:
            event_type = row[header.index(_EVENT_TYPE)]
            for name, cell in zip(header, row, strict=True):
                values[event_type, name].add(cell)
    found: dict[tuple[str, ...], AlteredCase] = {}
    for attempt in range(4 * count):
        if len(found) == count:
            break
        heading, header, rows = random.choice(tables)
        alteration = _Alteration(header, [list(row) for row in rows], values, random)
        changes = [alteration.change() for _ in range(1 if random.random() < _SINGLE else random.choice((2, 2, 3)))]
        lines = tuple(table_lines(header, [["---"] * len(header), *alteration.rows]))
        if alteration.rows in (rows, []) or lines in found:
            continue
        try:
            case = case_of(rule, f"altered {attempt}", list(lines), EVENTS)
        except (KeyError, TypeError, ValueError):
            continue  # no such value in its column
        found[lines] = AlteredCase(case, lines, heading, tuple(filter(None, changes)))
    return list(found.values())


class _Alteration:
    """Changes of a case's table."""

    def __init__(self, header: Sequence[str], rows: Rows, values: Values, random: Random) -> None:
        self.rows = rows
        self._header = header
        self._values = values
        self._random = random

    def change(self) -> str:
        """Change a cell, mostly, or the rows. Returns what was changed, "" for nothing."""
        way = self._random.random()
        if not self.rows:
            return ""
        if way > 0.2:
            return self._cell()
        place = self._random.randrange(len(self.rows))
        label = self.rows[place][self._header.index(_LABEL)]
        if way < 0.1:
            del self.rows[place]
            return f"without {label}"
        other = self._random.randrange(len(self.rows))
        if way < 0.15:
            self.rows.insert(other, self.rows.pop(place))
            return f"{label} in row {other + 1}"
        twin = list(self.rows[place])
        twin[self._header.index(_LABEL)] = f"{label}-2"
        self.rows.insert(other, twin)
        return f"{label} twice"

    def _cell(self) -> str:
        row = self._random.choice(self.rows)
        columns = [
            place
            for place, name in enumerate(self._header)
            if name not in _NOT_ALTERED and (row[place] or self._random.random() < _FILLED)
        ]
        if not columns:
            return ""
        place = self._random.choice(columns)
        name, before = self._header[place], row[place]
        row[place] = self._value(name, before, row)
        return f"{name} of {row[self._header.index(_LABEL)]} {row[place] or 'blank'}"

    def _value(self, name: str, before: str, row: Sequence[str]) -> str:
        """Another one of the rule's file, near the former one, or near one beside it; blank only where rows of this type are blank."""
        blanks = {"", NULL} if name in _NEVER_BLANK else set()
        pool = sorted(self._values[row[self._header.index(_EVENT_TYPE)], name] - {before} - blanks)
        if not _NUMBER.fullmatch(before):
            return self._random.choice(pool or [before])
        near = [str(int(before) + step) for step in (-1, 1)]
        beside = [cell for one in (row, self._random.choice(self.rows)) for cell in one if _NUMBER.fullmatch(cell)]
        by_one = [str(int(cell) + step) for cell in beside for step in (-1, 1)]
        return self._random.choice(self._random.choice([near, pool or near, beside or near, by_one or near]))
