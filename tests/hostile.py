"""Text that would act, in a browser, a terminal, a spreadsheet or a viewer of XML, if it were not made harmless."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import Missing, NodeRead
from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.report.contents import Acceptance, LostWrites, Repeated, Report, StuckMember
from epochaudit.report.pictures.picture import Picture
from epochaudit.timeline.merge import Timeline
from epochaudit.timeline.picture import picture_of
from tests.timeline.facts import Event, topics_of
from tests.timeline.incident import UNCLEAN

HOSTILE = (
    "</td></title></text><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"' onload=window.hacked=1 "
    "javascript:window.hacked=1 ]]> &amp;{{ 7 * 7 }}{% raw %} \x1b[2J\x1b]0;title\x07\r\x00\x9b31m\u202etopic\u200b\u2066\ufffe\ufffa"
)
FORMULA = '=HYPERLINK("http://evil.example","x")'
TALL = "A" * 1_000_000
"""A string of a megabyte, which no output prints whole."""
UNSAFE = frozenset("\x1b\x07\r\x00\x9b\u202e\u200b\u2066\ufffe\ufffa")
"""What no text output may have."""


def hostile_report(report: Report, finding: Finding, text: str = HOSTILE) -> Report:
    """The report with this text in each field that logs fill."""
    lines = tuple(
        replace(line, file=text, role=text, text=text * 30 if len(text) < 1_000 else text[:2_000])
        for line in finding.evidence
    )
    bad = replace(
        finding, topic=text, client=text, group=text, cluster=text, expected=text, observed=text, because=(text,), evidence=lines,
        topic_id=text, first_offset=1, last_offset=2, rule="TR-06",
    )  # fmt: skip
    inventory = replace(
        report.inventory,
        clusters=(text,),
        left_out={text: 1},
        unknown_files=(text,),
        nodes=(NodeRead(text, 1, (text,), (text,)),),
        missing=(Missing(text, 3, text, text),),
        files=tuple(replace(file, path=text, kind=text, cluster=text) for file in report.inventory.files),
        requests={text: 1},
    )
    known = replace(bad, finding_id="k", rule="SR-01")
    rules = tuple(replace(rule, unverifiable_reasons={text: 3}) for rule in report.rules)
    return replace(
        report,
        rules=rules,
        inventory=inventory,
        findings=(replace(bad, consequences=(replace(bad, finding_id="b", rule="TR-01"),)), known),
        failures={text: text},
        accepted={"k": Acceptance(text, text, date(2027, 1, 31))},
        removals=(Removal(text, text, text, 0, 2, 1, 2, (1,), None, (Replica(1, 3, 1),), (Reader(text, text, 1, 2),)),),
        repeated=(Repeated("TR-06", "violation", text, text, text, 1, 12, None, None),),
        loops=(Repeated("FETCH", text, text, text, text, 1, 12, None, None),),
        stuck=(StuckMember(text, text, text, text, 0, 1, 2, 3, None, None, lines),),
        lost_writes=(LostWrites(text, text, text, 0, 2, 10, 1, text, text, text, 3, 10, 19, lines),),
        pictures=(hostile_picture(text),),
    )


def hostile_events(text: str = HOSTILE) -> list[Event]:
    """An incident with this text wherever a log line can put it."""
    return [
        {
            **event,
            "topic": text,
            "cluster": text,
            "reason": text,
            "file": text,
            "client_id": text if event["client_id"] else None,
        }
        | {"last": {**event["last"], "file": text}}
        for event in UNCLEAN
    ]


def hostile_timeline(text: str = HOSTILE) -> Timeline:
    """The timeline of that incident."""
    return Timeline(text, 0, tuple(topics_of(*hostile_events(text))))


def hostile_picture(text: str = HOSTILE) -> Picture:
    """Its picture."""
    return picture_of(hostile_timeline(text).topics[0], text, 0)
