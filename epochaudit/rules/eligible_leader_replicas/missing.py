"""Branches of all rules about eligible leader replicas: what the metadata log lacks."""

from __future__ import annotations

from typing import Final, Unpack

from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, OwnSentences, unverifiable

STATES_UNKNOWN: Final = "the partition's earlier states are not in the evidence"


def level_unknown(**sentences: Unpack[OwnSentences]) -> Branch:
    """The log's beginning is missing, which states whether controllers keep the lists."""
    return unverifiable(
        col("elr_level").isNull(),
        "the level of eligible.leader.replicas.version is not in the evidence (metadata log)",
        **sentences,
    )
