"""Oracle of the rules of producer epochs, producer ids and transactions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from prove.coordination import (
    END_TXN,
    EPOCH_BUMP,
    INIT_PRODUCER_ID,
    LAST_EPOCH,
    NO_PRODUCER,
    AddsPartitions,
    AllocatesIds,
    GivesEpoch,
    Initialized,
    OfProducer,
    WritesMarkers,
)
from prove.history import History, Key, Record
from prove.oracle.coordinator_log import SECOND_MS, Order, before, breach, seems_before
from prove.oracle.verdicts import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION, Judged, at, place

TRANSACTION_STATE = "__transaction_state"
FENCING = (90, 47, 49)
TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH = 52, 47
BY_VERSION = 2
"""The transaction version that raises the epoch with each transaction."""


BY_LINE = "line"
"""In place of the API: an answer of which only the coordinator's line is recorded. Whether its request stated an epoch is unknown."""


def _gifts(history: History) -> list[GivesEpoch]:
    """The answers in which coordinators gave producer ids and epochs, by their request logs or else by their lines."""
    answers = [event for event in history.events if isinstance(event, GivesEpoch) and event.gives]
    lines = [
        GivesEpoch(
            line.id, line.node, line.at, api=BY_LINE, arrived=line.at, transactional_id=line.transactional_id,
            given_id=line.given_id, given_epoch=line.given_epoch,
        )
        for line in history.events
        if isinstance(line, Initialized)
        and not any(_is_about(line, one) for one in answers)
    ]  # fmt: skip
    return answers + lines


def _is_about(line: Initialized, answer: GivesEpoch) -> bool:
    """The coordinator wrote the line while it worked on the request."""
    same = (line.node, line.transactional_id, line.given_id, line.given_epoch)
    alike = (answer.node, answer.transactional_id, answer.given_id, answer.given_epoch) == same
    in_time = answer.arrived - SECOND_MS <= line.at <= answer.at + SECOND_MS
    return alike and in_time and answer.api == INIT_PRODUCER_ID


def _answers(event: OfProducer) -> Iterator[tuple[int, Key]]:
    """(error code, subject) of a request: of each partition, if it adds partitions."""
    if isinstance(event, AddsPartitions):
        for (topic, partition), code in event.codes:
            yield code, at(event, topic, partition)
    else:
        yield event.error_code, place(event)


def _highest_accepted(history: History, event: OfProducer, producer_id: int, order: Order = before) -> int | None:
    """The highest epoch in which the coordinator had accepted a request that it accepts in its own epoch only; None: no such request.

    EndTxn that raises the epoch is answered with it, and InitProducerId may be a retry.
    """
    epochs = [
        other.producer_epoch for other in history.of(event.node)
        if isinstance(other, OfProducer) and other.api != INIT_PRODUCER_ID
        and (other.api != END_TXN or other.version < EPOCH_BUMP)
        and (other.transactional_id, other.producer_id) == (event.transactional_id, producer_id)
        and order(other, event.arrived) and any(code == 0 for code, _ in _answers(other))
    ]  # fmt: skip
    return max(epochs, default=None)


def pe01(history: History) -> Judged:
    """A coordinator that has given a newer epoch, or another producer id, refuses the former one."""
    for event in history.events:
        if not isinstance(event, OfProducer) or event.producer_id == NO_PRODUCER or event.transactional_id is None:
            continue
        for code, key in _answers(event):
            if code in FENCING:
                yield FENCED, key
            elif code == 0:
                yield _accepted(history, event), key


def _accepted(history: History, event: OfProducer) -> str:
    """Of an accepted request that states a producer id and epoch: whether it is a breach may depend on lines that were written late."""
    certain = _accepted_after(history, event, before)
    perhaps = _accepted_after(history, event, seems_before)
    return certain if certain not in (PASS, UNVERIFIABLE) or perhaps in (PASS, UNVERIFIABLE) else UNVERIFIABLE


def _accepted_after(history: History, event: OfProducer, order: Order) -> str:
    """The verdict, if the coordinator knew what it had answered before, by this order of its lines."""
    initialises = event.api == INIT_PRODUCER_ID
    if isinstance(event, GivesEpoch) and initialises and event.given_id != event.producer_id:
        return PASS
    gifts = [
        gift for gift in _gifts(history)
        if gift is not event and (gift.node, gift.transactional_id) == (event.node, event.transactional_id)
    ]  # fmt: skip
    earlier = [gift for gift in gifts if order(gift, event.arrived)]
    same = [gift for gift in earlier if gift.given_id == event.producer_id]
    highest = max((gift.given_epoch for gift in same), default=None)
    if highest is not None and event.producer_epoch < highest and not _may_be_retry(event, same, highest):
        return breach(history, TRANSACTION_STATE)
    accepted = _highest_accepted(history, event, event.producer_id, order)
    if accepted is not None and event.producer_epoch < accepted - (1 if initialises else 0):
        return breach(history, TRANSACTION_STATE)
    replaced = [
        gift for gift in earlier
        if gift.given_id != event.producer_id and any(old.at < gift.arrived for old in same)
        and not any(old.at > gift.at for old in same)
    ]  # fmt: skip
    if replaced:
        retries = event.api in (END_TXN, INIT_PRODUCER_ID) and event.producer_epoch >= LAST_EPOCH
        return PASS if retries else breach(history, TRANSACTION_STATE)
    if highest is None:
        known = any(g.given_id == event.producer_id and g.given_epoch <= event.producer_epoch for g in gifts)
        return PASS if known else UNVERIFIABLE
    last = max(earlier, key=lambda gift: gift.at)
    return UNVERIFIABLE if last.given_id != event.producer_id else PASS


def _may_be_retry(event: OfProducer, gifts: list[GivesEpoch], highest: int) -> bool:
    """The answer that gave the highest epoch to the one just before it may have been lost."""
    if event.producer_epoch != highest - 1:
        return False
    given_by = [gift for gift in gifts if gift.given_epoch == highest]
    if event.api == END_TXN:
        return all(gift.api == END_TXN for gift in given_by)
    expected = all(gift.api in (END_TXN, BY_LINE) or gift.producer_id != NO_PRODUCER for gift in given_by)
    return event.api == INIT_PRODUCER_ID and expected


def pe02(history: History) -> Judged:
    """No epoch is given to a starting producer that was given before. Of equal answers the first one is right.

    An answer that is known by its line may have been asked for again.
    """
    given = _gifts(history)
    for event in given:
        by_line = event.api == BY_LINE
        if (
            event.api not in (INIT_PRODUCER_ID, BY_LINE)
            or event.producer_id != NO_PRODUCER
            or event.transactional_id is None
        ):
            continue
        own = [
            other for other in given
            if other is not event and (other.transactional_id, other.given_id) == (event.transactional_id, event.given_id)
        ]  # fmt: skip
        alike = [other for other in own if other.given_epoch == event.given_epoch]
        alone = all(other.producer_id != NO_PRODUCER or other.api == BY_LINE for other in alike)
        again = any(
            (other.producer_id != NO_PRODUCER and other.api != BY_LINE)
            or (other.api == BY_LINE and alone)
            or (other.at, other.id) < (event.at, event.id)
            for other in alike
        )
        certain, perhaps = (_highest_before(history, event, own, order) for order in (before, seems_before))
        if certain > event.given_epoch or (not by_line and (again or certain == event.given_epoch)):
            yield breach(history, TRANSACTION_STATE), ()
        else:
            yield (UNVERIFIABLE if perhaps >= event.given_epoch or (by_line and alike) else PASS), ()


def _highest_before(history: History, event: GivesEpoch, own: list[GivesEpoch], order: Order) -> int:
    """The highest epoch that the coordinator had given to the producer id, or in which it had accepted a request; -1: none."""
    given = [other.given_epoch for other in own if other.node == event.node and order(other, event.arrived)]
    accepted = _highest_accepted(history, event, event.given_id, order)
    return max([*given, -1 if accepted is None else accepted])


def pe03(history: History) -> Judged:
    """A producer id belongs to one producer, a block of them to the first broker that it was given to."""
    owners: dict[int, set[object]] = defaultdict(set)
    blocks: list[AllocatesIds] = []
    highest = NO_PRODUCER
    for event in history.events:
        if isinstance(event, GivesEpoch) and event.gives:
            owners[event.given_id].add(event.transactional_id or event.id)
        elif isinstance(event, Initialized):
            owners[event.given_id].add(event.transactional_id)
        elif isinstance(event, AllocatesIds) and not event.error_code:
            blocks.append(event)
        elif isinstance(event, Record) and event.kind == "PRODUCER_IDS_RECORD":
            next_id: int = event.data["nextProducerId"]  # type: ignore[assignment]
            yield (PASS if next_id > highest else VIOLATION), ()
            highest = max(highest, next_id)
    for of_id in owners.values():
        yield (PASS if len(of_id) == 1 else VIOLATION), ()
    for number, block in enumerate(blocks):
        overlaps = any(
            other.start < block.start + block.length and block.start < other.start + other.length
            for other in blocks[:number]
        )
        yield (VIOLATION if overlaps else PASS), ()


def pe04(history: History) -> Judged:
    """A leader refuses markers of an older coordinator epoch or producer epoch than it had accepted a second before they arrived.

    Simulated topics are never created again, and no history lasts until a leader forgets a producer.
    """
    markers = [event for event in history.events if isinstance(event, WritesMarkers)]
    for event in markers:
        for partition, code in event.codes:
            key = at(event, *partition)
            if code in (TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH):
                yield FENCED, key
            elif not code:
                newer = [
                    other for other in markers
                    if (other.node, other.producer_id) == (event.node, event.producer_id)
                    and (other.coordinator_epoch > event.coordinator_epoch or other.producer_epoch > event.producer_epoch)
                    and (partition, 0) in other.codes and seems_before(other, event.arrived)
                ]  # fmt: skip
                if any(before(other, event.arrived) for other in newer):
                    yield breach(history, partition[0]), key
                else:
                    yield (UNVERIFIABLE if newer else PASS), key


def pe05(history: History) -> Judged:
    """A transaction of version 2 has one outcome."""
    ended: dict[tuple[int, int], set[bool]] = defaultdict(set)
    older: set[tuple[int, int]] = set()
    marked: dict[tuple[int, int], dict[bool, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for event in history.events:
        if isinstance(event, GivesEpoch) and event.api == END_TXN and not event.error_code:
            if event.version < EPOCH_BUMP:
                older.add((event.producer_id, event.producer_epoch))
            elif event.producer_epoch < LAST_EPOCH:
                ended[event.producer_id, event.producer_epoch + 1].add(event.committed)
        elif isinstance(event, WritesMarkers):
            for _, code in event.codes:
                if not code:
                    outcomes = marked[event.producer_id, event.producer_epoch]
                    outcomes[event.committed].append(event.transaction_version)
    for key in ended.keys() | marked.keys():
        verdict = _outcome(history, ended[key], marked[key], mixed=key in older)
        if verdict is not None:
            yield verdict, ()


def _outcome(history: History, ended: set[bool], marked: dict[bool, list[int | None]], *, mixed: bool) -> str | None:
    """The verdict on a transaction; None: it may be of version 1, of which many have one epoch."""
    stated = {outcome for outcome, versions in marked.items() if all((one or 0) >= BY_VERSION for one in versions)}
    if not ended and not stated:
        return None
    if len(ended) > 1:
        return breach(history, TRANSACTION_STATE)
    differing = {outcome for outcome in marked if ended and outcome not in ended}
    if differing:
        (outcome,) = differing
        version_1 = any(one is not None and one < BY_VERSION for one in marked[outcome])
        if mixed or version_1:
            return UNVERIFIABLE
        return breach(history, TRANSACTION_STATE) if outcome in stated else EXPOSED
    return breach(history, TRANSACTION_STATE) if len(stated) > 1 else PASS
