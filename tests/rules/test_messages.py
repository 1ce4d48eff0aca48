"""Findings' sentences print values in place of their placeholders."""

from __future__ import annotations

import re

import pytest

from epochaudit.rules.catalogue import catalogue
from epochaudit.rules.messages import filled, placeholders, templates

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


@pytest.mark.usefixtures("spark")
def test_no_sentence_names_a_code_by_its_number_alone() -> None:
    sentences = [text for rule in catalogue() for text in templates(rule, rule.verdict())]
    assert len(sentences) > 500
    assert [text for text in sentences if BARE_CODE.search(text)] == []
