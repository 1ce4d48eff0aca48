"""The comparison itself: it has to notice what is missing, what is too much, and what is only not known yet."""

from __future__ import annotations

from typing import Any

import pytest

from tests.expected import differences, matches, not_required

CATALOGUE = ("SR-01", "SR-03")


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "any_rule": ["SR-01", "SR-02"],
        "verdict": ["violation"],
        "topic": "t",
        "partition": 0,
        **changes,
    }


def finding(**changes: Any) -> dict[str, Any]:
    nothing = {"node": 1, "leader_epoch": None, "client": None, "group": None, "correlation_id": 7}
    found = {"rule": "SR-01", "verdict": "violation", "topic": "t", "partition": 0, "observed": "", "evidence": []}
    return {**nothing, **found, **changes}


def truth(**changes: Any) -> dict[str, Any]:
    counts = {
        "lines": {"broker-1/server.log": 3},
        "requests_by_api": {"FETCH": 2},
        "partition_rows": {"FETCH": 4},
        "error_codes": {"FETCH": {"0": 4}},
    }
    return {"must_flag": [], "must_fence": [], "may_flag": [], "must_not_flag": [], "counts": counts, **changes}


def report(*findings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    capture = {
        "files": [{"path": "broker-1/server.log", "lines": 3}, {"path": "broker-1/other.log", "lines": 1}],
        "requests": {"FETCH": 2},
        "partition_rows": {"FETCH": 4, "METADATA": 9},
        "error_codes": {"FETCH": {"0": 4}, "METADATA": {"0": 9}},
        "metadata_records": {},
        **changes,
    }
    return {"capture": capture, "findings": list(findings)}


def test_what_is_expected_and_found_is_no_difference() -> None:
    assert differences(report(finding()), truth(must_flag=[entry()]), CATALOGUE) == []


def test_a_finding_that_is_missing_or_not_listed_is_a_difference() -> None:
    assert len(differences(report(), truth(must_flag=[entry()]), CATALOGUE)) == 1
    assert len(differences(report(finding()), truth(), CATALOGUE)) == 1
    assert differences(report(finding()), truth(may_flag=[entry(verdict=None)]), CATALOGUE) == []


def test_an_entry_is_required_only_if_one_of_its_rules_exists() -> None:
    unknown = entry(id="later", any_rule=["TR-01"])
    assert differences(report(), truth(must_flag=[unknown], must_fence=[unknown]), CATALOGUE) == []
    assert not_required(truth(must_flag=[unknown, entry()]), CATALOGUE) == ["later"]


def test_what_must_be_fenced_is_not_satisfied_by_a_violation() -> None:
    fence = {key: value for key, value in entry().items() if key != "verdict"}
    assert differences(report(finding(verdict="fenced")), truth(must_fence=[fence]), CATALOGUE) == []
    assert len(differences(report(), truth(must_fence=[fence]), CATALOGUE)) == 1


def test_what_must_not_be_flagged_outweighs_what_may_be() -> None:
    expected = truth(
        may_flag=[entry(partition=None)], must_not_flag=[{"any_rule": ["SR-01"], "partition": 0, "why": "legal"}]
    )
    assert differences(report(finding()), expected, CATALOGUE) == [
        "must_not_flag: SR-01 violation topic=t partition=0 node=1 correlation_id=7 (legal)"
    ]


@pytest.mark.parametrize(
    "changed", [{"rule": "SR-03"}, {"verdict": "exposed"}, {"topic": "u"}, {"partition": 1}, {"partition": None}]
)
def test_every_field_that_an_entry_names_has_to_agree(changed: dict[str, Any]) -> None:
    assert matches(entry(), finding())
    assert not matches(entry(), finding(**changed))


@pytest.mark.parametrize(
    "text", ['"correlationId":17,', "correlationId=17,", "with correlation id 17 sent", "correlation_id: 17"]
)
def test_an_evidence_line_may_carry_the_correlation_id(text: str) -> None:
    carried = finding(correlation_id=None, evidence=[{"text": None}, {"text": text}])
    assert matches(entry(correlation_id=17), carried)
    assert not matches(entry(correlation_id=1), carried)
    assert not matches(entry(correlation_id=17), {**carried, "correlation_id": 18})


@pytest.mark.parametrize(
    "changed",
    [
        {"files": []},
        {"requests": {"FETCH": 2, "PRODUCE": 1}},
        {"partition_rows": {}},
        {"error_codes": {"FETCH": {"0": 4, "6": 1}}},
        {"metadata_records": {"TOPIC_RECORD": 1}},
    ],
)
def test_counts_have_to_agree_exactly(changed: dict[str, Any]) -> None:
    assert len(differences(report(**changed), truth(), CATALOGUE)) == 1
