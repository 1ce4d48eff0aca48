"""One log of several copies: each committed record once."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row

from epochaudit.replay.state.metadata_log import metadata_log, missing_offsets
from tests.replay.control_plane.test_metadata import record
from tests.replay.histories import Checks, Event, Replay

RAW, OTHER, DUMP = "a/00000000000000000000.log", "b/00000000000000000000.log", "metadata/dump.txt"
SNAPSHOT = "00000000000000000120-0000000003.checkpoint"

replay = Replay(metadata_log, order=("position", "file"))
holes = Replay(missing_offsets, order=("file", "first_offset"))


def copy(file: str, offset: int, raft_epoch: int | None, **columns: Any) -> Event:
    return record("NO_OP_RECORD", offset, file=file, raft_epoch=raft_epoch) | columns


@replay.test
def test_copies_of_a_log_are_one_log() -> Checks:
    one = [copy(RAW, offset, 1) for offset in range(3)]
    two = [copy(OTHER, offset, 1) for offset in range(1, 5)]
    dump = [copy(DUMP, offset, 1) for offset in range(2, 4)]
    of_other_cluster = copy(RAW, 0, 9, cluster="d")
    unfinished_tail = [copy("c/00000000000000000000.log", offset, 0, cluster="e") for offset in range(3)]
    overwriting = copy("d/00000000000000000000.log", 1, 2, cluster="e", event_type="LEADER_CHANGE", leader=2)
    rows = yield [*one, *two, *dump, of_other_cluster, *unfinished_tail, overwriting]
    assert [(row.metadata_offset, row.file, len(row.copies)) for row in rows if row.cluster == "c"] == [
        (0, RAW, 1),
        (1, RAW, 2),
        (2, DUMP, 3),  # its lines can be looked up by hand
        (3, DUMP, 2),
        (4, OTHER, 1),
    ]
    assert [row.metadata_offset for row in rows if row.cluster == "d"] == [0]
    assert [(row.metadata_offset, row.event_type) for row in rows if row.cluster == "e"] == [
        (0, "NO_OP_RECORD"),
        (1, "LEADER_CHANGE"),  # of raft epoch 2: offset 2 of epoch 0 is removed, too
    ]


def branch(folder: str, *epochs: int, first_offset: int = 0) -> list[Event]:
    """A copy of the log with a record of each of these Raft epochs."""
    file = f"{folder}/{first_offset:020}.log"
    return [copy(file, offset, epoch) for offset, epoch in enumerate(epochs, first_offset)]


def epochs_of(rows: list[Row]) -> list[tuple[int, int]]:
    """Offset and Raft epoch of each record that counts."""
    return [(row.metadata_offset, row.raft_epoch) for row in rows]


@replay.test
def test_an_epoch_that_the_log_passes_over_overwrites_nothing() -> Checks:
    winner = branch("a", 5, 5, 5, 5, 7)
    alone = branch("b", 5, 5, 6, 6, 6, 6)
    of_two_times = [*branch("old", 5, 5, 5, 5), *branch("new", 5, 5, 6, 7)]
    one, other = yield [*winner, *alone], of_two_times
    assert epochs_of(one) == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 7)]
    assert epochs_of(other) == [(0, 5), (1, 5), (2, 6), (3, 7)]


@replay.test
def test_only_the_branch_of_the_highest_epoch_tells_what_was_abandoned() -> Checks:
    abandoned, winner = branch("a", 5, 5, 7), branch("b", 5, 5, 6, 6, 8)
    begins_a_segment = branch("b", 8, first_offset=4)
    older = branch("c", 5, 5, 6, 6)
    whole, without_beginning = yield [*abandoned, *winner], [*abandoned, *begins_a_segment, *older]
    assert epochs_of(whole) == [(0, 5), (1, 5), (2, 6), (3, 6), (4, 8)]
    assert epochs_of(without_beginning) == [(0, 5), (1, 5), (2, 7), (4, 8)]


@holes.test
def test_a_record_of_an_abandoned_epoch_fills_no_hole() -> Checks:
    with_hole = [row for row in branch("a", 5, 5, 5, 5, 7) if row["metadata_offset"] != 2]
    found = yield [*with_hole, *branch("b", 5, 5, 6)]
    assert [(row.first_offset, row.last_offset) for row in found] == [(2, 2)]


@replay.test
def test_only_an_ended_transaction_is_applied_wherever_its_end_is_recorded() -> Checks:
    begin, end, abort = (f"{name}_TRANSACTION_RECORD" for name in ("BEGIN", "END", "ABORT"))
    course = {1: begin, 3: end, 5: begin, 7: "LEADER_CHANGE", 8: abort, 10: begin}
    files = {offset: RAW if offset < 6 else "a/00000000000000000006.log" for offset in range(12)}
    one = [copy(file, offset, 1, event_type=course.get(offset, "NO_OP_RECORD")) for offset, file in files.items()]
    other = [copy(OTHER, 0, 1), copy(OTHER, 1, 0, event_type="NO_OP_RECORD"), copy(OTHER, 2, 0, event_type=abort)]
    rows = yield [*one, *other]
    assert [row.metadata_offset for row in rows] == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10]


@replay.test
def test_a_snapshot_stands_before_its_end_offset_and_comes_from_one_file() -> Checks:
    in_snapshot = {"in_snapshot": True}
    rows = yield [
        copy(f"a/{SNAPSHOT}", 0, 3, **in_snapshot),
        copy(f"a/{SNAPSHOT}", 1, 3, **in_snapshot),
        copy(f"b/{SNAPSHOT}", 0, 3, **in_snapshot, event_type="FENCE_BROKER_RECORD"),
        copy("bootstrap.checkpoint", 0, 0, **in_snapshot),
        copy(RAW, 119, 3),
        copy(RAW, 120, 3),
    ]
    assert [(row.position, row.file) for row in rows] == [
        (0, "bootstrap.checkpoint"),
        (239, RAW),
        (240, f"a/{SNAPSHOT}"),
        (240, f"a/{SNAPSHOT}"),
        (241, RAW),
    ]


@holes.test
def test_offsets_that_no_copy_has_are_missing_unless_a_snapshot_covers_them() -> Checks:
    one, other = [copy(RAW, offset, 1) for offset in (10, 11)], [copy(OTHER, offset, 1) for offset in (11, 12, 15, 16)]
    after_snapshot = [copy(OTHER, offset, 3) for offset in (120, 122)]
    of_snapshot = [copy(SNAPSHOT, offset, 3, in_snapshot=True) for offset in (0, 1)]
    found = yield [*one, *other, *of_snapshot, *after_snapshot]
    assert [(row.first_offset, row.last_offset) for row in found] == [(13, 14), (121, 121)]


def snapshot(folder: str, *offsets: int, ended: bool = True) -> list[Event]:
    """The records of a copy of a snapshot, of which the first and the last mark its ends."""
    types = {0: "SNAPSHOT_HEADER"} | ({max(offsets): "SNAPSHOT_FOOTER"} if ended else {})
    of_snapshot = (copy(f"{folder}/{SNAPSHOT}", offset, 3, in_snapshot=True) for offset in offsets)
    return [row | {"event_type": types.get(row["metadata_offset"], "NO_OP_RECORD")} for row in of_snapshot]


CUT, WITH_HOLE = snapshot("a", 0, 1, 2, ended=False), snapshot("b", 0, 1, 3)
AROUND = [copy(RAW, 118, 3), copy(RAW, 120, 3)]


@replay.test
def test_of_a_snapshot_that_is_not_whole_no_record_counts() -> Checks:
    with_whole, without = yield [*CUT, *WITH_HOLE, *snapshot("c", 0, 1, 2)], [*CUT, *WITH_HOLE, *AROUND]
    assert [row.file for row in with_whole] == [f"c/{SNAPSHOT}"] * 3
    assert [row.file for row in without] == [RAW, RAW]


@holes.test
def test_a_snapshot_that_is_not_whole_is_missing_and_so_is_what_it_would_cover() -> Checks:
    found = yield [*CUT, *WITH_HOLE, *AROUND]
    assert [(row.file, row.first_offset, row.last_offset) for row in found] == [
        (None, 119, 119),
        (f"a/{SNAPSHOT}", None, None),
        (f"b/{SNAPSHOT}", None, None),
    ]


@replay.test
def test_a_snapshot_of_before_30_has_no_marks_of_its_ends() -> Checks:
    rows = yield [copy(f"a/{SNAPSHOT}", offset, 3, in_snapshot=True) for offset in range(3)]
    assert [row.metadata_offset for row in rows] == [0, 1, 2]
