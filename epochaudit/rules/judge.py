"""The judge: evaluates all rules of a frame in one pass over it, keeping the rows that matter and counting all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from epochaudit.events.views import REF_TYPE
from epochaudit.rules.rule import UNVERIFIABLE, VERDICTS, Branch, Rule
from epochaudit.rules.wording import SUBJECT, Words, placeholders, templates

JUDGED_ROW: Final = (
    "cluster string, node int, topic string, topic_id string, partition int, leader_epoch int, client_id string, group_id string, "
    f"correlation_id int, rule string, arm int, severity string, values map<string,string>, places map<string,{REF_TYPE}>, "
    "first_offset bigint, last_offset bigint"
)
"""arm: number of the branch of the rule's verdict. severity: where it is not the rule's own. values, places: columns of the
frame, by name, that the rule's sentences and evidence name, of all rules of the frame."""

_OF_PARTITION: Final = (
    "topic",
    "topic_id",
    "partition",
    "leader_epoch",
)  # mean nothing when the subject is a whole request
_COUNTS: Final = "counts"
NO_ARM: Final = "-1"


@dataclass(frozen=True)
class Tally:
    """Verdict counts of one rule: `counts` by verdict, `reasons` of the unverifiable ones."""

    rule: str
    counts: Mapping[str, int]
    reasons: Mapping[str, int]

    @classmethod
    def of_none(cls, rule: Rule) -> Tally:
        """The tally of a rule that met no subject."""
        return cls(rule.id, dict.fromkeys(VERDICTS, 0), {})

    @classmethod
    def of_failure(cls, rule: str, why: str) -> Tally:
        """The tally of a rule that could not be computed: nobody knows how many subjects it has."""
        counts = dict.fromkeys(VERDICTS, 0) | {UNVERIFIABLE: 1}
        return cls(rule, counts, {f"the rule failed: {why}": 1})


@dataclass(frozen=True)
class Judgement:
    """The rows of one frame's rules, and the observation that holds their counts once the rows have been computed.

    arms: the branches of each rule's verdict.
    """

    rows: DataFrame
    rules: tuple[Rule, ...]
    arms: tuple[tuple[Branch, ...], ...]
    observation: Observation

    def words(self) -> dict[str, Words]:
        """What the findings of each rule say."""
        return {rule.id: Words.of(rule, arms) for rule, arms in zip(self.rules, self.arms, strict=True)}

    def tallies(self) -> Iterator[Tally]:
        """One per rule. Waits for the first action on `rows`."""
        counted = iter(self.observation.get[_COUNTS])
        for rule, arms in zip(self.rules, self.arms, strict=True):
            counts, reasons = dict.fromkeys(VERDICTS, 0), defaultdict[str, int](int)
            for arm, count in zip(arms, counted, strict=False):
                counts[arm.verdict] += count
                if arm.verdict == UNVERIFIABLE and arm.reason and count:
                    reasons[arm.reason] += count
            yield Tally(rule.id, counts, reasons)


def judge(frame: DataFrame, rules: Sequence[Rule], keep: Collection[str]) -> Judgement:
    """Gives each subject of each rule its verdict.

    Rows: one per (rule, subject) whose verdict is in `keep`, with the columns of JUDGED_ROW, of which `worded` makes
    those of FINDING_ROW. The frame's columns do not leave this function.

    What is put together for each rule is SQL text, which Spark takes in one piece: a Column is built by several calls to
    the JVM for each of its operators, and there are a hundred rules.
    """
    arms = [rule.verdict() for rule in rules]
    judged = frame.withColumns({_arm(n): _chosen(rule, arms[n]) for n, rule in enumerate(rules)})
    observation = Observation()
    counted = judged.observe(observation, F.expr(_counts(arms)).alias(_COUNTS))
    kept = {n: numbers for n, of_rule in enumerate(arms) if (numbers := _numbers(of_rule, keep))}
    # where no verdict is kept, a plain `false` would have the counts optimized away with the rows
    kept = kept or {0: NO_ARM}
    # nearly all rows go no further: a lambda is interpreted, a comparison is compiled
    noted = " or ".join(f"{_arm(n)} in ({numbers})" for n, numbers in kept.items())
    outcomes = ", ".join(
        f"if({_arm(n)} in ({numbers}), named_struct('rule', {n}, 'arm', {_arm(n)}), null)"
        for n, numbers in kept.items()
    )
    one = counted.where(noted)
    one = one.withColumn("judged", F.explode(F.expr(f"filter(array({outcomes}), judged -> judged is not null)")))
    return Judgement(one.select(*_row(rules)), tuple(rules), tuple(arms), observation)


def _arm(number: int) -> str:
    """The column with the number of the branch that a rule's subject took; null where the row is no subject of it."""
    return f"judged_{number}"


def _chosen(rule: Rule, arms: Sequence[Branch]) -> Column:
    conditions = [arm.condition for arm in arms[:-1]]
    last = F.lit(len(arms) - 1)
    if not conditions:
        return F.when(rule.applies(), last)
    chosen: Column | None = None
    for number, condition in enumerate(conditions):
        if condition is None:
            raise ValueError(f"rule {rule.id}: only the last branch may do without a condition")
        chosen = F.when(condition, number) if chosen is None else chosen.when(condition, number)
    return F.when(rule.applies(), last if chosen is None else chosen.otherwise(last))


def _counts(arms: Sequence[Sequence[Branch]]) -> str:
    """How many rows took each branch, as one struct."""
    counts = (f"count_if({_arm(n)} = {number})" for n, of_rule in enumerate(arms) for number in range(len(of_rule)))
    return f"struct({', '.join(counts)})"


def _numbers(arms: Sequence[Branch], verdicts: Collection[str]) -> str:
    return ", ".join(str(number) for number, arm in enumerate(arms) if arm.verdict in verdicts)


def _row(rules: Sequence[Rule]) -> list[Column]:
    """The columns of JUDGED_ROW."""
    chosen = F.col("judged.rule")
    per_request = ", ".join(str(n) for n, rule in enumerate(rules) if rule.per_request)
    subject = [
        F.expr(f"if(judged.rule in ({per_request}), null, {name})").alias(name)
        if per_request and name in _OF_PARTITION
        else F.col(name)
        for name in SUBJECT
    ]
    ids = ", ".join(_quoted(rule.id) for rule in rules)
    severities = {n: severity for n, rule in enumerate(rules) if (severity := rule.severity_of()) is not None}
    lost = {n: offsets for n, rule in enumerate(rules) if (offsets := rule.lost())}
    values = {name for rule in rules for text in templates(rule) for name in placeholders(text)}
    places = {name for rule in rules for name in rule.evidence.values()}
    return [
        *subject,
        F.expr(f"element_at(array({ids}), judged.rule + 1)").alias("rule"),
        F.col("judged.arm").alias("arm"),
        _of_rule(chosen, severities).cast("string").alias("severity"),
        F.expr(_map(values, "string")).alias("values"),
        F.expr(_map(places, REF_TYPE)).alias("places"),
        _of_rule(chosen, {n: first for n, (first, _) in lost.items()}).cast("bigint").alias("first_offset"),
        _of_rule(chosen, {n: last for n, (_, last) in lost.items()}).cast("bigint").alias("last_offset"),
    ]


def _of_rule(chosen: Column, columns: Mapping[int, Column]) -> Column:
    column = F.lit(None)
    for number, of_rule in columns.items():
        column = F.when(chosen == number, of_rule).otherwise(column)
    return column


def _map(names: Iterable[str], kind: str) -> str:
    """Columns by their names, as a map's expression."""
    entries = ", ".join(f"'{name}', cast({name} as {kind})" for name in sorted(names))
    return f"cast(map({entries}) as map<string,{kind}>)"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def by_frame(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """The rules of each frame, in catalogue order."""
    frames: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        frames[rule.frame].append(rule)
    return dict(frames)
