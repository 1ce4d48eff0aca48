"""What holds for all rules together."""

from __future__ import annotations

from graphlib import TopologicalSorter

from epochaudit.rules.catalogue import catalogue


def test_causes_are_rules_and_lead_to_a_root() -> None:
    causes = {rule.id: rule.caused_by for rule in catalogue()}
    assert {cause for named in causes.values() for cause in named} <= {*causes}
    assert any(causes.values())
    list(TopologicalSorter(causes).static_order())  # raises for a circle
