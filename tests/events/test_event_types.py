"""The types of events that the audit reads are ones that decoders write."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import epochaudit
from epochaudit.events import event_types
from epochaudit.sources.metadata_log.schema import record_types
from epochaudit.sources.request_log.json import APIS

PACKAGE = Path(epochaudit.__file__).parent
NAMED = {name: value for name, value in vars(event_types).items() if name.isupper()}
READERS = ("replay", "rules", "losses", "inventory", "collecting")


def test_each_is_an_api_a_record_or_described() -> None:
    described = set(re.findall(r"`([A-Z_]+)`", Path("docs/events.md").read_text()))
    records = {known.name for kind in ("records", "control") for known in record_types(kind).values()}
    assert set(NAMED.values()) - described - {*APIS} - records == set()
    assert all(name == value for name, value in NAMED.items())


def test_frames_and_rules_name_them_by_their_constants() -> None:
    quoted = {
        (str(path.relative_to(PACKAGE)), node.value)
        for reader in READERS
        for path in (PACKAGE / reader).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in NAMED
    }
    assert quoted == set()
