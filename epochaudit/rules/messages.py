"""Renders findings: fills the sentences of a rule with the values of a row of VERDICT_ROW (`rules/judge.py`).

Rows without a finding are dropped before, so that they cost no rendering. Executors render the findings of a DataFrame
(`with_messages`). The driver renders the findings that a report lists (`render_row`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from epochaudit.events.views import REF_TYPE
from epochaudit.kafka.errors import Errors, error_text
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
MESSAGE: Final = (
    "verdict string, reason string, severity string, expected string, observed string, because array<string>, "
    f"evidence array<struct<role:string,place:{REF_TYPE}>>"
)
FINDING_ROW: Final = (
    "cluster string, node int, topic string, topic_id string, partition int, leader_epoch int, client_id string, group_id string, "
    f"correlation_id int, rule string, {MESSAGE}, first_offset bigint, last_offset bigint"
)
_UNCHANGED: Final = (*SUBJECT, "rule")
_LOST: Final = ("first_offset", "last_offset")
_LINE: Final = ("file", "split", "byte_offset", "line_in_split")
_BETWEEN_ROLES: Final = "; "
UNKNOWN: Final = "unknown"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_ERROR_CODE: Final = re.compile(r"(?:\w+_)?error_code|codes?")
_NUMBER: Final = re.compile(r"-?\d+")
# `replay/state/inferred_topic_ids.py` gives such an id to topics without ids.
_NUMBERED_TOPIC: Final = re.compile(r"[\w.-]+#(?P<number>\d+)")

Place = Row | Mapping[str, Any]
VerdictRow = Row | Mapping[str, Any]
Message = dict[str, object]


@dataclass(frozen=True)
class BranchMessages:
    """What all findings of one branch of a rule's verdict have in common: verdict, reason and sentence templates."""

    verdict: str
    reason: str | None
    expected: str
    observed: str
    because: tuple[str, ...]

    @classmethod
    def of(cls, rule: Rule, branch: Branch) -> BranchMessages:
        """The branch's own sentences; the rule's where the branch has none."""
        own = branch.sentences
        return cls(
            branch.verdict,
            branch.reason,
            rule.expected if own.expected is None else own.expected,
            rule.observed if own.observed is None else own.observed,
            rule.because if own.because is None else own.because,
        )


@dataclass(frozen=True)
class MessageTemplates:
    """What all findings of a rule have in common.

    branches: by index in the rule's `verdict()`. evidence: (role, column) pairs, the subject's own line first.
    """

    branches: tuple[BranchMessages, ...]
    severity: str
    evidence: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, rule: Rule, branches: Iterable[Branch]) -> MessageTemplates:
        """The templates of a rule; `branches` is its verdict."""
        messages = tuple(BranchMessages.of(rule, branch) for branch in branches)
        return cls(messages, rule.severity, tuple(rule.evidence.items()))

    def render(self, row: VerdictRow) -> Message:
        """The columns of MESSAGE for a row of VERDICT_ROW."""
        branch, values, places = self.branches[row["branch"]], row["values"], row["places"]
        return {
            "verdict": branch.verdict,
            "reason": branch.reason,
            "severity": row["severity"] or self.severity,
            "expected": filled(branch.expected, values),
            "observed": filled(branch.observed, values),
            "because": [filled(line, values) for line in branch.because if _is_known(line, values)],
            "evidence": _each_line_once((role, places[name]) for role, name in self.evidence if places[name]),
        }


@dataclass(frozen=True)
class MessageRenderer:
    """Renders a row of VERDICT_ROW by the templates of its rule; executors run it as a UDF."""

    messages: Mapping[str, MessageTemplates]

    def __call__(self, row: VerdictRow) -> Message:
        return self.messages[row["rule"]].render(row)


def with_messages(rows: DataFrame, messages: Mapping[str, MessageTemplates]) -> DataFrame:
    """Rows of VERDICT_ROW as rows of FINDING_ROW. Grain: unchanged, one row per (rule, subject)."""
    render = F.udf(MessageRenderer(messages), MESSAGE, useArrow=False)  # Arrow UDFs need pandas
    message = render(F.struct("rule", "branch", "severity", "values", "places")).alias("message")
    return rows.select(*_UNCHANGED, message, *_LOST).select(*_UNCHANGED, "message.*", *_LOST)


def render_row(row: Mapping[str, Any], messages: Mapping[str, MessageTemplates]) -> dict[str, object]:
    """A row of VERDICT_ROW as one of FINDING_ROW."""
    return {name: row[name] for name in (*_UNCHANGED, *_LOST)} | MessageRenderer(messages)(row)


def templates(rule: Rule, branches: Iterable[Branch]) -> tuple[str, ...]:
    """All sentences of a rule; `branches` is its verdict."""
    messages = [BranchMessages.of(rule, branch) for branch in branches]
    return tuple(text for message in messages for text in (message.expected, message.observed, *message.because))


def placeholders(template: str) -> list[str]:
    """The columns that a sentence names."""
    return [name for name in _PLACEHOLDER.findall(template) if name not in Errors.__members__]


def _each_line_once(lines: Iterable[tuple[str, Place]]) -> list[dict[str, object]]:
    """Dicts of `role` and `place`, of (role, place) pairs. A line that has several roles stands where its first one did."""
    roles: dict[tuple[object, ...], list[str]] = {}
    places: dict[tuple[object, ...], Place] = {}
    for role, place in lines:
        line = tuple(place[name] for name in _LINE)
        roles.setdefault(line, []).append(role)
        places.setdefault(line, place)
    return [{"role": _BETWEEN_ROLES.join(roles[line]), "place": place} for line, place in places.items()]


def has_role(roles: str, role: str) -> bool:
    """Whether a line of evidence has this role. `roles`: its `role`, which joins several."""
    return role in roles.split(_BETWEEN_ROLES)


def _is_known(template: str, values: Mapping[str, str | None]) -> bool:
    """A line of `because` is printed only if the evidence has all values that it names."""
    return all(values[name] is not None for name in placeholders(template))


def filled(template: str, values: Mapping[str, str | None]) -> str:
    """The sentence with the values in place of `{column}`, and `74 FENCED_LEADER_EPOCH` in place of `{FENCED_LEADER_EPOCH}`.

    A null prints `unknown`.
    """
    return _PLACEHOLDER.sub(lambda match: _filled(match[1], values), template)


def _filled(name: str, values: Mapping[str, str | None]) -> str:
    return Errors[name].text if name in Errors.__members__ else _printed(name, values[name])


def _printed(column: str, value: str | None) -> str:
    """A column's value as the report prints it: error codes with their names, an inferred topic id as a number of the name."""
    if value is None:
        return UNKNOWN
    if _ERROR_CODE.fullmatch(column):
        return _NUMBER.sub(lambda code: error_text(int(code[0])), value)
    topic = _NUMBERED_TOPIC.fullmatch(value) if column.endswith("topic_id") else None
    return f"none (topic {topic['number']} of the name)" if topic else value


def stated_topic_id(topic_id: str | None) -> str | None:
    """The topic id if Kafka assigned it; None for an inferred one, which only distinguishes topics of one name."""
    return None if topic_id is None or _NUMBERED_TOPIC.fullmatch(topic_id) else topic_id
