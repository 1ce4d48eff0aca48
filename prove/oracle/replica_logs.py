"""Oracle of the comparison of replicas' logs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any, Final

from prove.history import BatchRun, CheckpointEntry, History, Key, OffsetCheckpoint, PartitionMetadata, Record
from prove.oracle.verdicts import EXPOSED, PASS, UNVERIFIABLE, VIOLATION, Judged

GRAIN: Final = 2048
"""In the middle of a run of batches of one leader epoch, batches are compared by so many offsets at a time."""
Difference = tuple[int, int, int, int]
"""(first offset that may differ, last one, leader epoch at one node, at the other)."""


@dataclass
class Copy:
    """A broker's copy of a partition's log. compacted: batches are missing between others."""

    node: int
    batches: list[BatchRun] = field(default_factory=list)
    entries: list[CheckpointEntry] = field(default_factory=list)
    topic_id: str | None = None
    high_watermark: int | None = None

    @property
    def compacted(self) -> bool:
        """A batch does not follow the one before it."""
        return any(one.last + 1 != other.base for one, other in pairwise(self.batches))

    def runs(self) -> list[list[BatchRun]]:
        """Batches of one leader epoch that follow each other in one segment."""
        runs: list[list[BatchRun]] = []
        for batch in self.batches:
            before = runs[-1][-1] if runs else None
            if before is None or before.segment != batch.segment or before.epoch != batch.epoch:
                runs.append([])
            runs[-1].append(batch)
        return runs

    def truncated_at(self, offset: int, epoch: int) -> bool:
        """A later epoch than this one begins at the offset or below."""
        return any(one.epoch > epoch and one.offset <= offset for one in self.entries)


def ep07(history: History) -> Judged:
    """Two replicas have the same batches below their high watermarks."""
    recorded = [
        str(event.data["topicId"])
        for event in history.events
        if isinstance(event, Record) and event.kind == "TOPIC_RECORD"
    ]
    only = recorded[0] if len(recorded) == 1 else None
    for partition, copies in _copies(history).items():
        for one, other in combinations(copies, 2):
            ids = [copy.topic_id or only for copy in (one, other)]
            if (None not in ids and ids[0] != ids[1]) or not _common(one, other):
                continue
            found = _difference(one, other)
            verdict = PASS
            if found is not None:
                nameless = len(recorded) > 1 and None in ids
                known = _uncleanness(history, partition, ids[0] or ids[1], found, one, other)
                verdict = _verdict(one, other, found, nameless, known)
            epoch = max(found[2:]) if found else None
            yield verdict, (partition, one.node, other.node, epoch)


def key_of_pair(_: int | None, row: Mapping[str, Any]) -> Key:
    """A subject is a pair of nodes' copies."""
    nodes = (row["places"][name]["node"] for name in ("one_ref", "other_ref"))
    return row["partition"], *nodes, row["leader_epoch"]


def _copies(history: History) -> dict[int, list[Copy]]:
    """Partition -> its copies, by node."""
    copies: dict[int, dict[int, Copy]] = defaultdict(dict)
    for event in history.events:
        if isinstance(event, BatchRun):
            copies[event.partition].setdefault(event.node, Copy(event.node)).batches.append(event)
    for event in history.events:
        if isinstance(event, CheckpointEntry):
            copies[event.partition][event.node].entries.append(event)
        elif isinstance(event, PartitionMetadata):
            copies[int(event.folder.rpartition("-")[2])][event.node].topic_id = event.topic_id
        elif isinstance(event, OffsetCheckpoint):
            for _, partition, offset in event.high_watermarks:
                copies[partition][event.node].high_watermark = offset
    return {partition: [of_node[node] for node in sorted(of_node)] for partition, of_node in copies.items()}


def _common(one: Copy, other: Copy) -> bool:
    """The logs have offsets in common."""
    return max(one.batches[0].base, other.batches[0].base) <= min(one.batches[-1].last, other.batches[-1].last)


def _difference(one: Copy, other: Copy) -> Difference | None:
    """The first difference."""
    found = [*_of_epochs(one, other)]
    if not one.compacted and not other.compacted:
        found += _of_contents(one, other)
    return min(found, default=None)


def _of_epochs(one: Copy, other: Copy) -> Iterable[Difference]:
    """Where runs of different leader epochs have offsets in common."""
    for run in one.runs():
        for its in other.runs():
            at = max(run[0].base, its[0].base)
            if run[0].epoch != its[0].epoch and at <= min(run[-1].last, its[-1].last):
                yield at, at, run[0].epoch, its[0].epoch


def _of_contents(one: Copy, other: Copy) -> Iterable[Difference]:
    """Where batches differ, within each grain that both have."""
    mine, its = _grains(one), _grains(other)
    for grain in mine.keys() & its.keys():
        of_one, of_other = mine[grain], its[grain]
        low, high = max(of_one[0].base, of_other[0].base), min(of_one[-1].last, of_other[-1].last)
        same_part = (of_one[0].base, of_one[-1].last) == (of_other[0].base, of_other[-1].last)
        if _is_single(one, grain) and _is_single(other, grain):
            between = [
                {_identity(batch) for batch in batches if low <= batch.base <= high} for batches in (of_one, of_other)
            ]
            differing = between[0] ^ between[1]
            if differing:
                at = min(batch[0] for batch in differing)
                yield at, at, _epoch_at(of_one, at), _epoch_at(of_other, at)
        elif same_part and [*map(_identity, of_one)] != [*map(_identity, of_other)]:
            yield low, high, _epoch_at(of_one, low), _epoch_at(of_other, low)


def _grains(copy: Copy) -> dict[int, list[BatchRun]]:
    """Grain -> the batches that begin in it."""
    grains: dict[int, list[BatchRun]] = defaultdict(list)
    for batch in copy.batches:
        grains[batch.base // GRAIN].append(batch)
    return grains


def _is_single(copy: Copy, grain: int) -> bool:
    """Each batch of the grain is compared: none is in the middle of a run, together with others."""
    for run in copy.runs():
        inside = [batch for batch in run if batch.base // GRAIN == grain]
        if len(inside) > 1 and run[0].base // GRAIN < grain < run[-1].base // GRAIN:
            return False
    return True


def _identity(batch: BatchRun) -> tuple[int, int, int, int]:
    return batch.base, batch.last, batch.epoch, batch.content


def _epoch_at(batches: list[BatchRun], offset: int) -> int:
    """The leader epoch at an offset, or of the first batch."""
    return next((batch.epoch for batch in batches if batch.base <= offset <= batch.last), batches[0].epoch)


def _verdict(one: Copy, other: Copy, found: Difference, nameless: bool, unclean: bool | None) -> str:
    at, by, epoch, its_epoch = found
    if nameless or one.truncated_at(at, epoch) or other.truncated_at(at, its_epoch):
        return UNVERIFIABLE
    if (
        one.high_watermark is None
        or other.high_watermark is None
        or by >= min(one.high_watermark, other.high_watermark)
    ):
        return UNVERIFIABLE
    return VIOLATION if unclean is False else EXPOSED


def _uncleanness(
    history: History, partition: int, topic_id: str | None, found: Difference, one: Copy, other: Copy
) -> bool | None:
    """Whether an unclean election explains the difference. None: not all elections that may do so are recorded, and none that does.

    Those up to the higher epoch may, and those up to the epoch with which the log of the lower one goes on.
    """
    low, high = sorted(found[2:])
    if low == high:
        return False
    of_lower = one if found[2] == low else other
    following = [batch.epoch for batch in of_lower.batches if batch.epoch > low]
    elections = _elections(history, partition, topic_id)
    last = max([high, *elections]) if not following else max(high, min(following))
    between = [elections.get(epoch, "unknown") for epoch in range(low + 1, last + 1)]
    if "unclean" in between:
        return True
    return None if "unknown" in between else False


def _elections(history: History, partition: int, topic_id: str | None) -> dict[int, str]:
    """Leader epoch -> clean, unclean, nobody (the epoch has no leader) or unknown, as the metadata log has them."""
    elections: dict[int, str] = {}
    isr: list[int] = []
    epoch, recovering = -1, 0
    for event in history.events:
        if (
            not isinstance(event, Record)
            or event.data.get("partitionId") != partition
            or event.data["topicId"] != topic_id
        ):
            continue
        data: dict[str, Any] = event.data
        if event.kind == "PARTITION_RECORD":
            epoch = data["leaderEpoch"]
            elections[epoch] = "unknown" if data["leader"] >= 0 else "nobody"
            if data["leaderRecoveryState"]:
                elections[epoch] = "unclean"
        elif "leader" in data:
            epoch += 1
            marked = data.get("leaderRecoveryState", recovering) == 1 and not recovering
            elections[epoch] = "unclean" if marked or data["leader"] not in isr else "clean"
            if data["leader"] < 0:
                elections[epoch] = "nobody"
        isr, recovering = data.get("isr", isr), data.get("leaderRecoveryState", recovering)
    return elections
