"""What to do about a rule's findings, as its page says in Markdown, in the forms in which reports print it."""

from __future__ import annotations

import re
from typing import Final

SHOWN: Final = 160  # characters of a beginning, if its first sentence is not longer
SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?]) (?=[A-Z0-9`])")


def beginning(what_to_do: str) -> str:
    """The advice's first sentence, and those after it that fit, without Markdown's backticks."""
    shown, *others = (one.replace("`", "") for one in SENTENCE_ENDS.split(" ".join(what_to_do.split())))
    for sentence in others:
        if len(shown) + 1 + len(sentence) > SHOWN:
            break
        shown = f"{shown} {sentence}"
    return shown


def paragraphs(what_to_do: str) -> list[list[str]]:
    """The advice's paragraphs, each as text and code in turn: elements with odd indexes are what stands between backticks."""
    return [paragraph.split("`") for paragraph in what_to_do.splitlines()]
