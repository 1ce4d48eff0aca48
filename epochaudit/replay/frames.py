"""The frames by name, as rules refer to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.replay.broker_records import broker_records
from epochaudit.replay.broker_requests import REGISTRATION, UNDER_EPOCH, broker_requests
from epochaudit.replay.client_epochs import client_epochs, states_epochs
from epochaudit.replay.cluster_history import BROKER_RECORDS
from epochaudit.replay.commits import COMMITS, TOLD, commits
from epochaudit.replay.control import REQUESTS, SKIPPED, STARTS, control
from epochaudit.replay.epoch_caches import ENTRIES, epoch_caches
from epochaudit.replay.epoch_queries import asks, epoch_queries
from epochaudit.replay.fetch_sessions import fetch_sessions
from epochaudit.replay.fetches import fetches
from epochaudit.replay.follower_answers import binds, follower_answers
from epochaudit.replay.follower_epochs import follower_epochs, in_an_epoch
from epochaudit.replay.high_watermarks import high_watermarks
from epochaudit.replay.isr_changes import isr_changes
from epochaudit.replay.isr_expansions import isr_expansions
from epochaudit.replay.leadership import leadership
from epochaudit.replay.lineage import lineage
from epochaudit.replay.log_order import log_order
from epochaudit.replay.metadata import metadata
from epochaudit.replay.metadata_answers import METADATA, metadata_answers
from epochaudit.replay.metadata_log import SOURCE as METADATA_LOG
from epochaudit.replay.metadata_log import log_copies
from epochaudit.replay.positions import positions
from epochaudit.replay.refusals import refusals, refused
from epochaudit.replay.strays import FULL, strays
from epochaudit.replay.topics import topics
from epochaudit.replay.truncations import TRUNCATION_LINES, truncations


@dataclass(frozen=True)
class Frame:
    """`of` makes the frame of an events table; `has_rows` holds for the events without one of which it has no rows."""

    of: Callable[[DataFrame], DataFrame]
    has_rows: Callable[[], Column]


def _types(*event_types: str) -> Callable[[], Column]:
    return lambda: F.col("event_type").isin(*event_types)


def _records() -> Column:
    return F.col("source") == METADATA_LOG


def _stray() -> Column:
    full = (F.col("event_type") == "LEADER_AND_ISR") & (F.col("request_type") == FULL)
    return (F.col("event_type") == "STRAY_PARTITION") | full


def _any() -> Column:
    return F.col("event_type").isNotNull()


FRAMES: Final[Mapping[str, Frame]] = {
    "broker_records": Frame(broker_records, _types(*BROKER_RECORDS)),
    "broker_requests": Frame(broker_requests, _types(REGISTRATION, *UNDER_EPOCH)),
    "client_epochs": Frame(client_epochs, states_epochs),
    "commits": Frame(commits, _types(*COMMITS, TOLD)),
    "control": Frame(control, _types(*REQUESTS, *STARTS, SKIPPED)),
    "epoch_caches": Frame(epoch_caches, _types(*ENTRIES)),
    "epoch_queries": Frame(epoch_queries, asks),
    "fetch_sessions": Frame(fetch_sessions, _types("FETCH")),
    "fetches": Frame(fetches, _types("FETCH")),
    "follower_answers": Frame(follower_answers, binds),
    "follower_epochs": Frame(follower_epochs, in_an_epoch),
    "high_watermarks": Frame(high_watermarks, _types("FETCH")),
    "isr_changes": Frame(isr_changes, _types("ALTER_PARTITION")),
    "isr_expansions": Frame(isr_expansions, _types("ISR_UPDATED", "ISR_EXPANDING")),
    "leadership": Frame(leadership, _any),
    "lineage": Frame(lineage, _any),
    "log_copies": Frame(log_copies, _records),
    "log_order": Frame(log_order, _records),
    "metadata": Frame(metadata, _any),
    "metadata_answers": Frame(metadata_answers, _types(METADATA)),
    "positions": Frame(positions, _types("FETCH")),
    "refusals": Frame(refusals, refused),
    "strays": Frame(strays, _stray),
    "topics": Frame(topics, _any),
    "truncations": Frame(truncations, _types(*TRUNCATION_LINES)),
}
