"""Evaluates all rules of a frame in one pass over it: counts all verdicts, and returns the rows of the requested ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from epochaudit.events.views import REF_TYPE, RangeId, range_id
from epochaudit.rules.messages import SUBJECT, MessageTemplates, placeholders, templates
from epochaudit.rules.rule import UNVERIFIABLE, VERDICTS, Branch, Rule

VERDICT_ROW: Final = (
    "cluster string, node int, topic string, topic_id string, partition int, leader_epoch int, client_id string, group_id string, "
    f"correlation_id int, rule string, branch int, severity string, values map<string,string>, places map<string,{REF_TYPE}>, "
    "first_offset bigint, last_offset bigint"
)
"""branch: index in the rule's `verdict()`. severity: null = the rule's own. values, places: column name -> value, of the
columns that the sentences and the evidence of the frame's rules name. first_offset, last_offset: `Rule.lost`."""

_PARTITION_COLUMNS: Final = ("topic", "topic_id", "partition", "leader_epoch")  # null if the subject is a whole request
_COUNTS: Final = "counts"
_SETTLED: Final = "settled"
_FRAME_ROWS: Final = "frame_rows"
_LISTED_RUNS: Final = "listed_runs"
RUN: Final = "run"
_NO_BRANCH: Final = "-1"
# What an observation costs for each row grows with the square of its counts: Spark looks each of them up in a linked list.
_COUNTS_OF_AN_OBSERVATION: Final = 16


@dataclass(frozen=True)
class Span:
    """Which subjects are judged, by the time of their own line (`Rule.evidence`), in milliseconds since the epoch.

    from_ms: a subject whose own line is earlier is judged only if its verdict is to be listed and another of its lines
    is not earlier, as a breach may need an old line and a new one. None: all subjects are judged.
    settled_until_ms: `Judgement.settled` also counts the verdicts of judged subjects whose own line is earlier. None:
    it counts none.
    A subject whose own line has no time is always judged, and never settled.
    """

    from_ms: int | None = None
    settled_until_ms: int | None = None


EVERYTHING: Final = Span()


@dataclass(frozen=True)
class Tally:
    """Verdict counts of one rule. counts: verdict -> subjects. reasons: reason -> unverifiable subjects."""

    rule: str
    counts: Mapping[str, int]
    reasons: Mapping[str, int]

    @classmethod
    def of_none(cls, rule: Rule) -> Tally:
        """The tally of a rule without subjects."""
        return cls(rule.id, dict.fromkeys(VERDICTS, 0), {})

    @classmethod
    def of_failure(cls, rule: str, why: str) -> Tally:
        """The tally of a rule that could not be computed: one unverifiable subject, as their number is unknown."""
        counts = dict.fromkeys(VERDICTS, 0) | {UNVERIFIABLE: 1}
        return cls(rule, counts, {f"the rule failed: {why}": 1})


@dataclass(frozen=True)
class Judgement:
    """The verdicts of one frame's rules.

    rows: see `judge`. branches: those of each rule's verdict, in the order of `rules`. observations: the counts of all
    outcomes, in the same order, available once `rows` has been computed.
    """

    rows: DataFrame
    rules: tuple[Rule, ...]
    branches: tuple[tuple[Branch, ...], ...]
    observations: tuple[Observation, ...]

    def listed_runs(self) -> list[RangeId]:
        """The ranges with runs of like rows among `rows`. Blocks until the first action on `rows`."""
        return [range_id(run) for run in json.loads(self.observations[0].get.get(_LISTED_RUNS, "[]"))]

    def messages(self) -> dict[str, MessageTemplates]:
        """Rule id -> the templates of its findings' sentences."""
        by_rule = zip(self.rules, self.branches, strict=True)
        return {rule.id: MessageTemplates.of(rule, branches) for rule, branches in by_rule}

    def frame_rows(self) -> int:
        """The number of the frame's rows. Blocks until the first action on `rows`."""
        return int(self.observations[0].get[_FRAME_ROWS])

    def tallies(self) -> Iterator[Tally]:
        """One per rule. Blocks until the first action on `rows`."""
        return self._tallies(_COUNTS)

    def settled(self) -> Iterator[Tally]:
        """One per rule: of its subjects whose own line precedes `Span.settled_until_ms`. Blocks as `tallies`."""
        return self._tallies(_SETTLED)

    def _tallies(self, metric: str) -> Iterator[Tally]:
        observed = chain.from_iterable(json.loads(one.get.get(metric, "[]")) for one in self.observations)
        for rule, branches in zip(self.rules, self.branches, strict=True):
            counts, reasons = dict.fromkeys(VERDICTS, 0), defaultdict[str, int](int)
            for (verdict, reason), count in zip(_outcomes(branches), observed, strict=False):
                counts[verdict] += count
                if reason and count:
                    reasons[reason] += count
            yield Tally(rule.id, counts, reasons)


def judge(frame: DataFrame, rules: Sequence[Rule], verdicts: Collection[str], span: Span = EVERYTHING) -> Judgement:
    """Give each subject of each rule its verdict.

    Rows: one per (rule, subject) whose verdict is in `verdicts`, with the columns of VERDICT_ROW, from which `with_messages`
    renders those of FINDING_ROW. The frame's other columns are dropped.

    The expressions that grow with the number of rules are SQL text. Spark parses a text in one call to the JVM, while a
    Column takes several calls for each operator, and there are a hundred rules.

    A frame may have a column RUN: a struct of rows, file and split, not null where a row stands for several like rows. Such
    a row counts as often.
    """
    branches = [rule.verdict() for rule in rules]
    evaluated = frame.withColumns({_branch_column(n): _branch(rule, branches[n]) for n, rule in enumerate(rules)})
    requested = {n: indexes for n, of_rule in enumerate(branches) if (indexes := _indexes(of_rule, verdicts))}
    if span.from_ms is not None:
        evaluated = evaluated.withColumns(
            {_branch_column(n): F.expr(_since(n, rule, span.from_ms, requested.get(n))) for n, rule in enumerate(rules)}
        )
    # with a plain `false`, Spark would optimize the observation away together with the rows
    requested = requested or {0: _NO_BRANCH}
    # nearly all rows are dropped here, and Spark compiles comparisons but interprets the lambda below
    is_requested = " or ".join(f"{_branch_column(n)} in ({indexes})" for n, indexes in requested.items())
    has_runs = RUN in frame.columns
    metrics = [F.count(F.lit(1)).alias(_FRAME_ROWS)]
    if has_runs:
        place = F.struct("cluster", f"{RUN}.file", f"{RUN}.split")
        runs = F.collect_set(F.when(F.expr(is_requested) & F.col(RUN).isNotNull(), place))
        metrics.append(F.to_json(runs).alias(_LISTED_RUNS))
    observed, observations = evaluated, []
    for of_observation in _counted_together(branches):
        metrics.append(F.expr(_counts(branches, of_observation, has_runs)).alias(_COUNTS))
        if span.settled_until_ms is not None:
            is_settled = {n: f"{_own_time(rules[n])} < {span.settled_until_ms}" for n in of_observation}
            metrics.append(F.expr(_counts(branches, of_observation, has_runs, is_settled)).alias(_SETTLED))
        observations.append(Observation())
        observed, metrics = observed.observe(observations[-1], *metrics), []
    outcomes = ", ".join(
        f"if({_branch_column(n)} in ({indexes}), named_struct('rule', {n}, 'branch', {_branch_column(n)}), null)"
        for n, indexes in requested.items()
    )
    per_outcome = observed.where(is_requested).withColumn(
        "outcome", F.explode(F.expr(f"filter(array({outcomes}), outcome -> outcome is not null)"))
    )
    return Judgement(per_outcome.select(*_row(rules, branches)), tuple(rules), tuple(branches), tuple(observations))


def _branch_column(number: int) -> str:
    """The column for the index of the branch that rule `number` takes; null where the row is no subject of the rule."""
    return f"branch_{number}"


def _own_time(rule: Rule) -> str:
    """The time of the line that the rule's subject is about, null if it has none, as SQL."""
    return f"{next(iter(rule.evidence.values()))}.time_ms"


def _since(number: int, rule: Rule, from_ms: int, listed: str | None) -> str:
    """The branch of rule `number` for the subjects to judge (`Span.from_ms`), null for others, as SQL. listed: as in `judge`."""
    is_own = f"coalesce({_own_time(rule)} >= {from_ms}, true)"
    newer = " or ".join(f"{column}.time_ms >= {from_ms}" for column in sorted({*rule.evidence.values()}))
    is_listed = f" or ({_branch_column(number)} in ({listed}) and ({newer}))" if listed else ""
    return f"if({is_own}{is_listed}, {_branch_column(number)}, null)"


def _branch(rule: Rule, branches: Sequence[Branch]) -> Column:
    """The index of the first branch whose condition holds, else of the last one; null where the rule does not apply."""
    conditions = [branch.condition for branch in branches[:-1]]
    last = F.lit(len(branches) - 1)
    if not conditions:
        return F.when(rule.applies(), last)
    index: Column | None = None
    for number, condition in enumerate(conditions):
        if condition is None:
            raise ValueError(f"rule {rule.id}: only the last branch may do without a condition")
        index = F.when(condition, number) if index is None else index.when(condition, number)
    return F.when(rule.applies(), last if index is None else index.otherwise(last))


def _counted_together(branches: Sequence[Sequence[Branch]]) -> list[list[int]]:
    """The indexes of the rules that each observation counts, in order."""
    together: list[list[int]] = []
    counts = 0
    for n, of_rule in enumerate(branches):
        of_this = len(_outcomes(of_rule))
        if not together or counts + of_this > _COUNTS_OF_AN_OBSERVATION:
            together.append([])
            counts = 0
        together[-1].append(n)
        counts += of_this
    return together


def _counts(
    branches: Sequence[Sequence[Branch]],
    rules: Sequence[int],
    has_runs: bool,
    conditions: Mapping[int, str] | None = None,
) -> str:
    """The number of rows of each of `_outcomes` of each rule, as a JSON list: Spark 4.0 returns no nested values of an observation.

    rules: indexes in `branches`. conditions: of each rule, which of its subjects are counted; all, if there are none.
    """
    count = f"coalesce(sum(if({{}}, coalesce({RUN}.rows, 1), 0)), 0)" if has_runs else "count_if({})"
    counts = (
        count.format(f"{_branch_column(n)} in ({indexes})" + (f" and {conditions[n]}" if conditions else ""))
        for n in rules
        for indexes in _outcomes(branches[n]).values()
    )
    return f"to_json(array({', '.join(counts)}))"


def _outcomes(branches: Sequence[Branch]) -> dict[tuple[str, str | None], str]:
    """(verdict, reason if it is unverifiable) -> the indexes of its branches, separated by commas.

    Branches of one outcome are counted together, as each count costs time for each row.
    """
    indexes: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for index, branch in enumerate(branches):
        indexes[branch.verdict, branch.reason if branch.verdict == UNVERIFIABLE else None].append(str(index))
    return {outcome: ", ".join(of_outcome) for outcome, of_outcome in indexes.items()}


def _indexes(branches: Sequence[Branch], verdicts: Collection[str]) -> str:
    """The indexes of the branches with these verdicts, separated by commas."""
    return ", ".join(str(index) for index, branch in enumerate(branches) if branch.verdict in verdicts)


def _row(rules: Sequence[Rule], branches: Sequence[Sequence[Branch]]) -> list[Column]:
    """The columns of VERDICT_ROW, from the frame's columns and `outcome` (struct<rule: index in `rules`, branch>)."""
    number = F.col("outcome.rule")
    ids = ", ".join(_quoted(rule.id) for rule in rules)
    severities = {n: severity for n, rule in enumerate(rules) if (severity := rule.severity_of()) is not None}
    lost = {n: offsets for n, rule in enumerate(rules) if (offsets := rule.lost())}
    texts = (text for rule, of_rule in zip(rules, branches, strict=True) for text in templates(rule, of_rule))
    values = {name for text in texts for name in placeholders(text)}
    places = {name for rule in rules for name in rule.evidence.values()}
    return [
        *_subject(rules),
        F.expr(f"element_at(array({ids}), outcome.rule + 1)").alias("rule"),
        F.col("outcome.branch").alias("branch"),
        _by_rule(number, severities).cast("string").alias("severity"),
        F.expr(_map(values, "string")).alias("values"),
        F.expr(_map(places, REF_TYPE)).alias("places"),
        _by_rule(number, {n: first for n, (first, _) in lost.items()}).cast("bigint").alias("first_offset"),
        _by_rule(number, {n: last for n, (_, last) in lost.items()}).cast("bigint").alias("last_offset"),
    ]


def _subject(rules: Sequence[Rule]) -> list[Column]:
    """The columns of SUBJECT; those of a partition are null for rules whose subject is a request."""
    per_request = ", ".join(str(n) for n, rule in enumerate(rules) if rule.per_request)
    return [
        F.expr(f"if(outcome.rule in ({per_request}), null, {name})").alias(name)
        if per_request and name in _PARTITION_COLUMNS
        else F.col(name)
        for name in SUBJECT
    ]


def _by_rule(number: Column, columns: Mapping[int, Column]) -> Column:
    """The column of the rule with that number; null for rules that have none."""
    column = F.lit(None)
    for n, of_rule in columns.items():
        column = F.when(number == n, of_rule).otherwise(column)
    return column


def _map(names: Iterable[str], value_type: str) -> str:
    """A map expression: column name -> the column's value, cast to `value_type`."""
    entries = ", ".join(f"'{name}', cast({name} as {value_type})" for name in sorted(names))
    return f"cast(map({entries}) as map<string,{value_type}>)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def by_frame(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """The rules of each frame, in catalogue order."""
    frames: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        frames[rule.frame].append(rule)
    return dict(frames)
