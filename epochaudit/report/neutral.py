"""Text from logs made harmless for a terminal.

Client ids, topic names and log lines are written by others: they may carry escape sequences that move the cursor,
recolour or retitle a terminal, and bidirectional controls that make a line read differently from what it is.
"""

from __future__ import annotations

import unicodedata
from typing import Final

# Cc control (ESC, CR, C1), Cf format (bidi, zero width), Cs surrogate, Zl and Zp line and paragraph separators
UNSAFE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
LONGEST: Final = 2_100  # characters of a text; evidence has 2,000 at most


def neutral(text: str) -> str:
    """The text with every unsafe character replaced by its escape (`\\x1b`, `\\u202e`); a tab becomes a space."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def short(text: str, most: int = LONGEST) -> str:
    """The text, or its beginning and its length: a client may choose an id of a megabyte."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _escaped(character: str) -> str:
    if character == "\t":
        return " "
    code = ord(character)
    is_noncharacter = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF  # XML 1.0 can't hold some of them
    if unicodedata.category(character) not in UNSAFE_CATEGORIES and not is_noncharacter:
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
