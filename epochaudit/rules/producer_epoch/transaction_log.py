"""Breaches that the loss of a part of the transaction log explains."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.data_plane.transaction_log import KEPT, LOSSY
from epochaudit.rules.rule import Branch, exposed, violation

MAY_HAVE_LOST = "an election for __transaction_state was unclean or from an ISR of one, and may have lost what the coordinator had written"
MAY_BE_UNCLEAN = "whether an election for __transaction_state was unclean is not in the evidence"


def breaches(condition: Column, observed: str, *because: str) -> tuple[Branch, ...]:
    """A violation if the coordinators' transaction log cannot have lost records, else exposed."""
    return (
        violation(condition & (col("transaction_log") == KEPT), observed=observed, because=because),
        exposed(condition & (col("transaction_log") == LOSSY), MAY_HAVE_LOST, observed=observed, because=because),
        exposed(condition, MAY_BE_UNCLEAN, observed=observed, because=because),
    )
