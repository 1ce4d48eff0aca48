"""Oracle of the rules of eligible leader replicas (KIP-966). All of them judge records of the metadata log."""

from __future__ import annotations

from typing import Any

from prove.history import NO_LEADER, BrokerRegistration, History, since
from prove.oracle.metadata_image import Change, changes, images, of_change, records
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged, place

CHANGE = "PARTITION_CHANGE_RECORD"
REMEMBERS_SINCE = 4, 3
"""Controllers before empty the ELR when a replica is assigned to a log directory."""


def _isr_members(change: Change) -> int:
    """Members of the ISR before the record elects: a leader from outside the ISR found it empty.

    Unless the record moves replicas, and the leader joins by it as one of the new ones.
    """
    assert change.before is not None
    data: Any = change.record.data
    joins = "replicas" in data and change.after.leader not in change.before.elr and change.after.recovery != 1
    elects = data.get("leader", -1) >= 0 and change.after.leader not in change.before.isr and not joins
    return 0 if elects and change.after.isr == [change.after.leader] else len(change.after.isr)


def el01(history: History) -> Judged:
    """No replica is in the ISR and the ELR."""
    for change in changes(history):
        if change.after.elr:
            yield (VIOLATION if {*change.after.isr} & {*change.after.elr} else PASS), of_change(change)


def el02(history: History) -> Judged:
    """A replica becomes eligible by leaving the ISR."""
    for change in changes(history):
        before, after = change.before, change.after
        if before is None or change.record.kind != CHANGE or not after.elr or after.elr == before.elr:
            continue
        yield (PASS if {*after.elr} <= {*before.isr, *before.elr} else VIOLATION), of_change(change)


def el03(history: History) -> Judged:
    """An eligible replica is elected only when no member of the ISR is left.

    A batch may state a partition twice, both times as a change of the state before it: the ELR before it counts, too.
    """
    former: dict[tuple[str, int], Change] = {}
    for change in changes(history):
        before, after = change.before, change.after
        key = after.topic_id, after.number
        last, former[key] = former.get(key), change
        data: Any = change.record.data
        if before is None or change.record.kind != CHANGE or data.get("leader", -1) < 0:
            continue
        leader = after.leader
        elr = [*before.elr]
        if last is not None and last.before is not None and last.record.batch == change.record.batch:
            elr += last.before.elr
        if leader == before.leader or leader not in elr or leader in before.isr:
            continue
        lawful = len(before.isr) <= 1 and after.isr == [leader]
        reassigned = "replicas" in data and leader in after.isr
        yield (PASS if lawful or reassigned else VIOLATION), of_change(change)


def el04(history: History) -> Judged:
    """The ELR is empty once the ISR has min.insync.replicas members, or as many as partition 0 has replicas."""
    whole = list(changes(history))
    for change in whole:
        before, after = change.before, change.after
        if before is None or change.record.kind != CHANGE:
            continue
        members = _isr_members(change)
        if not after.elr and not (before.elr and members > len(before.isr)):
            continue
        elects = members == 0 and after.isr != []
        required = change.image.min_isr.get(after.topic, change.image.min_isr[""])
        lowest, highest = _replicas_of_partition_0(whole, change)
        if not after.elr or elects:
            yield PASS, of_change(change)
        elif members >= min(required, highest):
            yield VIOLATION, of_change(change)
        else:
            yield (PASS if members < min(required, lowest) else UNVERIFIABLE), of_change(change)


def _replicas_of_partition_0(whole: list[Change], change: Change) -> tuple[int, int]:
    """The lowest number of replicas of the topic's partition 0 since the partition's record before, and the highest ever before."""
    own = (change.after.topic_id, change.after.number)
    previous = max(
        one.record.offset
        for one in whole
        if (one.after.topic_id, one.after.number) == own and one.record.offset < change.record.offset
    )
    counts = [
        (one.record.offset, len(one.after.replicas))
        for one in whole
        if one.after.topic_id == own[0] and one.after.number == 0 and one.record.offset < change.record.offset
    ]
    then = [count for offset, count in counts if offset <= previous][-1:]
    since = [count for offset, count in counts if offset > previous]
    return min(then + since), max(count for _, count in counts)


def el05(history: History) -> Judged:
    """A broker that shut down uncleanly is in no ELR when it registers."""
    after, log = images(history), records(history)
    if all(not partition.elr for image in after for partition in image.partitions.values()):
        return
    requests = {e.incarnation_id: e for e in history.events if isinstance(e, BrokerRegistration)}
    for record in log:
        data: Any = record.data
        if record.kind != "REGISTER_BROKER_RECORD":
            continue
        image = after[record.offset - 1]
        broker = data["brokerId"]
        eligible = any(broker in partition.elr for partition in image.partitions.values())
        registered = image.brokers.get(broker)
        if registered is not None and registered.incarnation == data["incarnationId"]:
            continue
        stated = requests[data["incarnationId"]].previous_broker_epoch
        clean = registered is not None and stated == registered.broker_epoch
        yield (VIOLATION if eligible and not clean else PASS), place(record)


def el07(history: History) -> Judged:
    """A complete replica stays eligible until the ISR has min.insync.replicas members."""
    whole, log = list(changes(history)), records(history)
    for change in whole:
        before, after = change.before, change.after
        if before is None or change.record.kind != CHANGE:
            continue
        forgotten = {*before.elr} - {*after.elr} - {*after.isr}
        members = _isr_members(change)
        if not forgotten or (members > len(before.isr) and not after.elr):
            continue
        following = next((one for one in log[change.record.offset + 1 :] if one.kind != CHANGE), None)
        next_data: Any = {} if following is None else following.data
        registers = (
            following is not None
            and following.kind == "REGISTER_BROKER_RECORD"
            and {next_data["brokerId"]} == forgotten
        )
        if _unclean(change) or registers:
            yield PASS, of_change(change)
        elif len(forgotten) == 1 and following is None:
            yield UNVERIFIABLE, of_change(change)
        elif members and members >= _replicas_of_partition_0(whole, change)[0]:
            yield PASS, of_change(change)
        elif after.elr or since(history.release.version, *REMEMBERS_SINCE):
            yield VIOLATION, of_change(change)
        else:
            yield (EXPOSED if _left_to_unclean_election(whole, change, forgotten) else PASS), of_change(change)


def _unclean(change: Change) -> bool:
    """Whether a record elects a leader that was in neither list, or marks an election as unclean."""
    assert change.before is not None
    marks = change.after.recovery == 1 and change.before.recovery != 1
    return _elects(change) and (marks or change.after.leader not in [*change.before.isr, *change.before.elr])


def _elects(change: Change) -> bool:
    data: Any = change.record.data
    return change.record.kind == CHANGE and data.get("leader", NO_LEADER) != NO_LEADER


def _left_to_unclean_election(whole: list[Change], change: Change, forgotten: set[int]) -> bool:
    """Whether the partition has no leader after a record, and the next one is elected uncleanly, though others were eligible."""
    own = change.after.topic_id, change.after.number
    if change.after.leader != NO_LEADER or change.after.isr:
        return False
    following = (
        one
        for one in whole
        if (one.after.topic_id, one.after.number) == own and one.record.offset > change.record.offset and _elects(one)
    )
    election = next(following, None)
    return election is not None and _unclean(election) and election.after.leader not in forgotten
