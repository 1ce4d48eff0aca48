"""A rule gives each subject of a frame a verdict, as columns over that frame.

`epochaudit.rules.judge` evaluates all rules of a frame in one pass. Columns are built inside methods, when a Spark session
exists. Class attributes and docstring are plain data, so that the catalogue can be read without Spark.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, TypedDict, Unpack

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
class Sentences:
    """The sentences of a verdict in the report: templates over the frame's columns; None = the rule's own."""

    expected: str | None = None
    observed: str | None = None
    because: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Branch:
    """One branch of a rule's `verdict`: the subject gets `verdict`, for the constant `reason` if any, if `condition` holds.

    `sentences` replace the rule's own sentences where those would not be true of this branch.
    """

    verdict: str
    condition: Column | None
    reason: str | None = None
    sentences: Sentences = Sentences()


class OwnSentences(TypedDict, total=False):
    """The sentences of a branch, as keyword arguments of `passed`, `fenced` and the others."""

    expected: str
    observed: str
    because: tuple[str, ...]


def passed(condition: Column | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """Accepted, and rightly so."""
    return Branch(PASS, condition, None, Sentences(**sentences))


def fenced(condition: Column | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """Stale or ineligible, and refused with the right code."""
    return Branch(FENCED, condition, None, Sentences(**sentences))


def violation(condition: Column | None = None, reason: str | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """Accepted what had to be refused, refused with a wrong code, or reached a forbidden state."""
    return Branch(VIOLATION, condition, reason, Sentences(**sentences))


def exposed(condition: Column | None = None, reason: str | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """Stale input was applied or data was lost, but no fence is known to have failed; `reason` states why."""
    return Branch(EXPOSED, condition, reason, Sentences(**sentences))


def unverifiable(condition: Column | None, reason: str, **sentences: Unpack[OwnSentences]) -> Branch:
    """The evidence lacks a needed state, version or response; `reason` is a constant sentence that names it."""
    return Branch(UNVERIFIABLE, condition, reason, Sentences(**sentences))


def first_of(*branches: Branch, otherwise: Branch) -> tuple[Branch, ...]:
    """The branches in order of precedence. A null condition counts as false; `otherwise` takes the remaining subjects."""
    return (*branches, otherwise)


class Rule:
    """Base of all rules; a subclass is made a rule by the decorator `rule`.

    Class attributes, all strings being templates over the frame's columns (`{leader_epoch}`) and Kafka's error codes
    (`{FENCED_LEADER_EPOCH}`, see `epochaudit.kafka.errors`); columns of error codes print the code's name, too:
      evidence: role -> name of the frame's column (type `REF_TYPE`) that locates the line; the first is the subject's own line
      expected, observed: one sentence each, a null column prints `unknown`; because: the chain of reasons, from the state
        to the verdict; a line with a null column is not printed. If these sentences are not true of a branch, the branch
        has its own (`passed(condition, observed=...)`): a breach's sentence accuses, a pass must not.
      caused_by: rules whose breaches may cause this rule's; a finding that shares an evidence line or a topic with such a
        breach is listed as its consequence
      per_request: the subject is a request, not one of its partitions; `applies` must then select one row per request
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
        """Severity of one finding, null = `severity`; None if all findings have the rule's `severity`."""
        return None

    def lost(self) -> tuple[Column, Column] | None:
        """The first and the last offset of the records that a finding reports as lost or skipped."""
        return None

    @property
    def family(self) -> str:
        """Letters of the id: `SR` of `SR-01`."""
        return self.id.split("-")[0]

    @property
    def page(self) -> str:
        """The rule's documentation, Markdown."""
        return inspect.cleandoc(type(self).__doc__ or "")

    def section(self, title: str) -> str:
        """The page's section of that title, Markdown with a line per paragraph; empty if the page has none."""
        _, _, rest = f"\n{self.page}\n".partition(f"\n## {title}\n")
        paragraphs = rest.partition("\n## ")[0].split("\n\n")
        return "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs if paragraph.strip())

    @property
    def what_to_do(self) -> str:
        """What to do about the rule's findings, a section of the page; empty if a plug-in's page has none."""
        return self.section("What to do")

    @property
    def title(self) -> str:
        """First line of the page."""
        return self.page.splitlines()[0].rstrip(".")

    @property
    def name(self) -> str:
        """The bad pattern in words: `stale-stop-replica-accepted` of `StaleStopReplicaAccepted`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", type(self).__name__).lower()


def rule(id: str, *, frame: str, kip: str, severity: str, since: str) -> Callable[[type[Rule]], type[Rule]]:
    """Declare a class a rule.

    `frame`: the frame with its subjects. `kip`: the proposal that it guards. `since`: the first Kafka release with the fence.
    """
    if severity not in SEVERITIES:
        raise ValueError(f"rule {id}: severity {severity!r} is none of {', '.join(SEVERITIES)}")

    def declare(cls: type[Rule]) -> type[Rule]:
        cls.id, cls.frame, cls.kip, cls.severity, cls.since = id, frame, kip, severity, since
        return cls

    return declare
