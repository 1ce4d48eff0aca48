"""Releases and protocols as numbers."""

from __future__ import annotations

import pytest

from epochaudit.kafka.releases import protocol, release


def test_releases_are_in_their_order() -> None:
    assert release("3.9.1") == 3_009_001
    assert release("3.3") == release("3.3.0")
    names = ["0.11.0", "1.0.2", "2.8.0", "2.8.1", "3.3", "3.10.0", "4.0.0"]
    assert sorted(names, key=release) == names


def test_a_protocol_without_a_step_is_the_last_of_its_release() -> None:
    names = ["2.6-IV0", "2.6", "2.7-IV0", "2.7-IV2", "2.7", "2.8-IV0"]
    assert sorted(names, key=protocol) == names


@pytest.mark.parametrize("name", ["3", "trunk", "3.3-IV0", "3.3.0-SNAPSHOT"])
def test_what_is_no_release_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected one as"):
        release(name)
