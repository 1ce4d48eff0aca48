"""What goes wrong in Spark is told in one line."""

from __future__ import annotations

import pytest

from epochaudit.warehouse.tables import failed


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("An error occurred while calling o1.save.\n: a.b.SparkException: x\n\tat y\nCaused by: java.io.IOException: disk", "java.io.IOException: disk"),
        ("An error occurred while calling o1.save.\n: java.io.IOException: No space left on device\n\tat y", "java.io.IOException: No space left on device"),
        ("[PATH_NOT_FOUND] no such path\nmore", "[PATH_NOT_FOUND] no such path"),
        ("", "ValueError"),
    ],
)  # fmt: skip
def test_the_cause_of_a_failure_is_told(said: str, told: str) -> None:
    assert str(failed("can't", ValueError(said))) == f"can't: {told}"
