"""An error of Spark is reported in one line."""

from __future__ import annotations

import pytest

from epochaudit.warehouse.tables import failed

CALL = "An error occurred while calling o1.save.\n"
FULL = "java.io.IOException: No space left on device"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (f"{CALL}: a.b.SparkException: aborted\n\tat a.b.C\nCaused by: {FULL}\n\tat a.b.D", FULL),
        (f"{CALL}: {FULL}\n\tat a.b.D", FULL),
        ("[PATH_NOT_FOUND] no such path\nmore", "[PATH_NOT_FOUND] no such path"),
        ("", "ValueError"),
    ],
)
def test_the_cause_of_a_failure_is_reported(message: str, cause: str) -> None:
    assert str(failed("can't", ValueError(message))) == f"can't: {cause}"
