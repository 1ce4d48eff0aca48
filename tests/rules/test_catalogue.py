"""What holds for all rules together."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.rule import Rule

OWN = tuple(rule for rule in catalogue() if type(rule).__module__.startswith("epochaudit."))
SECTIONS = [
    "What it checks",
    "Why it matters",
    "Evidence needed",
    "What is allowed",
    "What to do",
    "Example",
    "References",
]


def test_causes_are_rules_and_lead_to_a_root() -> None:
    causes = {rule.id: rule.caused_by for rule in catalogue()}
    assert {cause for named in causes.values() for cause in named} <= {*causes}
    assert any(causes.values())
    list(TopologicalSorter(causes).static_order())  # raises for a circle


def test_no_rule_imports_another() -> None:
    modules = {type(rule).__module__ for rule in OWN}
    imported = {
        (module, node.module)
        for module in modules
        for node in ast.walk(ast.parse(Path(module.replace(".", "/") + ".py").read_text()))
        if isinstance(node, ast.ImportFrom) and node.module in modules
    }
    assert imported == set()


def test_every_page_has_all_sections_in_order() -> None:
    for one in OWN:
        assert re.findall(r"^## (.*)$", one.page, re.MULTILINE) == SECTIONS, one.id
        assert all(one.section(title) for title in SECTIONS), one.id


def test_what_to_do_is_different_for_each_rule() -> None:
    advice = {one.what_to_do: one.id for one in OWN}
    assert len(advice) == len(OWN)
    assert all(advice)


def test_pages_name_rules_that_exist() -> None:
    named = {name for one in OWN for name in re.findall(r"\b[A-Z]{2}-\d\d\b", one.page)}
    assert named <= {one.id for one in OWN}


def test_a_section_is_what_stands_below_its_title() -> None:
    class Documented(Rule):
        """A title.

        ## What to do
        Stop it, and
        look at `this file`.

        Then start it.

        ## References
        KIP-1
        """

    page = Documented()
    assert page.what_to_do == "Stop it, and look at `this file`.\nThen start it."
    assert page.section("References") == "KIP-1"
    assert page.section("What") == ""


def test_a_page_without_the_section_has_nothing_to_do() -> None:
    class Undocumented(Rule):
        """A title, and no more."""

    class Bare(Rule):
        __doc__ = None

    assert Undocumented().what_to_do == Bare().what_to_do == ""
