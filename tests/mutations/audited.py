"""Plants all mutations, audits the copies in one run, and lists what was found in each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from epochaudit.findings.finding import Finding, findings
from epochaudit.pipeline import audit
from epochaudit.report.assembly import recording
from tests.mutations.editing import Copy
from tests.mutations.planting import Mutation, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Outcome:
    """The result of an audit of a mutated copy.

    found: findings of the mutation's rule, with its verdict, at the place where the defect is. others: all further ones;
    in the captures as they were recorded nothing is found.
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
        copy = Copy(base(mutation.capture))
        places[mutation.name] = mutation.plant(copy)
        if not mutation.fetches:
            copy.drop_fetches()
        copy.write(folder / mutation.name, mutation.name)
    found = _findings(spark, [str(folder / name) for name in places])
    return tuple(_outcome(mutation, places[mutation.name], found[mutation.name]) for mutation in planted)


def _findings(spark: SparkSession, paths: Iterable[str]) -> dict[str, list[Finding]]:
    """The findings of each cluster. The session should have SMALL_PLANS: for many small captures, too, plans are most of the cost."""
    audited = audit(spark, *paths)
    splits = [row.asDict() for row in audited.splits.select("cluster", "file", "split", "lines").collect()]
    rows = audited.findings.toArrow().to_pylist()
    audited.release()
    assert not audited.failures, audited.failures
    by_cluster = defaultdict(list)
    for finding in findings(rows, recording(audited.captures, splits), caused_by={}):
        by_cluster[finding.cluster].append(finding)
    return by_cluster


def _outcome(mutation: Mutation, place: Place, findings: Sequence[Finding]) -> Outcome:
    right = tuple(finding for finding in findings if is_found(mutation, place, finding))
    return Outcome(mutation, place, right, tuple(finding for finding in findings if finding not in right))


def is_found(mutation: Mutation, place: Place, finding: Finding) -> bool:
    """The finding is what was planted."""
    named = [name.name for name in fields(Place) if name.name != "evidence" and getattr(place, name.name) is not None]
    there = all(getattr(finding, name) == getattr(place, name) for name in named)
    shown = place.evidence is None or any(place.evidence in (line.text or "") for line in finding.evidence)
    return (finding.rule, finding.verdict) == (mutation.rule, mutation.verdict) and there and shown
