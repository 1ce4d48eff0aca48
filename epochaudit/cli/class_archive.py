"""Spark's classes in one file, which a JVM maps into memory: else it reads, checks and links some 20,000 of them at each start.

    python -m epochaudit.cli.class_archive      (once, as `make setup` does; half a minute, 180 MB in the user's cache)

An audit starts three seconds sooner with it. The file is good for the JVM and the Spark that made it; others do without.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from epochaudit.pipeline import audit
from epochaudit.report.assembly import report_of
from epochaudit.spark.java import JavaError, require_java
from epochaudit.spark.session import NO_WARNINGS, OPTIONS, SMALL_RUN, SessionError, class_archive, session

LINE: Final = (
    "[2026-01-01 00:00:00,000] INFO [Broker id=1] Leader orders-0 with topic id Some(54OkOWcPSrmDAdTxHPaXFA) starts at leader epoch "
    "0 from offset 0 with partition epoch 0, high watermark 0, ISR [1], adding replicas [] and removing replicas [] . Previous "
    "leader None and previous leader epoch was -1. (state.change.logger)\n"
)


def record() -> None:
    """Rehearse an audit in a JVM that archives the classes it has loaded when it ends. Raises SessionError, JavaError, OSError."""
    archive = class_archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        recorded = Path(folder) / archive.name
        options = f'{SMALL_RUN[OPTIONS]} "-XX:ArchiveClassesAtExit={recorded}" {NO_WARNINGS}'
        spark = session(conf={OPTIONS: options}, plain_bytes=0)
        rehearse(spark, Path(folder))
        if _ended(spark) or not recorded.is_file():
            raise SessionError("this JVM can't archive Spark's classes")
        recorded.replace(archive)


def rehearse(spark: SparkSession, folder: Path) -> None:
    """Audit one line of a log. That loads 99 of 100 classes that an audit needs."""
    log = folder / "capture" / "broker-1" / "state-change.log"
    log.parent.mkdir(parents=True)
    log.write_text(LINE)
    audited = audit(spark, str(log.parent.parent))
    report_of(audited)
    audited.release()


def _ended(spark: SparkSession) -> int:
    """Stop Spark, and wait until its JVM has written what it writes at its end. Returns its exit code."""
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    return int(gateway.proc.wait())


if __name__ == "__main__":
    try:
        require_java()
        record()
    except (JavaError, SessionError, OSError) as error:
        sys.exit(f"epochaudit: {error}")
