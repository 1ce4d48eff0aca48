"""What mutants are judged by: the rules' cases, or random histories on which the oracle judges, too."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from epochaudit.pipeline import reading
from epochaudit.replay.frames import FRAMES
from epochaudit.replay.state.inferred_topic_ids import with_inferred_topic_ids
from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.judge import Judgement
from epochaudit.rules.messages import MessageTemplates, with_messages
from epochaudit.rules.rule import Rule
from epochaudit.spark.memo import unpersist
from prove.comparison import Recorded, oracle_verdicts, rows_of
from prove.history import History, Verdict
from tests.rules.case_files import Case, Expected
from tests.rules.judging import CASES, agrees, events_of, given_verdict

_NUMBER: Final = "~"  # in no rule id


class NotGreenError(Exception):
    """A case fails without a mutation: nothing can be learnt of mutants."""


class Examples(ABC):
    """Recorded events with their right verdicts."""

    @abstractmethod
    def events(self, frame: str, /) -> DataFrame:
        """The events that a frame is computed of, before topic ids are inferred."""

    @abstractmethod
    def rows(self, frame: str, rule_id: str, /) -> DataFrame:
        """The rows of an unmutated frame that are examples of the rule."""

    @abstractmethod
    def size(self, frame: str, /) -> int:
        """How many examples there are of a frame's rules."""

    @abstractmethod
    def noticed(self, judgement: Judgement) -> dict[str, str]:
        """Label of a mutant -> an example in which the judgement has a wrong verdict; without those that have none."""

    @abstractmethod
    def expect(self, judgement: Judgement) -> None:
        """Compare a judgement by unmutated rules. Raises NotGreenError if it can't be used."""


def labelled(rule: Rule, label: str) -> Rule:
    """The rule with a mutant's label in its id, so that one pass judges several."""
    vars(rule)["id"] = f"{rule.id.partition(_NUMBER)[0]}{_NUMBER}{label}"
    return rule


def rule_and_label(rule_id: str) -> tuple[str, str]:
    """A rule's own id, and the label; "" of rules without one."""
    own, _, label = rule_id.partition(_NUMBER)
    return own, label


class Cases(Examples):
    """`tests/rules/`: a verdict's reason, sentences, severity and lost offsets are compared, too."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cases: dict[str, list[Case]] = defaultdict(list)
        for case in CASES:
            self._cases[case.rule].append(case)
        self._frame_of = {rule.id: rule.frame for rule in catalogue()}
        self._events: dict[str, DataFrame] = {}
        self._frames: dict[str, DataFrame] = {}

    def events(self, frame: str, /) -> DataFrame:
        """Those of the cases of all its rules."""
        if frame not in self._events:
            self._events[frame] = events_of(self._spark, self._of_frame(frame))
        return self._events[frame]

    def rows(self, frame: str, rule_id: str, /) -> DataFrame:
        """Those of the rule's cases."""
        if frame not in self._frames:
            identified = with_inferred_topic_ids(self.events(frame).select("*"))
            self._frames[frame] = FRAMES[frame].of(identified).localCheckpoint()
            unpersist(identified)
        names = [case.cluster for case in self._cases[rule_id]]
        return self._frames[frame].where(F.col("cluster").isin(*names))

    def size(self, frame: str, /) -> int:
        """Cases."""
        return len(self._of_frame(frame))

    def noticed(self, judgement: Judgement) -> dict[str, str]:
        """The first case of the judged rules that fails. Of other rules' cases nothing is compared."""
        cases = [case for rule in sorted(_rules_of(judgement)) for case in self._cases[rule]]
        found = self._by_label(with_messages(judgement.rows, judgement.messages()).collect(), cases)
        failing = {label: self._failing(cases, found[label]) for label in _labels_of(judgement)}
        return {label: case for label, case in failing.items() if case is not None}

    def expect(self, judgement: Judgement) -> None:
        """All cases must be right."""
        if failing := self.noticed(judgement):
            raise NotGreenError(f"without a mutation: {failing}")

    def _of_frame(self, frame: str) -> list[Case]:
        return [case for rule, cases in self._cases.items() if self._frame_of[rule] == frame for case in cases]

    @staticmethod
    def _by_label(rows: Sequence[Row], cases: Sequence[Case]) -> dict[str, dict[str, list[Expected]]]:
        """Label -> case -> what the mutant gives."""
        labels = {case.cluster: case for case in cases}
        found: dict[str, dict[str, list[Expected]]] = defaultdict(lambda: defaultdict(list))
        for row in rows:
            rule, label = rule_and_label(row.rule)
            case = labels.get(row.cluster)
            if case is not None and case.rule == rule:
                found[label][case.cluster].append(given_verdict(rule, row, case.labels))
        return found

    @staticmethod
    def _failing(cases: Sequence[Case], found: Mapping[str, list[Expected]]) -> str | None:
        return next((case.cluster for case in cases if not agrees(case, found.get(case.cluster, []))), None)


class Histories(Examples):
    """Random histories: a mutant's verdicts must be the oracle's.

    Rules that the oracle does not judge notice nothing, nor does a rule in a history where it disagrees with the oracle without a mutation.
    """

    def __init__(self, spark: SparkSession, histories: Sequence[History], folder: Path) -> None:
        self._histories = {history.name: history for history in histories}
        self._recorded = Recorded.write(histories, folder)
        self._events = reading(spark, self._recorded.captures).events.persist()
        self._identified = with_inferred_topic_ids(self._events)
        self._frames: dict[str, DataFrame] = {}
        self._oracle: dict[tuple[str, str], Counter[Verdict]] = {}
        self._disagreeing: set[tuple[str, str]] = set()

    def events(self, _frame: str, /) -> DataFrame:
        """Those of all histories, for any frame."""
        return self._events

    def rows(self, frame: str, _rule_id: str, /) -> DataFrame:
        """All rows: each history is an example of each rule."""
        if frame not in self._frames:
            self._frames[frame] = FRAMES[frame].of(self._identified).localCheckpoint()
        return self._frames[frame]

    def size(self, _frame: str, /) -> int:
        """Histories."""
        return len(self._histories)

    def noticed(self, judgement: Judgement) -> dict[str, str]:
        """The first history in which a verdict is not the oracle's."""
        return {label: f"{rule} {history}" for label, rule, history in reversed(self._wrong(judgement))}

    def expect(self, judgement: Judgement) -> None:
        """Leave out what the oracle judges differently."""
        self._disagreeing.update((rule, history) for _, rule, history in self._wrong(judgement))

    def _wrong(self, judgement: Judgement) -> list[tuple[str, str, str]]:
        """(label, rule, history) whose verdicts are not the oracle's."""
        rows: dict[str, list[dict[str, object]]] = defaultdict(list)
        for row in rows_of(judgement.rows):
            row["rule"], label = rule_and_label(row["rule"])
            rows[label].append(row)
        messages: dict[str, dict[str, MessageTemplates]] = defaultdict(dict)
        for rule_id, templates in judgement.messages().items():
            rule, label = rule_and_label(rule_id)
            messages[label][rule] = templates
        wrong = []
        for label, of_label in messages.items():
            verdicts = self._recorded.verdicts(rows[label], of_label)
            for name, judged in self._recorded.judged.items():
                for rule in sorted(judged.keys() & of_label.keys()):
                    given = Counter({one: count for one, count in verdicts[name].items() if one[0] == rule})
                    if (rule, name) not in self._disagreeing and given != self._expected(rule, name):
                        wrong.append((label, rule, name))
        return wrong

    def _expected(self, rule: str, name: str) -> Counter[Verdict]:
        key = (rule, name)
        if key not in self._oracle:
            self._oracle[key] = oracle_verdicts(self._histories[name], [rule])
        return self._oracle[key]


def _rules_of(judgement: Judgement) -> Collection[str]:
    return {rule_and_label(rule.id)[0] for rule in judgement.rules}


def _labels_of(judgement: Judgement) -> Collection[str]:
    return {rule_and_label(rule.id)[1] for rule in judgement.rules}
