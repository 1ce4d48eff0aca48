"""The oracle of fencing: one function per rule that replays a host's log line by line, without Spark.

It is written from Kafka's fences as the rules' pages state them, shares no code with epochaudit, and judges what the logs
show, not what the simulator knows: an epoch is held from the line that it starts with until the process ends or the replica is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from prove import quorum_oracle as quorum
from prove.history import (
    FETCH,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
    STOP_REPLICA,
    UPDATE_METADATA,
    Control,
    Event,
    History,
    Key,
    ProcessStarts,
    Query,
    Start,
    State,
    Stop,
    TopicPartition,
    Verdict,
)

PASS: Final = "pass"
FENCED: Final = "fenced"
VIOLATION: Final = "violation"
EXPOSED: Final = "exposed"
UNVERIFIABLE: Final = "unverifiable"

Judged = Iterator[tuple[str, Key]]
"""(verdict, subject) of each subject of a rule."""


@dataclass
class Memory:
    """What a broker's log shows of its process's memory at a line.

    held: the leader epoch that a replica has started at. deleted: replicas that a StopReplica deleted, none having started since.
    accepted: the highest leader epoch of LeaderAndIsr requests answered 0, of this process. before_deletion: the same, when
    the replica was deleted. ids: topic id of each replica on disk; None where it has none for certain.
    """

    version: str = ""
    broker_epoch: int | None = None
    controller_epoch: int | None = None
    held: dict[TopicPartition, int] = field(default_factory=dict)
    deleted: set[TopicPartition] = field(default_factory=set)
    accepted: dict[TopicPartition, int] = field(default_factory=dict)
    before_deletion: dict[TopicPartition, tuple[int, str | None]] = field(default_factory=dict)
    ids: dict[TopicPartition, str | None] = field(default_factory=dict)
    accepted_id: dict[TopicPartition, str | None] = field(default_factory=dict)
    published: dict[TopicPartition, State] = field(default_factory=dict)
    announced: set[TopicPartition] = field(default_factory=set)

    def restarted(self, event: ProcessStarts) -> None:
        """A process forgets all but its disk."""
        ids = self.ids
        self.__init__(event.version, event.broker_epoch)  # type: ignore[misc]
        self.ids = ids

    def applied(self, event: Control) -> None:
        """Take over what a request changed."""
        if event.error_code:
            return
        self.controller_epoch = max(event.controller_epoch, self.controller_epoch or 0)
        if event.api == UPDATE_METADATA:
            for state in event.partitions:
                assert isinstance(state, State)
                self.published[state.name] = state
                if state.leader == LEADER_DURING_DELETE:
                    self.announced.add(state.name)
                    self.before_deletion.pop(state.name, None)
        elif event.api == LEADER_AND_ISR:
            for state, code in zip(event.partitions, event.codes, strict=True):
                assert isinstance(state, State)
                if code == 0:
                    self.accepted[state.name] = max(state.leader_epoch, self.accepted.get(state.name, -1))
                    self.accepted_id[state.name] = state.topic_id
                    if state.topic_id:
                        self.ids[state.name] = state.topic_id
                    self.deleted.discard(state.name)
                    self.announced.discard(state.name)
                    self.before_deletion.pop(state.name, None)
            for start in event.starts:
                self.held[start.name] = start.leader_epoch
        else:
            for stop, code in zip(event.partitions, event.codes, strict=True):
                assert isinstance(stop, Stop)
                if code == 0 and stop.delete:
                    if stop.name in self.accepted and stop.name not in self.announced:
                        self.before_deletion[stop.name] = (self.accepted[stop.name], self.accepted_id.get(stop.name))
                    self.accepted.pop(stop.name, None)
                    self.held.pop(stop.name, None)
                    self.ids[stop.name] = None
                    self.deleted.add(stop.name)


def replayed(history: History) -> Iterator[tuple[Event, Memory]]:
    """Each event of a broker's process, with what its log shows before it. The memory changes afterwards."""
    for node in history.nodes:
        memory = Memory()
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                memory.restarted(event)
            yield event, memory
            if isinstance(event, Control):
                memory.applied(event)


def controls(history: History, *apis: str) -> Iterator[tuple[Control, Memory]]:
    """The requests of controllers of these APIs, with the memory before each."""
    for event, memory in replayed(history):
        if isinstance(event, Control) and event.api in apis:
            yield event, memory


def partitions(event: Control) -> Iterator[tuple[Any, int]]:
    """(partition, error code) of a request that was not refused as a whole."""
    if not event.error_code:
        yield from zip(event.partitions, event.codes, strict=True)


# -- StopReplica


def sr01(history: History) -> Judged:
    """A StopReplica with an older leader epoch is refused with 74."""
    for event, memory in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            if stop.leader_epoch < 0:
                continue
            held = memory.held.get(stop.name)
            if stop.name in memory.deleted:
                yield (PASS if code == 0 else UNVERIFIABLE), place(event, stop)
            elif held is None:
                yield UNVERIFIABLE, place(event, stop)
            elif stop.leader_epoch < held:
                yield {74: FENCED}.get(code, VIOLATION), place(event, stop)
            elif stop.leader_epoch > held:
                yield (PASS if code == 0 else VIOLATION), place(event, stop)


def sr02(history: History) -> Judged:
    """A StopReplica at the current leader epoch is refused from 2.6.0 to 3.4.0, and accepted from 3.4.1 on."""
    for event, memory in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            if stop.leader_epoch >= 0 and memory.held.get(stop.name) == stop.leader_epoch and code in (0, 74):
                refuses = memory.version < "3.4.1"
                right = FENCED if refuses else PASS
                yield (right if (code == 74) == refuses else VIOLATION), place(event, stop)


def sr05(history: History) -> Judged:
    """A partition of a StopReplica is never refused with 11."""
    for event, _ in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            yield (VIOLATION if code == 11 else PASS), place(event, stop)


def sr08(history: History) -> Judged:
    """Each accepted StopReplica above all leader epochs that the broker was told of counts as one pass."""
    for event, _ in controls(history, STOP_REPLICA):
        for stop, code in partitions(event):
            if code or stop.leader_epoch < 0:
                continue
            told = [*_leader_epochs(history, event.node, stop.name)]
            if any(epoch >= stop.leader_epoch for _, epoch in told):
                continue
            yield (PASS if any(id > event.id for id, _ in told) else UNVERIFIABLE), place(event, stop)


def _leader_epochs(history: History, node: int, name: TopicPartition) -> Iterator[tuple[int, int]]:
    """(event's id, leader epoch) of all that a broker was told of a partition and accepted."""
    for event in history.of(node):
        if isinstance(event, Control) and not event.error_code and event.api != STOP_REPLICA:
            codes = event.codes or tuple(0 for _ in event.partitions)
            for state, code in zip(event.partitions, codes, strict=True):
                if state.name == name and code == 0 and getattr(state, "leader", None) != LEADER_DURING_DELETE:
                    yield event.id, state.leader_epoch


# -- LeaderAndIsr


def li01(history: History) -> Judged:
    """A LeaderAndIsr with an older leader epoch is refused with 11."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            held = memory.held.get(state.name)
            if code in (56, 103) or held == state.leader_epoch:
                continue
            if held is None:
                yield _first_of_process(history, event, memory, state, code), place(event, state)
            elif state.leader_epoch < held:
                yield (FENCED if code == 11 else VIOLATION), place(event, state)
            elif code == 11:
                accepted = memory.accepted.get(state.name, -1)
                yield (UNVERIFIABLE if state.leader_epoch <= accepted else VIOLATION), place(event, state)
            else:
                yield PASS, place(event, state)


def _first_of_process(history: History, event: Control, memory: Memory, state: State, code: int) -> str:
    if code == 11:
        return UNVERIFIABLE
    epoch, topic_id = memory.before_deletion.get(state.name, (-1, None))
    if code or state.leader_epoch >= epoch:
        return PASS
    if topic_id is not None:
        return EXPOSED if topic_id == state.topic_id else PASS
    return EXPOSED if _lives_on(history, event, state, epoch) else UNVERIFIABLE


def _lives_on(history: History, event: Control, state: State, epoch: int) -> bool:
    """Whether a later request at the broker shows a topic without id in this leader epoch or a newer one."""
    for later in history.of(event.node):
        if not isinstance(later, Control) or later.id <= event.id or later.error_code:
            continue
        for one in later.partitions:
            if isinstance(one, State) and one.name == state.name:
                if one.leader == LEADER_DURING_DELETE:
                    return False
                if one.leader_epoch >= epoch:
                    return True
    return False


def li02(history: History) -> Judged:
    """A LeaderAndIsr at the leader epoch that the replica has started at is refused with 11."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if memory.held.get(state.name) == state.leader_epoch and code not in (56, 103):
                yield (PASS if code == 11 else VIOLATION), place(event, state)


def li04(history: History) -> Judged:
    """A LeaderAndIsr whose replicas do not name the broker is refused with 3."""
    for event, _ in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if event.node in state.replicas:
                yield (UNVERIFIABLE if code == 3 else PASS), place(event, state)
            else:
                yield {0: VIOLATION, 3: FENCED}.get(code, PASS), place(event, state)


def li06(history: History) -> Judged:
    """What was answered 0 has a line that states what became of it."""
    for event, memory in controls(history, LEADER_AND_ISR):
        if not _since(memory.version, 2, 7):
            continue
        for state, code in partitions(event):
            if code or event.node not in state.replicas or memory.held.get(state.name) == state.leader_epoch:
                continue
            told = state.name in event.unavailable or any(
                start.name == state.name and start.leader_epoch == state.leader_epoch for start in event.starts
            )
            yield (PASS if told else _told_later(history, event, state)), place(event, state)


def _told_later(history: History, event: Control, state: State) -> str:
    """Whether a later request at the same leader epoch shows that it was installed: accepted again, it was not."""
    for later in history.of(event.node):
        if later.id <= event.id:
            continue
        if isinstance(later, ProcessStarts):
            break
        if not isinstance(later, Control) or later.api == UPDATE_METADATA:
            continue
        if any(start.name == state.name and start.leader_epoch > state.leader_epoch for start in later.starts):
            break  # what is refused from here on is older
        for one, code in partitions(later):
            if one.name != state.name:
                continue
            if isinstance(one, Stop):
                if code == 0 and one.delete:
                    return UNVERIFIABLE
            elif one.leader_epoch == state.leader_epoch and one.topic_id == state.topic_id:
                if code == 11:
                    return PASS
                if code == 0:
                    return VIOLATION if one.topic_id else UNVERIFIABLE
    return UNVERIFIABLE


# -- controller epochs and broker epochs


def _controller_epoch(history: History, *apis: str) -> Judged:
    for event, memory in controls(history, *apis):
        if event.error_code == 77:
            continue
        known = memory.controller_epoch
        if known is None:
            yield UNVERIFIABLE, place(event)
        elif event.controller_epoch < known:
            yield (FENCED if event.error_code == 11 else VIOLATION), place(event)
        else:
            yield (UNVERIFIABLE if event.error_code == 11 else PASS), place(event)


def ce01(history: History) -> Judged:
    """A LeaderAndIsr or StopReplica of an older controller epoch than accepted before is refused with 11."""
    return _controller_epoch(history, LEADER_AND_ISR, STOP_REPLICA)


def um01(history: History) -> Judged:
    """The same for UpdateMetadata."""
    return _controller_epoch(history, UPDATE_METADATA)


def ce03(history: History) -> Judged:
    """No partition state is of a newer controller than the one that sends it."""
    for event, _ in controls(history, LEADER_AND_ISR, UPDATE_METADATA):
        if event.error_code:
            continue
        for state in event.partitions:
            assert isinstance(state, State)
            newer = state.controller_epoch > event.controller_epoch
            yield (VIOLATION if newer else PASS), place(event, state)


def be01(history: History) -> Judged:
    """A request for a former incarnation of the broker is refused with 77."""
    for event, memory in controls(history, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA):
        if memory.broker_epoch is None:
            yield UNVERIFIABLE, place(event)
        elif event.broker_epoch < memory.broker_epoch:
            yield (FENCED if event.error_code == 77 else VIOLATION), place(event)
        else:
            yield (VIOLATION if event.error_code == 77 else PASS), place(event)


# -- UpdateMetadata, topic ids


def um02(history: History) -> Judged:
    """Under one topic id the leader epoch of a metadata cache does not fall."""
    for event, memory in controls(history, UPDATE_METADATA):
        if event.error_code:
            continue
        for state in event.partitions:
            assert isinstance(state, State)
            if state.leader == LEADER_DURING_DELETE:
                continue
            before = memory.published.get(state.name)
            if before is None or before.leader == LEADER_DURING_DELETE or before.topic_id != state.topic_id:
                yield PASS, place(event, state)
            else:
                yield (EXPOSED if state.leader_epoch < before.leader_epoch else PASS), place(event, state)


def ti01(history: History) -> Judged:
    """A LeaderAndIsr with another topic id than the replica's is refused with 103."""
    for event, memory in controls(history, LEADER_AND_ISR):
        for state, code in partitions(event):
            if state.topic_id is None or code == 56:
                continue
            known = memory.ids.get(state.name)
            if known is None:
                certain = state.name in memory.ids or state.is_new
                yield (VIOLATION if code == 103 else PASS if certain else UNVERIFIABLE), place(event, state)
            elif known == state.topic_id:
                yield (VIOLATION if code == 103 else PASS), place(event, state)
            else:
                yield (FENCED if code == 103 else VIOLATION), place(event, state)


# -- fences of clients and followers


def _fence(history: History, api: str, before_check: tuple[int, ...], *, newer: bool) -> Judged:
    """The fence of one API, against older or newer leader epochs.

    Each rule judges what was served and its own code; a refusal the wrong way round belongs to the rule about that epoch.
    """
    right, wrong = (75, 74) if newer else (74, 75)
    for event, memory in replayed(history):
        if not isinstance(event, Query) or event.api != api:
            continue
        epoch, code = event.current_leader_epoch, event.error_code
        held = memory.held.get(event.name)
        if epoch < 0 or code in before_check:
            continue
        if held is None:
            if code != wrong:
                yield (FENCED if code == right else UNVERIFIABLE), _of_query(event)
            continue
        beyond = epoch > held if newer else epoch < held
        behind = epoch < held if newer else epoch > held
        if code == right and not behind:
            if beyond:
                yield FENCED, _of_query(event)
            elif newer:  # the line precedes its effect, and a follower may be no replica
                yield PASS, _of_query(event)
            else:
                yield (FENCED if _lacks_a_line(history, event, held) else VIOLATION), _of_query(event)
        elif code == wrong and beyond:
            yield (UNVERIFIABLE if newer and _lacks_a_line(history, event, held) else VIOLATION), _of_query(event)
        elif code not in (right, wrong):
            lacks = beyond and newer and _lacks_a_line(history, event, held)
            yield (UNVERIFIABLE if lacks else VIOLATION if beyond else PASS), _of_query(event)


def _of_query(event: Query) -> Key:
    return event.id, None if event.api == FETCH else event.topic, event.partition


def _lacks_a_line(history: History, event: Query, held: int) -> bool:
    """Whether others tell of a newer leader epoch than the broker's log, which may lack a line: nothing later in it says it does not."""
    others = {
        start.leader_epoch
        for other in history.events
        if isinstance(other, Control) and other.node != event.node
        for start in other.starts
        if start.name == event.name and start.leader_epoch > held
        and (event.topic_id is None or start.topic_id == event.topic_id)
    }  # fmt: skip
    if not others:
        return False
    for later in history.of(event.node):
        if later.id <= event.id:
            continue
        if isinstance(later, ProcessStarts):
            return True
        if not isinstance(later, Control):
            continue
        for start in later.starts:
            if start.name == event.name and start.leader_epoch > held:
                told = start.leads or not _since(history.release.version, 3, 6)
                return min(others) < start.leader_epoch and not (told and start.previous_epoch == held)
    return True


_BEFORE_EPOCH: Final = (3, 6, 56)


def ff01(history: History) -> Judged:
    """A Fetch in an older leader epoch is refused with 74."""
    return _fence(history, FETCH, (*_BEFORE_EPOCH, 100, 103), newer=False)


def ff02(history: History) -> Judged:
    """A Fetch in a newer leader epoch is refused with 75."""
    return _fence(history, FETCH, (*_BEFORE_EPOCH, 100, 103), newer=True)


def lo01(history: History) -> Judged:
    """A ListOffsets in an older leader epoch is refused with 74."""
    return _fence(history, LIST_OFFSETS, _BEFORE_EPOCH, newer=False)


def lo02(history: History) -> Judged:
    """A ListOffsets in a newer leader epoch is refused with 75."""
    return _fence(history, LIST_OFFSETS, _BEFORE_EPOCH, newer=True)


def oe01(history: History) -> Judged:
    """An OffsetForLeaderEpoch in an older leader epoch is refused with 74."""
    return _fence(history, OFFSET_FOR_LEADER_EPOCH, _BEFORE_EPOCH, newer=False)


def oe02(history: History) -> Judged:
    """An OffsetForLeaderEpoch in a newer leader epoch is refused with 75."""
    return _fence(history, OFFSET_FOR_LEADER_EPOCH, _BEFORE_EPOCH, newer=True)


def ff04(history: History) -> Judged:
    """A replica that does not lead refuses followers with 6.

    The last line tells the role, until the process ends or the replica is created again: a refusal of a leader passes.
    """
    roles: dict[tuple[int, TopicPartition], Start] = {}
    for event, memory in replayed(history):
        if isinstance(event, ProcessStarts):
            roles = {key: start for key, start in roles.items() if key[0] != event.node}
        elif isinstance(event, Control) and not event.error_code:
            for one in event.partitions if event.api == LEADER_AND_ISR else ():
                if one.name in memory.deleted:
                    roles.pop((event.node, one.name), None)
            roles |= {(event.node, start.name): start for start in event.starts}
        if not isinstance(event, Query) or event.api != FETCH or event.error_code not in (0, 6):
            continue
        start = roles.get((event.node, event.name))
        if start and event.version >= 13 and start.topic_id != event.topic_id:
            start = None
        held = memory.held.get(event.name)
        if event.error_code == 6:
            yield (PASS if start and start.leads else FENCED), _of_query(event)
        elif event.replica_id < 0 or (start and start.leads):  # consumers of these releases may read from followers
            yield PASS, _of_query(event)
        elif held is None or _lacks_a_line(history, event, held):
            yield UNVERIFIABLE, _of_query(event)
        else:
            yield VIOLATION, _of_query(event)


# -- the whole


def _since(version: str, *parts: int) -> bool:
    return tuple(int(part) for part in version.split(".")) >= parts


def place(event: Event, one: Any = None) -> Key:
    """A subject with a line of its own."""
    return event.id, getattr(one, "topic", None), getattr(one, "partition", None)


def key_of_line(event: int | None, row: Mapping[str, Any]) -> Key:
    """The same of a row of epochaudit."""
    return event, row["topic"], row["partition"]


def key_of_request(event: int | None, _: Mapping[str, Any]) -> Key:
    """The same, where the subject is a whole request."""
    return event, None, None


def key_of_fetch(event: int | None, row: Mapping[str, Any]) -> Key:
    """The same of a Fetch, which is for one partition. By topic id it names no topic, and epochaudit may not know the name."""
    return event, None, row["partition"]


def key_of_leader_epoch(_: int | None, row: Mapping[str, Any]) -> Key:
    """The same, where the subject is a leader epoch of a partition."""
    return row["topic_id"], row["topic"], row["partition"], row["leader_epoch"]


@dataclass(frozen=True)
class OracleRule:
    """A rule's function, and how a row of epochaudit names its subject. kraft: of the metadata log, not of ZooKeeper."""

    judge: Callable[[History], Iterable[tuple[str, Key]]]
    key: Callable[[int | None, Mapping[str, Any]], Key] = key_of_line


RULES: Final[dict[str, OracleRule]] = {
    "SR-01": OracleRule(sr01),
    "SR-02": OracleRule(sr02),
    "SR-05": OracleRule(sr05),
    "SR-08": OracleRule(sr08),
    "LI-01": OracleRule(li01),
    "LI-02": OracleRule(li02),
    "LI-04": OracleRule(li04),
    "LI-06": OracleRule(li06),
    "CE-01": OracleRule(ce01, key_of_request),
    "UM-01": OracleRule(um01, key_of_request),
    "CE-03": OracleRule(ce03),
    "BE-01": OracleRule(be01, key_of_request),
    "UM-02": OracleRule(um02),
    "TI-01": OracleRule(ti01),
    "FF-01": OracleRule(ff01, key_of_fetch),
    "FF-02": OracleRule(ff02, key_of_fetch),
    "FF-04": OracleRule(ff04, key_of_fetch),
    "LO-01": OracleRule(lo01),
    "LO-02": OracleRule(lo02),
    "OE-01": OracleRule(oe01),
    "OE-02": OracleRule(oe02),
}
QUORUM_RULES: Final[dict[str, OracleRule]] = {
    "IS-01": OracleRule(quorum.is01),
    "IS-02": OracleRule(quorum.is02),
    "IS-03": OracleRule(quorum.is03),
    "IS-04": OracleRule(quorum.is04),
    "IS-06": OracleRule(quorum.is06),
    "IS-07": OracleRule(quorum.is07, key_of_request),
    "IS-08": OracleRule(quorum.is08),
    "IS-10": OracleRule(quorum.is10),
    "IS-12": OracleRule(quorum.is12),
    "IS-13": OracleRule(quorum.is13),
    "IS-14": OracleRule(quorum.is14),
    "LD-01": OracleRule(quorum.ld01),
    "LD-02": OracleRule(quorum.ld02),
    "LD-03": OracleRule(quorum.ld03),
    "LD-04": OracleRule(quorum.ld04, key_of_leader_epoch),
    "EP-01": OracleRule(quorum.ep01),
    "EP-02": OracleRule(quorum.ep02),
    "EP-03": OracleRule(quorum.ep03),
    "BE-03": OracleRule(quorum.be03, key_of_request),
    "BE-04": OracleRule(quorum.be04, key_of_request),
}
ALL_RULES: Final = RULES | QUORUM_RULES


def rules_of(history: History) -> Mapping[str, OracleRule]:
    """The rules that the oracle judges in a history's kind of cluster."""
    return QUORUM_RULES if history.release.family == "kraft" else RULES


def verdicts_of(rule: str, history: History) -> Iterator[Verdict]:
    """The oracle's verdicts of one rule on a history."""
    for verdict, key in ALL_RULES[rule].judge(history):
        yield rule, verdict, key
