"""What a judgement about epochs of the quorum lacks if they may have begun again."""

from __future__ import annotations

from typing import Unpack

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, OwnSentences, unverifiable


def maybe_formatted_anew(condition: Column, **sentences: Unpack[OwnSentences]) -> Branch:
    """Both facts may be of one epoch number in two quorums."""
    return unverifiable(
        condition & col("begins_again"),
        "the quorum may have been formatted anew, and its epochs started anew",
        **sentences,
    )
