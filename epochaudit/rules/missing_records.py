"""What the judgements of several families lack if a part of the metadata log is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, OwnSentences, unverifiable

if TYPE_CHECKING:
    from pyspark.sql import Column


def log_incomplete(subjects: Column | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """A record in between may have changed what is judged. subjects: for which this matters; None: for all. Needs: log_whole."""
    incomplete = ~col("log_whole")
    return unverifiable(
        incomplete if subjects is None else subjects & incomplete,
        "a part of the metadata log is missing between its records",
        **sentences,
    )
