"""Oracle of the rules of ISRs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from prove.history import (
    UPDATE_METADATA,
    AlterPartition,
    Control,
    Decision,
    Elected,
    Event,
    History,
    IsrMember,
    IsrReset,
    IsrUpdated,
    LiveBrokersLine,
    ProcessStarts,
    Query,
    Record,
    Start,
    State,
    since,
)
from prove.oracle.metadata_image import MADE, Image, asked, changes, images, is_active, of_change, records
from prove.oracle.replication import answered_fetches, roles, starts
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, at, place


def unregistered(image: Image, member: IsrMember) -> bool:
    """The member has no registration."""
    return member.broker_id not in image.brokers


def fenced(image: Image, member: IsrMember) -> bool:
    """The member is registered and fenced."""
    one = image.brokers.get(member.broker_id)
    return one is not None and one.fenced


def shutting_down(image: Image, member: IsrMember) -> bool:
    """The member is in controlled shutdown, and not fenced."""
    one = image.brokers.get(member.broker_id)
    return one is not None and one.shutting_down and not one.fenced


def other_incarnation(image: Image, member: IsrMember) -> bool:
    """The member is active, under another broker epoch than the request states."""
    one = image.brokers.get(member.broker_id)
    return one is not None and one.active and member.broker_epoch not in (-1, one.broker_epoch)


def _eligibility(history: History, kind: Any, *, unexplained: bool = False) -> Judged:
    for one in asked(history):
        request, found = one.request, [member for member in one.request.new_isr if kind(one.image, member)]
        if request.partition_error in MADE:
            yield (VIOLATION if found else PASS), one.subject
        elif request.partition_error in (55, 107):
            ineligible = (unregistered, fenced, shutting_down, other_incarnation)
            explained = any(test(one.image, member) for member in request.new_isr for test in ineligible)
            if found:
                yield FENCED, one.subject
            elif unexplained and not explained:
                yield UNVERIFIABLE, one.subject


def is01(history: History) -> Judged:
    """An ISR that names a fenced replica is refused."""
    return _eligibility(history, fenced, unexplained=True)


def is02(history: History) -> Judged:
    """An ISR that names a replica in controlled shutdown is refused."""
    return _eligibility(history, shutting_down)


def is03(history: History) -> Judged:
    """An ISR that names a broker without registration is refused."""
    return _eligibility(history, unregistered)


def is04(history: History) -> Judged:
    """An ISR that names another incarnation is refused. A member that is not active for other reasons is reported by them."""
    for one in asked(history):
        request, brokers = one.request, one.image.brokers
        stated = [member for member in request.new_isr if member.broker_epoch != -1]
        if request.version < 3 or not stated:
            continue
        others = [m for m in stated if m.broker_id in brokers and brokers[m.broker_id].broker_epoch != m.broker_epoch]
        if request.partition_error in MADE:
            found = [member for member in others if brokers[member.broker_id].active]
            yield (VIOLATION if found else UNVERIFIABLE if others else PASS), one.subject
        elif request.partition_error in (55, 107) and others:
            yield FENCED, one.subject


def is06(history: History) -> Judged:
    """Members of a committed ISR are active at the record's offset."""
    for change in changes(history):
        isr, leader = change.after.isr, change.after.leader
        bad = [member for member in isr if not is_active(change.image, member)]
        last_man = len(isr) == 1 and leader == -1
        elected = change.before is not None and leader != change.before.leader
        if bad and (change.before is None or (bad == [leader] and elected)):
            continue  # IS-08 or LD-02 reports it
        if bad and change.record.kind == "PARTITION_RECORD":
            yield UNVERIFIABLE, of_change(change)  # as a partition that was copied from ZooKeeper
            continue
        if (
            bad
            and not last_man
            and not since(history.release.version, 4, 0)
            and all(m in change.image.over for m in bad)
        ):
            yield EXPOSED, of_change(change)  # IS-09 reports it
            continue
        yield (VIOLATION if bad and not last_man else PASS), of_change(change)


def is07(history: History) -> Judged:
    """A broker that stops being active has left all ISRs, within a second."""
    log, after = records(history), images(history)
    for record in log:
        data: Any = record.data
        if record.offset == 0 or record.kind not in ("BROKER_REGISTRATION_CHANGE_RECORD", "UNREGISTER_BROKER_RECORD"):
            continue
        broker = data["brokerId"]
        if not after[record.offset - 1].brokers[broker].active or is_active(after[record.offset], broker):
            continue
        end = max(one.offset for one in log if one.batch == record.batch or 0 <= one.at - record.at <= 1000)
        remaining = [
            one for one in after[end].partitions.values() if broker in one.isr and not (one.isr == [broker] and one.leader == -1)
        ]  # fmt: skip
        yield (VIOLATION if remaining else PASS), place(record)


def is08(history: History) -> Judged:
    """A new partition's ISR consists of active brokers."""
    for change in changes(history):
        if change.record.kind == "PARTITION_RECORD":
            wrong = not change.after.isr or any(not is_active(change.image, member) for member in change.after.isr)
            yield (VIOLATION if wrong else PASS), of_change(change)


def is09(history: History) -> Judged:
    """A broker that registers over its own incarnation, which was not fenced, has left all ISRs, within a second. Since 4.0.

    4.0 elects the last known leader also as it registers.
    """
    log, after = records(history), images(history)
    for record in log:
        if not supersedes(after, record):
            continue
        broker = record.data["brokerId"]
        end = max(one.offset for one in log if one.batch == record.batch or 0 <= one.at - record.at <= 1000)
        remaining = {
            key
            for key, one in after[end].partitions.items()
            if broker in one.isr and (one.isr != [broker] or one.leader != -1)
        }
        version = history.release.version
        if remaining and since(version, 4, 0) and not since(version, 4, 1):
            kept = remaining - _last_known_elected(history, record)
        else:
            kept = remaining if since(version, 4, 0) else set()
        yield (VIOLATION if kept else EXPOSED if remaining else PASS), place(record)


def _last_known_elected(history: History, registration: Record) -> set[tuple[str, int]]:
    """The partitions of which the registration's batch elects the broker, as it was their last known leader."""
    data: Any = registration.data
    return {
        (change.after.topic_id, change.after.number)
        for change in changes(history)
        if change.record.batch == registration.batch
        and change.before is not None
        and change.before.leader == -1
        and change.before.last_known_elr == [data["brokerId"]] == [change.after.leader]
        and change.after.recovery == 1
    }


def supersedes(after: list[Image], record: Record) -> bool:
    """A record registers a new incarnation over one that was not fenced."""
    if record.kind != "REGISTER_BROKER_RECORD" or record.offset == 0:
        return False
    data: Any = record.data
    before = after[record.offset - 1].brokers.get(data["brokerId"])
    return before is not None and not before.fenced and before.incarnation != data["incarnationId"]


def is10(history: History) -> Judged:
    """Codes are those of the request's version."""
    for one in asked(history):
        code = one.request.partition_error
        if code in (55, 107, 108, 100) or (code in (3, 74) and one.request.version < 2):
            wrong = code == 55 if one.request.version >= 2 else code in (100, 107, 108)
            yield (VIOLATION if wrong else PASS), one.subject


def is11(history: History) -> Judged:
    """A leader whose ISR was refused does not send it again before it has gone back to the committed one."""
    for one in asked(history):
        request = one.request
        if request.partition_error not in (55, 107):
            continue
        own = history.of(request.broker_id)
        place_of = request.topic, request.partition, request.leader_epoch
        resets = {(line.topic, line.partition, line.leader_epoch) for line in own if isinstance(line, IsrReset)}
        again = _next_of(history, request)
        if place_of in resets or again is None or _content(again) != _content(request):
            yield PASS, one.subject
        else:
            known = released(history, request.broker_id) and _lines_around(history, request)
            yield (VIOLATION if known else UNVERIFIABLE), one.subject


def _lines_around(history: History, request: AlterPartition) -> bool:
    """The leader's lines about the partition go from the request's partition epoch, or an earlier one, to a later one."""
    ids = {record.data["topicId"] for record in records(history) if _creates(record, request.topic)}
    epochs = [
        line.partition_epoch
        for line in history.of(request.broker_id)
        if isinstance(line, IsrUpdated) and (line.topic, line.partition) == (request.topic, request.partition)
    ]
    asked_in = request.partition_epoch
    return len(ids) == 1 and any(epoch <= asked_in for epoch in epochs) and any(epoch > asked_in for epoch in epochs)


def _creates(record: Record, topic: str) -> bool:
    data: Any = record.data
    return record.kind == "TOPIC_RECORD" and data["name"] == topic


def _content(request: AlterPartition) -> tuple[object, ...]:
    members = [member.broker_id for member in request.new_isr]
    return request.leader_epoch, request.partition_epoch, members


def _next_of(history: History, request: AlterPartition) -> AlterPartition | None:
    """A broker's next request for the partition. All of its requests are on one connection."""
    of_partition = request.broker_id, request.topic_id, request.partition
    for later in history.events:
        if not isinstance(later, AlterPartition) or later.id <= request.id:
            continue
        if (later.broker_id, later.topic_id, later.partition) == of_partition:
            return later
    return None


def released(history: History, broker: int) -> bool:
    """A line states the broker's release."""
    return any(isinstance(event, ProcessStarts) for event in history.of(broker))


def is12(history: History) -> Judged:
    """A request decided in other epochs is refused."""
    for one in asked(history):
        request, partition = one.request, one.partition
        code = request.partition_error
        if partition is None:
            yield (FENCED if code == 100 else VIOLATION), one.subject
            continue
        ahead = request.leader_epoch > partition.leader_epoch or request.partition_epoch > partition.partition_epoch
        older = request.leader_epoch < partition.leader_epoch
        stale = request.partition_epoch < partition.partition_epoch
        current = not (ahead or older or stale)
        members = [member.broker_id for member in request.new_isr]
        invalid = not {*members} <= {*partition.replicas} or partition.leader not in members
        invalid = invalid or (request.recovery == 1 and (len(members) > 1 or partition.recovery != 1))
        if code in MADE:
            # what was current at any moment until the answer passes: a request that its own change makes current is one for that state
            after = request.leader_epoch_after, request.partition_epoch_after
            yield (
                (PASS if current or after == (request.leader_epoch, request.partition_epoch) else VIOLATION),
                one.subject,
            )
        elif code == 42:
            explained = request.broker_id != partition.leader or invalid
            yield (FENCED if explained else UNVERIFIABLE), one.subject
        elif code in (41, 74, 95):
            yield (FENCED if {41: ahead, 74: older, 95: stale}[code] else VIOLATION), one.subject


def is13(history: History) -> Judged:
    """Only the leader changes the ISR. IS-12 judges what was decided in other epochs: whose leader is not looked for."""
    for one in asked(history):
        request, partition = one.request, one.partition
        if partition is None or request.partition_error not in (*MADE, 42):
            continue
        epochs = request.leader_epoch, request.partition_epoch
        current = epochs == (partition.leader_epoch, partition.partition_epoch)
        leads = request.broker_id == partition.leader
        if request.partition_error in MADE:
            made_current = epochs == (request.leader_epoch_after, request.partition_epoch_after)
            yield (UNVERIFIABLE if not (current or made_current) else PASS if leads else VIOLATION), one.subject
        elif current and not leads:
            yield FENCED, one.subject


def is14(history: History) -> Judged:
    """A committed ISR is a subset of the replicas, each once."""
    for change in changes(history):
        isr, replicas = change.after.isr, change.after.replicas
        yield (PASS if {*isr} <= {*replicas} and len(isr) == len({*isr}) else VIOLATION), of_change(change)


def is15(history: History) -> Judged:
    """A new member of the ISR has fetched, in the leader epoch, up to the start of that epoch, where the logs do not diverge."""
    begun = starts(history)
    for updated, member, held in joined(history):
        fetches = fetches_of(history, updated, member, held)
        start = begun.get((updated.partition, held.leader_epoch))
        key = updated.node, updated.partition, held.leader_epoch
        if start is None or not fetches:
            yield UNVERIFIABLE, key
        else:
            reached = any(query.offset >= start and query.diverging is None for query in fetches)
            yield (PASS if reached else VIOLATION), key


def joined(history: History) -> Iterator[tuple[IsrUpdated, int, Start]]:
    """Each member that a leader's line about a new ISR adds, with the leader's line that starts its epoch."""
    isrs: dict[tuple[int, int], tuple[int, ...]] = {}
    for change in changes(history):
        isrs[change.after.number, change.after.partition_epoch] = tuple(change.after.isr)
    for event, held, _ in roles(history):
        if isinstance(event, IsrUpdated):
            for member in {*event.isr} - {*isrs[event.partition, event.partition_epoch - 1]}:
                yield event, member, held[event.partition]


def fetches_of(history: History, updated: IsrUpdated, member: int, held: Start) -> list[Query]:
    """The Fetches of a new member that its leader has answered in its epoch."""
    return [
        one.query
        for one in answered_fetches(history)
        if (one.query.node, one.query.partition, one.query.replica_id) == (updated.node, updated.partition, member)
        and one.query.current_leader_epoch == held.leader_epoch and one.query.id < updated.id
    ]  # fmt: skip


def is16(history: History) -> Judged:
    """Each proposal that is refused as ineligible, of leaders that check it themselves."""
    for one in asked(history):
        if one.request.partition_error in (55, 107):
            yield (PASS if released(history, one.request.broker_id) else UNVERIFIABLE), one.subject


def is17(history: History) -> Judged:
    """A leader that asks in the state RECOVERING asks for itself alone, and had not recovered."""
    for one in asked(history):
        request, partition = one.request, one.partition
        code = request.partition_error
        if request.recovery != 1 or code not in (*MADE, 42):
            continue
        if len(request.new_isr) > 1:
            yield (FENCED if code == 42 else VIOLATION), one.subject
            continue
        epochs = request.leader_epoch, request.partition_epoch
        if partition is None or epochs != (partition.leader_epoch, partition.partition_epoch):
            yield UNVERIFIABLE, one.subject
        elif partition.recovery != 1:
            yield (FENCED if code == 42 else VIOLATION), one.subject
        else:
            yield (UNVERIFIABLE if code == 42 else PASS), one.subject


def is05(history: History) -> Judged:
    """A ZooKeeper controller refuses an ISR with a member that is dead or shutting down, by its own lines."""
    for request in history.events:
        if not isinstance(request, AlterPartition) or request.error_code or request.partition_error not in (0, 55, 107):
            continue
        views = _views(history, request)
        members = {member.broker_id for member in request.new_isr}
        doubtful = any(not view.has(member) for view in views for member in members)
        dead = any(not any(view.may_have(member) for view in views) for member in members)
        if request.partition_error:
            verdict = FENCED if doubtful else UNVERIFIABLE
        elif request.partition_epoch_after != request.partition_epoch + 1:
            verdict = PASS
        elif views[0].live is None:
            verdict = UNVERIFIABLE
        elif dead:
            verdict = UNVERIFIABLE if _held_before(history, request) else _accepted_dead(history, request)
        else:
            verdict = UNVERIFIABLE if doubtful else PASS
        yield verdict, at(request, None, request.partition)


def _held_before(history: History, request: AlterPartition) -> bool:
    """The controller had stated the state of its answer before, or had sent it to its own broker."""
    after = request.partition, request.leader_epoch_after, request.partition_epoch_after
    return after in _stated_before(history, request)


def _stated_before(history: History, request: AlterPartition) -> Iterator[tuple[int, int, int]]:
    """(partition, leader epoch, partition epoch) of the states in the controller's lines up to the answer to a request."""
    for event in history.of(request.node):
        if event.at > request.at:
            continue
        if isinstance(event, Decision) and event.state is not None:
            yield event.state.partition, event.state.leader_epoch, event.state.partition_epoch
        elif isinstance(event, Control) and event.api == UPDATE_METADATA:
            for one in event.partitions:
                if isinstance(one, State):
                    yield one.partition, one.leader_epoch, one.partition_epoch
        elif isinstance(event, AlterPartition) and (event.at, event.id) < (request.at, request.id) and _accepted(event):
            yield event.partition, event.leader_epoch_after, event.partition_epoch_after


def _accepted(request: AlterPartition) -> bool:
    return not request.error_code and not request.partition_error


def _accepted_dead(history: History, request: AlterPartition) -> str:
    checks = since(history.release.version, 3, 3)
    if request.version < CHECKED_SINCE and not released(history, request.node):
        return UNVERIFIABLE
    return VIOLATION if checks else EXPOSED


@dataclass(frozen=True)
class _View:
    """The brokers that a ZooKeeper controller holds for live; None: not known.

    live: by its last line about them. sent: those that it has sent its own broker since.
    """

    live: frozenset[int] | None = None
    leaving: frozenset[int] = frozenset()
    sent: frozenset[int] | None = None

    def may_have(self, broker: int) -> bool:
        """Something shows that the broker is live."""
        listed = self.live is None or broker in self.live or (self.sent is not None and broker in self.sent)
        return listed and broker not in self.leaving

    def has(self, broker: int) -> bool:
        """Nothing shows that the broker is not live."""
        listed = self.live is None or (broker in self.live and (self.sent is None or broker in self.sent))
        return listed and broker not in self.leaving


def _views(history: History, request: AlterPartition) -> list[_View]:
    """The controller's views from the arrival of a request to its answer.

    If it arrived after the election, the first list of live brokers counts as known before: the controller answers nothing until then.
    """
    first = _View()
    later: list[_View] = []
    elected: int | None = None
    for event in sorted(history.of(request.node), key=lambda event: (_known_at(event), event.id)):
        begun = isinstance(event, Elected | ProcessStarts)
        if event.at > request.at + (0 if begun else TOLERANCE_MS):
            break
        if begun:
            first, later = _View(), []
            elected = event.at if isinstance(event, Elected) else None
        elif _is_known_before(event, request) or (first.live is None and _is_first_list(event, elected, request)):
            first = _seen(first, event)
        elif not isinstance(event, Control):
            later.append(_seen(later[-1] if later else first, event))
    return [first, *later]


def _is_known_before(event: Event, request: AlterPartition) -> bool:
    return _known_at(event) < request.arrived - (0 if isinstance(event, Control) else TOLERANCE_MS)


def _is_first_list(event: Event, elected: int | None, request: AlterPartition) -> bool:
    """The event is a list of live brokers of the second after the controller's election, and the request arrived after that."""
    lists = isinstance(event, LiveBrokersLine) and event.kind != "leaving"
    return lists and elected is not None and elected <= request.arrived and event.at <= elected + FIRST_LIST_MS


def _known_at(event: Event) -> int:
    return event.arrived if isinstance(event, Control) else event.at


def _seen(view: _View, event: Event) -> _View:
    """The view after an event."""
    if isinstance(event, Control):
        return replace(view, sent=frozenset(event.live_brokers))
    if not isinstance(event, LiveBrokersLine):
        return view
    if event.kind == "leaving":
        return replace(view, leaving=view.leaving | {event.leaving})
    live = frozenset(broker for broker, _ in event.live)
    return _View(live, view.leaving - {*event.deleted, *event.bounced, *event.added})


CHECKED_SINCE = 2
"""The first AlterPartition whose controllers all check the members."""
TOLERANCE_MS = 2
FIRST_LIST_MS = 1_000
