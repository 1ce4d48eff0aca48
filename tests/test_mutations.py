"""Planted defects: each is found, by its rule, at its place, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.mutations.audited import Outcome, outcomes
from tests.mutations.editing import Copy
from tests.mutations.page import PAGE, page, without_mutation
from tests.mutations.planting import Mutation, mutations

MUTATIONS = mutations()
CAPTURES = sorted({mutation.capture for mutation in MUTATIONS})


@pytest.fixture(scope="module")
def planted(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    capture: Callable[[str], Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Outcome]:
    """What one audit finds in the mutated copies that the selected tests are about; the page is about all."""
    users = [item for item in request.session.items if "planted" in getattr(item, "fixturenames", ())]
    selected = [item.callspec.params["mutation"] if hasattr(item, "callspec") else None for item in users]
    found = outcomes(spark, MUTATIONS if None in selected else selected, capture, tmp_path_factory.mktemp("planted"))
    spark.catalog.clearCache()
    return {outcome.mutation.name: outcome for outcome in found}


@pytest.mark.thorough
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.rule}-{mutation.name}")
def test_the_planted_defect_is_found_and_nothing_else(mutation: Mutation, planted: dict[str, Outcome]) -> None:
    outcome = planted[mutation.name]
    assert outcome.found, f"{mutation.rule} does not find it at {outcome.place}; found: {outcome.others}"
    assert not outcome.undeclared, "found besides, and not declared"
    assert not outcome.missing, "declared, but not found"


@pytest.mark.thorough
def test_the_page_is_what_the_run_gives(planted: dict[str, Outcome]) -> None:
    assert PAGE.read_text("utf-8") == page([planted[mutation.name] for mutation in MUTATIONS]), (
        "run `python -m tests.mutations`"
    )


def test_a_rule_without_a_planted_defect_has_a_reason() -> None:
    assert [rule for rule, reason in without_mutation(m.rule for m in MUTATIONS).items() if not reason] == []


@pytest.mark.parametrize("name", CAPTURES)
def test_the_captures_hold_no_breach_of_their_own(name: str, expected: Callable[[str], dict[str, Any]]) -> None:
    """Their truth states so, and tests/test_captures.py compares the audit to it."""
    assert expected(name)["must_flag"] == []


@pytest.mark.parametrize("name", CAPTURES)
def test_a_copy_that_is_not_edited_is_the_capture(name: str, capture: Callable[[str], Path], tmp_path: Path) -> None:
    copy = Copy(capture(name))
    if (capture(name) / "metadata").is_dir():
        for batch in copy.metadata.batches:
            batch.changed = True  # written anew, with its own lengths and CRC
    copy.write(tmp_path / "copy", "copy")
    for file in capture(name).rglob("*"):
        if file.is_file():
            assert (tmp_path / "copy" / file.relative_to(capture(name))).read_bytes() == file.read_bytes()
