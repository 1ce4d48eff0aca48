"""python -m prove.rotation: rotate each log of the bundled captures at random lines, without losing any: no verdict may change.

A log's lines mean the same in one file and in several. Each capture is audited as it is and with each of its logs in pieces. For each
rule, as many subjects have each verdict, for the same reason. Logs are cut between two seconds: the reader makes one row of a producer's
requests within a second, and judges them together.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import click

from epochaudit.rules.rule import VERDICTS
from epochaudit.sources.clock.log_time import LogClock
from epochaudit.spark.session import SMALL_PLANS, session
from prove.holes import audit_of, bundled, linked, numbered, with_holes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_FILES: Final = 8

Counts = Counter[tuple[str, str, str | None]]
"""(rule, verdict, reason) -> subjects."""


def rotated(lines: list[bytes], share: float, chance: random.Random) -> dict[str, list[bytes]]:
    """The log in files of random lengths, by their suffix, with that probability. Lines of one second are in one file."""
    between = [*between_seconds(lines)]
    if chance.random() >= share or not between:
        return {"": lines}
    cuts = sorted(chance.sample(between, min(len(between), chance.randint(1, MOST_FILES - 1))))
    return numbered([lines[start:end] for start, end in pairwise([0, *cuts, len(lines)])])


def between_seconds(lines: list[bytes]) -> Iterator[int]:
    """The indexes of lines with which a second begins, but for the first line."""
    printed, second = LogClock().printed, None
    for index, line in enumerate(lines):
        time_ms = printed(line)
        if time_ms is not None and time_ms // 1000 != second:
            if second is not None:
                yield index
            second = time_ms // 1000


def counts_of(spark: SparkSession, paths: Sequence[Path]) -> dict[str, Counts]:
    """Subjects of each capture, by the name of its directory, from one audit of all."""
    counts: dict[str, Counts] = {path.name: Counter() for path in paths}
    with audit_of(spark, paths, show=VERDICTS) as audited:
        for row in audited.findings.groupBy("cluster", "rule", "verdict", "reason").count().collect():
            counts[row["cluster"]][row["rule"], row["verdict"], row["reason"]] = row["count"]
    return counts


def differences(whole: Counts, of_files: Counts) -> Iterator[str]:
    """One line per count that differs."""
    for key in sorted(whole.keys() | of_files.keys(), key=str):
        if whole[key] != of_files[key]:
            yield f"{' '.join(filter(None, key))}: {whole[key]} in whole logs, {of_files[key]} in rotated ones"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", default=1, show_default=True, help="Chooses where logs are cut.")
@click.option("--batch", default=7, show_default=True, help="Captures per audit.")
def main(seed: int, batch: int) -> None:
    """Audit each bundled capture with whole and with rotated logs. Exit code 1: a rule's verdicts differ."""
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS})
    found = 0
    with TemporaryDirectory() as unpacked:
        captures = {
            name: path
            for breaches in (False, True)
            for name, path in bundled(Path(unpacked), breaches=breaches).items()
        }
        for first in range(0, len(captures), batch):
            names = sorted(captures)[first : first + batch]
            with TemporaryDirectory() as folder:
                whole = linked({name: captures[name] for name in names}, Path(folder))
                of_files = [Path(folder) / f"{name} rotated" for name in names]
                for path, copy in zip(whole, of_files, strict=True):
                    with_holes(captures[path.name], copy, rotated, 1.0, seed)
                counts = counts_of(spark, [*whole, *of_files])
                for path, copy in zip(whole, of_files, strict=True):
                    different = [*differences(counts[path.name], counts[copy.name])]
                    print(
                        f"{path.name}: {counts[path.name].total():,} subjects, differences: {len(different)}",
                        flush=True,
                    )
                    for line in different:
                        print(f"  {line}", flush=True)
                    found += len(different)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
