"""The catalogue of rules as a table and as JSON, and the page of one rule."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

from epochaudit.replay.frames import FRAMES
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
    """A rule's documentation, and the files of the rule, of its verdict and of its frame."""
    page = Page(width, colour=colour)
    page.say((f"{rule.id} {rule.name}", "bold"))
    page.say((f"{rule.kip}, severity {rule.severity}, for Kafka {rule.since} and later", ""))
    for part, file in source_files(rule).items():
        page.say((f"{part}: {file}", ""))
    page.blank()
    page.markdown(rule.page)
    return page.text()


def source_files(rule: Rule) -> dict[str, str]:
    """The files of the rule, of its verdict and of its frame, relative to the folder of their package.

    No verdict if the rule's own file has it, no frame if its name is unknown.
    """
    modules = {"Rule": type(rule).__module__, "Verdict": type(rule).verdict.__module__}
    if rule.frame in FRAMES:
        modules["Frame"] = FRAMES[rule.frame].of.__module__
    files = {part: _source_file(module) for part, module in modules.items()}
    return {part: file for part, file in files.items() if part == "Rule" or file != files["Rule"]}


def _source_file(module: str) -> str:
    is_package = hasattr(sys.modules[module], "__path__")
    return f"{module.replace('.', '/')}{'/__init__' if is_package else ''}.py"
