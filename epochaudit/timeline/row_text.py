"""What a row of a timeline states beside its sentence, for every format: how old its epoch is, and whether it matters."""

from __future__ import annotations

from typing import Final

from epochaudit.timeline.event_text import refused, sentence
from epochaudit.timeline.merge import Row

EMPHASIZED: Final = frozenset({
    "UNCLEAN_ELECTION", "LOG_TRUNCATED", "LOG_EMPTIED", "TRUNCATION_BELOW_HIGH_WATERMARK", "HIGH_WATERMARK_LOWERED",
    "FETCHER_FENCED", "FETCHER_FAILED", "CLIENT_TRUNCATION_DETECTED", "CONSUMER_OUT_OF_RANGE", "EPOCH_CACHE_CONFLICT",
    "EPOCH_CACHE_DISORDER", "ALTER_PARTITION_FAILED", "ALTER_PARTITION_REJECTED", "ISR_UPDATE_SKIPPED", "FETCH_OFFSET_OUT_OF_RANGE",
})  # fmt: skip
OF_METADATA: Final = frozenset({"UPDATE_METADATA", "METADATA"})
OF_REPLICA: Final = frozenset({
    "LEADER_AND_ISR", "LEADER_AND_ISR_RECEIVED", "LEADER_AND_ISR_IGNORED", "STOP_REPLICA", "STOP_REPLICA_RECEIVED", "STOP_REPLICA_IGNORED",
    "FETCH", "LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "ALTER_PARTITION", "LEADER_STARTS", "FOLLOWER_STARTS", "LEADER_AND_ISR_SKIPPED",
})  # fmt: skip
"""Events whose leader epoch the host compares with its metadata's (OF_METADATA) or its replica's (OF_REPLICA).

A commit's epoch is that of the record before the offset, which no host compares."""


def is_emphasized(row: Row) -> bool:
    """A truncation, an unclean election, a refusal, or what leads to one."""
    return row.event["event_type"] in EMPHASIZED or (
        row.event["source"] == "request_log" and refused(row.event) is not None
    )


def stale_note(row: Row) -> str:
    """A note on a request whose leader epoch is not the one that its host had; empty for any other row.

    A replica may not have the leader epoch yet that its host's metadata have.
    """
    of_metadata = row.event["event_type"] in OF_METADATA
    had = row.leader_epoch if of_metadata else row.held_epoch
    stated = row.stated_epoch
    if not (of_metadata or row.event["event_type"] in OF_REPLICA) or None in (stated, had) or stated == had:
        return ""
    older = "OLDER" if (stated or 0) < (had or 0) else "NEWER"
    return f" [leader epoch {stated} is {older} than {had}, which {row.host} {'knew' if of_metadata else 'had'}]"


def statement(row: Row) -> str:
    """The row's sentence with its note."""
    return f"{sentence(row.event)}{stale_note(row)}"
