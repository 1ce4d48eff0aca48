"""The judge: evaluates all rules of a frame in one pass over it, keeping the rows that matter and counting all."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from epochaudit.events.views import REF_TYPE
from epochaudit.rules.rule import UNVERIFIABLE, VERDICTS, Branch, Rule

SUBJECT: Final = (
    "cluster",
    "node",
    "topic",
    "topic_id",
    "partition",
    "leader_epoch",
    "client_id",
    "group_id",
    "correlation_id",
)

FINDING_ROW: Final = (
    "cluster string, node int, topic string, topic_id string, partition int, leader_epoch int, client_id string, group_id string, "
    "correlation_id int, rule string, verdict string, reason string, severity string, expected string, observed string, "
    f"because array<string>, evidence array<struct<role:string,place:{REF_TYPE}>>, first_offset bigint, last_offset bigint"
)

_OF_PARTITION: Final = (
    "topic",
    "topic_id",
    "partition",
    "leader_epoch",
)  # mean nothing when the subject is a whole request
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")


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
    """The rows of one frame's rules, and the observation that holds their counts once the rows have been computed."""

    rows: DataFrame
    rules: tuple[Rule, ...]
    observation: Observation
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def tallies(self) -> Iterator[Tally]:
        """One per rule. Waits for the first action on `rows`."""
        seen = self.observation.get
        for rule in self.rules:
            counts = {verdict: int(seen[_metric(rule, verdict)] or 0) for verdict in VERDICTS}
            reasons = {
                reason: int(seen[_metric(rule, UNVERIFIABLE, i)] or 0) for i, reason in enumerate(self.reasons[rule.id])
            }
            yield Tally(rule.id, counts, {reason: n for reason, n in reasons.items() if n})


def judge(frame: DataFrame, rules: Sequence[Rule], keep: Collection[str]) -> Judgement:
    """Gives each subject of each rule its verdict.

    Rows: one per (rule, subject) whose verdict is in `keep`, with the columns of FINDING_ROW.
    The frame's columns do not leave this function.
    """
    branches = {rule.id: rule.verdict() for rule in rules}
    reasons = {
        id: tuple(dict.fromkeys(b.reason for b in arms if b.verdict == UNVERIFIABLE and b.reason))
        for id, arms in branches.items()
    }
    judged = frame.withColumns({_column(rule): _verdict(rule, branches[rule.id]) for rule in rules})
    observation = Observation()
    counted = judged.observe(observation, *_metrics(rules, reasons))
    outcomes = F.array(
        *(F.struct(F.lit(rule.id).alias("rule"), F.col(_column(rule)).alias("outcome")) for rule in rules)
    )
    kept = F.filter(outcomes, lambda o: o["outcome"]["verdict"].isin(*keep))
    # nearly all rows go no further: a lambda is interpreted, a comparison is compiled
    noted = reduce(or_, (F.col(_column(rule))["verdict"].isin(*keep) for rule in rules))
    one = counted.where(noted).withColumn("judged", F.explode(kept))
    return Judgement(one.select(*_finding(rules)), tuple(rules), observation, reasons)


def _column(rule: Rule) -> str:
    return f"judged_{rule.id}"


def _metric(rule: Rule, verdict: str, reason: int | None = None) -> str:
    return f"{rule.id} {verdict}" if reason is None else f"{rule.id} {verdict} {reason}"


def _verdict(rule: Rule, arms: Sequence[Branch]) -> Column:
    *conditional, last = arms
    outcome = _outcome(last)
    for arm in reversed(conditional):
        if arm.condition is None:
            raise ValueError(f"rule {rule.id}: only the last branch may do without a condition")
        outcome = F.when(arm.condition, _outcome(arm)).otherwise(outcome)
    return F.when(rule.applies(), outcome)


def _outcome(arm: Branch) -> Column:
    return F.struct(F.lit(arm.verdict).alias("verdict"), F.lit(arm.reason).cast("string").alias("reason"))


def _metrics(rules: Sequence[Rule], reasons: Mapping[str, Sequence[str]]) -> list[Column]:
    metrics = []
    for rule in rules:
        verdict, reason = F.col(_column(rule))["verdict"], F.col(_column(rule))["reason"]
        metrics += [F.count(F.when(verdict == v, 1)).alias(_metric(rule, v)) for v in VERDICTS]
        metrics += [
            F.count(F.when((verdict == UNVERIFIABLE) & (reason == text), 1)).alias(_metric(rule, UNVERIFIABLE, i))
            for i, text in enumerate(reasons[rule.id])
        ]
    return metrics


def _finding(rules: Sequence[Rule]) -> list[Column]:
    chosen = F.col("judged.rule")
    per_request = [rule.id for rule in rules if rule.per_request]
    subject = [
        F.when(~chosen.isin(*per_request), F.col(name)).alias(name)
        if per_request and name in _OF_PARTITION
        else F.col(name)
        for name in SUBJECT
    ]
    outcome = F.col("judged.outcome")
    lost = {rule.id: offsets for rule in rules if (offsets := rule.lost())}
    losing = [rule for rule in rules if rule.id in lost]
    texts = [_by_rule(chosen, rules, text).alias(name) for name, text in _TEXTS.items()]
    return [
        *subject,
        chosen.alias("rule"),
        outcome["verdict"].alias("verdict"),
        outcome["reason"].alias("reason"),
        *texts,
        _by_rule(chosen, losing, lambda rule: lost[rule.id][0]).cast("bigint").alias("first_offset"),
        _by_rule(chosen, losing, lambda rule: lost[rule.id][1]).cast("bigint").alias("last_offset"),
    ]


def _by_rule(chosen: Column, rules: Sequence[Rule], text: Callable[[Rule], Column]) -> Column:
    column = F.lit(None)
    for rule in rules:
        column = F.when(chosen == rule.id, text(rule)).otherwise(column)
    return column


def _severity(rule: Rule) -> Column:
    of_finding = rule.severity_of()
    return F.lit(rule.severity) if of_finding is None else F.coalesce(of_finding, F.lit(rule.severity))


def _evidence(roles: Mapping[str, str]) -> Column:
    places = F.array(
        *(F.struct(F.lit(role).alias("role"), F.col(column).alias("place")) for role, column in roles.items())
    )
    return F.filter(places, lambda e: e["place"].isNotNull())


def render(template: str) -> Column:
    """`{column}` placeholders filled from the row; a null prints `unknown`, an array as `[1,2]`."""
    parts: list[Column] = []
    end = 0
    for hole in _PLACEHOLDER.finditer(template):
        parts += [F.lit(template[end : hole.start()]), F.coalesce(F.col(hole[1]).cast("string"), F.lit("unknown"))]
        end = hole.end()
    return F.concat(*parts, F.lit(template[end:]))


_TEXTS: Final[Mapping[str, Callable[[Rule], Column]]] = {
    "severity": _severity,
    "expected": lambda rule: render(rule.expected),
    "observed": lambda rule: render(rule.observed),
    "because": lambda rule: F.array(*(render(line) for line in rule.because)),
    "evidence": lambda rule: _evidence(rule.evidence),
}


def by_frame(rules: Sequence[Rule]) -> dict[str, list[Rule]]:
    """The rules of each frame, in catalogue order."""
    frames: dict[str, list[Rule]] = defaultdict(list)
    for rule in rules:
        frames[rule.frame].append(rule)
    return dict(frames)
