"""Rules about what a leader epoch lacks: their first branches, which decide whether it is known where the epoch starts."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import Branch, passed, unverifiable

STARTED: Final = "broker {node} started leader epoch {leader_epoch} at offset {start_offset}"
LOG_OF_LEADER: Final = (
    "broker {recovered_by} had recovered its log after an unclean stop, and kept what its disk held",
    "broker {created_by} had had a log of {topic}-{partition}, found none on its disks, and created an empty one",
)
ELECTION: Final = (
    "the election was {known_election}; before it: {candidates_before}",
    "just before the election the ISR was {isr_without_leader}; only the metadata log shows whether broker {node} was an eligible leader"
    " replica, or joined the ISR with the election",
    "broker {node} had led in leader epoch {led_just_before}, too: a leader is a member of the ISR",
)
ASKED: Final = (
    "an administrator ({asked_by}) asked for an unclean election of {topic}-{partition}",
    "controller {asked_of} began an unclean election of {topic}-{partition} that an administrator had asked for",
)
MAYBE_ALONE: Final = "the leader may have been the whole ISR, and stopped before its records were on its disk"


def from_isr() -> Column:
    """The leader was a member of the ISR just before; one that led on may have been alone in it, if it recovered its log since.

    Needs: frame `lineage`.
    """
    return (col("election") == "clean") | (col("led_just_before").isNotNull() & col("recovered_by").isNull())


def without_start(not_known: str, nothing_lost: str, because: tuple[str, ...]) -> tuple[Branch, ...]:
    """Branches for an epoch of an ambiguous topic, one that its leader never began, and one whose start is not recorded.

    not_known, nothing_lost: what the rule expects of an epoch whose start is not known, and of one without records. because: of
    an epoch whose start is not recorded.
    Needs: frame `lineage`.
    """
    return (
        unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC, expected=not_known, because=(STARTED,)),
        passed(
            col("never_begun"),
            expected=nothing_lost,
            observed="broker {leader} skipped the leader epoch: it went from an earlier one straight to a later one",
            because=(),
        ),
        unverifiable(
            col("start_offset").isNull(),
            "no 'starts at leader epoch' line of the leader",
            expected=not_known,
            observed="where broker {leader} began the leader epoch is not recorded",
            because=because,
        ),
    )
