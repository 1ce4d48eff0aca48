"""Writes docs/evidence.md from audits of the bundled captures without some of their files: `python -m tests.evidence`."""

from __future__ import annotations

import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from epochaudit.spark.session import SMALL_PLANS, session
from tests.conftest import CAPTURES, capture_names
from tests.evidence.measured import WITHOUT, measured
from tests.evidence.page import PAGE, page

KINDS = ("zk-healthy-3.9", "kraft-unclean-truncation-4.1")


def main() -> None:
    """One session for all audits."""
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS}, warehouse=False)
    with TemporaryDirectory() as folder:
        names = capture_names()
        for name in names:
            with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
                archive.extractall(folder, filter="data")
        results = measured(spark, lambda name: Path(folder) / name, names, ("all", "default logs"))
        others = [variant for variant in WITHOUT if variant not in ("all", "default logs")]
        results |= measured(spark, lambda name: Path(folder) / name, KINDS, others)
    spark.stop()
    PAGE.write_text(page(results, names, KINDS), "utf-8")


main()
