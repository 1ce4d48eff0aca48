"""The comparison of reports from other environments notices each difference."""

from __future__ import annotations

from prove.environments import ENVIRONMENTS, REFERENCE, differences

DOCUMENT = '{"findings": [{"rule": "TR-06", "line": 12}], "judged": 3}'


def test_equal_documents_have_no_differences() -> None:
    assert differences(DOCUMENT, DOCUMENT) == []


def test_a_changed_value_is_named_by_its_path() -> None:
    assert differences(DOCUMENT, DOCUMENT.replace("12", "13")) == ["findings[0].line: 12 / 13"]


def test_a_list_of_another_length_and_a_missing_field_are_differences() -> None:
    assert differences(DOCUMENT, '{"findings": [], "judged": 3}') == ['findings: [{"rule": "TR-06", "line": 12}] / []']
    assert differences(DOCUMENT, DOCUMENT.replace(', "judged": 3', "")) == ["judged: 3 / null"]


def test_another_layout_of_the_same_values_is_a_difference() -> None:
    assert differences(DOCUMENT, DOCUMENT.replace(": ", ":")) == ["the same values, printed in another way"]


def test_each_environment_has_a_name_of_its_own() -> None:
    assert len({REFERENCE.name, *(one.name for one in ENVIRONMENTS)}) == len(ENVIRONMENTS) + 1
