"""What a picture of a partition shows, before it is laid out.

A picture has a column (lane) per node and client, and rows (steps) in logical order: leader epoch by leader epoch, each host's steps
in its own order. Beside it stands which offsets were truncated, read and skipped. It holds tens of steps, however many rows a
timeline has: like rows are one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
ELECTION: Final = "election"
UNCLEAN: Final = "unclean"
UNKNOWN: Final = "unknown"
TRUNCATED: Final = "truncated"
REFUSED: Final = "refused"
SERVED: Final = "served"
COMMIT: Final = "commit"
CROSSED: Final = "crossed"
DETECTED: Final = "detected"
ISR: Final = "isr"
STOPPED: Final = "stopped"
PROCESS: Final = "process"
OTHER: Final = "other"

MARKS: Final = {
    LEADER: "becomes leader",
    FOLLOWER: "becomes follower",
    ELECTION: "leader and ISR, as the controller decided",
    UNCLEAN: "unclean election",
    UNKNOWN: "leader from outside the ISR; whether it was eligible is not known",
    TRUNCATED: "log truncated",
    REFUSED: "request refused",
    SERVED: "request served",
    COMMIT: "offset committed",
    CROSSED: "read on without noticing",
    DETECTED: "client detected the truncation",
    ISR: "ISR changed",
    STOPPED: "replica stopped or deleted",
    PROCESS: "process started or stopped",
    OTHER: "other",
}
"""The marks of steps, each with its meaning. Each has a shape of its own, so that nothing depends on colours."""

LOG: Final = "log"
CUT: Final = "cut"
READ: Final = "read"
SKIPPED: Final = "skipped"


@dataclass(frozen=True)
class Lane:
    """A column: a node, a client, the metadata log, or all clients that have no lane of their own."""

    name: str
    is_client: bool = False

    @property
    def label(self) -> str:
        """The name without what its place and style say."""
        return self.name.removeprefix("client ") if self.is_client else self.name


@dataclass(frozen=True)
class Step:
    """A recorded fact, or several that are alike.

    mark: one of MARKS. lane: where it happened, an index of Picture.lanes. asker: the lane of the requester, if it is a request.
    label: few words. sentence: what the line states. time, until: of the first and the last line (ISO 8601, by the host's clock).
    place: file and line, or file and byte offset. rows: the number of rows of the timeline that it stands for.
    findings: (rule, finding id) of the findings that one of its lines proves. anchor: id of its row in the page, if it has one.
    """

    mark: str
    lane: int
    label: str
    sentence: str
    host: str
    place: str
    asker: int | None = None
    time: str | None = None
    until: str | None = None
    rows: int = 1
    findings: tuple[tuple[str, str], ...] = ()
    anchor: str | None = None


@dataclass(frozen=True)
class Span:
    """The steps while one leader epoch was the newest that their hosts had stated, or what is left out of several epochs.

    first_epoch, last_epoch: equal, but for epochs that are left out; null before any epoch was stated. leaders: as the rows name
    them. start_offset: where the epoch begins in the log, null if not recorded. leading, present: lanes of the leaders, and of
    all hosts with rows. left_out: rows that are not drawn. name: what the steps have in common, if it is no leader epoch.
    """

    first_epoch: int | None
    last_epoch: int | None
    steps: tuple[Step, ...] = ()
    leaders: tuple[int, ...] = ()
    start_offset: int | None = None
    leading: tuple[int, ...] = ()
    present: tuple[int, ...] = ()
    left_out: int = 0
    name: str = ""

    @property
    def title(self) -> str:
        """`leader epoch 3: leader 2, from offset 94`."""
        if self.name:
            return self.name
        if self.first_epoch is None:
            return "before any leader epoch was stated"
        if self.first_epoch != self.last_epoch:
            return f"leader epochs {self.first_epoch} to {self.last_epoch}"
        leaders = (
            f": leader {', '.join('none' if one < 0 else str(one) for one in self.leaders)}" if self.leaders else ""
        )
        start = "" if self.start_offset is None else f", from offset {self.start_offset}"
        return f"leader epoch {self.first_epoch}{leaders}{start}"


@dataclass(frozen=True)
class Stretch:
    """Offsets first to last of a log, both inclusive; last is null if the end is not recorded.

    kind: LOG (of a leader epoch), CUT (truncated), READ (by a consumer), SKIPPED (by a consumer that read on).
    """

    kind: str
    label: str
    first: int
    last: int | None
    sentence: str
    leader_epoch: int | None = None


@dataclass(frozen=True)
class Picture:
    """A partition's picture; it shows itself in a notebook.

    left_out: rows of the timeline that no step stands for. note: what else is missing, if anything.
    """

    topic: str
    partition: int
    cluster: str
    lanes: tuple[Lane, ...]
    spans: tuple[Span, ...]
    stretches: tuple[Stretch, ...] = ()
    topic_id: str | None = None
    left_out: int = 0
    note: str = ""

    @property
    def subject(self) -> str:
        """`orders-3`."""
        return f"{self.topic}-{self.partition}"

    @property
    def title(self) -> str:
        """`orders-3 of west`."""
        return f"{self.subject} of {self.cluster}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps, in order."""
        return tuple(step for span in self.spans for step in span.steps)

    def _repr_svg_(self) -> str:
        from epochaudit.report.pictures.svg import document

        return document(self)

    def _repr_html_(self) -> str:
        from epochaudit.report.pictures.figure import notebook

        return notebook(self)
