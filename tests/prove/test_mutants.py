"""Mutants change one place each, and are executed beside the originals; cases kill those that change a rule."""

from __future__ import annotations

import ast
import sys

import pytest
from pyspark.sql import SparkSession

from epochaudit.events.schema import EVENTS
from epochaudit.rules.rule import Rule
from prove.mutants import operators
from prove.mutants.__main__ import modules_of, of_module, sampled
from prove.mutants.altered_cases import AlteredCases, altered_cases
from prove.mutants.examples import Cases
from prove.mutants.explained import FILE, ExplainedError, Explanation, explanations, stale
from prove.mutants.loading import dependents, load, modules, path_of
from prove.mutants.operators import Mutant, mutants_of
from prove.mutants.testing import Bench
from tests.rules.case_files import Case, Expected, case_of, sections
from tests.rules.judging import CASES

FENCE = "epochaudit.rules.leader_epoch_fence"
SR_05 = "epochaudit.rules.stop_replica.sr05_stop_replica_answered_with_foreign_code"
LS_04 = "epochaudit.rules.log_start_offset.ls04_consumer_sent_to_tiered_storage"
HEARTBEATS = "epochaudit.replay.control_plane.heartbeats"
TIERED_FETCHES = "epochaudit.replay.data_plane.tiered_fetches"


def changes(source: str) -> list[tuple[str, str, str]]:
    """The changed source of each mutant's first line that differs, by operator."""
    tree = ast.parse(source)
    found = []
    for mutant in mutants_of("m.py", source):
        changed = ast.unparse(mutant.tree(tree))
        assert changed != ast.unparse(tree)
        found.append((mutant.operator, mutant.scope, changed))
    return found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a & b & c", {"x = b & c", "x = a & c", "x = a & b"}),
        ("x = a & (b | c)", {"x = b | c", "x = a", "x = a & c", "x = a & b"}),
        ("x = f(a < b)", {"x = f(a <= b)", "x = f(a >= b)"}),
        ("x = (a < b) & c", {"x = c", "x = a < b", "x = (a <= b) & c"}),
        ("x = f(~a)", {"x = f(a)"}),
        ("x = a + b", {"x = a - b"}),
        ("x = a[-1]", {"x = a[-2]"}),
        ("x = 2_000", {"x = 4000"}),
        ("x = F.coalesce(a, F.lit(True))", {"x = F.coalesce(F.lit(True))", "x = F.coalesce(a)", "x = F.coalesce(a, F.lit(False))"}),
        ("x = holds(a)", {"x = a", "x = ~holds(~a)"}),
        (
            "x = F.when(holds(a), b)",
            {
                "x = F.when(_literal(True), b)",
                "x = F.when(_literal(False), b)",
                "x = F.when(~holds(~a), b)",
            },
        ),
        ("x = F.max(a)", {"x = F.min(a)"}),
        ("x = a.isNull()", {"x = a.isNotNull()"}),
        ("x = rows.join(a, b, 'left')", {"x = rows.join(a, b, 'inner')"}),
        ("x = rows.where(a).distinct()", {"x = rows.distinct()", "x = rows.where(a)"}),
        ("x = Window.partitionBy('a', 'b')", {"x = Window.partitionBy('b')", "x = Window.partitionBy('a')"}),
        ("TYPES: Final = ('FETCH', 'PRODUCE')", {"TYPES: Final = ('PRODUCE',)", "TYPES: Final = ('FETCH',)"}),
        (
            "x = F.when(a, b).otherwise(c)",
            {"x = F.when(_literal(True), b).otherwise(c)", "x = F.when(_literal(False), b).otherwise(c)", "x = F.when(a, b)"},
        ),
        (
            "x = first_of(passed(a), otherwise=violation(b))",
            {
                "x = first_of(otherwise=violation(b))",
                "x = first_of(passed(a), otherwise=_passed())",
                "x = first_of(passed(_literal(True)), otherwise=violation(b))",
                "x = first_of(passed(a), otherwise=violation(_literal(True)))",
            },
        ),
    ],
)  # fmt: skip
def test_operators(source: str, expected: set[str]) -> None:
    given = [changed for _, _, changed in changes(source)]
    assert set(given) == expected
    assert len(given) == len(expected)


def test_texts_are_not_mutated() -> None:
    source = '''
from a import b
@rule("SR-01", severity=1)
class A(Rule):
    """A page with 2 numbers."""
    expected = f"{1 + 1}"
    because = (a & b, 3)
    def verdict(self, n: Literal[4] = None) -> Literal[5]:
        return passed(because=(6, c & d), expected="e" + f)
'''
    assert changes(source) == []


def test_like_changes_are_told_apart() -> None:
    first, second = mutants_of("m.py", "def f():\n    return g(~a, ~a)")
    assert (first.scope, first.nth, second.nth) == ("f", 0, 1)
    assert first.key != second.key


def test_every_operator_changes_some_rule_or_frame() -> None:
    named = {
        value for name, value in vars(operators).items() if name.isupper() and isinstance(value, str) and " " in value
    }
    assert {mutant.operator for module in modules() for mutant in of_module(module)} == named


def test_a_mutant_replaces_its_module_for_all_that_import_it_and_for_nobody_else() -> None:
    before = dict(sys.modules)
    loaded = load(FENCE, ast.parse(path_of(FENCE).read_text("utf-8") + "\nEPOCH_LINE_MISSING = 'changed'\n"))
    assert [rule.id for rule in loaded.rules()] >= ["FF-01", "FF-02"]
    assert {loaded.module(type(rule).__module__) for rule in loaded.rules()} <= set(loaded.modules.values())
    ff03 = next(module for name, module in loaded.modules.items() if "ff03" in name)
    assert ff03.EPOCH_LINE_MISSING == "changed"
    assert dict(sys.modules) == before
    assert sys.modules[FENCE].EPOCH_LINE_MISSING != "changed"


def test_a_module_that_fails_leaves_the_originals() -> None:
    before = dict(sys.modules)
    with pytest.raises(ZeroDivisionError):
        load(FENCE, ast.parse("1 / 0"))
    assert dict(sys.modules) == before


def test_frames_reach_the_rules() -> None:
    assert "epochaudit.replay.frames" in dependents(HEARTBEATS)
    assert dependents(SR_05) == ()


def test_names_select_modules() -> None:
    assert modules_of(["sr-05"]) == [SR_05] == [module for module in modules_of(["SR"]) if "sr05" in module]
    assert modules_of(["heartbeats"]) == [HEARTBEATS]
    shared = "epochaudit.rules.stop_replica.new_incarnation"
    assert {*modules_of(["stop_replica"])} == {*modules_of(["SR"]), shared}
    assert modules_of(["leader_epoch_fence"]) == [FENCE]


def test_a_seed_chooses_the_same_mutants() -> None:
    mutants = of_module(FENCE)
    assert sampled(mutants, 5, 1) == sampled(mutants, 5, 1) != sampled(mutants, 5, 2)
    assert sampled(mutants, None, 1) == mutants


def test_explanations_are_of_mutants_that_there_are() -> None:
    explained = explanations()
    mutants = [mutant for module in modules() for mutant in of_module(module)]
    assert stale(explained, mutants, set()) == []
    assert {one.module for one in explained.values()} <= {mutant.module for mutant in mutants}


def test_a_stale_explanation_is_reported() -> None:
    (mutant,) = mutants_of("m.py", "x = a + b")
    known = Explanation("m.py", "", mutant.operator, mutant.before, "why", mutant.after)
    former = Explanation("m.py", "", mutant.operator, "c + d", "why", "c - d")
    other = Explanation("n.py", "", mutant.operator, "c + d", "why", "c - d")
    by_key = {one.key: one for one in (known, former, other)}
    assert stale(by_key, [mutant], set()) == [(former, "there is no such mutant")]
    assert stale(by_key, [mutant], {mutant.key}) == [(former, "there is no such mutant"), (known, "a case kills it")]


def test_two_explanations_of_one_mutant_are_a_mistake(tmp_path) -> None:
    entry = '[[mutant]]\nmodule = "m.py"\nscope = ""\noperator = "sign changed"\nbefore = "a"\nreason = "r"\n'
    file = tmp_path / FILE.name
    file.write_text(entry * 2)
    with pytest.raises(ExplainedError, match="the same mutant"):
        explanations(file)


def test_cases_kill_mutants_of_a_rule(spark: SparkSession) -> None:
    by_operator = {one.operator: one for one in of_module(LS_04)}
    dropped, always = by_operator[operators.BRANCH_DROPPED], by_operator[operators.CONDITION_ALWAYS]
    broken = Mutant(**{**vars(always), "node": ast.parse("passed(no_such_name)", mode="eval").body})
    missing = Mutant(**{**vars(always), "node": ast.parse("passed(col('no_such_column'))", mode="eval").body})
    unchanged = Mutant(**{**vars(always), "node": at(always)})
    results = list(Bench(Cases(spark)).outcomes(LS_04, [dropped, broken, always, missing, unchanged]))
    assert [one.survives for one in results] == [False, False, False, False, True]
    assert [(one.example or "").startswith("LS-04 ") for one in results] == [True, False, True, False, False]
    assert "no_such_name" in (results[1].error or "")
    assert "no_such_column" in (results[3].error or "")


def test_cases_kill_mutants_of_a_frame(spark: SparkSession) -> None:
    mutants = [one for one in of_module(TIERED_FETCHES) if one.operator == operators.STEP_DROPPED]
    assert [
        (one.example or "").startswith("LS-04 ") for one in Bench(Cases(spark)).outcomes(TIERED_FETCHES, mutants)
    ] == [True]


def test_altered_cases_differ_from_the_cases_and_can_be_proposed() -> None:
    altered = altered_cases("TR-06", 40, 7)
    assert len({one.lines for one in altered}) == len(altered) == 40
    assert [one.lines for one in altered_cases("TR-06", 40, 7)] == [one.lines for one in altered]
    assert all(one.changes for one in altered)
    recorded = [events_without_cluster(case) for case in CASES if case.rule == "TR-06"]
    assert not any(events_without_cluster(one.case) in recorded for one in altered)
    verdict = Expected("TR-06", "pass", "s2", "", ("observed: it starts at 120",))
    ((heading, body),) = sections(altered[0].proposal([verdict]))
    read = case_of("TR-06", heading, body, EVENTS)
    assert read.expected == (verdict,)
    assert events_without_cluster(read) == events_without_cluster(altered[0].case)


def events_without_cluster(case: Case) -> list[tuple[object, ...]]:
    place = EVENTS.names.index("cluster")
    return [event[:place] + event[place + 1 :] for event in case.events]


def test_an_altered_case_shows_a_mutant_that_no_case_notices(spark: SparkSession) -> None:
    dropped = next(one for one in of_module(LS_04) if one.operator == operators.BRANCH_DROPPED)
    unchanged = Mutant(**{**vars(dropped), "node": at(dropped)})
    cases = AlteredCases(spark, 30, 7)
    results = list(Bench(cases).outcomes(LS_04, [dropped, unchanged]))
    assert [one.survives for one in results] == [False, True]
    assert [text.startswith("LS-04, to be checked:") for text in cases.proposals()] == [True]
    assert list(cases.proposals()) == []


def at(mutant: Mutant) -> ast.expr:
    """The node that the mutant replaces."""
    node: ast.AST = ast.parse(path_of(LS_04).read_text("utf-8"))
    for field, index in mutant.path:
        child = getattr(node, field)
        node = child if index is None else child[index]
    assert isinstance(node, ast.expr)
    return node


def test_rules_declare_what_is_mutated() -> None:
    """A mutated rule is a Rule of the original class hierarchy, so that the machinery takes it."""
    assert all(isinstance(rule, Rule) for rule in load(SR_05, ast.parse(path_of(SR_05).read_text("utf-8"))).rules())
