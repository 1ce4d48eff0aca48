"""Breaches that the loss of a part of a coordinators' log explains."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.data_plane.coordinator_logs import KEPT, LOSSY
from epochaudit.rules.rule import Branch, OwnSentences, exposed, violation

LOSS: Final = {
    "an election that may have lost a part of the coordinators' log": "lossy_election_ref",
    "the ISR of one broker before that election": "lossy_isr_ref",
}
"""Evidence of a rule with `breaches`."""


def breaches(
    condition: Column, topic: str, observed: str, *because: str, expected: str | None = None
) -> tuple[Branch, ...]:
    """A violation if `topic`, the log of the coordinators, cannot have lost records, else exposed.

    expected: replaces the rule's own sentence. Needs: the columns of `with_coordinator_log`; the rule's evidence has LOSS.
    """
    lost = (
        f"an election for {topic} was unclean or from an ISR of one, and may have lost what the coordinator had written"
    )
    unknown = f"whether an election for {topic} was unclean is not in the evidence"
    own: OwnSentences = {"observed": observed, "because": because}
    if expected is not None:
        own["expected"] = expected
    return (
        violation(condition & (col("coordinator_log") == KEPT), **own),
        exposed(condition & (col("coordinator_log") == LOSSY), lost, **own),
        exposed(condition, unknown, **own),
    )
