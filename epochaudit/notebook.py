"""The library as notebooks and scripts use it: results that show themselves, and tables by name.

import epochaudit
spark = epochaudit.session()
result = epochaudit.audit(spark, "captures/last-night")
result                                   # in a notebook: verdict, losses, findings
result.timeline("orders-3")              # all that is recorded about a partition
epochaudit.frames(spark, "captures/last-night")["fetches"].where("client_id = 'billing'").show()
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from epochaudit import pipeline
from epochaudit.findings.finding import BREACHES
from epochaudit.pipeline import Audit
from epochaudit.replay.frames import FRAMES
from epochaudit.report.assembly import report_of
from epochaudit.report.contents import Report
from epochaudit.report.loss_text import offsets
from epochaudit.report.losses import Loss, losses_of
from epochaudit.report.pictures.picture import Picture
from epochaudit.report.templates import environment
from epochaudit.report.text import headline
from epochaudit.sources.discovery.discovery import discover
from epochaudit.sources.files.capture import Capture
from epochaudit.sources.scan.staging import release as unpersist_scan
from epochaudit.spark.memo import unpersist
from epochaudit.timeline import merge, page
from epochaudit.timeline.incidents import events_of
from epochaudit.timeline.merge import Timeline
from epochaudit.timeline.picture import picture_of

SHOWN: Final = 50  # findings and losses that a cell lists


@dataclass(frozen=True)
class PartitionTimeline:
    """A partition's timeline. A notebook shows it as a picture, a terminal as text. rows: the timeline by topic and epoch."""

    rows: Timeline

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """One picture for each topic of the name."""
        rows = self.rows
        return tuple(picture_of(one, rows.topic, rows.partition, left_out=rows.left_out) for one in rows.topics)

    def __repr__(self) -> str:
        return page.render(self.rows)

    def _repr_html_(self) -> str:
        return "".join(picture._repr_html_() for picture in self.pictures)


@dataclass(frozen=True)
class Result:
    """An audit's result. A notebook shows its verdict, losses and findings; `tables` has its DataFrames.

    tables: the `pipeline.Audit`, valid until `release`.
    """

    tables: Audit

    @property
    def findings(self) -> DataFrame:
        """All findings (`pipeline.Audit.findings`)."""
        return self.tables.findings

    @property
    def verdicts(self) -> DataFrame:
        """Subjects by rule and verdict (`pipeline.Audit.verdicts`)."""
        return self.tables.verdicts

    @property
    def events(self) -> DataFrame:
        """The recorded events (schemas/events.toml)."""
        return self.tables.events

    @property
    def quarantine(self) -> DataFrame:
        """The lines that could not be read (schemas/quarantine.toml)."""
        return self.tables.quarantine

    @cached_property
    def report(self) -> Report:
        """What `epochaudit audit` reports, as values: findings with their lines, inventory, counts."""
        return report_of(self.tables)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The lost records: partition, offsets, leader epochs, who truncated them, who had read them, who read on."""
        return losses_of(self.report)

    def timeline(self, subject: str) -> PartitionTimeline:
        """All that is recorded about one partition, named `orders-3`. Raises TimelineError if nothing is."""
        return PartitionTimeline(merge.timeline(events_of(self.tables), *merge.subject_of(subject)))

    def release(self) -> None:
        """Free the memory and disk that the audit uses. The DataFrames can't be used afterwards, the report can."""
        self.tables.release()

    def __repr__(self) -> str:
        return headline(self.report)

    def _repr_html_(self) -> str:
        found = [finding for finding in self.report.findings if finding.verdict in BREACHES]
        template = environment().get_template("report/notebook.html.jinja")
        return template.render(
            report=self.report,
            headline=headline(self.report),
            losses=self.losses,
            findings=found,
            shown=SHOWN,
            offsets=offsets,
        )


def audit(
    spark: SparkSession,
    *captures: str | Capture,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    show: Collection[str] = (),
    fold: bool = True,
) -> Result:
    """Audit captures; arguments and errors as at `pipeline.audit`."""
    return Result(pipeline.audit(spark, *captures, select=select, ignore=ignore, show=show, fold=fold))


class Frames(Mapping[str, DataFrame]):
    """The frames that rules judge, by name. A frame is planned when it is asked for, and computed by an action on it.

    The modules of epochaudit.replay describe grain and columns; `epochaudit explain RULE` names the one of a rule.
    """

    def __init__(self, events: DataFrame, scanned: DataFrame) -> None:
        self._events, self._scanned = events, scanned

    def __getitem__(self, name: str) -> DataFrame:
        return FRAMES[name].of(self._events)

    def __iter__(self) -> Iterator[str]:
        return iter(FRAMES)

    def __len__(self) -> int:
        return len(FRAMES)

    def release(self) -> None:
        """Free the tables that frames share, and the rows that were read. The frames can't be used afterwards."""
        unpersist(self._events)
        unpersist_scan(self._scanned)


def frames(spark: SparkSession, *captures: str | Capture) -> Frames:
    """The frames of captures, without evaluating a rule. Raises CaptureError."""
    discovered = [one if isinstance(one, Capture) else discover(one) for one in captures]
    read = pipeline.reading(spark, discovered)
    return Frames(pipeline.judged_events(read), read.rows)
