"""A run that is killed: python -m tests.warehouse.killed WAREHOUSE CAPTURE WHEN STEP [MILLISECONDS]

STEP is one of STEPS, WHEN before, after or within it, and then so many milliseconds after it has begun. The process and its
JVM die by SIGKILL, as they would if the machine did.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, Final

from epochaudit import warehouse
from epochaudit.sources.discovery.discovery import inspected
from epochaudit.spark.session import session
from epochaudit.warehouse import ledger, nightly
from epochaudit.warehouse.tables import Directory
from tests.warehouse.conftest import SELECT

STEPS: Final = ("splits", "events", "quarantine", "horizon", "judging", "findings", "verdicts", "runs")


def die() -> None:
    os.killpg(0, signal.SIGKILL)


def deadly(step: Any, when: str, milliseconds: int) -> Any:
    """The function, which the process does not survive."""

    def dying(*arguments: Any, **named: Any) -> Any:
        if when == "before":
            die()
        if when == "within":
            threading.Thread(target=lambda: (time.sleep(milliseconds / 1000), die()), daemon=True).start()
        result = step(*arguments, **named)
        die()
        return result

    return dying


def main(location: str, capture: str, when: str, step: str, milliseconds: str = "0") -> None:
    os.setpgrp()
    if step == "judging":
        nightly.evaluate_rules = deadly(nightly.evaluate_rules, when, int(milliseconds))
    elif step == "findings":
        ledger.record_findings = deadly(ledger.record_findings, when, int(milliseconds))
    else:
        name = "replace_cluster" if step == "horizon" else "append"
        survived = getattr(Directory, name)
        lethal = deadly(survived, when, int(milliseconds))

        def change(directory: Directory, table: str, *arguments: Any, **named: Any) -> Any:
            return (lethal if table == step else survived)(directory, table, *arguments, **named)

        setattr(Directory, name, change)
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2"}, warehouse=True, plain_bytes=0)
    with warehouse.audited(spark, location, [inspected(capture)], select=SELECT):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
