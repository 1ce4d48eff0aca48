"""What is read of a night, and that it does not matter how files were cut into nights. Without Spark."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from epochaudit.inventory.missing_evidence import Seen, missing_evidence
from epochaudit.sources.discovery.discovery import capture_of, discover, inspected
from epochaudit.sources.files.capture import Capture
from epochaudit.sources.formats import is_read
from epochaudit.sources.scan import ranges
from epochaudit.sources.scan.datasource import decoded
from epochaudit.sources.scan.ranges import ByteRange, cut
from epochaudit.warehouse.horizon import Part, Remembered, remembered_after, to_read, tracked
from tests.sources.batch_writer import batch
from tests.warehouse.nights import contents_of, nights_of, written

CAPTURE = "zk-unclean-truncation-2.0"

Row = dict[str, Any]


@dataclass
class Memory:
    """A warehouse in memory: rows by part, and the horizon."""

    parts: dict[int, list[Row]] = field(default_factory=dict)
    horizon: list[Remembered] = field(default_factory=list)
    capture: Capture | None = None
    bytes_read: int = 0

    def night(self, folder: Path) -> Memory:
        """Read what is new in a folder."""
        seen = replace(inspected(str(folder)), cluster="c")
        files = {one.file.stored.path: one for one in tracked(seen, self.horizon)}
        absent = frozenset(path for path, one in files.items() if not one.present)
        self.capture = capture_of(replace(seen, files=tuple(one.file for one in files.values()), absent=absent))
        self.horizon = []
        for file in self.capture.files:
            read = {}
            for part in to_read(files[file.path], file):
                number = len(self.parts)
                self.parts[number] = rows_of(part)
                size = self.parts[number][-1]["statistics"]["bytes"]
                self.bytes_read += size
                read[part.split] = Part(number, part.split, size)
            if is_read(file):
                self.horizon.append(remembered_after(files[file.path], file, read))
        return self

    def rows(self) -> list[Row]:
        """The rows that an audit would get, with the values of horizon."""
        assert self.capture is not None
        rows = []
        for file, known in zip([file for file in self.capture.files if is_read(file)], self.horizon, strict=True):
            known_now = {
                "file": file.path,
                "node": file.node,
                "file_order": file.file_order,
                "gaps_before": file.gaps_before or None,
                "newer_missing": file.newer_missing or None,
                "cluster": "c",
            }
            rows += [row | known_now | {"split": p.split} for p in known.parts for row in self.parts[p.number]]
        return rows


def rows_of(part: ByteRange) -> list[Row]:
    return [row for batch in decoded(part) for row in batch.to_pylist()]


def one_audit(folder: Path) -> list[Row]:
    """The rows of an audit of a folder."""
    return [row | {"cluster": "c"} for part in cut(discover(str(folder)).files) for row in rows_of(part)]


def same(rows: Sequence[Row], leaving_out: Sequence[str] = ()) -> Counter[str]:
    """Rows as something that can be compared. Ranks of files are made dense: copies have ranks, too, but no rows."""
    orders = sorted(
        {(row["node"] is not None, row["node"], row["file_order"]) for row in rows if row["node"] is not None}
    )
    nodes = Counter[int]()
    dense = {}
    for _, node, order in orders:
        dense[node, order] = nodes[node]
        nodes[node] += 1
    ranked = [row | {"file_order": dense.get((row["node"], row["file_order"]))} for row in rows]
    shown = [{name: v for name, v in row.items() if v is not None and name not in leaving_out} for row in ranked]
    return Counter(json.dumps(row, sort_keys=True, default=str) for row in shown)


def check(contents: dict[str, bytes], seed: int, folder: Path) -> Memory:
    """One seed: nights of any kind give the rows that an audit of all of it gives."""
    random = Random(seed)  # noqa: S311  a seed to repeat it
    packing, absences = random.random() < 0.4, random.random() < 0.5
    with pytest.MonkeyPatch.context() as patch:
        if not packing:  # what is packed is one range
            patch.setattr(ranges, "BLOCK", random.choice((1 << 10, 1 << 13, 1 << 16)))
        made = nights_of(contents, random, packing=packing, absences=absences)
        memory = Memory()
        for number, night in enumerate(made.nights):
            memory.night(written(folder / f"night-{number}", night))
        expected = one_audit(written(folder / "everything", made.everything))
    renamed = any("~" in file.path for file in made.everything)
    # an audit of everything reads names that no night has
    unlike = ("file", "file_order", "gaps_before", "newer_missing") if renamed or absences else ()
    found, wanted = same(memory.rows(), unlike), same(expected, unlike)
    assert found == wanted, f"seed {seed}: too many {list(found - wanted)[:3]}, too few {list(wanted - found)[:3]}"
    return memory


@pytest.fixture(scope="module")
def contents(capture: Callable[[str], Path]) -> dict[str, bytes]:
    return contents_of(capture(CAPTURE), 5_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_nights_give_what_one_audit_of_all_gives(contents: dict[str, bytes], seed: int, tmp_path: Path) -> None:
    check(contents, seed, tmp_path)


def test_a_segment_that_its_log_has_lost_is_forgotten(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    name = "broker-1/orders-0/{:020}.log"
    logs = {
        first: {0: batch(0, b"a", epoch=1) + batch(1, b"b", epoch=1), 2: batch(2, b"c", epoch=1)},
        second: {0: batch(0, b"a", epoch=1), 1: batch(1, b"d", epoch=2)},
    }
    for night, segments in logs.items():
        for offset, content in segments.items():
            path = night / name.format(offset)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    rows = Memory().night(first).night(second).rows()
    found = [(row["leader_epoch"], row["batch_base_offset"]) for row in rows if row["event_type"] == "LOG_BATCHES"]
    assert sorted(found) == [(1, 0), (2, 1)]


def _rotated(folder: Path, oldest: int, newest: int) -> Path:
    """A folder with the lines `oldest` to `newest` of a log, each in its file: the newest is the current one."""
    line = (
        "[2026-11-27 10:00:{:02},000] TRACE [Broker id=1] Leader u-0 with topic id Some(x) starts at leader epoch {} "
        "from offset 0 (state.change.logger)\n"
    )
    for number in range(oldest, newest + 1):
        rotations = newest - number
        path = folder / "broker-1" / (f"state-change.log.{rotations}" if rotations else "state-change.log")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(line.format(number, number) * 2)
    return folder


def test_a_file_that_rotation_deleted_is_older_than_the_present_ones(tmp_path: Path) -> None:
    memory = Memory()
    for night in range(3):
        memory.night(_rotated(tmp_path / str(night), night, night + 2))
    assert memory.capture is not None
    files = sorted(memory.capture.files, key=lambda file: file.file_order)
    assert [file.absent for file in files] == [True, True, False, False, False]
    assert {(file.gaps_before, file.newer_missing) for file in files} == {(0, False)}
    assert not missing_evidence((), (), memory.capture.files, {}, Seen({}, {}))


def test_lines_are_missing_if_the_current_log_of_a_night_is_gone_in_the_next(tmp_path: Path) -> None:
    memory = Memory().night(_rotated(tmp_path / "1", 0, 1)).night(_rotated(tmp_path / "2", 5, 6))
    assert memory.capture is not None
    files = sorted(memory.capture.files, key=lambda file: file.file_order)
    assert [(file.absent, file.gaps_before) for file in files] == [(True, 0), (True, 0), (False, 1), (False, 1)]
    assert [file.newer_missing for file in files] == [True, True, False, False]
