"""Audits histories with epochaudit, and compares each verdict with the oracle's."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from epochaudit.pipeline import audit
from epochaudit.sources.discovery.discovery import discover
from prove.history import History, Verdict
from prove.oracle.catalogue import OracleRule, rules_of, verdicts_of
from prove.rendering.files import Places, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from epochaudit.rules.messages import MessageTemplates
    from epochaudit.sources.files.capture import Capture

SHOWN: Final = ("pass", "fenced", "unverifiable")
COLUMNS: Final = (
    "cluster", "rule", "branch", "topic", "partition", "leader_epoch", "topic_id", "node", "places"
)  # fmt: skip
"""Of VERDICT_ROW: what a verdict and its subject are read from."""


@dataclass(frozen=True)
class Disagreement:
    """A verdict that only one of the two gives. side: `oracle` or `epochaudit`."""

    history: str
    side: str
    verdict: Verdict

    def __str__(self) -> str:
        rule, verdict, key = self.verdict
        return f"{self.history}: only {self.side} gives {rule} {verdict} at {key}"


@dataclass
class Comparison:
    """What a batch gave. agreed: (rule, verdict) -> number of verdicts that both give."""

    histories: int = 0
    agreed: Counter[tuple[str, str]] = field(default_factory=Counter)
    disagreements: list[Disagreement] = field(default_factory=list)

    def add(self, other: Comparison) -> None:
        """Include another batch."""
        self.histories += other.histories
        self.agreed += other.agreed
        self.disagreements += other.disagreements


@dataclass(frozen=True)
class Recorded:
    """Histories as captures, whose files exist below a folder.

    judged: history's name -> the rules that its release is judged by. places: history's name -> where its events' lines are.
    """

    captures: tuple[Capture, ...]
    judged: Mapping[str, Mapping[str, OracleRule]]
    places: Mapping[str, Places]

    @classmethod
    def write(cls, histories: Sequence[History], folder: Path) -> Recorded:
        """Write the histories' files below the folder, in place of all that it had."""
        shutil.rmtree(folder, ignore_errors=True)
        places = {history.name: write(history, folder / history.name) for history in histories}
        captures = tuple(discover(str(folder / history.name)) for history in histories)
        return cls(captures, {history.name: rules_of(history) for history in histories}, places)

    def verdicts(
        self, rows: Iterable[Mapping[str, Any]], messages: Mapping[str, MessageTemplates]
    ) -> dict[str, Counter[Verdict]]:
        """History's name -> the verdicts in rows of epochaudit. rows: COLUMNS of VERDICT_ROW. messages: of their rules, by id."""
        branches = {rule: [branch.verdict for branch in one.branches] for rule, one in messages.items()}
        own = {rule: one.evidence[0][1] for rule, one in messages.items()}
        found: dict[str, Counter[Verdict]] = {name: Counter() for name in self.judged}
        for row in rows:
            rule, history = row["rule"], row["cluster"]
            if rule not in self.judged[history]:
                continue
            place = row["places"].get(own[rule])
            event = self.places[history].get((place["file"], place["byte_offset"])) if place else None
            key = self.judged[history][rule].key(event, row)
            found[history][rule, branches[rule][row["branch"]], key] += 1
        return found


def rows_of(verdict_rows: DataFrame) -> list[dict[str, Any]]:
    """The rows of `Recorded.verdicts`."""
    rows: list[dict[str, Any]] = verdict_rows.select(*COLUMNS).toArrow().to_pylist(maps_as_pydicts="strict")
    return rows


def product_verdicts(
    spark: SparkSession, histories: Sequence[History], folder: Path, rules: Collection[str]
) -> dict[str, Counter[Verdict]]:
    """History's name -> the verdicts of epochaudit over its files, which are written below the folder and removed again."""
    recorded = Recorded.write(histories, folder)
    audited = audit(spark, *recorded.captures, select=sorted(rules), show=SHOWN)
    if audited.failures:
        raise RuntimeError(f"epochaudit could not compute {audited.failures}")
    found = recorded.verdicts(rows_of(audited.verdict_rows), audited.messages)
    quarantined = audited.quarantine.count()
    audited.release()
    spark.catalog.clearCache()
    shutil.rmtree(folder, ignore_errors=True)
    if quarantined:
        raise RuntimeError(f"epochaudit cannot read {quarantined} of the rendered lines")
    return found


def oracle_verdicts(history: History, rules: Iterable[str]) -> Counter[Verdict]:
    """The oracle's verdicts on a history."""
    return Counter(verdict for rule in rules for verdict in verdicts_of(rule, history))


def compared(name: str, oracle: Counter[Verdict], product: Counter[Verdict]) -> Comparison:
    """The verdicts that both give, and those that only one gives."""
    result = Comparison(histories=1)
    for (rule, verdict, _), count in (oracle & product).items():
        result.agreed[rule, verdict] += count
    for side, rest in (("oracle", oracle - product), ("epochaudit", product - oracle)):
        result.disagreements += [Disagreement(name, side, verdict) for verdict in rest.elements()]
    return result


def compare(
    spark: SparkSession, histories: Sequence[History], folder: Path, rules: Collection[str] | None = None
) -> Comparison:
    """Audit histories in one run, each as a cluster of its own, and compare."""
    judged = {rule for history in histories for rule in rules_of(history)}
    chosen = sorted(judged if rules is None else judged & set(rules))
    product = product_verdicts(spark, histories, folder, chosen)
    total = Comparison()
    for history in histories:
        own = rules_of(history).keys() & set(chosen)
        given = Counter({verdict: n for verdict, n in product[history.name].items() if verdict[0] in own})
        total.add(compared(history.name, oracle_verdicts(history, own), given))
    return total


def by_rule(agreed: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Rule -> verdict -> how many both gave."""
    table: dict[str, dict[str, int]] = {}
    for (rule, verdict), count in sorted(agreed.items()):
        table.setdefault(rule, {})[verdict] = count
    return table
