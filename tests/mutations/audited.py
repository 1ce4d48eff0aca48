"""Plants all mutations, audits the copies and the unchanged captures in one run, and says what was found of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from epochaudit.auditing import audit
from epochaudit.findings import Finding, findings
from epochaudit.report.assembly import recording
from tests.mutations.editing import REQUEST_LOG, Copy
from tests.mutations.planting import Mutation, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outcome:
    """What an audit says of a mutated copy.

    found: findings of the mutation's rule, with its verdict, at the place where the defect is. others: all further
    findings that the unchanged capture does not show.
    """

    mutation: Mutation
    place: Place
    found: tuple[Finding, ...]
    others: tuple[Finding, ...]

    @property
    def undeclared(self) -> tuple[Finding, ...]:
        """Findings that the mutation does not declare."""
        return tuple(finding for finding in self.others if finding.rule not in self.mutation.also)

    @property
    def missing(self) -> tuple[str, ...]:
        """Rules that the mutation declares, and that found nothing."""
        return tuple(rule for rule in self.mutation.also if rule not in {finding.rule for finding in self.others})


def outcomes(
    spark: SparkSession, planted: Sequence[Mutation], base: Callable[[str], Path], folder: Path
) -> tuple[Outcome, ...]:
    """Plant the mutations below `folder`, in copies of the captures that `base` unpacks, and audit them."""
    places = {}
    for mutation in planted:
        whole = base(mutation.capture)
        copy = Copy(
            whole if mutation.fetches else without_fetches(whole, folder / "without-fetches" / mutation.capture)
        )
        places[mutation.name] = mutation.plant(copy)
        copy.write(folder / mutation.name, mutation.name)
    captures = sorted({mutation.capture for mutation in planted})
    for capture in captures:
        Copy(base(capture)).write(folder / capture, capture)
    found = _findings(spark, [str(folder / name) for name in (*places, *captures)])
    return tuple(_outcome(m, places[m.name], found[m.name], found[m.capture]) for m in planted)


def without_fetches(capture: Path, folder: Path) -> Path:
    """The capture in a folder, made once, with request logs that lack the Fetch requests."""
    if not folder.exists():
        copy = Copy(capture)
        for line in copy.lines(REQUEST_LOG, '"requestApiKeyName":"FETCH"'):
            line.drop()
        copy.write(folder)
    return folder


def _findings(spark: SparkSession, paths: Iterable[str]) -> dict[str, list[Finding]]:
    """The findings of each cluster."""
    audited = audit(spark, *paths)
    splits = [row.asDict() for row in audited.splits.select("cluster", "file", "split", "lines").collect()]
    rows = audited.findings.toArrow().to_pylist()
    audited.release()
    by_cluster = defaultdict(list)
    for finding in findings(rows, recording(audited.captures, splits), caused_by={}):
        by_cluster[finding.cluster].append(finding)
    return by_cluster


def _outcome(mutation: Mutation, place: Place, found: Iterable[Finding], base: Iterable[Finding]) -> Outcome:
    known = {_subject(finding) for finding in base}
    new = [finding for finding in found if _subject(finding) not in known]
    right = [finding for finding in new if is_found(mutation, place, finding)]
    return Outcome(mutation, place, tuple(right), tuple(finding for finding in new if finding not in right))


def is_found(mutation: Mutation, place: Place, finding: Finding) -> bool:
    """The finding is what was planted."""
    named = [name.name for name in fields(Place) if name.name != "evidence" and getattr(place, name.name) is not None]
    there = all(getattr(finding, name) == getattr(place, name) for name in named)
    shown = place.evidence is None or any(place.evidence in (line.text or "") for line in finding.evidence)
    return (finding.rule, finding.verdict) == (mutation.rule, mutation.verdict) and there and shown


def _subject(finding: Finding) -> tuple[object, ...]:
    about = ("rule", "verdict", "node", "topic", "partition", "leader_epoch", "client", "group", "correlation_id")
    return tuple(getattr(finding, name) for name in about)
