"""The frames by the names that rules use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.kafka.field_values import FULL
from epochaudit.replay.control_plane.broker_records import broker_records
from epochaudit.replay.control_plane.broker_requests import REGISTRATION, UNDER_EPOCH, broker_requests
from epochaudit.replay.control_plane.control import REQUESTS, SKIPPED, control
from epochaudit.replay.control_plane.eligible_replicas import eligible_replicas, names_eligible
from epochaudit.replay.control_plane.heartbeats import HEARTBEAT, heartbeats
from epochaudit.replay.control_plane.isr_changes import isr_changes
from epochaudit.replay.control_plane.isr_expansions import JOINS, isr_expansions
from epochaudit.replay.control_plane.leadership import leadership
from epochaudit.replay.control_plane.log_copies import log_copies
from epochaudit.replay.control_plane.log_directories import log_directories, names_directories
from epochaudit.replay.control_plane.log_order import log_order
from epochaudit.replay.control_plane.metadata import metadata
from epochaudit.replay.control_plane.offline_directories import offline_directories, takes_directories_offline
from epochaudit.replay.control_plane.quorum_answers import quorum_answers
from epochaudit.replay.control_plane.quorum_votes import quorum_votes
from epochaudit.replay.control_plane.raft_epochs import raft_epochs, states_raft_epoch
from epochaudit.replay.control_plane.strays import strays
from epochaudit.replay.control_plane.topics import topics
from epochaudit.replay.data_plane.client_epochs import client_epochs, states_epochs
from epochaudit.replay.data_plane.commits import COMMITS, OFFSET_FETCH, commits
from epochaudit.replay.data_plane.epoch_caches import ENTRIES, epoch_caches
from epochaudit.replay.data_plane.epoch_queries import asks, epoch_queries
from epochaudit.replay.data_plane.fetch_sessions import fetch_sessions
from epochaudit.replay.data_plane.fetches import fetches
from epochaudit.replay.data_plane.follower_answers import binds, follower_answers
from epochaudit.replay.data_plane.follower_epochs import follower_epochs, in_an_epoch
from epochaudit.replay.data_plane.group_generations import group_generations
from epochaudit.replay.data_plane.high_watermarks import high_watermarks
from epochaudit.replay.data_plane.leader_hints import is_refused_with_hint, leader_hints
from epochaudit.replay.data_plane.lineage import lineage
from epochaudit.replay.data_plane.log_runs import log_runs
from epochaudit.replay.data_plane.metadata_answers import METADATA, metadata_answers
from epochaudit.replay.data_plane.positions import positions
from epochaudit.replay.data_plane.producer_ids import (
    ALLOCATE_PRODUCER_IDS,
    INIT_PRODUCER_ID,
    PRODUCER_IDS_RECORD,
    producer_ids,
)
from epochaudit.replay.data_plane.producer_requests import END_TXN, OF_TRANSACTIONS, producer_requests
from epochaudit.replay.data_plane.record_deletions import DELETE_RECORDS, record_deletions
from epochaudit.replay.data_plane.refusals import refusals, refused
from epochaudit.replay.data_plane.replica_logs import replica_logs
from epochaudit.replay.data_plane.tiered_fetches import is_sent_away, tiered_fetches
from epochaudit.replay.data_plane.transaction_outcomes import WRITE_TXN_MARKERS, transaction_outcomes
from epochaudit.replay.data_plane.truncations import TRUNCATION_LINES, truncations
from epochaudit.replay.state.cluster_history import BROKER_RECORDS
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.replay.state.metadata_log import SOURCE as METADATA_LOG
from epochaudit.replay.state.quorum import VOTE, is_quorum_request
from epochaudit.sources.data_log.batch_runs import LOG_BATCHES


@dataclass(frozen=True)
class Frame:
    """A frame and the condition for planning it.

    of: from the events table to the frame. has_rows: a condition on events; the frame is empty if no event meets it.
    """

    of: Callable[[DataFrame], DataFrame]
    has_rows: Callable[[], Column]


def _has_types(*event_types: str) -> Callable[[], Column]:
    return lambda: F.col("event_type").isin(*event_types)


def _is_metadata_record() -> Column:
    return F.col("source") == METADATA_LOG


def _may_find_strays() -> Column:
    full = (F.col("event_type") == "LEADER_AND_ISR") & (F.col("request_type") == FULL)
    return (F.col("event_type") == "STRAY_PARTITION") | full


def _is_event() -> Column:
    return F.col("event_type").isNotNull()


FRAMES: Final[Mapping[str, Frame]] = {
    "broker_records": Frame(broker_records, _has_types(*BROKER_RECORDS)),
    "broker_requests": Frame(broker_requests, _has_types(REGISTRATION, *UNDER_EPOCH)),
    "client_epochs": Frame(client_epochs, states_epochs),
    "commits": Frame(commits, _has_types(*COMMITS, OFFSET_FETCH)),
    "control": Frame(control, _has_types(*REQUESTS, *STARTS, SKIPPED)),
    "eligible_replicas": Frame(eligible_replicas, names_eligible),
    "epoch_caches": Frame(epoch_caches, _has_types(*ENTRIES)),
    "epoch_queries": Frame(epoch_queries, asks),
    "fetch_sessions": Frame(fetch_sessions, _has_types("FETCH")),
    "fetches": Frame(fetches, _has_types("FETCH")),
    "follower_answers": Frame(follower_answers, binds),
    "follower_epochs": Frame(follower_epochs, in_an_epoch),
    "group_generations": Frame(group_generations, _has_types(*COMMITS)),
    "heartbeats": Frame(heartbeats, _has_types(HEARTBEAT)),
    "high_watermarks": Frame(high_watermarks, _has_types("FETCH")),
    "isr_changes": Frame(isr_changes, _has_types("ALTER_PARTITION")),
    "isr_expansions": Frame(isr_expansions, _has_types(*JOINS, "PARTITION_CHANGE_RECORD")),
    "leader_hints": Frame(leader_hints, is_refused_with_hint),
    "leadership": Frame(leadership, _is_event),
    "lineage": Frame(lineage, _is_event),
    "log_copies": Frame(log_copies, _is_metadata_record),
    "log_directories": Frame(log_directories, names_directories),
    "log_order": Frame(log_order, _is_metadata_record),
    "log_runs": Frame(log_runs, _has_types(LOG_BATCHES)),
    "metadata": Frame(metadata, _is_event),
    "metadata_answers": Frame(metadata_answers, _has_types(METADATA)),
    "offline_directories": Frame(offline_directories, takes_directories_offline),
    "positions": Frame(positions, _has_types("FETCH")),
    "producer_ids": Frame(producer_ids, _has_types(INIT_PRODUCER_ID, ALLOCATE_PRODUCER_IDS, PRODUCER_IDS_RECORD)),
    "producer_requests": Frame(producer_requests, _has_types(*OF_TRANSACTIONS)),
    "quorum_answers": Frame(quorum_answers, is_quorum_request),
    "quorum_votes": Frame(quorum_votes, _has_types(VOTE)),
    "raft_epochs": Frame(raft_epochs, states_raft_epoch),
    "record_deletions": Frame(record_deletions, _has_types(DELETE_RECORDS)),
    "refusals": Frame(refusals, refused),
    "replica_logs": Frame(replica_logs, _has_types(LOG_BATCHES)),
    "strays": Frame(strays, _may_find_strays),
    "tiered_fetches": Frame(tiered_fetches, is_sent_away),
    "topics": Frame(topics, _is_event),
    "transaction_outcomes": Frame(transaction_outcomes, _has_types(END_TXN, WRITE_TXN_MARKERS)),
    "truncations": Frame(truncations, _has_types(*TRUNCATION_LINES)),
}
