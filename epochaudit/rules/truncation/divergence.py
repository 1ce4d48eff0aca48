"""Rules about the divergence that a leader answers a Fetch with: their sentences, and branches for an epoch that is not certain."""

from __future__ import annotations

from typing import Final

from pyspark.sql.functions import col

from epochaudit.replay.data_plane.epoch_queries import states_another_epoch
from epochaudit.rules.leader_epoch_fence import DELETED, HAD_DELETED
from epochaudit.rules.reasons import EPOCH_CHANGED_JUST_BEFORE, LED_EPOCH_UNKNOWN
from epochaudit.rules.rule import Branch, unverifiable

LED: Final = (
    "broker {node} led {topic}-{partition} in leader epoch {judged_epoch}, which starts at offset {judged_start}"
)
ASKED: Final = (
    "{client_id} fetched at offset {fetch_offset} and stated leader epoch {asked_epoch} for the record before it"
)
OUT_OF_RANGE: Final = "error {OFFSET_OUT_OF_RANGE}, as epoch {asked_epoch} is above {judged_epoch}, the leader's own"


def led_epoch_uncertain(expected: str) -> tuple[Branch, ...]:
    """It is not certain in which leader epoch the broker answered. Needs: frame `epoch_queries`."""
    changed = (col("held_just_before") < col("held_min")) & states_another_epoch()
    return (
        unverifiable(col("was_deleted"), DELETED, expected=expected, because=(HAD_DELETED, ASKED)),
        unverifiable(col("judged_epoch").isNull(), LED_EPOCH_UNKNOWN, expected=expected, because=(ASKED,)),
        unverifiable(changed, EPOCH_CHANGED_JUST_BEFORE, expected=expected, because=(ASKED,)),
    )
