"""python -m prove.mutants: change the source of rules and frames, and print the changes that no example notices."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final

import click

from epochaudit.replay.frames import FRAMES
from epochaudit.rules.catalogue import catalogue
from epochaudit.spark.session import SMALL_PLANS, session
from prove.histories import history_of
from prove.mutants.altered_cases import AlteredCases
from prove.mutants.examples import Cases, Histories
from prove.mutants.explained import Explanation, Key, explanations, stale
from prove.mutants.loading import ROOT, modules, path_of
from prove.mutants.operators import Mutant, mutants_of
from prove.mutants.testing import Bench

EXPLAINED: Final = "explained"
BY_CASE: Final = "killed by a case"
BY_HISTORY: Final = "killed by a history"
BY_ERROR: Final = "killed by an error"
SURVIVES: Final = "survives"
FATES: Final = (BY_CASE, BY_HISTORY, BY_ERROR, EXPLAINED, SURVIVES)
MOST_STEPS: Final = 20  # of a history
SPARK_ERRORS: Final = "SQLQueryContextLogger"


@dataclass
class Score:
    """What became of the mutants so far. by_folder: folder of rules or frames -> one of the names above -> mutants."""

    by_folder: dict[str, Counter[str]] = field(default_factory=dict)
    survivors: list[Mutant] = field(default_factory=list)
    killed: set[Key] = field(default_factory=set)

    def add(self, mutant: Mutant, fate: str, explained: bool) -> str:
        """Count a mutant, and return what became of it."""
        if fate != SURVIVES:
            self.killed.add(mutant.key)
        elif explained:
            fate = EXPLAINED
        else:
            self.survivors.append(mutant)
        self.by_folder.setdefault(folder_of(mutant.module), Counter())[fate] += 1
        return fate


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1)
@click.option("--histories", default=0, help="Judge those that no case notices on so many random histories, too.")
@click.option(
    "--altered", default=0, help="Propose cases for those that are left: of so many altered cases of each rule."
)
@click.option("--sample", type=int, help="At most so many mutants of a module, chosen at random. Without: all.")
@click.option("--seed", default=1, show_default=True, help="Of that choice; the first history's, too.")
@click.option("--minutes", type=float, help="Begin no module after this many minutes.")
@click.option("--killed", is_flag=True, help="Print killed and explained mutants, too.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the figures and survivors here, as JSON.")
def main(
    names: tuple[str, ...],
    histories: int,
    altered: int,
    sample: int | None,
    seed: int,
    minutes: float | None,
    killed: bool,
    output: Path | None,
) -> None:
    """Mutate rules (SR-01), families (SR), folders (stop_replica), frames (fetches) or modules (held_epochs); all rules without NAMES.

    Exit code 1: a mutant survives, or an explanation is stale.
    """
    chosen = modules_of(names)
    known, score, made, begun = explanations(), Score(), list[Mutant](), monotonic()
    spark = session("local[2]", {"spark.sql.shuffle.partitions": "2", **SMALL_PLANS})
    logging.getLogger(SPARK_ERRORS).disabled = True  # mutants that fail
    with TemporaryDirectory(prefix="mutants-") as folder:
        benches = {BY_CASE: Bench(Cases(spark))}
        if histories:
            made_up = [history_of(one, MOST_STEPS) for one in range(seed, seed + histories)]
            benches[BY_HISTORY] = Bench(Histories(spark, made_up, Path(folder) / "captures"))
        cases = AlteredCases(spark, altered, seed) if altered else None
        for module in chosen:
            if minutes is not None and monotonic() - begun > 60 * minutes:
                print(f"no time for {module} and what follows", file=sys.stderr)
                break
            mutants = of_module(module)
            made += mutants
            judged = fates(benches, module, sampled(mutants, sample, seed))
            for mutant, fate, why in judged if cases is None else compared(Bench(cases), module, judged):
                counted = score.add(mutant, fate, mutant.key in known)
                if killed or counted == SURVIVES:
                    print(f"{counted}: {mutant}", why, flush=True)
            if cases is not None:
                print(*cases.proposals(), sep="\n", flush=True)
            print(f"{module}: {score_line(score)}, {monotonic() - begun:.0f} s", file=sys.stderr)
    spark.stop()
    outdated = stale(known, made, score.killed)
    for explanation, why in outdated:
        print(f"stale explanation: {described(explanation)}: {why}")
    for folder, counts in sorted(score.by_folder.items()):
        print(folder, *(f"{fate} {count}" for fate, count in sorted(counts.items())), sep="  ")
    if output is not None:
        output.write_text(json.dumps(figures(score), indent=2) + "\n")
    sys.exit(1 if score.survivors or outdated else 0)


def fates(benches: Mapping[str, Bench], module: str, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, str, str]]:
    """Each mutant with what became of it, and the example or the error. benches: fate -> what kills so; each has what the former left."""
    alive = list(mutants)
    for fate, bench in benches.items():
        survivors = []
        for outcome in bench.outcomes(module, alive):
            if outcome.survives:
                survivors.append(outcome.mutant)
            elif outcome.example is not None:
                yield outcome.mutant, fate, outcome.example
            else:
                yield outcome.mutant, BY_ERROR, outcome.error or ""
        alive = survivors
    for mutant in alive:
        yield mutant, SURVIVES, ""


def compared(
    altered: Bench, module: str, judged: Iterable[tuple[Mutant, str, str]]
) -> Iterator[tuple[Mutant, str, str]]:
    """Fates as those of `judged`; where a mutant survives, with an altered case in which it differs."""
    survivors = []
    for mutant, fate, why in judged:
        if fate == SURVIVES:
            survivors.append(mutant)
        else:
            yield mutant, fate, why
    for outcome in altered.outcomes(module, survivors):
        yield outcome.mutant, SURVIVES, outcome.example or outcome.error or ""


def modules_of(names: Sequence[str]) -> list[str]:
    """The modules of rules, families, folders, frames and modules of these names; without names, those of all rules."""
    if not names:
        return [module for module in modules() if module.startswith("epochaudit.rules.")]
    found: dict[str, None] = {}
    for name in names:
        of_rules = [type(rule).__module__ for rule in catalogue() if name.upper() in (rule.id, rule.family)]
        of_frame = [FRAMES[name].of.__module__] if name in FRAMES else []
        of_name = [module for module in modules() if name in module.split(".")[-2:]]
        of_all = [*of_rules, *of_frame, *of_name]
        if not of_all:
            raise click.UsageError(f"{name}: no rule, family, folder, frame or module of this name")
        found |= dict.fromkeys(of_all)
    return list(found)


def of_module(module: str) -> list[Mutant]:
    """All mutants of a module."""
    path = path_of(module)
    return mutants_of(str(path.relative_to(ROOT)), path.read_text("utf-8"))


def sampled(mutants: Sequence[Mutant], count: int | None, seed: int) -> list[Mutant]:
    """At most `count` of them, in their order."""
    if count is None or len(mutants) <= count:
        return list(mutants)
    chosen = Random(seed).sample(range(len(mutants)), count)
    return [mutants[index] for index in sorted(chosen)]


def folder_of(path: str) -> str:
    """The folder of a module's file below `rules/` or `replay/`; `rules` for those that several folders share."""
    return Path(path).parent.name


def score_line(score: Score) -> str:
    """The sums of all folders."""
    total = sum(score.by_folder.values(), Counter[str]())
    return ", ".join(f"{fate} {total[fate]}" for fate in FATES)


def described(explanation: Explanation) -> str:
    """An explanation's mutant, as reports name it."""
    change = f"{explanation.before} -> {explanation.after}" if explanation.after else explanation.before
    return f"{explanation.module} {explanation.scope}: {explanation.operator}: {change}"


def figures(score: Score) -> dict[str, object]:
    """The score as JSON."""
    return {
        "by_folder": {folder: dict(counts) for folder, counts in sorted(score.by_folder.items())},
        "survivors": [
            dict(zip(("module", "scope", "operator", "before", "after", "nth"), one.key, strict=True))
            | {"line": one.line}
            for one in score.survivors
        ],
    }


if __name__ == "__main__":
    main()
