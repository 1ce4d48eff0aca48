"""Oracle of the rules of consumers' positions: whether a consumer crossed a truncation, and whether it validated its position.

A consumer is a client id with its software. A Fetch does not state the leader epoch of the record before its offset. If the
consumer had been answered records up to there, the epoch in which it was served is an upper bound. Consumers are ordered by the leader
epochs that served them, and within one broker by its log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from prove.history import (
    FETCH,
    LIST_OFFSETS,
    NO_EPOCH,
    NO_LEADER,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    OUT_OF_RANGE_RESET,
    POSITION_RESET,
    TRUNCATION_DIVERGED,
    TRUNCATION_RESET,
    ClientLine,
    GroupOffset,
    History,
    LogStartRaised,
    Query,
    Software,
)
from prove.oracle.lineage import CLEAN, Epoch, epochs
from prove.oracle.replication import PartitionEpoch, Served, requests_recorded_since, served, start_times, starts
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

EPOCHS_SINCE = 9
"""Version of Fetch since which clients state leader epochs."""
JAVA = "apache-kafka-java"
POSITION_LINES = (TRUNCATION_DIVERGED, TRUNCATION_RESET, OUT_OF_RANGE_RESET, POSITION_RESET)

ClientId = tuple[str, Software]


@dataclass(frozen=True)
class Answer:
    """An answer to a consumer. leader_epoch: which the request states, else the one that the broker held."""

    query: Query
    leader_epoch: int


@dataclass
class Run:
    """The Fetches of a consumer that were served in one leader epoch on one connection."""

    leader_epoch: int
    node: int
    queries: list[Query] = field(default_factory=list)

    @property
    def high_watermark(self) -> int:
        """The highest that it was answered."""
        return max(query.high_watermark for query in self.queries)

    def delivered(self, offset: int) -> bool:
        """Whether the record before the offset was among what it was answered."""
        begun = [query.offset for query in self.queries if query.records_size]
        return bool(begun) and min(begun) < offset <= self.high_watermark


@dataclass
class Consumed:
    """What a consumer was answered about one partition. runs: of Fetches. others: all other answers."""

    client: ClientId
    partition: int
    runs: list[Run] = field(default_factory=list)
    others: list[Answer] = field(default_factory=list)

    def waited(self, run: Run, offset: int) -> bool:
        """Whether the run ended at the offset, and the consumer had begun below: it has read up to there."""
        below = any(one.leader_epoch <= run.leader_epoch and one.queries[0].offset < offset for one in self.runs)
        return run.queries[-1].offset == offset and below

    def read_up_to(self, offset: int, before: int) -> int | None:
        """The newest leader epoch before another one in which the consumer had read up to an offset."""
        found = [
            run.leader_epoch
            for run in self.runs
            if run.leader_epoch < before and (run.delivered(offset) or self.waited(run, offset))
        ]
        return max(found, default=None)

    def reached(self, offset: int) -> bool:
        """Whether it began below an offset that was committed, or ListOffsets answered the offset, at any time."""
        fetched = any(min(q.offset for q in run.queries) < offset <= run.high_watermark for run in self.runs)
        return fetched or any(one.query.api == LIST_OFFSETS and one.query.end_offset == offset for one in self.others)

    def read_on(self, offset: int, since: int, before: int) -> bool:
        """Whether it fetched above an offset, or was answered records from it on, in a leader epoch of these."""
        return any(
            query.offset > offset or (query.offset == offset and query.records_size > 0)
            for run in self.runs
            if since <= run.leader_epoch < before
            for query in run.queries
        )


@dataclass(frozen=True)
class Subject:
    """A consumer's first Fetch in a leader epoch. resumed: leader epochs of the coordinator's answers with its offset, -1: none.

    position_epoch: an upper bound of the leader epoch of the record before. diverged: the epoch that is newer and begins below.
    uncertain: such an epoch begins below, but a later election may have brought the old log back. missing: the start of an epoch in
    between is not recorded. detected: the consumer learned of the divergence, or asked in the epoch, before. unrecorded: it may
    have, in a request to a leader whose request log begins after its epoch.
    """

    of: Consumed
    query: Query
    leader_epoch: int
    shared: bool
    resumed: tuple[int, ...]
    position_epoch: int | None
    diverged: Epoch | None
    uncertain: bool
    missing: bool
    detected: bool
    unrecorded: bool

    @property
    def key(self) -> tuple[object, ...]:
        """The name of the subject."""
        return self.query.id, None, self.query.partition

    @property
    def committed_epoch(self) -> int:
        """The newest leader epoch that a coordinator answered with the offset; -1: none."""
        return max(self.resumed, default=NO_EPOCH)

    @property
    def always_committed_with_epoch(self) -> bool:
        """No coordinator answered with the offset and without a leader epoch: its answers have no order with Fetches of others."""
        return min(self.resumed, default=NO_EPOCH) >= 0

    @property
    def states_epochs(self) -> bool:
        """The consumer speaks versions with leader epochs."""
        return self.query.version >= EPOCHS_SINCE and self.query.current_leader_epoch >= 0

    @property
    def may_be_reset(self) -> bool:
        """ListOffsets answered the offset, not before the consumer had read up to it: such a position has no leader epoch."""
        return self.position_epoch is not None and any(
            one.query.api == LIST_OFFSETS and one.query.end_offset == self.query.offset
            and self.position_epoch <= one.leader_epoch and _before(one, self.leader_epoch, self.query)
            for one in self.of.others
        )  # fmt: skip

    @property
    def may_be_sought(self) -> bool:
        """The consumer went back to the offset after it had read on: by a seek, its position has no leader epoch."""
        return self.position_epoch is not None and self.of.read_on(
            self.query.offset, self.position_epoch, self.leader_epoch
        )


def tr01(history: History) -> Judged:
    """A consumer does not go on beyond a truncation. Nothing is truncated below offset 0."""
    for one in subjects(history):
        knows = one.states_epochs and (not one.resumed or one.always_committed_with_epoch)
        knows = knows and not one.may_be_reset and not one.may_be_sought
        if one.query.offset == 0:
            verdict = PASS
        elif one.position_epoch is None:
            verdict = UNVERIFIABLE
        elif one.diverged is not None:
            verdict = _crossed(one, knows)
        else:
            verdict = UNVERIFIABLE if one.uncertain or one.missing else PASS
        yield verdict, one.key


def _crossed(one: Subject, knows: bool) -> str:
    if one.detected:
        return PASS
    return UNVERIFIABLE if one.shared or one.unrecorded else VIOLATION if knows else EXPOSED


def tr02(history: History) -> Judged:
    """A consumer validates a position of an older leader epoch before it fetches."""
    for one in subjects(history):
        if one.position_epoch is None or one.leader_epoch <= one.position_epoch or not one.states_epochs:
            continue
        asked = any(
            other.query.api == OFFSET_FOR_LEADER_EPOCH and other.query.end_offset < 0 and other.leader_epoch == one.leader_epoch
            and _before(other, one.leader_epoch, one.query)
            for other in one.of.others
        )  # fmt: skip
        known = one.always_committed_with_epoch and not one.of.reached(one.query.offset) and not one.may_be_sought
        if one.detected or asked:
            yield PASS, one.key
        elif not known or one.shared or one.unrecorded or one.of.client[1][0] != JAVA:
            yield UNVERIFIABLE, one.key
        else:
            yield VIOLATION, one.key


def tr08(history: History) -> Judged:
    """Each line by which a consumer gave up its position counts as one pass, if the evidence shows why the log did not have it.

    The line says so, or a newer leader epoch begins below the position, or the consumer went back, or a log began where it went.
    """
    begun = starts(history)
    raised = {(one.partition, one.offset) for one in history.events if isinstance(one, LogStartRaised)}
    lines = [event for event in history.events if isinstance(event, ClientLine) and event.kind in POSITION_LINES]
    for line in lines:
        if line.kind == POSITION_RESET:
            continue
        assert line.position is not None
        offset, epoch = line.position
        own = [one for one in lines if (one.log, one.client_id, one.name) == (line.log, line.client_id, line.name)]
        following = next((one for one in own if one.id > line.id), None)
        went = following.new_position if following is not None and following.kind == POSITION_RESET else None
        diverged = epoch >= 0 and any(
            number == line.partition and newer > epoch and start < offset for (number, newer), start in begun.items()
        )
        explained = went is not None and (went[0] < offset or (line.partition, went[0]) in raised)
        if line.kind != OUT_OF_RANGE_RESET or diverged or explained:
            yield PASS, place(line, line)
        else:
            yield UNVERIFIABLE, place(line, line)


def co02(history: History) -> Judged:
    """A consumer does not fetch in an older leader epoch than the one of its committed offset."""
    for one in subjects(history):
        if one.committed_epoch < 0:
            continue
        offset = one.query.offset
        reached = one.of.reached(offset)
        if one.leader_epoch >= one.committed_epoch:
            refused = any(
                other.query.api == FETCH and other.query.error_code in (74, 75) and other.query.offset == offset
                and other.leader_epoch < one.committed_epoch
                for other in one.of.others
            )  # fmt: skip
            yield (FENCED if refused and not reached else PASS), one.key
        elif one.leader_epoch >= min(one.resumed) or reached or one.shared or offset <= one.query.log_start_offset:
            yield UNVERIFIABLE, one.key
        else:
            yield (VIOLATION if one.query.current_leader_epoch >= 0 else EXPOSED), one.key


def co04(history: History) -> Judged:
    """A consumer that resumes from a commit does not go on beyond a truncation. Nothing is truncated below offset 0."""
    for one in subjects(history):
        if not one.resumed or (one.committed_epoch < 0 and one.diverged is not None):
            continue
        if one.query.offset == 0:
            yield PASS, one.key
        elif one.position_epoch is None:
            yield UNVERIFIABLE, one.key
        elif one.diverged is not None:
            yield _crossed(one, one.states_epochs and not one.may_be_reset and not one.may_be_sought), one.key
        else:
            yield (UNVERIFIABLE if one.uncertain or one.missing else PASS), one.key


def subjects(history: History) -> Iterator[Subject]:
    """Each consumer's first Fetch in a leader epoch, if its offset comes from an older one or from a commit."""
    lineage = list(epochs(history))
    groups = [event for event in history.events if isinstance(event, GroupOffset) and event.offset >= 0]
    unrecorded = _begun_before_their_logs(history, lineage)
    all_consumed = consumed(history)
    for one in all_consumed:
        for epoch in sorted({run.leader_epoch for run in one.runs}):
            own = [run for run in one.runs if run.leader_epoch == epoch]
            first = min(own, key=lambda run: (run.queries[0].offset, run.node, run.queries[0].id)).queries[0]
            resumes = [
                event
                for event in groups
                if event.api == OFFSET_FETCH and (event.client_id, event.software) == one.client
                and (event.partition, event.offset) == (one.partition, first.offset)
                and not (event.node == first.node and event.id > first.id)
            ]  # fmt: skip
            resumed = tuple(NO_EPOCH if event.leader_epoch is None else event.leader_epoch for event in resumes)
            read = one.read_up_to(first.offset, epoch)
            if read is None and not resumed:
                continue
            bound: int | None = max(resumed, default=NO_EPOCH)
            if bound == NO_EPOCH:
                bound = read
            if bound is None:
                group = max(resumes, key=lambda event: event.group_id).group_id
                bound = _committers_epoch(all_consumed, groups, group, one.partition, first.offset)
            yield _placed(one, own, first, epoch, resumed, bound, lineage, unrecorded)


def _placed(
    one: Consumed,
    own: list[Run],
    first: Query,
    epoch: int,
    resumed: tuple[int, ...],
    bound: int | None,
    lineage: list[Epoch],
    unrecorded: set[PartitionEpoch],
) -> Subject:
    shared = any(
        a.node == b.node and a.queries[0].id < b.queries[0].id < a.queries[-1].id for a in own for b in own
    )  # fmt: skip
    diverged, uncertain, missing = None, False, False
    if bound is not None:
        between = [e for e in lineage if e.partition == one.partition and bound < e.leader_epoch <= epoch]
        beyond = [e for e in between if e.start is not None and e.start < first.offset]
        doubtful = [e.leader_epoch for e in between if e.election != CLEAN and e.leader != NO_LEADER]
        certain = [e for e in beyond if e.leader_epoch >= max(doubtful, default=NO_EPOCH)]
        diverged = min(certain, key=lambda e: (e.start, e.leader_epoch), default=None)
        uncertain = bool(beyond)
        known = [e for e in between if e.start is not None or e.leader == NO_LEADER or e.never_begun]
        missing = len(known) < epoch - bound
    since = epoch if diverged is None else diverged.leader_epoch
    detected = any(
        other.leader_epoch >= since and _before(other, epoch, first) and _shows_divergence(other.query, first.offset)
        for other in one.others
    )
    open_epochs = any(number == one.partition and since <= e <= epoch for number, e in unrecorded)
    return Subject(one, first, epoch, shared, resumed, bound, diverged, uncertain, missing, detected, open_epochs)


def _begun_before_their_logs(history: History, lineage: list[Epoch]) -> set[PartitionEpoch]:
    """The leader epochs that a leader began before its request log, or without a line."""
    begun = start_times(history)
    led = {
        (one.partition, one.leader_epoch): one.leader
        for one in lineage
        if one.leader != NO_LEADER and not one.never_begun
    }
    return {key for key, leader in led.items() if not requests_recorded_since(history, leader, begun.get(key))}


def _before(other: Answer, epoch: int, first: Query) -> bool:
    """Not in a later leader epoch, nor later in the log of the broker that served the first Fetch of the epoch."""
    later = other.query.node == first.node and other.query.id > first.id
    return other.leader_epoch < epoch or (other.leader_epoch == epoch and not later)


def _shows_divergence(query: Query, offset: int) -> bool:
    if query.api == FETCH:
        return query.error_code == 1
    if query.api == LIST_OFFSETS:
        return query.end_offset == offset
    return query.end_offset >= 0


def _committers_epoch(
    all_consumed: list[Consumed], groups: list[GroupOffset], group: str, partition: int, offset: int
) -> int | None:
    """The newest leader epoch in which a client that committed an offset had read up to it, or that it committed with it."""
    found = []
    for event in groups:
        if event.api != OFFSET_COMMIT or (event.group_id, event.partition, event.offset) != (group, partition, offset):
            continue
        if event.leader_epoch is not None and event.leader_epoch >= 0:
            found.append(event.leader_epoch)
            continue
        for one in all_consumed:
            if one.client != (event.client_id, event.software) or one.partition != partition:
                continue
            delivered = [run.leader_epoch for run in one.runs if run.delivered(offset)]
            waited = {run.leader_epoch for run in one.runs if one.waited(run, offset)}
            if delivered:
                found.append(max(delivered))
            elif len(waited) == 1:  # else it may have read twice
                found += waited
    return max(found, default=None)


def consumed(history: History) -> list[Consumed]:
    """What each consumer was answered about each partition."""
    found: dict[tuple[ClientId, int], Consumed] = {}
    runs: dict[tuple[ClientId, int], dict[tuple[int, int, int], Run]] = defaultdict(dict)
    requests = [one for api in (FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH) for one in served(history, api)]
    for one in sorted(requests, key=lambda request: request.query.id):
        query, epoch = one.query, _epoch_of(one)
        if query.replica_id >= 0 or epoch is None or not _is_evidence(query):
            continue
        client = query.client_id, query.software
        consumer = found.setdefault((client, query.partition), Consumed(client, query.partition))
        if query.api == FETCH and query.error_code == 0:
            connection = epoch, query.node, query.connection
            own = runs[client, query.partition]
            if connection not in own:
                own[connection] = Run(epoch, query.node)
                consumer.runs.append(own[connection])
            own[connection].queries.append(query)
        else:
            consumer.others.append(Answer(query, epoch))
    return list(found.values())


def _epoch_of(one: Served) -> int | None:
    if one.query.current_leader_epoch >= 0:
        return one.query.current_leader_epoch
    return None if one.start is None else one.start.leader_epoch


def _is_evidence(query: Query) -> bool:
    """An answer with content, or one that refuses a Fetch."""
    return query.error_code == 0 or (query.api == FETCH and query.error_code in (1, 74, 75))
