"""Joins the entries of a request and its response by partition."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Asked = TypeVar("Asked")
Answered = TypeVar("Answered")


def joined(
    asked: Iterable[tuple[Key, Asked]], answered: Iterable[tuple[Key, Answered]]
) -> Iterator[tuple[Key, Asked | None, Answered | None]]:
    """(key, asked, answered) in request order, then keys that only the response has; None for a missing side."""
    answers = dict(answered)
    seen = set()
    for key, question in asked:
        seen.add(key)
        yield key, question, answers.get(key)
    for key, answer in answers.items():
        if key not in seen:
            yield key, None, answer
