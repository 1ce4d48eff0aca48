"""python -m prove: judge random histories with epochaudit and with the oracle, and print what they give."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

import click

from epochaudit.spark.session import SMALL_PLANS, session
from prove.comparison import Comparison, by_rule, compare
from prove.histories import SIMULATORS, history_of

MOST_PRINTED: Final = 40


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--histories", default=50_000, show_default=True, help="How many histories.")
@click.option("--seed", default=1, show_default=True, help="The first history's seed; the others count from it.")
@click.option("--batch", default=1000, show_default=True, help="Histories per audit.")
@click.option("--steps", default=14, show_default=True, help="The most steps that a history takes.")
@click.option("--kind", type=click.Choice([*SIMULATORS]), help="Only this kind; by default the seed chooses.")
@click.option("--healthy", is_flag=True, help="Plant no breaches; by default half of the histories may have some.")
@click.option("--minutes", type=float, help="Begin no batch after this many minutes.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures here, as JSON, after each batch.")
def main(
    histories: int,
    seed: int,
    batch: int,
    steps: int,
    kind: str | None,
    healthy: bool,
    minutes: float | None,
    output: Path | None,
) -> None:
    """Compare epochaudit with the oracle on random histories. Exit code 1: they disagree."""
    total, begun = Comparison(), monotonic()
    faults: Counter[str] = Counter()
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS})
    with TemporaryDirectory(prefix="prove-") as folder:
        for seeds in _batches(seed, histories, batch):
            if minutes is not None and monotonic() - begun > 60 * minutes:
                break
            made = [history_of(one, steps, kind=kind, faulty=False if healthy else None) for one in seeds]
            faults.update(fault for history in made for fault in history.faults)
            total.add(compare(spark, made, Path(folder) / "captures"))
            print(
                f"{total.histories} histories, {sum(total.agreed.values())} verdicts agree, {len(total.disagreements)} do not,"
                f" {monotonic() - begun:.0f} s",
                file=sys.stderr,
            )
            if output is not None:
                output.write_text(json.dumps(_figures(total, faults, seed, steps), indent=2) + "\n")
    spark.stop()
    for key, count in sorted(_kinds(total).items()):
        print(f"only {key[2]} gives {key[0]} {key[1]}: {count}")
    for one in total.disagreements[:MOST_PRINTED]:
        print(one)
    for rule, verdicts in by_rule(total.agreed).items():
        print(rule, *(f"{verdict} {count}" for verdict, count in verdicts.items()), sep="  ")
    sys.exit(1 if total.disagreements else 0)


def _batches(seed: int, histories: int, batch: int) -> Iterator[range]:
    end = seed + histories
    for first in range(seed, end, batch):
        yield range(first, min(first + batch, end))


def _kinds(total: Comparison) -> Counter[tuple[str, str, str]]:
    """(rule, verdict, side) of the disagreements, and how many of each there are."""
    return Counter((one.verdict[0], one.verdict[1], one.side) for one in total.disagreements)


def _figures(total: Comparison, faults: Counter[str], seed: int, steps: int) -> dict[str, object]:
    return {
        "histories": total.histories,
        "first_seed": seed,
        "steps": steps,
        "verdicts": sum(total.agreed.values()),
        "agreed": by_rule(total.agreed),
        "faults": dict(sorted(faults.items())),
        "disagreements": [[*key, count] for key, count in sorted(_kinds(total).items())],
        "examples": [str(one) for one in total.disagreements[:MOST_PRINTED]],
    }


if __name__ == "__main__":
    main()
