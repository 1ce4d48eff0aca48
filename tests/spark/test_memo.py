"""Checkpoints of a session of Spark Connect, whose client must not be asked anything while the interpreter ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# A session and a table as those of Spark Connect, by the names of their modules: `close` is what the client would be asked.
PROGRAM: Final = """
from epochaudit.spark.memo import checkpointed

class Client:
    def close(self): print("closed")

class Session:
    __module__ = "pyspark.sql.connect.session"
    client = Client()

class Table:
    sparkSession = Session()
    def localCheckpoint(self, eager, storageLevel): return Table()

@checkpointed
def table(events): return events

events = Table()
assert table(events) is table(events)
print("computed")
"""


def test_sessions_of_spark_connect_are_closed_before_the_interpreter_ends() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["computed", "closed"]
