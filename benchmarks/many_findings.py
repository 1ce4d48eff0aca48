"""Memory of the report as findings grow: the findings of a bundled capture, multiplied.

    python benchmarks/many_findings.py [--capture zk-unclean-truncation-3.9] [--findings 0 10000 100000 1000000]

The rows of the judgements are multiplied, with a correlation id for each copy, so that all later steps run as in an audit with
that many findings.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rule_pass import CAPTURES, peaks

from epochaudit import pipeline
from epochaudit.report import json_report
from epochaudit.report.assembly import report_of
from epochaudit.rules.judge import Judgement, Tally
from epochaudit.rules.rule import VIOLATION
from epochaudit.sources.discovery.discovery import discover
from epochaudit.spark.session import session


class Multiplied(Judgement):
    """A judgement with `times` as many findings."""

    times = 1

    def tallies(self) -> Any:
        """The counts, multiplied like the rows."""
        for tally in super().tallies():
            yield Tally(tally.rule, {verdict: n * self.times for verdict, n in tally.counts.items()}, tally.reasons)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--capture", default="zk-unclean-truncation-3.9")
    arguments.add_argument("--findings", type=int, nargs="+", default=[0, 10_000, 100_000, 1_000_000])
    arguments.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.one:
        measure(given.capture, *given.findings)
        return
    print(f"{'found':>9} {'listed':>7} {'JSON MB':>8} {'driver MB':>10} {'JVM MB':>7} {'seconds':>8}", flush=True)
    for findings in given.findings:  # each in a process of its own: peaks do not fall
        command = [sys.executable, __file__, "--capture", given.capture, "--one", "--findings", str(findings)]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
        print(ran.stdout, end="", flush=True)


def measure(name: str, findings: int) -> None:
    """An audit with at least that many findings, and its report. The printed seconds are those of the report."""
    capture = discover(str(CAPTURES / f"{name}.tar.xz"))
    spark = session(plain_bytes=0)
    evaluate_frames = pipeline._evaluate_frames

    def many(*given: Any) -> Any:
        judgements, failures = evaluate_frames(*given)
        found = sum(judgement.rows.count() for judgement in judgements)
        Multiplied.times = max(1, -(-findings // found))
        return [_multiplied(judgement) for judgement in judgements], failures

    pipeline._evaluate_frames = many
    audited = pipeline.audit(spark, capture)
    began = time.monotonic()
    report = report_of(audited)
    text = json_report.render(report)
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"{report.count(VIOLATION) + report.count('exposed'):>9} {len(report.findings):>7} {len(text) / 1e6:>8.1f} "
        f"{driver:>10.0f} {peaks()[0]:>7.0f} {time.monotonic() - began:>8.1f}"
    )


def _multiplied(judgement: Judgement) -> Multiplied:
    rows: DataFrame = judgement.rows
    copies = rows.sparkSession.range(Multiplied.times).select(F.col("id").cast("int").alias("copy"))
    many = rows.crossJoin(copies).withColumn("correlation_id", F.col("copy")).drop("copy")
    return Multiplied(many, judgement.rules, judgement.branches, judgement.observations)


if __name__ == "__main__":
    main()
