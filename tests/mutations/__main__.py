"""Plants all defects, audits the copies and writes docs/mutations.md."""

from __future__ import annotations

import tarfile
import tempfile
from functools import cache
from pathlib import Path

from epochaudit.spark.session import SMALL_PLANS, session
from tests.mutations.audited import outcomes
from tests.mutations.page import PAGE, page
from tests.mutations.planting import mutations

CAPTURES = Path(__file__).parents[1] / "captures"


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory() as folder:

        @cache
        def base(name: str) -> Path:
            with tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
                archive.extractall(Path(folder) / "captures", filter="data")
            return Path(folder) / "captures" / name

        spark = session("local[*]", SMALL_PLANS)
        PAGE.write_text(page(outcomes(spark, mutations(), base, Path(folder) / "planted")), "utf-8")
        spark.stop()


if __name__ == "__main__":
    main()
