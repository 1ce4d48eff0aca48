"""Gaps between rotated files, by their names."""

from __future__ import annotations

from epochaudit.sources.files.rotation import gaps_before, rotations, without_newer


def test_a_name_has_the_number_of_rotations() -> None:
    assert rotations("b/kafka-request.log") == ("b/kafka-request.log", 0)
    assert rotations("b/kafka-request.log.12.gz") == ("b/kafka-request.log", 12)
    assert rotations("b/kafka-request.log.2026-11-21-07") is None
    assert rotations("b/meta.properties") is None


def test_each_missing_run_of_numbers_is_a_gap() -> None:
    names = [f"b/server.log.{number}" for number in (1, 2, 5, 6, 9)] + ["b/server.log.gz", "a/server.log.3"]
    assert gaps_before(names) == {
        "b/server.log.9": 0,
        "b/server.log.6": 1,
        "b/server.log.5": 1,
        "b/server.log.2": 2,
        "b/server.log.1": 2,
        "b/server.log.gz": 2,
        "a/server.log.3": 0,
    }


def test_a_log_goes_on_in_the_missing_file() -> None:
    names = ["b/server.log.2", "b/server.log.3.gz", "a/server.log", "a/server.log.1", "server.log.2026-11-21-07"]
    assert without_newer(names) == {"b/server.log.2", "b/server.log.3.gz"}
    gap_in_the_middle = ["server.log", "server.log.1", "server.log.3", "server.log.4"]
    assert without_newer(gap_in_the_middle) == {"server.log.3", "server.log.4"}


def test_an_hour_without_lines_has_no_file() -> None:
    assert gaps_before([f"state-change.log.2026-11-21-{hour}" for hour in ("01", "02", "07")]) == {}
