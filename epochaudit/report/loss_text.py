"""The answer to "was data lost?" as text: lost records and their readers, harmless truncations, what was judged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from epochaudit.kafka.field_values import ALL_REPLICAS
from epochaudit.losses.removal import Reader, Removal
from epochaudit.report.contents import LostWrites, Report, StuckMember
from epochaudit.report.losses import (
    Loss,
    Undelivered,
    elections_judged,
    known_since,
    losses_of,
    spares_clients,
    truncations_of,
    undelivered_of,
    why,
    without_elections,
)
from epochaudit.report.missing_writes import (
    MissingWrites,
    answer,
    by_acks,
    completeness,
    how,
    missing_writes,
    new_writes,
    overview,
)
from epochaudit.report.page import Page, plural
from epochaudit.rules.messages import stated_topic_id

SHOWN: Final = 10
SHOWN_HARMLESS: Final = 3
SHOWN_NAMES: Final = 20

WHAT_TRUNCATED: Final[Mapping[bool | None, str]] = {
    True: "removed committed records, which are lost unless the new leader has them",
    None: "removed records; whether they had been committed is not in the evidence",
    False: "removed records that no client could read: harmless, except to producers that do not wait for all replicas",
}
"""By whether the records had been committed; the worst first."""

STUCK: Final = (
    "it had committed offset {one.committed_offset}; its member {one.client} asked broker {one.node} for it {asks}{times}, was "
    "answered that there is none, and asked no broker for an offset or for records afterwards"
)
"""What is known of a `StuckMember`, beside its group and partition."""

_STYLES: Final[Mapping[bool | None, str]] = {True: "bold red", None: "bold yellow", False: ""}


def say_losses(page: Page, report: Report) -> None:
    """The page's section about losses."""
    page.heading("Was data lost?")
    losses = new_first(report, losses_of(report))
    _answer(page, report)
    several = report.several_clusters
    for loss in losses[:SHOWN]:
        _loss(page, report, loss)
    _more(page, len(losses))
    _lost_writes(page, report, missing_writes(report))
    judged, unjudged = elections_judged(report)
    coverage = f"{plural(judged, 'leader epoch')} judged"
    missing = f"; {unjudged:,} more could not be judged" if unjudged else ""
    truncations = truncations_of(report)
    undelivered = undelivered_of(report)
    if judged or losses:
        none = (
            "no record that had been given out to clients left a log: " if spares_clients(losses, truncations) else ""
        )
        page.say((f"{none}{coverage}{missing}", ""), indent=2, hang=2)
    else:
        page.say((without_elections(report), "bold yellow"), indent=2, hang=2)
    for one in undelivered[:SHOWN]:
        consumers = _names(f"{who.client} ({who.group})" if who.group else f"{who.client}" for who in one.skipped)
        stretch = f"{offsets(one.first_offset, one.last_offset)}, {plural(one.records, 'record')} at most"
        topic_id = stated_topic_id(one.topic_id)
        created = " of the topic created again" + (f" (topic id {topic_id})" if topic_id else "")
        never = f": {stretch}{created} are in its log, but never reached {consumers}"
        page.say((_where(one, several), "bold red"), (never, ""), indent=2, hang=2)
    _more(page, len(undelivered))
    for member in report.stuck[:SHOWN]:
        _stuck(page, member, several)
    _more(page, len(report.stuck))
    for given_out in WHAT_TRUNCATED:
        _truncations(page, report, given_out, [one for one in truncations if one.harmed is given_out])


def new_first(report: Report, losses: Iterable[Loss]) -> list[Loss]:
    """The losses, those last that an earlier run over the warehouse reported."""
    return sorted(losses, key=lambda loss: known_since(report, loss) is not None)


def _loss(page: Page, report: Report, loss: Loss) -> None:
    cause, known = why(report, loss), known_since(report, loss)
    stretch = f"{offsets(loss.first_offset, loss.last_offset)}, {how_many(loss)}"
    how = ", which had been committed" if loss.committed else ""
    how = ", below a high watermark that had been returned to clients" if loss.given_out else how
    when = "" if loss.leader_epoch is None or not loss.committed else f" when leader epoch {loss.leader_epoch} began"
    where = _where(loss, report.several_clusters)
    known_text = f" (known since {known[:10]})" if known else ""
    page.say(
        (where, "" if known else "bold red"), (f"{known_text}: {stretch}, discarded{when}{how}", ""), indent=2, hang=2
    )
    if cause:
        page.say((f"because {cause}", ""), indent=4, hang=2)
    for line in _details(loss):
        page.say((line, ""), indent=4, hang=2)
    skipped: dict[str, list[str]] = {}
    for one in loss.skipped:
        who = f"{one.client} ({one.group})" if one.group else f"{one.client}"
        skipped.setdefault(offsets(one.first_offset, one.last_offset), []).append(who)
    for stretch, consumers in skipped.items():
        skip = f"read on without noticing, and skipped {stretch} of the new log: {_names(consumers)}"
        page.say((skip, ""), indent=4, hang=2)


def _answer(page: Page, report: Report) -> None:
    """The answer first: how many records and acknowledged writes, and of each partition how many writes, which and whose."""
    first = answer(report)
    if first:
        new = any(known_since(report, loss) is None for loss in losses_of(report))
        is_severe = new or by_acks(new_writes(report))["all"]
        page.say((first, "bold red" if is_severe else "bold yellow"), indent=2, hang=2)
    if not report.lost_writes:
        return
    found = missing_writes(report)
    for writes in found[:SHOWN]:
        where, what = overview(writes, several_clusters=report.several_clusters)
        page.say((where, "bold"), (f": {what}", ""), indent=4, hang=2)
    _more(page, len(found))
    page.say((completeness(report), ""), indent=2, hang=2)


def _lost_writes(page: Page, report: Report, found: Sequence[MissingWrites]) -> None:
    """The acknowledged writes that are missing: for each leader epoch and acks their producers, with the lines that prove it."""
    for writes in found[:SHOWN]:
        style = "bold red" if writes.first.acks == ALL_REPLICAS else "bold yellow"
        where = _where(writes.first, report.several_clusters)
        page.say((where, style), (f": {what_was_lost(writes.producers)}", ""), indent=2, hang=2)
        for line in how(writes):
            page.say((line, ""), indent=4, hang=2)
        for one in writes.producers[:SHOWN]:
            page.say((f"{producer(one)}; acknowledged at {one.evidence[0].place}", ""), indent=4, hang=2)
        _more(page, len(writes.producers))
        page.say((f"the epoch starts at {writes.first.evidence[-1].place}", "dim"), indent=4, hang=2)
    _more(page, len(found))


def what_was_lost(writes: Sequence[LostWrites]) -> str:
    """How many acknowledged writes of one leader epoch and acks are missing, and what the producers had been promised."""
    first, count = writes[0], sum(one.batches for one in writes)
    verb, are = ("was", "is") if count == 1 else ("were", "are")
    promise = "acks=all" if first.acks == ALL_REPLICAS else "acks=1, which promises no more than the leader's copy,"
    since = f"since leader epoch {first.leader_epoch}, which starts at offset {first.start_offset}"
    return f"{plural(count, 'write')} of {plural(len(writes), 'producer')} that {verb} acknowledged with {promise} {are} missing {since}"


def producer(one: LostWrites) -> str:
    """The producer, how many writes it lost, and their base offsets."""
    host = f" at {one.host}" if one.host else ""
    transactions = f", transactional id {one.transactional_id}" if one.transactional_id is not None else ""
    stretch = offsets(one.first_offset, one.last_offset)
    return f"{one.client or 'unknown'}{host}{transactions}: {plural(one.batches, 'write')} with base {stretch}"


def _stuck(page: Page, one: StuckMember, several_clusters: bool) -> None:
    times = "" if one.since is None or one.until is None else f" from {one.since} until {one.until}"
    stuck = f": group {one.group} is stuck: {STUCK.format(one=one, asks=plural(one.asks, 'time'), times=times)}"
    page.say((_where(one, several_clusters), "bold red"), (stuck, ""), indent=2, hang=2)
    for line in one.evidence:
        page.say((f"{line.role}: {line.place}", "dim"), indent=4, hang=2)


def _truncations(page: Page, report: Report, given_out: bool | None, found: Sequence[Removal]) -> None:
    if not found:
        return
    what = f"{plural(len(found), 'truncation')} {WHAT_TRUNCATED[given_out]}"
    page.say((what, _STYLES[given_out]), indent=2, hang=2)
    shown = SHOWN_HARMLESS if given_out is False else SHOWN
    for one in found[:shown]:
        lost = f"{offsets(one.first_offset, one.last_offset)}, discarded when leader epoch {one.leader_epoch} began"
        where = _where(one, report.several_clusters) + (" (known)" if one in report.known_removals else "")
        page.say(("; ".join([f"{where}: {lost}", *_details(one)]), ""), indent=4, hang=2)
    _more(page, len(found), shown)


def _more(page: Page, count: int, shown: int = SHOWN) -> None:
    if count > shown:
        page.say((f"and {count - shown:,} more (see --format json)", "dim"), indent=2)


def _where(removed: Loss | Removal | Undelivered | LostWrites | StuckMember, several_clusters: bool) -> str:
    partition = "" if removed.partition is None else f"-{removed.partition}"
    topic = removed.topic if isinstance(removed, StuckMember) else removed.topic or removed.topic_id
    return f"{topic}{partition}{f' of {removed.cluster}' if several_clusters else ''}"


def _details(removed: Loss | Removal) -> list[str]:
    """The records' leader epochs, replicas and readers, as far as known."""
    epochs, brokers = map(str, removed.epochs), removed.replicas
    ends = (
        f"broker {one.node}" + ("" if one.log_end is None else f" (its log ended at {one.log_end})") for one in brokers
    )
    written = f"written in leader epoch{'s' if len(removed.epochs) > 1 else ''} {', '.join(epochs)}"
    details = [written] if removed.epochs else []
    details += [f"truncated by {', '.join(ends)}"] if brokers else []
    details += [f"had read them: {_readers(removed)}"] if removed.read_by else []
    return details


def _readers(removed: Loss | Removal) -> str:
    """The groups, then the clients without one; with the offsets, where they had not read all that was removed."""
    of_groups: dict[str, list[Reader]] = {}
    for one in removed.read_by:
        if one.group is not None:
            of_groups.setdefault(one.group, []).append(one)
    groups = [_part(name, of, removed) for name, of in of_groups.items()]
    clients = [_part(one.client or "unknown", [one], removed) for one in removed.read_by if one.group is None]
    readers = [f"{'group' if len(groups) == 1 else 'groups'} {_names(groups)}"] if groups else []
    readers += [f"{'without a group ' if groups else ''}{_names(clients)}"] if clients else []
    return "; ".join(readers)


def _part(name: str, readers: Sequence[Reader], removed: Loss | Removal) -> str:
    first, last = min(one.first_offset for one in readers), max(one.last_offset for one in readers)
    whole = (first, last) == (removed.first_offset, removed.last_offset)
    return name if whole else f"{name} ({offsets(first, last)})"


def _names(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - SHOWN_NAMES:,} more" if len(every) > SHOWN_NAMES else ""
    return f"{', '.join(every[:SHOWN_NAMES])}{more}"


def how_many(removed: Loss | Removal) -> str:
    """`20 records` if their batches' headers were counted, `20 records at most` by their offsets."""
    if removed.counted is not None:
        return plural(removed.counted, "record")
    return f"{plural(removed.records, 'record')} at most"


def offsets(first: int, last: int) -> str:
    """`offset 94`, `offsets 10 to 29`."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"
