"""What a rule is: a verdict for each subject of a frame, written as columns over that frame.

A rule is never a job of its own. The judge (`epochaudit.rules.judge`) evaluates all rules of a frame in one pass.
Columns are built inside methods, when a Spark session exists; the class attributes and the docstring are plain data,
so that the catalogue can be read without Spark.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

if TYPE_CHECKING:
    from pyspark.sql import Column

CRITICAL: Final = "critical"
HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"
INFO: Final = "info"
SEVERITIES: Final = (CRITICAL, HIGH, MEDIUM, LOW, INFO)

PASS: Final = "pass"  # noqa: S105
FENCED: Final = "fenced"
VIOLATION: Final = "violation"
EXPOSED: Final = "exposed"
UNVERIFIABLE: Final = "unverifiable"
VERDICTS: Final = (PASS, FENCED, VIOLATION, EXPOSED, UNVERIFIABLE)


@dataclass(frozen=True)
class Branch:
    """One arm of a verdict: when `condition` holds the subject gets `verdict`, for the constant `reason` if any."""

    verdict: str
    condition: Column | None
    reason: str | None = None


def passed(condition: Column | None = None) -> Branch:
    """Accepted, and rightly so."""
    return Branch(PASS, condition)


def fenced(condition: Column | None = None) -> Branch:
    """Stale or ineligible, and refused with the right code."""
    return Branch(FENCED, condition)


def violation(condition: Column | None = None, reason: str | None = None) -> Branch:
    """Accepted what had to be refused, refused with a wrong code, or reached a forbidden state."""
    return Branch(VIOLATION, condition, reason)


def exposed(condition: Column | None = None, reason: str | None = None) -> Branch:
    """The protocol version in use has no fence, and stale input was applied or data was lost."""
    return Branch(EXPOSED, condition, reason)


def unverifiable(condition: Column | None, reason: str) -> Branch:
    """State, version or response needed is not in the evidence; `reason` is a constant sentence that says which."""
    return Branch(UNVERIFIABLE, condition, reason)


def first_of(*branches: Branch, otherwise: Branch) -> tuple[Branch, ...]:
    """The arms of a verdict in order of precedence; a null condition counts as not met, `otherwise` takes the rest."""
    return (*branches, otherwise)


class Rule:
    """Base of all rules; a subclass is made a rule by the decorator `rule`.

    Class attributes, all strings being templates over the frame's columns (`{leader_epoch}`, null prints `unknown`):
      evidence: role -> name of the frame's column (type `REF_TYPE`) that locates the line; the first is the subject's own line
      expected, observed: one sentence each; because: the chain of reasons, from the state to the breach
      caused_by: rules whose breaches may be the cause of this one's; findings that share a line with theirs, or are about
        a topic that theirs is about, are told inside them
      per_request: the subject is a request, not a partition of it; `applies` must then choose one row of each request
    """

    id: ClassVar[str]
    frame: ClassVar[str]
    kip: ClassVar[str]
    severity: ClassVar[str]
    since: ClassVar[str]
    evidence: ClassVar[Mapping[str, str]]
    expected: ClassVar[str]
    observed: ClassVar[str]
    because: ClassVar[tuple[str, ...]]
    per_request: ClassVar[bool] = False
    caused_by: ClassVar[tuple[str, ...]] = ()

    def applies(self) -> Column:
        """Which rows of the frame are subjects of this rule."""
        raise NotImplementedError

    def verdict(self) -> tuple[Branch, ...]:
        """Exactly one verdict for each subject, by `first_of`."""
        raise NotImplementedError

    def severity_of(self) -> Column | None:
        """Severity of one finding, where it differs from the rule's own; None = always `severity`."""
        return None

    def lost(self) -> tuple[Column, Column] | None:
        """The first and the last offset of the records that one finding says are gone, or were never delivered."""
        return None

    @property
    def family(self) -> str:
        """Letters of the id: `SR` of `SR-01`."""
        return self.id.split("-")[0]

    @property
    def page(self) -> str:
        """The rule's documentation, Markdown."""
        return inspect.cleandoc(type(self).__doc__ or "")

    @property
    def title(self) -> str:
        """First line of the page."""
        return self.page.splitlines()[0].rstrip(".")

    @property
    def name(self) -> str:
        """The bad pattern in words: `stale-stop-replica-accepted` of `StaleStopReplicaAccepted`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", type(self).__name__).lower()


def rule(id: str, *, frame: str, kip: str, severity: str, since: str) -> Callable[[type[Rule]], type[Rule]]:
    """Make a class a rule.

    `frame` names the frame it judges, `kip` the proposal it guards, `since` the first Kafka release that has the fence.
    """
    if severity not in SEVERITIES:
        raise ValueError(f"rule {id}: severity {severity!r} is none of {', '.join(SEVERITIES)}")

    def declare(cls: type[Rule]) -> type[Rule]:
        cls.id, cls.frame, cls.kip, cls.severity, cls.since = id, frame, kip, severity, since
        return cls

    return declare
