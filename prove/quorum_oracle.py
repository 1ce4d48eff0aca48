"""The oracle of the metadata log: it replays records one by one, and asks of each what the rules' pages ask.

A request that wrote a record is judged by the state before that record. Any other request is judged by the state in which the
controller answered it: histories keep a quarter of a second between requests and records.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from prove.history import AlterPartition, Event, Heartbeat, History, IsrMember, Key, Record

PASS: Final = "pass"
FENCED: Final = "fenced"
VIOLATION: Final = "violation"
EXPOSED: Final = "exposed"
UNVERIFIABLE: Final = "unverifiable"

NO_BUMP_ON_SHRINK: Final = 12
SHUTDOWN_IN_RECORDS: Final = 7

Judged = Iterator[tuple[str, Key]]


@dataclass
class Registration:
    """A broker's registration as the records leave it."""

    broker_epoch: int
    incarnation: str
    fenced: bool
    shutting_down: bool

    @property
    def active(self) -> bool:
        """It may be a member of ISRs."""
        return not self.fenced and not self.shutting_down


@dataclass
class Partition:
    """A partition as the records leave it."""

    topic: str
    topic_id: str
    number: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int = 0


@dataclass
class Image:
    """The metadata image after some records."""

    brokers: dict[int, Registration] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], Partition] = field(default_factory=dict)
    unclean: dict[str, bool] = field(default_factory=dict)
    metadata_version: int = 0

    def apply(self, record: Record) -> Partition | None:
        """Apply a record, and return the partition that it changed."""
        data: Any = record.data
        if record.kind == "FEATURE_LEVEL_RECORD":
            self.metadata_version = data["featureLevel"]
        elif record.kind == "REGISTER_BROKER_RECORD":
            self.brokers[data["brokerId"]] = Registration(
                data["brokerEpoch"], data["incarnationId"], data["fenced"], data["inControlledShutdown"]
            )
        elif record.kind == "UNREGISTER_BROKER_RECORD":
            del self.brokers[data["brokerId"]]
        elif record.kind == "BROKER_REGISTRATION_CHANGE_RECORD":
            registration = self.brokers[data["brokerId"]]
            registration.fenced = {1: True, -1: False}.get(data.get("fenced", 0), registration.fenced)
            registration.shutting_down = registration.shutting_down or data.get("inControlledShutdown", 0) == 1
        elif record.kind == "TOPIC_RECORD":
            self.names[data["topicId"]] = data["name"]
        elif record.kind == "CONFIG_RECORD":
            self.unclean[data["resourceName"]] = data["value"] == "true"
        elif record.kind == "REMOVE_TOPIC_RECORD":
            self.partitions = {key: one for key, one in self.partitions.items() if key[0] != data["topicId"]}
        elif record.kind == "PARTITION_RECORD":
            key = data["topicId"], data["partitionId"]
            self.partitions[key] = Partition(
                self.names[key[0]], *key, data["replicas"], data["isr"], data["leader"], data["leaderEpoch"],
                data["partitionEpoch"],
            )  # fmt: skip
            return self.partitions[key]
        elif record.kind == "PARTITION_CHANGE_RECORD":
            partition = self.partitions[data["topicId"], data["partitionId"]]
            partition.isr = data.get("isr", partition.isr)
            partition.replicas = data.get("replicas", partition.replicas)
            partition.recovery = data.get("leaderRecoveryState", partition.recovery)
            if "leader" in data:
                partition.leader = data["leader"]
                partition.leader_epoch += 1
            partition.partition_epoch += 1
            return partition
        return None


@dataclass(frozen=True)
class Change:
    """A record of a partition. image: after the record. before: the partition before it, None if the record creates it."""

    record: Record
    image: Image
    before: Partition | None
    after: Partition


def records(history: History) -> list[Record]:
    """The metadata log."""
    return [event for event in history.events if isinstance(event, Record)]


def images(history: History) -> list[Image]:
    """The image after each offset. Copies: slow and plain."""
    image, result = Image(), []
    for record in records(history):
        image.apply(record)
        result.append(deepcopy(image))
    return result


def changes(history: History) -> Iterator[Change]:
    """Each record of a partition."""
    image = Image()
    for record in records(history):
        before = deepcopy(image)
        partition = image.apply(record)
        if partition is not None:
            key = partition.topic_id, partition.number
            yield Change(record, deepcopy(image), before.partitions.get(key), deepcopy(partition))


def place(event: Event, topic: str | None = None, partition: int | None = None) -> Key:
    """A subject with a line of its own."""
    return event.id, topic, partition


def of_change(change: Change) -> Key:
    """The subject of a partition's record."""
    return place(change.record, change.after.topic, change.after.number)


# -- AlterPartition


@dataclass(frozen=True)
class Asked:
    """An AlterPartition with the image in which it was decided. partition: None if the topic is not there."""

    request: AlterPartition
    image: Image
    partition: Partition | None

    @property
    def subject(self) -> Key:
        """The request's line and partition."""
        name = self.image.names.get(self.request.topic_id)
        return place(self.request, name, self.request.partition)


def asked(history: History) -> Iterator[Asked]:
    """The AlterPartition requests that were not refused as a whole."""
    after = images(history)
    for event in history.events:
        if isinstance(event, AlterPartition) and event.error_code == 0:
            image = after[event.decided_at_offset - 1]
            yield Asked(event, image, image.partitions.get((event.topic_id, event.partition)))


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
        if request.partition_error == 0:
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
        if request.partition_error == 0:
            found = [member for member in others if brokers[member.broker_id].active]
            yield (VIOLATION if found else UNVERIFIABLE if others else PASS), one.subject
        elif request.partition_error in (55, 107) and others:
            yield FENCED, one.subject


def is10(history: History) -> Judged:
    """Codes are those of the request's version."""
    for one in asked(history):
        code = one.request.partition_error
        if code in (55, 107, 108, 100) or (code in (3, 74) and one.request.version < 2):
            wrong = code == 55 if one.request.version >= 2 else code in (100, 107, 108)
            yield (VIOLATION if wrong else PASS), one.subject


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
        if code == 0:
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
        if partition is None or request.partition_error not in (0, 42):
            continue
        epochs = request.leader_epoch, request.partition_epoch
        current = epochs == (partition.leader_epoch, partition.partition_epoch)
        leads = request.broker_id == partition.leader
        if request.partition_error == 0:
            made_current = epochs == (request.leader_epoch_after, request.partition_epoch_after)
            yield (UNVERIFIABLE if not (current or made_current) else PASS if leads else VIOLATION), one.subject
        elif current and not leads:
            yield FENCED, one.subject


def be03(history: History) -> Judged:
    """A request of another incarnation than the registered one is refused."""
    after = images(history)
    for event in history.events:
        if not isinstance(event, AlterPartition | Heartbeat) or event.error_code not in (0, 77):
            continue
        registration = after[event.decided_at_offset - 1].brokers.get(event.broker_id)
        if registration is not None and registration.broker_epoch == event.broker_epoch:
            yield (PASS if event.error_code == 0 else UNVERIFIABLE), place(event)
        else:
            yield (VIOLATION if event.error_code == 0 else FENCED), place(event)


# -- records


def be04(history: History) -> Judged:
    """Broker epochs rise."""
    before: dict[int, tuple[int, str]] = {}
    for record in records(history):
        if record.kind != "REGISTER_BROKER_RECORD":
            continue
        data: Any = record.data
        epoch, incarnation = data["brokerEpoch"], data["incarnationId"]
        last = before.get(data["brokerId"])
        wrong = epoch > record.offset or (
            last is not None and (epoch < last[0] or (incarnation != last[1] and epoch == last[0]))
        )
        before[data["brokerId"]] = epoch, incarnation
        yield (VIOLATION if wrong else PASS), place(record)


def is06(history: History) -> Judged:
    """Members of a committed ISR are active at the record's offset."""
    for change in changes(history):
        isr, leader = change.after.isr, change.after.leader
        bad = [member for member in isr if not _active(change.image, member)]
        last_man = len(isr) == 1 and leader == -1
        elected = change.before is not None and leader != change.before.leader
        if bad and (change.before is None or (bad == [leader] and elected)):
            continue  # IS-08 or LD-02 reports it
        if bad and change.record.kind == "PARTITION_RECORD":
            yield UNVERIFIABLE, of_change(change)  # as a partition that was copied from ZooKeeper
            continue
        yield (VIOLATION if bad and not last_man else PASS), of_change(change)


def _active(image: Image, broker: int) -> bool:
    registration = image.brokers.get(broker)
    return registration is not None and registration.active


def is07(history: History) -> Judged:
    """A broker that stops being active has left all ISRs, within a second."""
    log, after = records(history), images(history)
    for record in log:
        data: Any = record.data
        if record.offset == 0 or record.kind not in ("BROKER_REGISTRATION_CHANGE_RECORD", "UNREGISTER_BROKER_RECORD"):
            continue
        broker = data["brokerId"]
        if not after[record.offset - 1].brokers[broker].active or _active(after[record.offset], broker):
            continue
        end = max(one.offset for one in log if one.batch == record.batch or 0 <= one.at - record.at <= 1000)
        kept = [
            one for one in after[end].partitions.values() if broker in one.isr and not (one.isr == [broker] and one.leader == -1)
        ]  # fmt: skip
        yield (VIOLATION if kept else PASS), place(record)


def is08(history: History) -> Judged:
    """A new partition's ISR consists of active brokers."""
    for change in changes(history):
        if change.before is None:
            wrong = not change.after.isr or any(not _active(change.image, member) for member in change.after.isr)
            yield (VIOLATION if wrong else PASS), of_change(change)


def is14(history: History) -> Judged:
    """A committed ISR is a subset of the replicas, each once."""
    for change in changes(history):
        isr, replicas = change.after.isr, change.after.replicas
        yield (PASS if {*isr} <= {*replicas} and len(isr) == len({*isr}) else VIOLATION), of_change(change)


def ld01(history: History) -> Judged:
    """The leader is a member of the ISR, or there is none."""
    for change in changes(history):
        leader = change.after.leader
        yield (PASS if leader == -1 or leader in change.after.isr else VIOLATION), of_change(change)


def ld02(history: History) -> Judged:
    """Whoever is elected is active."""
    for change in changes(history):
        before, after = change.before, change.after
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None:
            continue
        if after.leader in (-1, before.leader) or after.leader not in after.isr:
            continue
        yield (PASS if _active(change.image, after.leader) else VIOLATION), of_change(change)


def ld03(history: History) -> Judged:
    """Who is elected from outside the ISR is permitted to, is marked, and is the whole ISR."""
    for change in changes(history):
        before, after = change.before, change.after
        data: Any = change.record.data
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None or after.leader in (-1, before.leader):
            continue
        if after.leader in before.isr:
            yield PASS, of_change(change)
            continue
        permitted = change.image.unclean.get(after.topic, False)
        marked = data.get("leaderRecoveryState") == 1 and after.isr == [after.leader]
        yield (PASS if permitted and marked else VIOLATION), of_change(change)


def ld04(history: History) -> Judged:
    """Records and answers name one leader per leader epoch of a topic id."""
    leaders: dict[tuple[str, str, int, int], set[int]] = {}
    for change in changes(history):
        state = change.after
        leaders.setdefault((state.topic_id, state.topic, state.number, state.leader_epoch), set()).add(state.leader)
    for one in asked(history):
        request, partition = one.request, one.partition
        if partition is not None and request.partition_error == 0:
            epoch = partition.topic_id, partition.topic, partition.number, request.leader_epoch_after
            leaders.setdefault(epoch, set()).add(request.leader_after)
    for key, named in leaders.items():
        yield (PASS if len(named) == 1 else VIOLATION), key


def ep01(history: History) -> Judged:
    """The leader epoch of a topic id does not fall."""
    for change in changes(history):
        fell = change.before is not None and change.after.leader_epoch < change.before.leader_epoch
        yield (VIOLATION if fell else PASS), of_change(change)


def ep02(history: History) -> Judged:
    """The partition epoch of a topic id does not fall."""
    for change in changes(history):
        before, after = change.before, change.after
        fell = before is not None and (
            after.partition_epoch < before.partition_epoch
            or (after.partition_epoch == before.partition_epoch and after.leader_epoch != before.leader_epoch)
        )
        yield (VIOLATION if fell else PASS), of_change(change)


def ep03(history: History) -> Judged:
    """The leader epoch rises if and only if the leader changes, a replica leaves, or, below 3.6, the ISR shrinks."""
    for change in changes(history):
        before, after = change.before, change.after
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None:
            continue
        shrinks = not set(before.isr) <= set(after.isr)
        removes = not set(before.replicas) <= set(after.replicas)
        old = change.image.metadata_version < NO_BUMP_ON_SHRINK
        reason = after.leader != before.leader or removes or (shrinks and old)
        yield (PASS if reason == (after.leader_epoch > before.leader_epoch) else VIOLATION), of_change(change)
