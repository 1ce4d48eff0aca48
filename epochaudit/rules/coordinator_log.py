"""Breaches that the loss of a part of a coordinators' log explains."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.data_plane.coordinator_logs import KEPT, LOSSY
from epochaudit.rules.rule import Branch, exposed, violation


def breaches(condition: Column, topic: str, observed: str, *because: str) -> tuple[Branch, ...]:
    """A violation if the topic, the coordinators' log, cannot have lost records, else exposed."""
    lost = (
        f"an election for {topic} was unclean or from an ISR of one, and may have lost what the coordinator had written"
    )
    unknown = f"whether an election for {topic} was unclean is not in the evidence"
    return (
        violation(condition & (col("coordinator_log") == KEPT), observed=observed, because=because),
        exposed(condition & (col("coordinator_log") == LOSSY), lost, observed=observed, because=because),
        exposed(condition, unknown, observed=observed, because=because),
    )
