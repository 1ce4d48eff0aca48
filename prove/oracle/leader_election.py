"""Oracle of the rules of leader elections."""

from __future__ import annotations

from prove.history import (
    FETCH,
    LEADER_AND_ISR,
    METADATA_IS_RELIABLE,
    NO_LEADER,
    Decision,
    History,
    MetadataAnswer,
    Query,
    Started,
    State,
)
from prove.oracle.broker_memory import controls, partitions
from prove.oracle.metadata_image import Change, asked, changes, is_active, of_change
from prove.oracle.replication import roles
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged, place


def ld01(history: History) -> Judged:
    """The leader is a member of the ISR, or there is none."""
    for change in changes(history):
        leader = change.after.leader
        yield (PASS if leader == -1 or leader in change.after.isr else VIOLATION), of_change(change)
    for event in history.events:  # ZooKeeper: what controllers decided, and what brokers accepted
        if isinstance(event, Decision) and event.state is not None:
            yield _led_from_isr(event.state), place(event, event.state)
    for request, _ in controls(history, LEADER_AND_ISR):
        for state, code in partitions(request):
            if code == 0:
                yield _led_from_isr(state), place(request, state)


def _led_from_isr(state: State) -> str:
    return PASS if state.leader == NO_LEADER or state.leader in state.isr else VIOLATION


def ld02(history: History) -> Judged:
    """Whoever is elected is active."""
    for change in changes(history):
        before, after = change.before, change.after
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None:
            continue
        if after.leader in (-1, before.leader) or after.leader not in after.isr:
            continue
        yield (PASS if is_active(change.image, after.leader) else VIOLATION), of_change(change)


def ld03(history: History) -> Judged:
    """Who is elected from outside the ISR is eligible or permitted to, is marked, and is the whole ISR.

    An eligible leader replica, or the last known leader, may be elected once no member of the ISR is left. Only the latter is marked.
    Who cancels a reassignment of which no member of the ISR remains elects the first replica that does, unmarked.
    """
    former: dict[tuple[str, int], Change] = {}
    for change in changes(history):
        before, after = change.before, change.after
        key = after.topic_id, after.number
        last, former[key] = former.get(key), change
        if change.record.kind != "PARTITION_CHANGE_RECORD" or before is None or after.leader in (-1, before.leader):
            continue
        leader, alone = after.leader, after.isr == [after.leader]
        marks = after.recovery == 1 and before.recovery != 1
        # the request of a leader that a reassignment removes may bring its successor into the ISR
        completes = bool(before.isr) and {*before.replicas} - {*after.replicas} == {*before.removing} != set()
        brought = completes and before.leader in before.removing and leader in after.isr
        stay = [one for one in before.replicas if one not in before.adding]
        cancels = (
            (before.adding or before.removing) and not after.adding and not after.removing and after.replicas == stay
        )
        reverts = cancels and after.isr == stay[:1] and {*before.isr} <= {*before.adding}
        # a batch may state a partition twice, both times as a change of the state before it
        elr = [*before.elr]
        if last is not None and last.before is not None and last.record.batch == change.record.batch:
            elr += last.before.elr
        eligible = leader in before.isr or brought or (leader in elr and len(before.isr) <= 1 and alone)
        if eligible and not marks:
            yield PASS, of_change(change)
        elif alone and reverts and after.recovery != 1:
            yield (EXPOSED if change.image.unclean.get(after.topic, False) else VIOLATION), of_change(change)
        elif not alone or after.recovery != 1:
            yield VIOLATION, of_change(change)
        elif change.image.unclean.get(after.topic, False):
            yield PASS, of_change(change)
        elif before.isr or len(before.elr) > 1 or before.last_known_elr not in ([], [leader]):
            yield VIOLATION, of_change(change)
        else:
            knows = before.last_known_elr == [leader] and not after.elr
            yield (PASS if knows else UNVERIFIABLE), of_change(change)


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
    for event in history.events:
        if isinstance(event, Started) and event.start is not None:
            start = event.start
            leaders.setdefault((start.topic_id or "", start.topic, start.partition, start.leader_epoch), set()).add(
                start.leader
            )
        elif isinstance(event, MetadataAnswer) and event.version >= METADATA_IS_RELIABLE:
            for number, leader, of, _, _ in event.partitions:
                if leader != NO_LEADER:  # also of a leader that the broker cannot reach
                    leaders.setdefault((event.topic_id, event.topic, number, of), set()).add(leader)
    for key, named in leaders.items():
        yield (PASS if len(named) == 1 else VIOLATION), key


def ld05(history: History) -> Judged:
    """Each Fetch that a leader answers in its epoch after it has refused a request in a newer one with 75."""
    for event, held, process in roles(history):
        if not isinstance(event, Query) or event.api != FETCH or event.error_code:
            continue
        start = held.get(event.partition)
        if start is None or not start.leads:
            continue
        refused = any(
            isinstance(other, Query) and other.id < event.id and other.partition == event.partition and other.error_code == 75
            and other.current_leader_epoch > start.leader_epoch and number == process and other.node == event.node
            for other, _, number in roles(history)
        )  # fmt: skip
        if refused:
            yield PASS, (event.id, None, event.partition)


def ld06(history: History) -> Judged:
    """Each AlterPartition that is answered 108 and completes a reassignment with a new leader counts as one pass."""
    for one in asked(history):
        if one.request.partition_error != NEW_LEADER_ELECTED:
            continue
        following = [change for change in changes(history) if change.record.offset >= one.request.decided_at_offset]
        mine = [
            c for c in following if (c.after.topic_id, c.after.number) == (one.request.topic_id, one.request.partition)
        ]
        before = mine[0].before if mine else None
        moved = (
            before is not None and before.leader not in mine[0].after.replicas and before.leader != mine[0].after.leader
        )
        yield (PASS if moved else UNVERIFIABLE), one.subject


NEW_LEADER_ELECTED = 108
