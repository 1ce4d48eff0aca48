"""What to do about findings, in the forms that reports print."""

from __future__ import annotations

import pytest

from epochaudit.report.advice import SHOWN, beginning, paragraphs


@pytest.mark.parametrize(
    ("what_to_do", "shown"),
    [
        ("", ""),
        ("Restart `broker 2`.", "Restart broker 2."),
        ("Upgrade to 2.5.0.\n3.9 has it. `timeline` shows it.", "Upgrade to 2.5.0. 3.9 has it. timeline shows it."),
        (f"Wait. {'X' * SHOWN}. Then go on.", "Wait."),
        (f"{'X' * 2 * SHOWN}. Then go on.", f"{'X' * 2 * SHOWN}."),
    ],
)
def test_a_beginning_has_whole_sentences_without_markdown(what_to_do: str, shown: str) -> None:
    assert beginning(what_to_do) == shown


def test_paragraphs_are_text_and_code_in_turn() -> None:
    assert paragraphs("Run `a b` and `c`.\nStop.") == [["Run ", "a b", " and ", "c", "."], ["Stop."]]
    assert paragraphs("") == []
