"""Audits captures without some of their files, and counts what each rule still judges."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from epochaudit.pipeline import audit
from epochaudit.rules.rule import EXPOSED, UNVERIFIABLE, VIOLATION
from epochaudit.sources.discovery.discovery import discover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REQUESTS: Final = ("request-log-json", "request-log-text")
CLIENTS: Final = ("client-log",)
METADATA: Final = ("metadata-log-segment", "metadata-log-dump")
WITHOUT: Final[Mapping[str, tuple[str, ...]]] = {
    "all": (),
    "default logs": (*REQUESTS, *CLIENTS),
    "no state-change.log": ("state-change-log",),
    "no server.log": ("server-log",),
    "no metadata log": METADATA,
    "no client logs": CLIENTS,
}
"""Kinds of files that are taken away, by the name of what is left; controller.log is a server.log by its kind."""


@dataclass(frozen=True)
class Judged:
    """Subjects of one rule in one audit: those that got a verdict, and how many there are. breaches: violation or exposed."""

    judged: int
    subjects: int
    breaches: int


Tallied = Mapping[str, Judged]  # by rule


def measure(spark: SparkSession, folder: Path, without: Collection[str]) -> Tallied:
    """What the rules judge of a capture from which files of these kinds were taken away."""
    found = discover(str(folder))
    result = audit(spark, replace(found, files=tuple(file for file in found.files if file.kind not in without)))
    tallied = {
        tally.rule: Judged(
            sum(tally.counts.values()) - tally.counts[UNVERIFIABLE],
            sum(tally.counts.values()),
            tally.counts[VIOLATION] + tally.counts[EXPOSED],
        )
        for tally in result.tallies
    }
    result.release()
    spark.catalog.clearCache()
    return tallied


def measured(
    spark: SparkSession, capture: Callable[[str], Path], names: Iterable[str], variants: Iterable[str]
) -> dict[tuple[str, str], Tallied]:
    """By capture and variant of WITHOUT."""
    left = list(variants)
    return {(name, variant): measure(spark, capture(name), WITHOUT[variant]) for name in names for variant in left}
