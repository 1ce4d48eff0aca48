"""Oracle of the rules of group generations and member epochs.

Commits are counted once per coordinator, group, member, generation, kind of request, error code and what the coordinator knew: the first
one is the subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prove.coordination import TXN_OFFSET_COMMIT, Beats, Commits, Joins, OfMember, Syncs
from prove.history import OFFSET_COMMIT, Event, History, ProcessStarts, since
from prove.oracle.coordinator_log import SECOND_MS, Order, before, breach, may_have_returned, seems_before
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

CONSUMER_OFFSETS = "__consumer_offsets"
ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE, FENCED_EPOCH, STALE_EPOCH = 22, 25, 82, 110, 113
WITH_MEMBER_EPOCH = 9
"""The first version of OffsetCommit that may state a member epoch."""
_OF_COORDINATOR = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


def _has_classic_id(member_id: str) -> bool:
    """A coordinator gave the id to a member of a classic group. Members that join a group of KIP-848 keep theirs, if it becomes classic."""
    return bool(_OF_COORDINATOR.search(member_id))


def _joined(joins: list[Joins], commit: Commits, until: int | None = None) -> bool:
    """The member was given the generation of its commit in a classic group, no later than `until`."""
    return any(
        (one.given_member_id, one.given_generation) == (commit.member_id, commit.generation_id)
        and (until is None or one.at <= until)
        for one in joins
    )


def _commits(history: History) -> Iterator[tuple[Commits, int]]:
    """(commit, error code), once per code, in the order of each host's lines."""
    for event in sorted((e for e in history.events if isinstance(e, Commits)), key=lambda event: event.at):
        for code in sorted({code for _, code in event.codes}):
            yield event, code


@dataclass(frozen=True)
class _Group:
    """What the log of a coordinator has of a group. joins: answers of classic groups. syncs: accepted."""

    joins: list[Joins]
    syncs: list[Syncs]
    requests: list[OfMember]


def _of_group(history: History, of: OfMember) -> _Group:
    requests = [
        event for event in history.of(of.node) if isinstance(event, OfMember) and event.group_id == of.group_id
    ]  # fmt: skip
    joins = [one for one in requests if isinstance(one, Joins) and not one.error_code and one.leader]
    syncs = [one for one in requests if isinstance(one, Syncs) and not one.error_code]
    return _Group(joins, syncs, requests)


@dataclass(frozen=True)
class _Standing:
    """What a coordinator had answered before a commit. joined, written: a newer generation, to JoinGroup, and to SyncGroup or a commit.

    used: a newer generation is known by commits only. just_newer, just_replaced: only if no line was written late.
    """

    given: bool
    member_joined: bool
    joined: bool
    written: bool
    used: bool
    instance: str | None
    named: bool
    replaced: bool
    just_newer: bool
    just_replaced: bool


def _standing(history: History, commit: Commits) -> _Standing:
    group, generation = _of_group(history, commit), commit.generation_id
    own = [one for one in group.joins if one.given_generation == generation]
    last = max((one.at for one in own), default=0)
    synced = [
        (one.generation_id, one) for one in group.syncs
        if any(
            (join.given_member_id, join.given_generation) == (one.member_id, one.generation_id) and join.at <= one.at
            for join in group.joins
        )
    ]  # fmt: skip

    committed = [
        (one.generation_id, one) for one in group.requests
        if isinstance(one, Commits) and one.api == OFFSET_COMMIT and any(not code for _, code in one.codes)
    ]  # fmt: skip
    in_joined = [(number, one) for number, one in committed if _joined(group.joins, one, one.at)]
    of_classic = [*in_joined, *((number, one) for number, one in committed if _has_classic_id(one.member_id))]

    def newer(found: Sequence[tuple[int, Event]], order: Order = before) -> bool:
        """A higher generation was stated after the last answer with the commit's own, before the commit."""
        return bool(own) and any(
            number > generation and one.at > last and order(one, commit.arrived) for number, one in found
        )

    named = [
        one for one in group.joins if one.given_member_id == commit.member_id and one.group_instance_id is not None
    ]
    instance = named[-1].group_instance_id if named else commit.group_instance_id
    since_ms = max((one.at for one in named), default=None)
    first_named: dict[str, int] = {}
    for one in group.joins:
        if one.group_instance_id == instance:
            first_named[one.given_member_id] = min(one.at, first_named.get(one.given_member_id, one.at))

    def takes(commit: Commits) -> bool:
        """Its member was given the name later, or its join is not recorded, and its id is that of a classic member."""
        if commit.member_id in first_named:
            return since_ms is not None and first_named[commit.member_id] > since_ms
        return _has_classic_id(commit.member_id)

    takers: list[Syncs | Commits] = [*group.syncs, *(one for _, one in committed if takes(one))]

    def replaced(order: Order) -> bool:
        """Another member had taken the name before the commit."""
        return since_ms is not None and any(
            one.group_instance_id == instance and one.member_id != commit.member_id and one.arrived > since_ms + SECOND_MS
            and order(one, commit.arrived)
            for one in takers
        )  # fmt: skip

    joined, written = newer([(one.given_generation, one) for one in group.joins]), newer([*synced, *in_joined])
    known = joined or written or newer(of_classic)
    return _Standing(
        bool(own), any(one.given_member_id == commit.member_id for one in own), joined, written, newer(of_classic) and not written,
        instance, bool(named), replaced(before),
        just_newer=not known and newer([*synced, *of_classic], seems_before), just_replaced=not replaced(before) and replaced(seems_before),
    )  # fmt: skip


def _classic_commits(history: History) -> Iterator[tuple[Commits, int, _Standing]]:
    """The first commit of each kind, of members of classic groups."""
    seen = set()
    for event, code in _commits(history):
        if event.generation_id < 0:
            continue
        standing = _standing(history, event)
        kind = (event.node, event.group_id, event.member_id, event.generation_id, event.api, code)
        just = code == 0 and (standing.just_newer, standing.just_replaced)
        known = kind, standing.joined, standing.written, standing.used, standing.replaced, just
        if known not in seen:
            seen.add(known)
            if _has_classic_id(event.member_id) or standing.member_joined:
                yield event, code, standing


def ge01(history: History) -> Judged:
    """A coordinator that has written a newer generation refuses commits in the former one."""
    for event, code, standing in _classic_commits(history):
        if code in (ILLEGAL_GENERATION, UNKNOWN_MEMBER, FENCED_INSTANCE):
            yield FENCED, place(event)
        elif code == 0:
            newer = standing.joined or standing.written or standing.used
            written = standing.written or (standing.used and not since(_version(history, event), 3, 8))
            unsure = not standing.given or standing.just_newer or (newer and not (standing.member_joined and written))
            verdict = breach(history, CONSUMER_OFFSETS) if newer else PASS
            yield (UNVERIFIABLE if unsure else verdict), place(event)


def ge02(history: History) -> Judged:
    """A group with members takes no commit without a generation."""
    seen = set()
    for event, code in _commits(history):
        if event.api != OFFSET_COMMIT or event.generation_id >= 0:
            continue
        requests = _of_group(history, event).requests
        enclosed = _has_member_around(event, requests)
        kind = event.node, event.group_id, event.client_id, code, enclosed
        if kind in seen:
            continue
        seen.add(kind)
        if code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION, FENCED_INSTANCE):
            yield FENCED, place(event)
        elif code == 0 and enclosed:
            yield breach(history, CONSUMER_OFFSETS), place(event)
        elif code == 0:
            known = any(
                isinstance(one, Beats) or (isinstance(one, Joins) and one.given_generation >= 0)
                or (isinstance(one, Syncs | Commits) and one.generation_id >= 0)
                for one in requests
            )  # fmt: skip
            yield (UNVERIFIABLE if known else PASS), place(event)


def _has_member_around(event: Commits, requests: list[OfMember]) -> bool:
    """The coordinator accepted commits of a member in one generation before a commit and after it."""
    joins = [one for one in requests if isinstance(one, Joins) and not one.error_code and one.leader]
    accepted = [
        one for one in requests
        if isinstance(one, Commits) and one.generation_id >= 0 and any(not code for _, code in one.codes)
        and (_has_classic_id(one.member_id) or _joined(joins, one))
    ]  # fmt: skip
    early = {(one.member_id, one.generation_id) for one in accepted if before(one, event.arrived)}
    late = {(one.member_id, one.generation_id) for one in accepted if before(event, one.arrived)}
    return bool(early & late)


def ge03(history: History) -> Judged:
    """Once another member has the static name, the former one's commits are refused."""
    for event, code, standing in _classic_commits(history):
        if standing.instance is None:
            continue
        if code == FENCED_INSTANCE or (code == UNKNOWN_MEMBER and standing.replaced):
            yield FENCED, place(event)
        elif code == 0 and standing.replaced:
            yield breach(history, CONSUMER_OFFSETS), place(event)
        elif code == 0:
            yield (PASS if standing.named and not standing.just_replaced else UNVERIFIABLE), place(event)


# -- KIP-848


def _heartbeats(history: History, node: int, group_id: str, member_id: str) -> list[Beats]:
    """The heartbeats of a member in the order of the coordinator's lines. The answer may name a member that had no id."""
    return sorted(
        (
            one for one in history.of(node)
            if isinstance(one, Beats) and one.group_id == group_id and (one.member_id or one.given_member_id) == member_id
        ),
        key=lambda one: one.at,
    )  # fmt: skip


def ge04(history: History) -> Judged:
    """A coordinator that has answered two newer epochs to a member refuses the one before."""
    members = {
        (one.node, one.group_id, one.member_id or one.given_member_id or "")
        for one in history.events
        if isinstance(one, Beats)
    }
    for member in sorted(members):
        if not member[2]:
            continue
        seen = set()
        last: int | None = None
        answers: list[Beats] = []
        for one in _heartbeats(history, *member):
            standing = _epoch_standing(one, last, answers)
            if one.generation_id > 0 and (one.error_code, standing) not in seen:
                seen.add((one.error_code, standing))
                if standing == "older" and may_have_returned(history, CONSUMER_OFFSETS, _former(one, answers), one):
                    yield UNVERIFIABLE, place(one)
                elif standing is not None:
                    yield (breach(history, CONSUMER_OFFSETS) if standing == "older" else standing.strip()), place(one)
                elif one.error_code in (FENCED_EPOCH, UNKNOWN_MEMBER, FENCED_INSTANCE):
                    yield FENCED, place(one)
            anew = one.error_code or one.generation_id <= 0 or (last is not None and one.given_epoch < last)
            answers = [one] if anew else [*answers, one]
            last = None if one.error_code or one.given_epoch < one.generation_id else one.given_epoch
            if last is None:
                answers = []


def _epoch_standing(one: Beats, last: int | None, answers: list[Beats]) -> str | None:
    """Of an accepted heartbeat: `older`, or its verdict, with spaces by its reason. None: it was refused."""
    if one.error_code or one.given_epoch < one.generation_id:
        return None
    if last is None:
        return UNVERIFIABLE
    if one.given_epoch < last:
        return UNVERIFIABLE + " "
    if one.generation_id >= last:
        return PASS
    higher = {
        order: {
            answer.given_epoch
            for answer in answers
            if answer.given_epoch > one.generation_id and order(answer, one.arrived)
        }
        for order in (before, seems_before)
    }
    if len(higher[before]) > 1:
        return "older"
    return UNVERIFIABLE + "  " if len(higher[seems_before]) > 1 else PASS + " "


def _former(one: Beats, answers: list[Beats]) -> Beats:
    """The first answer with the next lower epoch than the newest one that the member had been given a second before."""
    known = [answer for answer in answers if before(answer, one.arrived)]
    newest = known[-1].given_epoch
    former = max(answer.given_epoch for answer in known if answer.given_epoch < newest)
    return next(answer for answer in known if answer.given_epoch == former)


def ge05(history: History) -> Judged:
    """Before 4.3, a coordinator that has answered a newer epoch to a member refuses commits in the former one."""
    seen = set()
    for event, code in _commits(history):
        versioned = event.api == TXN_OFFSET_COMMIT or event.version >= WITH_MEMBER_EPOCH
        if event.generation_id < 0 or not versioned or _has_classic_id(event.member_id):
            continue
        if _joined(_of_group(history, event).joins, event):
            continue
        heartbeats = _heartbeats(history, event.node, event.group_id, event.member_id)
        stale, certain = _stale(event, heartbeats, before)
        just = not code and not stale and _stale(event, heartbeats, seems_before)[0]
        kind = event.node, event.group_id, event.member_id, event.generation_id, event.api, code, stale, certain, just
        if kind in seen:
            continue
        seen.add(kind)
        if code in (STALE_EPOCH, UNKNOWN_MEMBER, ILLEGAL_GENERATION):
            yield FENCED, place(event)
        elif code == 0 and not since(_version(history, event), 4, 3):
            given = any(not one.error_code and one.given_epoch == event.generation_id for one in heartbeats)
            verdict = PASS if given and not just else UNVERIFIABLE
            if stale:
                verdict = VIOLATION if certain else UNVERIFIABLE
            yield verdict, place(event)


def _stale(event: Commits, heartbeats: list[Beats], order: Order) -> tuple[bool, bool]:
    """Whether the member had a newer epoch before the commit arrived, and whether it certainly still had it."""
    run: list[Beats] = []
    for one in heartbeats:
        last = run[-1].given_epoch if run else None
        goes_on = not one.error_code and 0 < one.generation_id == last and one.given_epoch >= last
        if not goes_on and run and one.at < event.arrived:
            run = []
        elif not goes_on and run:
            break
        run.append(one)
    run = [one for one in run if not one.error_code and one.given_epoch > 0]
    known = [one for one in run if order(one, event.arrived)]
    if not known or known[-1].given_epoch <= event.generation_id:
        return False, False
    newer = known[-1].given_epoch
    return True, any(one.arrived > event.arrived + SECOND_MS and one.generation_id >= newer for one in run)


def _version(history: History, event: Event) -> str:
    """The release of the process that logged something."""
    starts = [one for one in history.of(event.node) if isinstance(one, ProcessStarts) and one.at <= event.at]
    return starts[-1].version
