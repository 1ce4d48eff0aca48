"""Oracle of the rules of topics that are deleted and created again under their name: what consumers and groups carry from one to the next.

Which topic a name stands for at a broker: that of its replica's last line, or for a coordinator the newest one that it has stated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from prove.history import (
    FETCH,
    LEADER_DURING_DELETE,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    STOP_REPLICA,
    Control,
    GroupOffset,
    History,
    MetadataAnswer,
    PartitionCreated,
    Query,
    Record,
    State,
)
from prove.oracle.consumer_position import ClientId, Run
from prove.oracle.replication import requests_recorded_since, roles, starts_of
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, Judged, at

BY_ID = 13
OF_LOG = -1
LATE_MS = 500


@dataclass
class Sighting:
    """When a node stated a topic id, or received a statement of it: first and last time, and of its deletion."""

    since: int
    until: int | None
    deleted: int | None = None

    @property
    def end(self) -> int | None:
        """The last statement, or the deletion if that is later."""
        return max((one for one in (self.until, self.deleted) if one is not None), default=None)


def sightings(history: History) -> dict[int, dict[str, Sighting]]:
    """Node -> topic id -> sighting. The metadata log is a node of its own, whose times are offsets."""
    found: dict[int, dict[str, Sighting]] = defaultdict(dict)

    def see(node: int, topic_id: str, time: int, *, deletes: bool = False) -> None:
        one = found[node].setdefault(topic_id, Sighting(time, None))
        if deletes:
            one.deleted = time if one.deleted is None else one.deleted
        else:
            one.until = time

    for event in history.events:
        for start in starts_of(event):
            if start.leads and start.topic_id and printed(history):
                see(event.node, start.topic_id, event.at)
        if isinstance(event, Control) and event.api != STOP_REPLICA:
            for state in event.partitions:
                if isinstance(state, State) and state.topic_id:
                    see(event.node, state.topic_id, event.at, deletes=state.leader == LEADER_DURING_DELETE)
        elif isinstance(event, MetadataAnswer | PartitionCreated):
            see(event.node, event.topic_id, event.at)
        elif isinstance(event, Record) and event.kind in ("TOPIC_RECORD", "REMOVE_TOPIC_RECORD"):
            see(OF_LOG, str(event.data["topicId"]), event.offset, deletes=event.kind != "TOPIC_RECORD")
    return found


def printed(history: History) -> bool:
    """Leaders' lines have topic ids: 3.3 on."""
    return not history.release.version.startswith("2.")


def earlier(seen: dict[int, dict[str, Sighting]], one: str, other: str) -> bool:
    """Each node that has both saw the one before the other."""
    both = [of_node for of_node in seen.values() if one in of_node and other in of_node]
    return bool(both) and all(of_node[one].since < of_node[other].since for of_node in both)


# -- groups


def co06(history: History) -> Judged:
    """A coordinator returns no offset that a group has committed for an earlier topic of the name."""
    seen = sightings(history)
    if len({topic_id for of_node in seen.values() for topic_id in of_node}) < 2:
        return
    last: dict[tuple[int, str, int, int, int | None], GroupOffset] = {}
    for event in history.events:
        if isinstance(event, GroupOffset) and event.api == OFFSET_FETCH and event.offset >= 0:
            commit = _last_commit(history, event)
            of = event.node, event.group_id, event.partition, event.offset, None if commit is None else commit.id
            last[of] = event
    for event in last.values():
        yield _returned(history, event, seen[event.node]), at(event, event.topic, event.partition)


def _returned(history: History, event: GroupOffset, seen: dict[str, Sighting]) -> str:
    commit = _last_commit(history, event)
    since = max((one.since for one in seen.values() if one.since < event.arrived - LATE_MS), default=None)
    ends = [one.end for one in seen.values() if since is not None and one.since < since]
    elsewhere = any(other.node != event.node for other in _commits(history, event))
    if since is None or not ends or commit is None:
        return UNVERIFIABLE
    if commit.at > since + LATE_MS:
        return PASS
    if elsewhere:
        return UNVERIFIABLE
    return EXPOSED if commit.at <= min(since, max(end for end in ends if end is not None)) else UNVERIFIABLE


def _commits(history: History, answer: GroupOffset) -> Iterator[GroupOffset]:
    """The commits of the offset that a coordinator answers."""
    for event in history.events:
        if not isinstance(event, GroupOffset) or event.api != OFFSET_COMMIT:
            continue
        if (event.group_id, event.partition, event.offset) == (answer.group_id, answer.partition, answer.offset):
            yield event


def _last_commit(history: History, answer: GroupOffset) -> GroupOffset | None:
    own = [one for one in _commits(history, answer) if one.node == answer.node and one.id < answer.id]
    return own[-1] if own else None


# -- consumers


@dataclass
class Read:
    """What a consumer was answered of one topic. others: answers that give it a new position, or refuse its leader epoch."""

    runs: dict[tuple[int, int, int], Run] = field(default_factory=dict)
    others: list[Query] = field(default_factory=list)

    @property
    def first(self) -> Run:
        """The first Fetch of the lowest leader epoch; of several brokers or connections the one at the lowest offset."""
        return min(
            self.runs.values(),
            key=lambda run: (run.leader_epoch, run.queries[0].offset, run.node, run.queries[0].id),
        )

    def had(self, offset: int) -> bool:
        """The consumer began or ended at the offset, or was answered records up to it."""
        return any(
            run.delivered(offset) or offset in (run.queries[0].offset, run.queries[-1].offset)
            for run in self.runs.values()
        )


def ti08(history: History) -> Judged:
    """A position goes to the next topic of the name by a Fetch that names the topic."""
    for _, read, before, whole in _carried(history):
        query = read.first.queries[0]
        if query.version >= BY_ID:
            continue
        refused = before and any(other.error_code in (74, 75) and _not_later(other, query) for other in read.others)
        yield (FENCED if refused else _origin(read, before, whole)), at(query, None, query.partition)


def ti09(history: History) -> Judged:
    """A consumer does not go on at its position in the next topic of the name."""
    for client, read, before, whole in _carried(history):
        query = read.first.queries[0]
        verdict = _origin(read, before, whole)
        if verdict == EXPOSED and _resumed(history, client, query):
            verdict = UNVERIFIABLE
        yield verdict, at(query, None, query.partition)


def _origin(read: Read, before: list[Read], whole: bool) -> str:
    if not before:
        return UNVERIFIABLE
    run = read.first
    query = run.queries[0]
    renewed = query.diverging is not None or any(
        _not_later(other, query) and (other.error_code == 1 or (other.api == LIST_OFFSETS and other.end_offset == query.offset))
        for other in read.others
    )  # fmt: skip
    if query.offset <= query.log_start_offset or renewed:
        return PASS
    shared = any(
        a.node == b.node and a.queries[0].id < b.queries[0].id < a.queries[-1].id
        for a in read.runs.values()
        for b in read.runs.values()
    )
    if run.leader_epoch > 0 or shared or not whole:
        return UNVERIFIABLE
    return EXPOSED if any(one.had(query.offset) for one in before) else UNVERIFIABLE


def _not_later(other: Query, first: Query) -> bool:
    return other.node != first.node or other.id <= first.id


def _resumed(history: History, client: ClientId, query: Query) -> bool:
    """A coordinator returned this offset to the client, and not only as the client itself had committed it there before."""
    events = [one for one in history.events if isinstance(one, GroupOffset) and one.offset == query.offset]
    for answer in events:
        if answer.api != OFFSET_FETCH or (answer.client_id, answer.software) != client:
            continue
        commits = [one for one in events if one.api == OFFSET_COMMIT and one.group_id == answer.group_id]
        committers = {(one.client_id, one.software) for one in commits}
        own = committers == {client} and any(one.node == answer.node and one.id < answer.id for one in commits)
        if not own:
            return True
    return False


def _carried(history: History) -> Iterator[tuple[ClientId, Read, list[Read], bool]]:
    """Each consumer's reads of a topic, and of those that had the name before; of none if their order is not known.

    And whether the requests to the broker of the first Fetch are recorded since it knew of the topic.
    """
    seen = sightings(history)
    reads: dict[ClientId, dict[str, Read]] = defaultdict(lambda: defaultdict(Read))
    for event, held, _ in roles(history):
        if not isinstance(event, Query) or event.replica_id >= 0:
            continue
        start = held.get(event.partition)
        by_id = event.api == FETCH and event.version >= BY_ID
        topic_id = event.topic_id if by_id else start.topic_id if start is not None else None
        epoch = event.current_leader_epoch
        if epoch < 0:
            epoch = -1 if start is None else start.leader_epoch
        if topic_id is None or epoch < 0:
            continue
        read = reads[event.client_id, event.software][topic_id]
        if event.api == FETCH and event.error_code == 0:
            key = epoch, event.node, event.connection
            read.runs.setdefault(key, Run(epoch, event.node)).queries.append(event)
        elif (event.api == FETCH and event.error_code in (1, 74, 75)) or event.error_code == 0:
            read.others.append(event)
    for client, topics in reads.items():
        for topic_id, read in topics.items():
            others = {id: other for id, other in topics.items() if other.runs and id != topic_id}
            before = [other for id, other in others.items() if earlier(seen, id, topic_id)]
            unordered = any(not earlier(seen, id, topic_id) and not earlier(seen, topic_id, id) for id in others)
            if read.runs and (before or unordered):
                node = read.first.node
                created = seen[node].get(topic_id)
                whole = created is not None and requests_recorded_since(history, node, created.since)
                yield client, read, [] if unordered else before, whole
