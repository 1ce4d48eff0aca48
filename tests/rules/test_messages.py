"""Findings' sentences print values in place of their placeholders."""

from __future__ import annotations

import re

import pytest

from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.messages import BranchMessages, MessageTemplates, filled, has_role, placeholders, templates
from epochaudit.rules.rule import VIOLATION

BARE_CODE = re.compile(r"\b(?:error|answered) -?\d+\b(?! [A-Z_]{4})")


@pytest.mark.parametrize(
    ("template", "value", "printed"),
    [
        ("answered {error_code}", "74", "answered 74 FENCED_LEADER_EPOCH"),
        ("answered {request_error_code}", "0", "answered 0 NONE"),
        ("answered {code}", "9999", "answered 9999"),
        ("answered {codes}", "[6, 74]", "answered [6 NOT_LEADER_OR_FOLLOWER, 74 FENCED_LEADER_EPOCH]"),
        ("answered {error_code}", None, "answered unknown"),
        ("offset {fetch_offset}", "74", "offset 74"),
    ],
)
def test_a_column_of_error_codes_prints_their_names(template: str, value: str | None, printed: str) -> None:
    (column,) = placeholders(template)
    assert filled(template, {column: value}) == printed


def test_a_code_is_named_like_a_column() -> None:
    template = "error {FENCED_LEADER_EPOCH} for leader epoch {leader_epoch}"
    assert placeholders(template) == ["leader_epoch"]
    assert filled(template, {"leader_epoch": "3"}) == "error 74 FENCED_LEADER_EPOCH for leader epoch 3"


def test_a_line_with_several_roles_is_listed_once_where_its_first_role_stands() -> None:
    def place(byte_offset: int) -> dict[str, object]:
        return {
            "node": 1,
            "file": "server.log",
            "split": 0,
            "byte_offset": byte_offset,
            "line_in_split": 2,
            "time_ms": 5,
        }

    evidence = (
        ("the answer", "own_ref"),
        ("the start", "start_ref"),
        ("the first one", "first_ref"),
        ("a lost one", "lost_ref"),
    )
    templates = MessageTemplates((BranchMessages(VIOLATION, None, "", "", ()),), "high", evidence)
    places = {"own_ref": place(7), "start_ref": place(3), "first_ref": place(7), "lost_ref": None}
    listed = templates.render({"branch": 0, "severity": None, "values": {}, "places": places})["evidence"]
    assert listed == [
        {"role": "the answer; the first one", "place": place(7)},
        {"role": "the start", "place": place(3)},
    ]


def test_roles_of_a_line_are_told_apart_again() -> None:
    assert has_role("the answer; the first one", "the answer")
    assert has_role("the answer; the first one", "the first one")
    assert not has_role("the answer; the first one", "the first")


def test_no_role_reads_like_two() -> None:
    assert [role for rule in catalogue() for role in rule.evidence if not has_role(role, role)] == []


@pytest.mark.usefixtures("spark")
def test_no_sentence_names_a_code_by_its_number_alone() -> None:
    sentences = [text for rule in catalogue() for text in templates(rule, rule.verdict())]
    assert len(sentences) > 500
    assert [text for text in sentences if BARE_CODE.search(text)] == []
