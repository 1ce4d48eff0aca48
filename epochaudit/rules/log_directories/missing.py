"""What a judgement about log directories lacks if a part of the metadata log is missing."""

from __future__ import annotations

from typing import Final, Unpack

from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, OwnSentences, unverifiable

REGISTRATION_UNKNOWN: Final = "the broker's registration is not in the evidence (metadata log)"


def log_incomplete(**sentences: Unpack[OwnSentences]) -> Branch:
    """A record in between may have changed a directory."""
    return unverifiable(~col("log_whole"), "a part of the metadata log is missing between its records", **sentences)
