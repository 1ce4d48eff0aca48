"""The rules report the bugs that Kafka has had, and not the releases in which they are mended."""

from __future__ import annotations

import pytest

from epochaudit.rules.rule import FENCED, PASS
from tests.history.histories import History, unreplayed
from tests.history.page import PAGE, page
from tests.rules.case_files import Case
from tests.rules.judging import BREACHES, CASES, HISTORIES, Verdicts, keys, missing_reasons

HISTORY_CASES = [case for history in HISTORIES for case in history.cases]


@pytest.mark.thorough
@pytest.mark.parametrize("case", HISTORY_CASES, ids=lambda case: case.cluster)
def test_history(case: Case, verdicts: Verdicts) -> None:
    listed = {e.rule for e in case.expected}
    given = [e for e in verdicts[case.cluster] if e.rule in listed]
    assert keys(given) == keys(case.expected)
    assert missing_reasons(case, given) == []
    assert [e for e in verdicts[case.cluster] if e.rule not in listed and e.verdict in BREACHES] == []


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.bug_id)
def test_a_bug_is_caught_where_it_is_and_not_where_it_is_mended(history: History) -> None:
    assert history.caught_by()
    assert len(history.of_kind("affected")) + len(history.of_kind("fixed")) == len(history.cases)
    for case in history.of_kind("fixed"):
        assert {e.verdict for e in case.expected} & {PASS, FENCED}
        assert not {e.rule for e in case.expected if e.verdict in BREACHES} & set(history.caught_by())


def test_no_two_cases_share_a_name() -> None:
    names = [case.cluster for case in (*CASES, *HISTORY_CASES)]
    assert len(names) == len(set(names))


def test_a_bug_is_either_replayed_or_not() -> None:
    assert not {history.bug_id for history in HISTORIES} & {bug.bug_id for bug in unreplayed()}


def test_the_page_is_what_the_histories_give() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.history`"
