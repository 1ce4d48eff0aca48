"""Writes into the case files the rules' sentences: `python -m tests.rules SR-01 TR-06`, or of all rules."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

from epochaudit.spark.session import SMALL_PLANS, session
from tests.rules.case_files import with_sentences
from tests.rules.judging import CASES, events_of, verdicts_of


def main(rules: Collection[str]) -> None:
    """Judges the cases of these rules, of all if none is named, and writes the sentences beneath their verdicts."""
    cases = [case for case in CASES if not rules or case.rule in rules]
    chosen = {case.rule for case in cases}
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS}, warehouse=False)
    found = verdicts_of(events_of(spark, cases), cases, chosen)
    spark.stop()
    for path in sorted(Path(__file__).parent.glob("*/*.md")):
        if path.stem in chosen:
            path.write_text(with_sentences(path.read_text("utf-8"), path.stem, found), "utf-8")


main(sys.argv[1:])
