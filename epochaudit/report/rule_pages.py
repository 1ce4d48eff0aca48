"""The catalogue of rules, and a rule's page, for readers and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable

from epochaudit.report.page import Page
from epochaudit.rules.rule import Rule


def table(rules: Iterable[Rule], width: int, *, colour: bool) -> str:
    """The rules, one line each."""
    page = Page(width, colour=colour)
    header = ("rule", "KIP", "severity", "since", "title")
    page.table(header, [(rule.id, rule.kip, rule.severity, rule.since, rule.title) for rule in rules])
    page.blank()
    page.say(
        ("epochaudit explain RULE", "bold"),
        (" shows a rule's page; --select and --ignore take a rule, a KIP or a family.", ""),
    )
    return page.text()


def listing(rules: Iterable[Rule]) -> str:
    """The rules as a JSON array, ending in a newline."""
    return json.dumps([_entry(rule) for rule in rules], indent=2) + "\n"


def _entry(rule: Rule) -> dict[str, str]:
    return {
        "rule": rule.id,
        "name": rule.name,
        "title": rule.title,
        "kip": rule.kip,
        "family": rule.family,
        "severity": rule.severity,
        "since": rule.since,
    }


def page(rule: Rule, width: int, *, colour: bool) -> str:
    """What a rule checks, why it matters, what evidence it needs."""
    page = Page(width, colour=colour)
    page.say((f"{rule.id} {rule.name}", "bold"))
    page.say((f"{rule.kip}, severity {rule.severity}, for Kafka {rule.since} and later", ""))
    page.blank()
    page.markdown(rule.page)
    return page.text()
