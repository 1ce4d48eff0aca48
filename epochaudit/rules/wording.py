"""What a finding says: the sentences of its rule, filled in with the values of the row that was judged.

Only the rows that matter come here, so that the sentences cost nothing where there is nothing to say. All of them get their
words where they are (`worded`), those that a report lists on the driver (`said`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from epochaudit.events.views import REF_TYPE
from epochaudit.rules.rule import Branch, Rule

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
SAID: Final = (
    "verdict string, reason string, severity string, expected string, observed string, because array<string>, "
    f"evidence array<struct<role:string,place:{REF_TYPE}>>"
)
FINDING_ROW: Final = (
    "cluster string, node int, topic string, topic_id string, partition int, leader_epoch int, client_id string, group_id string, "
    f"correlation_id int, rule string, {SAID}, first_offset bigint, last_offset bigint"
)
_AS_JUDGED: Final = (*SUBJECT, "rule")
_LOST: Final = ("first_offset", "last_offset")
UNKNOWN: Final = "unknown"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")

Judged = Row | Mapping[str, Any]
Said = dict[str, object]


@dataclass(frozen=True)
class Words:
    """What is constant in a rule's findings. arms: verdict and reason of each branch of its verdict, by number."""

    arms: tuple[tuple[str, str | None], ...]
    severity: str
    expected: str
    observed: str
    because: tuple[str, ...]
    evidence: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, rule: Rule, branches: Iterable[Branch]) -> Words:
        """Those of the rule, whose verdict has these branches."""
        arms = tuple((branch.verdict, branch.reason) for branch in branches)
        return cls(arms, rule.severity, rule.expected, rule.observed, tuple(rule.because), tuple(rule.evidence.items()))

    def told(self, judged: Judged) -> Said:
        """The columns of SAID that a row of JUDGED_ROW makes."""
        verdict, reason = self.arms[judged["arm"]]
        values, places = judged["values"], judged["places"]
        return {
            "verdict": verdict,
            "reason": reason,
            "severity": judged["severity"] or self.severity,
            "expected": filled(self.expected, values),
            "observed": filled(self.observed, values),
            "because": [filled(line, values) for line in self.because],
            "evidence": [{"role": role, "place": places[name]} for role, name in self.evidence if places[name]],
        }


@dataclass(frozen=True)
class Wording:
    """Gives judged rows their words, by rule; runs where the rows are."""

    words: Mapping[str, Words]

    def __call__(self, judged: Judged) -> Said:
        return self.words[judged["rule"]].told(judged)


def worded(rows: DataFrame, words: Mapping[str, Words]) -> DataFrame:
    """The rows of judgements with the columns of FINDING_ROW: what the verdicts say, in the words of each rule."""
    # not by Arrow, which asks for pandas
    say = F.udf(Wording(words), SAID, useArrow=False)
    judged = F.struct("rule", "arm", "severity", "values", "places")
    return rows.select(*_AS_JUDGED, say(judged).alias("said"), *_LOST).select(*_AS_JUDGED, "said.*", *_LOST)


def said(judged: Mapping[str, Any], words: Mapping[str, Words]) -> dict[str, object]:
    """A row of JUDGED_ROW as one of FINDING_ROW."""
    return {name: judged[name] for name in (*_AS_JUDGED, *_LOST)} | Wording(words)(judged)


def templates(rule: Rule) -> tuple[str, ...]:
    """All of a rule's sentences."""
    return (rule.expected, rule.observed, *rule.because)


def placeholders(template: str) -> list[str]:
    """The columns that a sentence names."""
    return _PLACEHOLDER.findall(template)


def filled(template: str, values: Mapping[str, str | None]) -> str:
    """The sentence with the values in place of `{column}`; a null prints `unknown`."""
    return _PLACEHOLDER.sub(lambda hole: UNKNOWN if (value := values[hole[1]]) is None else value, template)
