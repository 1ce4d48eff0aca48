"""The content that every output format renders: inventory, results of the rules, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import groupby
from typing import Final

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import BREACHES, Finding, in_order, with_consequences
from epochaudit.inventory.inventory import Inventory, joined
from epochaudit.losses.removal import Removal
from epochaudit.report.pictures.picture import Picture
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, SEVERITIES, UNVERIFIABLE, VERDICTS, VIOLATION

THRESHOLDS: Final[Mapping[str, tuple[str, ...]]] = {
    "violation": (VIOLATION,),
    "exposed": (VIOLATION, EXPOSED),
    "unverifiable": (VIOLATION, EXPOSED, UNVERIFIABLE),
    "never": (),
}

MEANINGS: Final[Mapping[str, str]] = {
    VIOLATION: "accepted what had to be refused, refused with a wrong code, or reached a forbidden state",
    EXPOSED: "stale input was applied or data was lost, but no fence is known to have failed: none exists, or an unclean election may"
    " explain it",
    FENCED: "stale or ineligible, and refused with the right code: the protocol worked",
    PASS: "accepted, and rightly so",
    UNVERIFIABLE: "the state, version or response needed is not in the evidence; it never counts as pass",
}
"""What each verdict says of a subject."""


@dataclass(frozen=True)
class RuleResult:
    """The result of one rule: subjects by verdict, and unverifiable subjects by reason.

    what_to_do: that section of the rule's page, Markdown with a line per paragraph; empty if the page has none.
    """

    rule: str
    name: str
    title: str
    kip: str
    severity: str
    verdicts: Mapping[str, int] = field(default_factory=dict)
    unverifiable_reasons: Mapping[str, int] = field(default_factory=dict)
    what_to_do: str = ""

    def count(self, verdict: str) -> int:
        """Subjects of this rule with that verdict."""
        return self.verdicts.get(verdict, 0)

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """(reason, unverifiable subjects), the most frequent reason first."""
        return sorted(self.unverifiable_reasons.items(), key=lambda item: (-item[1], item[0]))

    @property
    def subjects(self) -> int:
        """Number of all subjects of the rule."""
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
class Repeated:
    """Equal verdicts of one rule for one partition and client at one node.

    subject: `orders-3`, empty if the rule is not about a partition. first_time, last_time: ISO 8601, null if no line has one.
    """

    rule: str
    verdict: str
    cluster: str
    subject: str
    client: str | None
    node: int | None
    count: int
    first_time: str | None
    last_time: str | None

    @property
    def seconds(self) -> float:
        """Seconds from the first to the last; 0 if unknown."""
        if self.first_time is None or self.last_time is None:
            return 0
        return (datetime.fromisoformat(self.last_time) - datetime.fromisoformat(self.first_time)).total_seconds()

    def __str__(self) -> str:
        who = ", ".join(part for part in (self.client and f"client {self.client}", self.subject) if part)
        where = "" if self.node is None else f" at node {self.node}"
        when = f", {self.first_time} to {self.last_time}" if self.seconds else ""
        rate = f", {self.count / self.seconds:,.1f} a second" if self.seconds >= 1 else ""
        return f"{who}{where}: {self.count:,} times{when}{rate}"


@dataclass(frozen=True)
class StuckMember:
    """A member of a consumer group that has no position in a partition, gets none, and reads nothing.

    The group had committed_offset. From since to until (ISO 8601) its coordinator (node) answered the client `asks` times that
    there is none, and no broker's request log has a later Fetch or ListOffsets of the client for the partition. evidence: the
    lines of the last offset, of the JoinGroup, and of the first and the last answer without an offset.
    """

    cluster: str
    group: str
    client: str
    topic: str
    partition: int
    node: int
    committed_offset: int
    asks: int
    since: str | None
    until: str | None
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class LostWrites:
    """Batches that a leader had acknowledged to a producer, and that the log of a later leader epoch does not have.

    leader_epoch began at start_offset, without them. acks: -1 = all members of the ISR had the records, 1 = only the leader. host: of the
    producer. batches: how many; first_offset and last_offset are the lowest and the highest of their base offsets. How many records
    they had is not recorded. evidence: the line of the answer that acknowledged the last of them (or a later one to the same producer),
    and the line of the leader that starts the epoch. election: clean, unclean, or null if the evidence does not show it; candidates_before:
    the ISR before it, with the eligible leader replicas, as text; null if not recorded.
    """

    cluster: str
    topic: str | None
    topic_id: str | None
    partition: int
    leader_epoch: int
    start_offset: int
    acks: int
    client: str | None
    host: str | None
    transactional_id: str | None
    batches: int
    first_offset: int
    last_offset: int
    evidence: tuple[Evidence, ...] = ()
    election: str | None = None
    candidates_before: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What is one row, in whichever audit: the leader epoch without them, acks, and the producer."""
        subject = self.cluster, self.topic, self.topic_id, self.partition, self.leader_epoch
        return *subject, self.acks, self.client, self.host, self.transactional_id

    @property
    def acknowledged_by(self) -> int | None:
        """The broker that acknowledged the last of them."""
        return self.evidence[0].node if self.evidence else None

    @property
    def acknowledged_until(self) -> str | None:
        """When it did, by that broker's clock."""
        return self.evidence[0].time if self.evidence else None

    @property
    def begun_by(self) -> int | None:
        """The leader of the epoch."""
        return self.evidence[-1].node if self.evidence else None

    @property
    def begun_at(self) -> str | None:
        """When it began the epoch, by its clock."""
        return self.evidence[-1].time if self.evidence else None


@dataclass(frozen=True)
class LateFile:
    """A log that came after its events had been settled. since: its first event that was not judged, ISO 8601, as printed."""

    cluster: str
    path: str
    since: str


@dataclass(frozen=True)
class Report:
    """One audit, ready to be rendered; `findings` are in the order in which they are shown.

    failures: rule id -> why the rule could not be computed.
    left_out: rule id -> number of its findings that are counted but not listed, if there are too many.
    accepted: finding id -> its acceptance. expired: ids of findings whose acceptance has expired. unmatched: finding ids of the
    baseline's entries that match no finding -> what each is about.
    known: id of a finding that an earlier run over a warehouse reported -> when one first did, ISO 8601. known_writes,
    known_removals: those of lost_writes and of removals that an earlier run reported.
    removals: recorded truncations that removed records, harmful or not.
    repeated: equal verdicts of one client or replica. loops: fetches of one client with the same error, whether or not a rule
    judges them; rule is FETCH, verdict `error 3 UNKNOWN_TOPIC_OR_PARTITION`. stuck: group members that ask for a committed
    offset that no longer exists, and read nothing. lost_writes: writes that had been acknowledged to producers, and are missing;
    lost_writes_cut: there are more than are listed.
    roots: cluster -> path or URI of its capture, as it was named; empty for a warehouse, whose files were in several.
    settled_until: ISO 8601, as the logs print their times. What the logs tell from before was judged by earlier runs over the
    warehouse, and is included; null: nothing was. late: files that came after that, with events from before, which were not judged.
    """

    version: str
    inventory: Inventory
    rules: tuple[RuleResult, ...]
    findings: tuple[Finding, ...]
    failures: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    accepted: Mapping[str, Acceptance] = field(default_factory=dict)
    expired: AbstractSet[str] = frozenset()
    unmatched: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    known_writes: tuple[LostWrites, ...] = ()
    known_removals: tuple[Removal, ...] = ()
    removals: tuple[Removal, ...] = ()
    repeated: tuple[Repeated, ...] = ()
    loops: tuple[Repeated, ...] = ()
    stuck: tuple[StuckMember, ...] = ()
    lost_writes: tuple[LostWrites, ...] = ()
    lost_writes_cut: bool = False
    roots: Mapping[str, str] = field(default_factory=dict)
    settled_until: str | None = None
    late: tuple[LateFile, ...] = ()
    pictures: tuple[Picture, ...] = ()
    undrawn: int = 0

    def accepting(
        self, accepted: Mapping[str, Acceptance], *, expired: AbstractSet[str], unmatched: Mapping[str, str]
    ) -> Report:
        """The same report with some of its findings accepted."""
        return replace(self, accepted=accepted, expired=frozenset(expired), unmatched=unmatched)

    @property
    def several_clusters(self) -> bool:
        """Whether a finding has to name its cluster."""
        return len(self.inventory.clusters) > 1

    def where(self, finding: Finding) -> str:
        """What the finding is about beside topic and partition, `node 2, client c`; with its cluster, if the report has several."""
        return finding.where if self.several_clusters else finding.where_in_cluster

    def accepts(self, finding: Finding) -> bool:
        """The finding and all its consequences are accepted."""
        return all(one.finding_id in self.accepted for one in (finding, *finding.consequences))

    def needs_attention(self, finding: Finding) -> bool:
        """Whether the finding, or a consequence of it, is a breach that is neither accepted nor known."""
        return any(one.verdict in BREACHES and self.counts(one) for one in (finding, *finding.consequences))

    @property
    def flagged(self) -> list[Finding]:
        """The breaches that need attention, in the order of the findings."""
        return [one for one in self.findings if one.verdict in BREACHES and self.needs_attention(one)]

    def is_known(self, finding: Finding) -> bool:
        """Whether the finding is a breach that earlier runs reported, with nothing new in it but what is accepted."""
        return finding.verdict in BREACHES and not self.accepts(finding) and not self.needs_attention(finding)

    def counted(self, verdict: str, rule: str | None = None) -> int:
        """Number of subjects with that verdict, of one rule or of all, without the accepted and the known ones."""
        count = sum(one.count(verdict) for one in self.rules if rule in (None, one.rule))
        found = (one for one in with_consequences(self.findings) if one.verdict == verdict)
        return count - sum(rule in (None, one.rule) for one in found if not self.counts(one))

    def accepted_of(self, verdict: str) -> int:
        """Number of accepted findings with that verdict."""
        found = (one for one in with_consequences(self.findings) if one.verdict == verdict)
        return sum(one.finding_id in self.accepted for one in found)

    def counts(self, finding: Finding) -> bool:
        """Whether the finding is neither accepted nor known."""
        return finding.finding_id not in self.accepted and finding.finding_id not in self.known

    def count(self, verdict: str) -> int:
        """Subjects with that verdict over all rules; one request judged by two rules counts twice."""
        return sum(rule.count(verdict) for rule in self.rules)

    @property
    def totals(self) -> Mapping[str, object]:
        """Clusters, subjects by verdict, those of them that are accepted, new breaches, and ids of failed rules."""
        return {
            "clusters": sorted(self.inventory.clusters),
            **{verdict: self.count(verdict) for verdict in VERDICTS},
            "accepted": {verdict: self.accepted_of(verdict) for verdict in BREACHES},
            "new": {verdict: self.counted(verdict) for verdict in BREACHES},
            "failed_rules": sorted(self.failures),
        }

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
        """Whether any verdict that is neither accepted nor known is at or above the threshold of --fail-on."""
        return any(self.counted(verdict) > 0 for verdict in THRESHOLDS[fail_on])


def merged(reports: Iterable[Report]) -> Report:
    """One report of reports over different clusters."""
    first, *others = reports
    if not others:
        return first
    whole = (first, *others)
    results = {rule.rule: rule for report in whole for rule in report.rules}
    verdicts: dict[str, Counter[str]] = {id: Counter() for id in results}
    reasons: dict[str, Counter[str]] = {id: Counter() for id in results}
    for rule in (rule for report in whole for rule in report.rules):
        verdicts[rule.rule].update(rule.verdicts)
        reasons[rule.rule].update(rule.unverifiable_reasons)
    return Report(
        version=first.version,
        inventory=joined(report.inventory for report in whole),
        rules=tuple(
            replace(rule, verdicts=dict(verdicts[id]), unverifiable_reasons=dict(reasons[id]))
            for id, rule in sorted(results.items())
        ),
        findings=tuple(sorted((one for report in whole for one in report.findings), key=in_order)),
        failures={rule: why for report in whole for rule, why in report.failures.items()},
        left_out=dict(sum((Counter(report.left_out) for report in whole), Counter())),
        removals=tuple(one for report in whole for one in report.removals),
        repeated=tuple(one for report in whole for one in report.repeated),
        loops=tuple(one for report in whole for one in report.loops),
        stuck=tuple(one for report in whole for one in report.stuck),
        lost_writes=tuple(one for report in whole for one in report.lost_writes),
        lost_writes_cut=any(report.lost_writes_cut for report in whole),
        known={id: since for report in whole for id, since in report.known.items()},
        known_writes=tuple(one for report in whole for one in report.known_writes),
        known_removals=tuple(one for report in whole for one in report.known_removals),
        settled_until=min((report.settled_until for report in whole if report.settled_until), default=None),
        late=tuple(path for report in whole for path in report.late),
    )


def grouped(found: Iterable[Finding]) -> Iterator[list[Finding]]:
    """The findings of one severity, rule and verdict together, the worst first."""

    def group(finding: Finding) -> tuple[int, str, int]:
        return SEVERITIES.index(finding.severity), finding.rule, VERDICTS.index(finding.verdict)

    return (list(members) for _, members in groupby(sorted(found, key=group), key=group))
