"""python -m prove.healthy: histories without a planted breach have no violation, by the oracle.

A violation there is an error of the simulated cluster, or one of a rule that the oracle repeats: then the audit would raise a false alarm.
Spark is not needed, so that this takes thousands of histories of each kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from random import Random

import click

from prove.histories import SIMULATORS, simulated
from prove.history import History
from prove.oracle.catalogue import rules_of, verdicts_of
from prove.oracle.verdicts import VIOLATION


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kinds", nargs=-1)
@click.option("--histories", default=1000, show_default=True, help="How many histories of each kind.")
@click.option("--seed", default=1, show_default=True, help="The first history's seed; the others count from it.")
@click.option("--steps", default=30, show_default=True, help="The most steps that a history takes.")
def main(kinds: tuple[str, ...], histories: int, seed: int, steps: int) -> None:
    """Judge histories of KINDS, by default of all, with the oracle. Exit code 1: one of them has a violation."""
    if unknown := {*kinds} - SIMULATORS.keys():
        raise click.BadParameter(f"no such kind: {', '.join(sorted(unknown))}; there are {', '.join(SIMULATORS)}")
    found = False
    for kind in kinds or SIMULATORS:
        verdicts = 0
        for one in range(seed, seed + histories):
            history = healthy(kind, one, steps)
            for rule, verdict, key in judged(history):
                verdicts += 1
                if verdict == VIOLATION:
                    found = True
                    print(f"{kind}, seed {one}, {history.release.version}: {rule} violation at {key}", flush=True)
        print(f"{kind}: {histories} histories, {verdicts} verdicts", flush=True)
    sys.exit(1 if found else 0)


def healthy(kind: str, seed: int, most_steps: int) -> History:
    """The history of a seed in a kind of cluster, without planted breaches."""
    choices = Random(seed)
    release = choices.choice(SIMULATORS[kind].RELEASES)
    return simulated(f"healthy-{seed}", release, choices, choices.randint(1, most_steps), faulty=False)


def judged(history: History) -> Iterator[tuple[str, str, object]]:
    """(rule, verdict, subject) of all rules that the oracle judges in a history."""
    for rule in rules_of(history):
        yield from verdicts_of(rule, history)


if __name__ == "__main__":
    main()
