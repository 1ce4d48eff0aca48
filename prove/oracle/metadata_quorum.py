"""Oracle of the rules of the metadata quorum (KIP-595, KIP-853)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from prove.history import FETCH, History, RaftRequest, RaftTransition, Record, since
from prove.oracle.verdicts import FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

OF_LEADERS = ("BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH")
PARKED_MS = 100
KNOWS_LEADER = (0, 6, 74, 75)


def requests(history: History) -> list[RaftRequest]:
    """The requests of the quorum."""
    return [event for event in history.events if isinstance(event, RaftRequest)]


def parked(event: RaftRequest) -> bool:
    """A Fetch that waited."""
    return event.api == FETCH and event.at - event.arrived >= PARKED_MS


def ra01(history: History) -> Judged:
    """A request is answered in its own epoch, and refused in another one."""
    for event in requests(history):
        asked, answered, code = event.asked, event.answered_epoch, event.error_code
        if code == 0 and asked == answered:
            yield PASS, place(event)
        elif code == 0:
            yield (UNVERIFIABLE if answered > asked and parked(event) else VIOLATION), place(event)
        elif code == 74:
            yield (FENCED if asked < answered else VIOLATION), place(event)
        elif code == 75:
            yield (FENCED if asked > answered else VIOLATION), place(event)


def leaders(history: History) -> dict[int, set[int]]:
    """The leaders of each epoch, by all that states one."""
    found: dict[int, set[int]] = defaultdict(set)
    for epoch, leader in _statements(history):
        if leader >= 0:
            found[epoch].add(leader)
    return found


def _statements(history: History) -> Iterator[tuple[int, int]]:
    for event in history.events:
        if isinstance(event, RaftRequest):
            of_leader = event.api in (FETCH, "FETCH_SNAPSHOT")
            if not of_leader or (event.error_code in KNOWS_LEADER and not parked(event)):
                yield event.answered_epoch, event.answered_leader
            if event.api in OF_LEADERS and event.error_code in (0, 74):
                yield event.asked, event.sender
        elif isinstance(event, RaftTransition) and event.state in ("Leader", "Follower"):
            yield event.epoch, event.leader
        elif isinstance(event, Record) and event.kind == "LEADER_CHANGE" and since(history.release.version, 4, 1):
            yield event.epoch, int(str(event.data["leaderId"]))


def broken(history: History, voter: int | None = None) -> str:
    """The verdict on what contradicts itself: if the quorum may have been formatted anew, its epochs may have started anew.

    Then its requests state several cluster ids, or a node's lines name a leader of a lower epoch than it has been in, or most voters
    lost their disks and have a leader in an epoch that they had reached before. The first line of a lower epoch may
    come from the disk that the node started with. Of a voter that lost its own disk, most voters may have lost theirs if
    those without lines are counted.
    """
    clusters = {event.cluster for event in requests(history) if event.api != FETCH}
    voters: set[int] = set()
    emptied: set[int] = set()
    recorded: set[int] = set()
    for node in history.nodes:
        highest = epoch = from_disk = reached = 0
        for event in history.of(node):
            if isinstance(event, RaftTransition):
                recorded.add(node)
                if event.epoch < epoch:
                    from_disk, reached = event.epoch, highest
                epoch, highest = event.epoch, max(highest, event.epoch)
                if _is_of_voter(history, event):
                    voters.add(node)
                if event.state in ("Leader", "Follower"):
                    voters.add(event.leader)
                    if from_disk < epoch < highest:
                        return UNVERIFIABLE
                    if from_disk == 0 < epoch <= reached:
                        emptied.add(node)
    may_have_lost = emptied & voters
    if voter in emptied:
        may_have_lost |= voters - recorded
    most = len(may_have_lost) > len(voters) / 2
    return UNVERIFIABLE if len(clusters) > 1 or most else VIOLATION


def ra02(history: History) -> Judged:
    """An epoch has one leader."""
    for known in leaders(history).values():
        yield (PASS if len(known) == 1 else broken(history)), (min(known),)


def ra03(history: History) -> Judged:
    """A voter votes for one candidate in an epoch. A candidate votes for itself. Requests and lines state votes."""
    votes: dict[tuple[int, int], set[int]] = defaultdict(set)
    for line in history.events:
        if isinstance(line, RaftTransition) and (voted := line.stated_vote(history.release.version)) is not None:
            votes[line.node, line.epoch].add(voted)
    for event in requests(history):
        if event.api != "VOTE" or event.pre_vote:
            continue
        votes[event.sender, event.asked].add(event.sender)
        if event.error_code == 0 and event.vote_granted:
            votes[event.node, event.asked].add(event.sender)
    for (voter, _), candidates in votes.items():
        yield (PASS if len(candidates) == 1 else broken(history, voter)), (voter,)


def ra04(history: History) -> Judged:
    """A voter's lines state no lower epoch than the line before; epoch 0 is that of an emptied directory."""
    for node in history.nodes:
        lines = [event for event in history.of(node) if isinstance(event, RaftTransition)]
        if not any(_is_of_voter(history, line) for line in lines):
            continue
        fallen = {after.epoch for before, after in pairwise(lines) if 0 < after.epoch < before.epoch}
        for epoch in {line.epoch for line in lines}:
            yield (broken(history, node) if epoch in fallen else PASS), (node,)


def _is_of_voter(history: History, line: RaftTransition) -> bool:
    voted = line.stated_vote(history.release.version) is not None
    return voted or line.state not in ("Unattached", "Follower")


def watermarks(history: History) -> dict[int, list[int]]:
    """The high watermarks that were given out in each epoch."""
    found: dict[int, list[int]] = defaultdict(list)
    for event in requests(history):
        if event.api == FETCH and event.error_code == 0 and event.high_watermark >= 0:
            found[event.asked].append(event.high_watermark)
    return found


def earlier_high(history: History, epoch: int) -> int | None:
    """The highest high watermark of lower epochs."""
    return max((max(values) for lower, values in watermarks(history).items() if lower < epoch), default=None)


def ra05(history: History) -> Judged:
    """Leaders of later epochs give out no lower high watermark."""
    known = leaders(history)
    for epoch, values in watermarks(history).items():
        high = earlier_high(history, epoch)
        if high is not None:
            yield (PASS if min(values) >= high else broken(history)), (min(known[epoch], default=None),)


def ra07(history: History) -> Judged:
    """A leader begins its epoch at what had been committed, or above."""
    known = leaders(history)
    records = [event for event in history.events if isinstance(event, Record)]
    for epoch in sorted({record.epoch for record in records if record.kind == "LEADER_CHANGE"}):
        start = min(record.offset for record in records if record.epoch == epoch)
        high = earlier_high(history, epoch)
        key = (min(known[epoch], default=None),)
        if high is None:
            if start > 0:
                yield UNVERIFIABLE, key
        else:
            yield (PASS if start >= high else broken(history)), key


def ra08(history: History) -> Judged:
    """Consecutive sets of voters differ by one voter at most."""
    sets: list[set[str]] = []
    for record in merged(history):
        if record.kind == "KRAFT_VOTERS":
            voters = record.data["voters"]
            assert isinstance(voters, list)
            sets.append({f"{one['voterId']}:{one['voterDirectoryId']}" for one in voters})
    for before, after in pairwise(sets):
        yield (PASS if len(after - before) <= 1 and len(before - after) <= 1 else VIOLATION), ()


def merged(history: History) -> list[Record]:
    """The log by all copies, of the epochs that lasted: where one begins, lower ones end."""
    log = [event for event in history.events if isinstance(event, Record)]
    begins = lasting(log)
    found: dict[int, Record] = {}
    for record in log:
        replaced = any(epoch > record.epoch and offset <= record.offset for epoch, offset in begins.items())
        if record.epoch in begins and not replaced:
            found[record.offset] = record
    return [found[offset] for offset in sorted(found)]


def lasting(log: list[Record]) -> dict[int, int]:
    """Where each epoch begins. Those are left out that a copy passes over on its way to the highest: no leader after them had them."""
    begins: dict[int, list[tuple[int, int]]] = defaultdict(list)
    last: dict[int, Record] = {}
    for record in log:
        before = last.get(record.node)
        if before is None or before.epoch != record.epoch:
            adjoins = before is not None and before.offset + 1 == record.offset
            begins[record.epoch].append((before.epoch if before and adjoins else -1, -record.offset))
        last[record.node] = record
    found: dict[int, int] = {}
    next_one = max(begins, default=-1)
    for epoch in sorted(begins, reverse=True):
        if next_one in (epoch, -1):
            before_it, place = max(begins[epoch]) if next_one == epoch else (-1, max(one for _, one in begins[epoch]))
            found[epoch], next_one = -place, before_it
    return found
