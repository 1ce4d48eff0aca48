"""What every output format renders: what was read, what each rule judged, what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import groupby
from typing import Final

from epochaudit.findings import Finding, with_consequences
from epochaudit.inventory import Inventory
from epochaudit.rules.rule import EXPOSED, SEVERITIES, UNVERIFIABLE, VERDICTS, VIOLATION

THRESHOLDS: Final[Mapping[str, tuple[str, ...]]] = {
    "violation": (VIOLATION,),
    "exposed": (VIOLATION, EXPOSED),
    "unverifiable": (VIOLATION, EXPOSED, UNVERIFIABLE),
    "never": (),
}


@dataclass(frozen=True)
class RuleResult:
    """What one rule judged: subjects by verdict, and why those that could not be judged could not."""

    rule: str
    name: str
    title: str
    kip: str
    severity: str
    verdicts: Mapping[str, int] = field(default_factory=dict)
    unverifiable_reasons: Mapping[str, int] = field(default_factory=dict)

    def count(self, verdict: str) -> int:
        """Subjects of this rule with that verdict."""
        return self.verdicts.get(verdict, 0)

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Why subjects could not be judged, and how many; the most frequent first."""
        return sorted(self.unverifiable_reasons.items(), key=lambda item: (-item[1], item[0]))

    @property
    def subjects(self) -> int:
        """Everything that the rule applied to, judged or not."""
        return sum(self.verdicts.values())


@dataclass(frozen=True)
class Acceptance:
    """Who accepts a finding, why, and the last day on which it is accepted."""

    reason: str
    owner: str
    expires: date

    def __str__(self) -> str:
        return f"{self.reason} ({self.owner}, until {self.expires.isoformat()})"


@dataclass(frozen=True)
class Replica:
    """A replica that had records of a history that was left.

    log_end: where its log ended when it began to follow; null where it did not say (before 2.6). truncated_to: as its log
    tells; null where it does not.
    """

    node: int
    log_end: int | None
    truncated_to: int | None


@dataclass(frozen=True)
class Reader:
    """A consumer that had read, or committed, removed records: at most first_offset to last_offset."""

    client: str | None
    group: str | None
    first_offset: int
    last_offset: int


@dataclass(frozen=True)
class Removal:
    """A truncation: records first_offset to last_offset of a partition that the log of leader_epoch began without.

    epochs: the leader epochs that they were written in. given_out: some lay below a high watermark that was told to clients;
    null where it is not in the evidence. read_by: consumers that had read some of them.
    """

    cluster: str
    topic: str
    topic_id: str | None
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    epochs: tuple[int, ...] = ()
    given_out: bool | None = None
    replicas: tuple[Replica, ...] = ()
    read_by: tuple[Reader, ...] = ()

    @property
    def records(self) -> int:
        """How many records at most."""
        return self.last_offset - self.first_offset + 1


@dataclass(frozen=True)
class Report:
    """One audit, ready to be rendered; `findings` are in the order in which they are shown.

    failures: rule id -> why the rule could not be computed.
    left_out: rule id -> how many findings of it are counted but not listed, where there are too many.
    accepted: finding id -> who accepts it; expired: ids of findings that were accepted until some day before; unmet: ids
    of accepted findings that were not found.
    removals: the truncations by which records left the logs, harmful or not, where any were told of.
    """

    version: str
    inventory: Inventory
    rules: tuple[RuleResult, ...]
    findings: tuple[Finding, ...]
    failures: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, Acceptance] = field(default_factory=dict)
    expired: AbstractSet[str] = frozenset()
    unmet: AbstractSet[str] = frozenset()
    removals: tuple[Removal, ...] = ()

    def accepting(
        self, accepted: Mapping[str, Acceptance], *, expired: AbstractSet[str], unmet: AbstractSet[str]
    ) -> Report:
        """The same report with some of its findings accepted."""
        return replace(self, accepted=accepted, expired=frozenset(expired), unmet=frozenset(unmet))

    def accepts(self, finding: Finding) -> bool:
        """The finding and all that it caused are accepted."""
        return all(one.finding_id in self.accepted for one in (finding, *finding.consequences))

    def unaccepted(self, verdict: str, rule: str | None = None) -> int:
        """Subjects with that verdict, of one rule or of all, less the accepted ones."""
        count = sum(one.count(verdict) for one in self.rules if rule in (None, one.rule))
        found = (one for one in with_consequences(self.findings) if one.verdict == verdict)
        accepted = (one for one in found if one.finding_id in self.accepted)
        return count - sum(rule in (None, one.rule) for one in accepted)

    def count(self, verdict: str) -> int:
        """Subjects with that verdict over all rules; one request judged by two rules counts twice."""
        return sum(rule.count(verdict) for rule in self.rules)

    @property
    def totals(self) -> Mapping[str, object]:
        """Of what clusters, how many subjects got which verdict, and which rules failed."""
        counts = {verdict: self.count(verdict) for verdict in VERDICTS}
        return {"clusters": sorted(self.inventory.clusters), **counts, "failed_rules": sorted(self.failures)}

    @property
    def judged(self) -> int:
        """Subjects that got a verdict other than unverifiable."""
        return sum(self.count(verdict) for verdict in VERDICTS if verdict != UNVERIFIABLE)

    @property
    def unverifiable_reasons(self) -> Counter[str]:
        """Reason -> subjects, over all rules."""
        total: Counter[str] = Counter()
        for rule in self.rules:
            total.update(rule.unverifiable_reasons)
        return total

    def reaches(self, fail_on: str) -> bool:
        """Whether any verdict that is not accepted is at or above the threshold of --fail-on."""
        return any(self.unaccepted(verdict) > 0 for verdict in THRESHOLDS[fail_on])


def grouped(found: Iterable[Finding]) -> Iterator[list[Finding]]:
    """The findings of one severity, rule and verdict together, the worst first."""

    def group(finding: Finding) -> tuple[int, str, int]:
        return SEVERITIES.index(finding.severity), finding.rule, -VERDICTS.index(finding.verdict)

    return (list(members) for _, members in groupby(sorted(found, key=group), key=group))
