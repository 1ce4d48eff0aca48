"""Oracle of the rule of followers that are not live (KIP-320, KAFKA-6880)."""

from __future__ import annotations

from prove.history import UPDATE_METADATA, Control, Event, History, IsrLine, ProcessStarts, SettingPrinted, since
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, Judged

JUST_MS = 1000
SOON_MS = 30_000
BY_CONTROLLER = ("2.7-IV2", "3.3-IV3")


def ff06(history: History) -> Judged:
    """A leader that writes its ISRs to ZooKeeper takes in live followers only."""
    announces = not since(history.release.version, 2, 8)
    lines = [event for event in history.events if isinstance(event, IsrLine)]
    sent = [event for event in history.events if isinstance(event, Control) and event.api == UPDATE_METADATA]
    for number, line in enumerate(lines):
        added = {*line.isr} - {*line.before}
        if not added or line.kind != ("expanding" if announces else "updated"):
            continue
        (replica,) = added
        key = line.id, None, line.partition
        decides = True if announces else _writes_itself(history, line)
        known = [one for one in sent if one.at <= line.at]
        if decides is False or (decides is None and (not known or replica in known[-1].live_brokers)):
            continue
        refused = announces and lines[number + 1].kind == "skipped"
        yield _verdict(line, replica, sent, refused=refused, decides=decides), key


def _verdict(line: IsrLine, replica: int, sent: list[Control], *, refused: bool, decides: bool | None) -> str:
    known = [one for one in sent if one.at <= line.at]
    if not known:
        return UNVERIFIABLE
    if replica in known[-1].live_brokers:
        return PASS
    if decides is None:
        return UNVERIFIABLE
    if refused:
        return FENCED
    recent = [one for one in known if one.at > line.at - JUST_MS]
    before = known[: len(known) - len(recent)]
    removed_just_now = bool(recent) and (
        not before or any(replica in one.live_brokers for one in (before[-1], *recent))
    )
    later = [one for one in sent if one.at > line.at]
    soon = any(replica in one.live_brokers for one in later if one.at <= line.at + SOON_MS)
    return UNVERIFIABLE if removed_just_now or soon or not later else EXPOSED


def _writes_itself(history: History, line: Event) -> bool | None:
    """Whether the leader writes its ISRs itself, by the settings that its process has printed. None: it has not."""
    printed = None
    for event in history.events:
        if event.id > line.id:
            break
        if isinstance(event, ProcessStarts):
            printed = None
        elif isinstance(event, SettingPrinted):
            printed = event.value not in BY_CONTROLLER
    return printed
