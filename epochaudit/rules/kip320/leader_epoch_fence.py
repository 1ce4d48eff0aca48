"""What the rules about the fence of KIP-320 have in common, whichever API asks: Fetch, ListOffsets, OffsetForLeaderEpoch.

A broker compares the leader epoch of the request with the one it holds: an older one must be answered 74, a newer one 75.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, Rule, fenced, first_of, passed, unverifiable, violation

HOLE: Final = "the broker's log does not tell of a later leader epoch that others tell of"
FENCED_LEADER_EPOCH: Final = 74
UNKNOWN_LEADER_EPOCH: Final = 75


def _refused_the_wrong_way() -> tuple[Column, Column]:
    """74 for a newer epoch, and 75 for an older one: each belongs to the rule about the epoch, not about the code."""
    epoch, code = col("current_leader_epoch"), col("error_code")
    newer = (code == FENCED_LEADER_EPOCH) & (epoch > col("held_max"))
    older = (code == UNKNOWN_LEADER_EPOCH) & (epoch < col("held_min"))
    return newer, older


def may_be_older() -> Column:
    """Stated epochs that the rules about older ones judge: served, or refused as old, or refused though old as new."""
    newer_refused_as_old, older_refused_as_new = _refused_the_wrong_way()
    refused = col("error_code").isin(0, FENCED_LEADER_EPOCH) | older_refused_as_new
    return (col("current_leader_epoch") >= 0) & refused & ~F.coalesce(newer_refused_as_old, F.lit(False))


def may_be_newer() -> Column:
    """Stated epochs that the rules about newer ones judge."""
    newer_refused_as_old, older_refused_as_new = _refused_the_wrong_way()
    refused = col("error_code").isin(0, UNKNOWN_LEADER_EPOCH) | newer_refused_as_old
    return (col("current_leader_epoch") >= 0) & refused & ~F.coalesce(older_refused_as_new, F.lit(False))


def older_than_held(*, hinted: Column | None = None, lost: Branch | None = None) -> tuple[Branch, ...]:
    """The arms for an older epoch. `hinted`: a newer epoch that the answer names; `lost`: versions that lose the epoch."""
    epoch, code = col("current_leader_epoch"), col("error_code")
    older = epoch < col("held_min")
    just_before = older & (
        (code == 0) & (epoch >= col("held_just_before"))
        | (code == UNKNOWN_LEADER_EPOCH) & (epoch > col("held_just_before"))
    )
    newer_known = epoch < col("held_max")
    return (
        fenced((code == FENCED_LEADER_EPOCH) & (newer_known if hinted is None else newer_known | (epoch < hinted))),
        unverifiable(~col("held_complete"), "the leader epoch that the broker held is not recorded"),
        unverifiable(just_before, "the broker's epoch changed just before, and request lines may be written late"),
        unverifiable(col("held_outdated") & (code == FENCED_LEADER_EPOCH), HOLE),
        violation(code == FENCED_LEADER_EPOCH),
        violation(older & (code == UNKNOWN_LEADER_EPOCH)),
        *([] if lost is None else [lost]),
        violation(older & (code == 0)),
    )


def newer_than_held(*, lost: Branch | None = None) -> tuple[Branch, ...]:
    """The arms for a newer epoch; `lost` as in `older_than_held`."""
    epoch, code = col("current_leader_epoch"), col("error_code")
    newer = epoch > col("held_max")
    return (
        fenced((code == UNKNOWN_LEADER_EPOCH) & (epoch > col("held_min"))),
        unverifiable(~col("held_complete"), "the leader epoch that the broker held is not recorded"),
        unverifiable(col("held_outdated") & newer & code.isin(0, FENCED_LEADER_EPOCH), HOLE),
        violation(newer & (code == FENCED_LEADER_EPOCH)),
        *([] if lost is None else [lost]),
        violation(newer & (code == 0)),
    )


class _QueryRule(Rule):
    """A rule about the fence of ListOffsets or OffsetForLeaderEpoch."""

    api: str
    evidence = {
        "the request and its answer": "query_ref",
        "the leader epoch the broker held": "held_ref",
    }
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = (
        "broker {node} held leader epoch {held_min} to {held_max} of {topic}-{partition} while it worked on the request",
        "{client_id} asked in leader epoch {current_leader_epoch}, and was answered {error_code}",
    )


class OlderEpochRule(_QueryRule):
    """A query in an older leader epoch."""

    expected = "error 74 (FENCED_LEADER_EPOCH) for leader epoch {current_leader_epoch}, as the broker held {held_max}"

    def applies(self) -> Column:
        return (col("event_type") == self.api) & may_be_older()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(*older_than_held(), otherwise=passed())


class NewerEpochRule(_QueryRule):
    """A query in a newer leader epoch."""

    expected = "error 75 (UNKNOWN_LEADER_EPOCH) for leader epoch {current_leader_epoch}, as the broker held {held_max}"

    def applies(self) -> Column:
        return (col("event_type") == self.api) & may_be_newer()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(*newer_than_held(), otherwise=passed())
