"""Oracle of the rules of truncation: how logs are compared, and who truncates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from prove.history import (
    FETCH,
    NO_LEADER,
    HighWatermarkLowered,
    History,
    LogStartRaised,
    LogTruncated,
    ProcessStarts,
    Query,
    Start,
)
from prove.oracle.follower_ends import committed_by_followers
from prove.oracle.leader_epoch_fence import lacks_a_line
from prove.oracle.lineage import CLEAN, UNCLEAN, Epoch, epochs, leaders, lowest_start_between, unknown_between
from prove.oracle.replication import (
    PartitionEpoch,
    answered_fetches,
    began_at,
    requests_recorded_since,
    served,
    shown_starts,
    start_times,
    started,
    starts,
    starts_of,
)
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged

_Line = TypeVar("_Line", LogTruncated, HighWatermarkLowered)
OUT_OF_RANGE = 1
REFUSED_BEFORE = (3, 6, 74, 75, 100, 103)


def tr03(history: History) -> Judged:
    """A leader does not serve a Fetch from beyond the point where the logs diverge."""
    for one in served(history, FETCH):
        query, start = one.query, one.start
        if start is None or not one.leads or query.epoch < 0 or query.error_code in REFUSED_BEFORE:
            continue
        if query.epoch in (start.leader_epoch, query.current_leader_epoch) and query.diverging is None:
            continue  # compared within one epoch: with the end of the leader's log, which is not recorded
        key = query.id, None, query.partition
        # below the start of its log a leader knows no epochs
        beyond = query.epoch > start.leader_epoch or query.offset > max(start.offset, query.log_start_offset)
        if query.error_code == OUT_OF_RANGE:
            yield (FENCED if query.epoch > start.leader_epoch else PASS), key
        elif query.diverging is not None:
            yield FENCED, key
        else:
            # a request is served only in the epoch that it states
            proven = query.current_leader_epoch == start.leader_epoch
            unsure = (
                beyond
                and not proven
                and lacks_a_line(
                    history, query, start.leader_epoch, stated=max(query.epoch, query.current_leader_epoch)
                )
            )
            yield (UNVERIFIABLE if unsure else VIOLATION if beyond else PASS), key


def tr04(history: History) -> Judged:
    """A divergence fits the leader's own lineage."""
    begun, shown = starts(history), shown_starts(history)
    for one in served(history, FETCH):
        query, start = one.query, one.start
        if start is None or not one.leads or query.diverging is None:
            continue
        epoch, end = query.diverging
        nothing = epoch == query.epoch and end >= query.offset
        late = epoch < start.leader_epoch and end > max(start.offset, query.log_start_offset)
        # a leader without records of the epoch or an older one answers the start of its log
        without = epoch == query.epoch and (end <= query.log_start_offset or began_at(history, query, end))
        early = end < begun.get((query.partition, epoch), 0) and not without
        unsure = early and epoch < start.leader_epoch and (query.partition, epoch) not in shown
        wrong = epoch > query.epoch or nothing or late or (early and not unsure)
        yield (VIOLATION if wrong else UNVERIFIABLE if unsure else PASS), (query.id, None, query.partition)


def _next_of(history: History, answer: Query) -> Query | None:
    """The follower's next request on the connection that lists the partition."""
    for later in history.of(answer.node):
        if not isinstance(later, Query) or later.id <= answer.id:
            continue
        if (later.partition, later.connection) == (answer.partition, answer.connection):
            return later
    return None


def tr05(history: History) -> Judged:
    """A follower truncates where its leader answered that their logs diverge."""
    for one in served(history, FETCH):
        query = one.query
        if query.replica_id < 0 or query.diverging is None:
            continue
        key = query.id, None, query.partition
        after = _next_of(history, query)
        epoch, end = query.diverging
        if after is None:
            yield UNVERIFIABLE, key
        elif after.current_leader_epoch != query.current_leader_epoch or _obeys(after, epoch, end):
            yield PASS, key
        else:  # sessions have one request each: correlation ids alone show that none is missing in between
            yield (VIOLATION if after.correlation_id == query.correlation_id + 1 else UNVERIFIABLE), key


def _obeys(after: Query, epoch: int, end: int) -> bool:
    """A follower fetches at the end that it was answered, or below, or states an older epoch to search on, or its log is empty."""
    below = after.offset <= end
    if after.epoch < 0:
        return below or _at_the_start(after)
    return after.epoch < epoch or (after.epoch == epoch and below)


def tr09(history: History) -> Judged:
    """A follower compares its log with the leader's before it fetches in a new leader epoch."""
    first: dict[tuple[int, int, int, int], Query] = {}
    for one in served(history, FETCH):
        query = one.query
        if query.replica_id >= 0 and query.error_code == 0:
            first.setdefault((query.partition, query.replica_id, query.current_leader_epoch, query.node), query)
    fetches = [one.query for one in served(history, FETCH) if one.query.replica_id >= 0]
    for (partition, replica, epoch, node), query in first.items():
        own = [other for other in fetches if (other.partition, other.replica_id) == (partition, replica)]
        known = any(other.epoch >= 0 and other.current_leader_epoch < epoch for other in own)
        key = query.id, None, partition
        empty = _at_the_start(query) or _began_above(history, query)
        led = _led_since_comparison(history, first, partition, replica, epoch, node)
        if query.epoch >= 0 or empty or led:
            yield PASS, key
        else:
            yield (UNVERIFIABLE if led is None or not known else VIOLATION), key


def _led_since_comparison(
    history: History,
    first: dict[tuple[int, int, int, int], Query],
    partition: int,
    replica: int,
    epoch: int,
    node: int,
) -> bool | None:
    """Whether the leader has led since the epoch of the follower's last Fetch before, where it had compared or begun with an empty log.

    None: it led in that epoch, but who led in between is not recorded.
    """
    before = max((key[2] for key in first if key[:2] == (partition, replica) and key[2] < epoch), default=-1)
    query = first.get((partition, replica, before, node))
    if query is None or not (query.epoch >= 0 or _at_the_start(query)):
        return False
    if before == epoch - 1:
        return True
    elected = {(number, of): {leader} for (number, of), leader in leaders(history).items() if leader != NO_LEADER}
    for _, start in started(history):
        elected.setdefault((start.partition, start.leader_epoch), set()).add(start.leader)
    led = [elected.get((partition, of), set()) for of in range(before + 1, epoch + 1)]
    if any(others - {node} for others in led):
        return False
    return None if set() in led else True


def _began_above(history: History, query: Query) -> bool:
    """Whether the follower's log had begun at the offset or above, by its own lines: it has no leader epoch from before."""
    return any(
        isinstance(event, LogStartRaised) and event.partition == query.partition and event.offset >= query.offset
        for event in history.of(query.replica_id)
    )


def _at_the_start(query: Query) -> bool:
    """Whether a follower's log is empty: it fetches where its log begins."""
    return query.offset in (0, query.replica_log_start)


def tr06(history: History) -> Judged:
    """A leader epoch does not start below what had been committed before it."""
    known = [*_committed(history)]
    # also who refused all of them: its request log is there
    answering = {one.query.node for one in served(history, FETCH)}
    lineage = list(epochs(history))
    led = led_epochs(history, lineage)
    by_followers = list(committed_by_followers(history, lineage))
    for one in lineage:
        if one.leader == NO_LEADER:
            continue
        key = None, one.topic, one.partition, one.leader_epoch
        if one.never_begun or one.start is None:
            yield (PASS if one.never_begun else UNVERIFIABLE), key
            continue
        bounds = []
        for number, epoch, committed in known:
            if number == one.partition and epoch < one.leader_epoch:
                limit = lowest_start_between(lineage, number, epoch, one.leader_epoch)
                bounds.append((min(committed, committed if limit is None else limit), epoch))
        bounds += [
            (offset, epoch)
            for number, below, epoch, offset in by_followers
            if (number, below) == (one.partition, one.leader_epoch)
        ]
        lost = [epoch for bound, epoch in bounds if bound > one.start]
        if lost:
            unsure = all(unknown_between(lineage, one.partition, epoch, one.leader_epoch) for epoch in lost)
            yield (VIOLATION if one.from_isr and not unsure else EXPOSED), key
            continue
        last = led_before(led, one)
        if proved(history, one, last[1]):
            yield PASS, key
            continue
        recorded = last[0] in answering and _answers_recorded(history, one.partition, *last)
        yield (PASS if bounds and recorded else UNVERIFIABLE), key


def _answers_recorded(history: History, partition: int, node: int, epoch: int) -> bool:
    """Whether a leader's request log shows how far it committed in an epoch: it has an answer of it, or begins before it.

    The high watermark only rises within an epoch. Answers leave out partitions with nothing new.
    """
    if any(
        one.query.partition == partition and one.query.node == node and one.leads and one.start and one.start.leader_epoch == epoch
        for one in answered_fetches(history)
    ):  # fmt: skip
        return True
    return requests_recorded_since(history, node, start_times(history).get((partition, epoch)))


def led_epochs(history: History, lineage: Iterable[Epoch]) -> dict[PartitionEpoch, int]:
    """Who led in each leader epoch, without those that had no leader, and those that their leaders skipped."""
    skipped = {(one.partition, one.leader_epoch) for one in lineage if one.never_begun}
    return {key: leader for key, leader in leaders(history).items() if leader >= 0 and key not in skipped}


def led_before(led: Mapping[PartitionEpoch, int], one: Epoch) -> tuple[int, int]:
    """The leader before, and the leader epoch in which it led."""
    epoch = max(n for partition, n in led if partition == one.partition and n < one.leader_epoch)
    return led[one.partition, epoch], epoch


def proved(history: History, one: Epoch, led_before: int) -> bool:
    """Whether a broker had no more than the epoch begins with, though it had all that was committed.

    It was elected from the ISR or was a member of it, its log ended there, and it has run since the last epoch before that had a
    leader, `led_before`: nothing is committed in an epoch without one.
    """
    processes: dict[int, bool] = {}
    for node in history.nodes:
        ran = False
        for event in history.of(node):
            if isinstance(event, ProcessStarts):
                ran = False
            for start in starts_of(event):
                if start.partition != one.partition:
                    continue
                if start.leader_epoch == one.leader_epoch:
                    processes[node] = ran and one.start is not None and start.offset <= one.start
                ran = ran or start.leader_epoch <= led_before
    return any(fits and node in one.isr for node, fits in processes.items())


def _committed(history: History) -> Iterator[tuple[int, int, int]]:
    """(partition, leader epoch, offset): up to where it is known to have been committed in that epoch."""
    for one in answered_fetches(history):
        if one.start is not None and one.leads:
            yield one.query.partition, one.start.leader_epoch, one.query.high_watermark
    for _, start in started(history):
        if start.leads:
            yield start.partition, start.leader_epoch, start.high_watermark


def tr07(history: History) -> Judged:
    """A follower does not truncate below the high watermark that it had learned, unless an election since was unclean."""
    elections = {(one.partition, one.leader_epoch): one for one in epochs(history)}
    for line, begun in truncation_lines(history, LogTruncated):
        key = line.id, None, line.partition
        if not begun:
            yield UNVERIFIABLE, key
            continue
        own, lower = begun[-1], [start for start in begun if start.leader_epoch < begun[-1].leader_epoch]
        if line.offset >= min(own.high_watermark, own.offset):
            yield PASS, key
            continue
        since_then = range(lower[-1].leader_epoch + 1, own.leader_epoch + 1) if lower else range(0)
        between = [elections.get((line.partition, epoch)) for epoch in since_then]
        led = [one for one in between if one is not None and one.leader != NO_LEADER]
        unclean = [one for one in led if one.election == UNCLEAN]
        learned = bool(lower) and (lower[-1].leads or own.high_watermark > lower[-1].high_watermark)
        if any(one.start is not None for one in unclean):
            yield PASS, key  # TR-06 judges that election
        elif not learned:
            yield UNVERIFIABLE, key
        elif unclean:
            yield EXPOSED, key
        else:
            known = all(one is not None for one in between) and all(one.election == CLEAN for one in led)
            yield (VIOLATION if known else UNVERIFIABLE), key


def truncation_lines(history: History, kind: type[_Line]) -> Iterator[tuple[_Line, list[Start]]]:
    """The lines of a kind, each with the lines by which its replica had begun leader epochs before."""
    for node in history.nodes:
        begun: dict[int, list[Start]] = {}
        for event in history.of(node):
            if isinstance(event, kind):
                yield event, begun.get(event.partition, [])
            for start in starts_of(event):
                begun.setdefault(start.partition, []).append(start)
