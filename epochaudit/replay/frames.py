"""The frames by the names that rules use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    BROKER_REGISTRATION,
    BROKER_REGISTRATION_CHANGE_RECORD,
    CLIENT_TOPIC_ID_CHANGED,
    CONSUMER_GROUP_HEARTBEAT,
    DELETE_RECORDS,
    END_TXN,
    FETCH,
    KRAFT_VOTERS,
    LEADER_AND_ISR,
    LEADER_AND_ISR_SKIPPED,
    LEADER_CHANGE,
    LOG_BATCHES,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PARTITION_CHANGE_RECORD,
    PRODUCE,
    RAFT_STATE_CHANGED,
    STRAY_PARTITION,
    WRITE_TXN_MARKERS,
)
from epochaudit.kafka.field_values import FULL
from epochaudit.replay.control_plane.broker_records import broker_records
from epochaudit.replay.control_plane.broker_requests import UNDER_EPOCH, broker_requests
from epochaudit.replay.control_plane.control import REQUESTS, control
from epochaudit.replay.control_plane.eligible_replicas import eligible_replicas, names_eligible
from epochaudit.replay.control_plane.heartbeats import heartbeats
from epochaudit.replay.control_plane.isr_changes import isr_changes
from epochaudit.replay.control_plane.isr_expansions import JOINS, isr_expansions
from epochaudit.replay.control_plane.leadership import leadership
from epochaudit.replay.control_plane.log_copies import log_copies
from epochaudit.replay.control_plane.log_directories import log_directories, names_directories
from epochaudit.replay.control_plane.log_order import log_order
from epochaudit.replay.control_plane.metadata import metadata
from epochaudit.replay.control_plane.offline_directories import (
    offline_directories,
    takes_directories_offline,
)
from epochaudit.replay.control_plane.quorum_answers import quorum_answers
from epochaudit.replay.control_plane.quorum_votes import VOTES, quorum_votes, states_voter
from epochaudit.replay.control_plane.raft_epochs import raft_epochs
from epochaudit.replay.control_plane.refusal_lines import REFUSALS
from epochaudit.replay.control_plane.registrations import registrations
from epochaudit.replay.control_plane.strays import strays
from epochaudit.replay.control_plane.topics import topics
from epochaudit.replay.control_plane.voter_sets import voter_sets
from epochaudit.replay.data_plane.acknowledgements import acknowledgements
from epochaudit.replay.data_plane.client_epochs import HINTS, LINES, client_epochs, states_epochs
from epochaudit.replay.data_plane.commits import COMMITS, commits
from epochaudit.replay.data_plane.epoch_caches import ENTRIES, epoch_caches
from epochaudit.replay.data_plane.epoch_queries import QUERIES, asks, epoch_queries
from epochaudit.replay.data_plane.fetch_sessions import fetch_sessions
from epochaudit.replay.data_plane.fetches import fetches
from epochaudit.replay.data_plane.follower_answers import TO_FOLLOWERS, binds, follower_answers
from epochaudit.replay.data_plane.follower_epochs import follower_epochs, in_an_epoch
from epochaudit.replay.data_plane.group_generations import group_generations
from epochaudit.replay.data_plane.group_heartbeats import group_heartbeats
from epochaudit.replay.data_plane.high_watermarks import high_watermarks
from epochaudit.replay.data_plane.leader_hints import is_refused_with_hint, leader_hints
from epochaudit.replay.data_plane.lineage import lineage
from epochaudit.replay.data_plane.log_runs import log_runs
from epochaudit.replay.data_plane.member_commits import member_commits, states_member_epoch
from epochaudit.replay.data_plane.metadata_answers import metadata_answers
from epochaudit.replay.data_plane.positions import positions
from epochaudit.replay.data_plane.producer_ids import GIVING_IDS, gives_ids, producer_ids
from epochaudit.replay.data_plane.producer_requests import OF_TRANSACTIONS, producer_requests
from epochaudit.replay.data_plane.record_deletions import record_deletions
from epochaudit.replay.data_plane.refusals import refusals, refused
from epochaudit.replay.data_plane.replica_logs import replica_logs
from epochaudit.replay.data_plane.share_sessions import SHARE_SESSION_REQUESTS, share_sessions
from epochaudit.replay.data_plane.share_states import STATE_REQUESTS, share_states
from epochaudit.replay.data_plane.simple_commits import is_simple_commit, simple_commits
from epochaudit.replay.data_plane.tiered_fetches import is_sent_away, tiered_fetches
from epochaudit.replay.data_plane.transaction_markers import MARKERS, transaction_markers
from epochaudit.replay.data_plane.transaction_outcomes import transaction_outcomes
from epochaudit.replay.data_plane.truncations import TRUNCATION_LINES, truncations
from epochaudit.replay.state.cluster_history import BROKER_RECORDS
from epochaudit.replay.state.held_epochs import STARTS
from epochaudit.replay.state.metadata_log import SOURCE as METADATA_LOG
from epochaudit.replay.state.partition_states import PARTITION_RECORDS
from epochaudit.replay.state.quorum import QUORUM_REQUESTS, is_quorum_request


@dataclass(frozen=True)
class Frame:
    """A frame and the events that it needs: without them it is empty, and not planned.

    of: from the events table to the frame. event_types: of these, or of any if there are none; has_rows: a further condition on
    these events.
    """

    of: Callable[[DataFrame], DataFrame]
    event_types: tuple[str, ...] = ()
    has_rows: Callable[[], Column] | None = None


def _is_metadata_record() -> Column:
    return F.col("source") == METADATA_LOG


def _states_raft_epoch() -> Column:
    return F.col("event_type").isin(LEADER_CHANGE, RAFT_STATE_CHANGED) | is_quorum_request()


def _is_full_if_request() -> Column:
    return (F.col("event_type") == STRAY_PARTITION) | (F.col("request_type") == FULL)


FRAMES: Final[Mapping[str, Frame]] = {
    "acknowledgements": Frame(acknowledgements, (PRODUCE,)),
    "broker_records": Frame(broker_records, BROKER_RECORDS),
    "broker_requests": Frame(broker_requests, (BROKER_REGISTRATION, *UNDER_EPOCH)),
    "client_epochs": Frame(client_epochs, (FETCH, *LINES, *HINTS, CLIENT_TOPIC_ID_CHANGED), states_epochs),
    "commits": Frame(commits, (*COMMITS, OFFSET_FETCH)),
    "control": Frame(control, (*REQUESTS, *STARTS, LEADER_AND_ISR_SKIPPED, *REFUSALS)),
    "eligible_replicas": Frame(eligible_replicas, PARTITION_RECORDS, names_eligible),
    "epoch_caches": Frame(epoch_caches, ENTRIES),
    "epoch_queries": Frame(epoch_queries, QUERIES, asks),
    "fetch_sessions": Frame(fetch_sessions, (FETCH,)),
    "fetches": Frame(fetches, (FETCH,)),
    "follower_answers": Frame(follower_answers, TO_FOLLOWERS, binds),
    "follower_epochs": Frame(follower_epochs, TO_FOLLOWERS, in_an_epoch),
    "group_generations": Frame(group_generations, COMMITS),
    "group_heartbeats": Frame(group_heartbeats, (CONSUMER_GROUP_HEARTBEAT,)),
    "heartbeats": Frame(heartbeats, (BROKER_HEARTBEAT,)),
    "high_watermarks": Frame(high_watermarks, (FETCH,)),
    "isr_changes": Frame(isr_changes, (ALTER_PARTITION,)),
    "isr_expansions": Frame(isr_expansions, (*JOINS, PARTITION_CHANGE_RECORD)),
    "leader_hints": Frame(leader_hints, (FETCH,), is_refused_with_hint),
    "leadership": Frame(leadership),
    "lineage": Frame(lineage),
    "log_copies": Frame(log_copies, has_rows=_is_metadata_record),
    "log_directories": Frame(log_directories, has_rows=names_directories),
    "log_order": Frame(log_order, has_rows=_is_metadata_record),
    "log_runs": Frame(log_runs, (LOG_BATCHES,)),
    "member_commits": Frame(member_commits, COMMITS, states_member_epoch),
    "metadata": Frame(metadata),
    "metadata_answers": Frame(metadata_answers, (METADATA,)),
    "offline_directories": Frame(offline_directories, (BROKER_REGISTRATION_CHANGE_RECORD,), takes_directories_offline),
    "positions": Frame(positions, (FETCH,)),
    "producer_ids": Frame(producer_ids, GIVING_IDS, gives_ids),
    "producer_requests": Frame(producer_requests, OF_TRANSACTIONS),
    "quorum_answers": Frame(quorum_answers, QUORUM_REQUESTS, is_quorum_request),
    "quorum_votes": Frame(quorum_votes, VOTES, states_voter),
    "raft_epochs": Frame(raft_epochs, (LEADER_CHANGE, RAFT_STATE_CHANGED, *QUORUM_REQUESTS), _states_raft_epoch),
    "record_deletions": Frame(record_deletions, (DELETE_RECORDS,)),
    "refusals": Frame(refusals, (FETCH,), refused),
    "registrations": Frame(registrations, PARTITION_RECORDS, names_eligible),
    "replica_logs": Frame(replica_logs, (LOG_BATCHES,)),
    "share_sessions": Frame(share_sessions, SHARE_SESSION_REQUESTS),
    "share_states": Frame(share_states, STATE_REQUESTS),
    "simple_commits": Frame(simple_commits, (OFFSET_COMMIT,), is_simple_commit),
    "strays": Frame(strays, (STRAY_PARTITION, LEADER_AND_ISR), _is_full_if_request),
    "tiered_fetches": Frame(tiered_fetches, (FETCH,), is_sent_away),
    "topics": Frame(topics),
    "transaction_markers": Frame(transaction_markers, MARKERS),
    "transaction_outcomes": Frame(transaction_outcomes, (END_TXN, WRITE_TXN_MARKERS)),
    "truncations": Frame(truncations, TRUNCATION_LINES),
    "voter_sets": Frame(voter_sets, (KRAFT_VOTERS,)),
}


def presence(names: Iterable[str]) -> list[Column]:
    """Aggregates of events of one type, which `has_rows` needs."""
    return [F.max(condition()).alias(name) for name in names if (condition := FRAMES[name].has_rows)]


def has_rows(name: str, by_type: Iterable[Row]) -> bool:
    """Whether the frame has events. by_type: one row per event type, with `presence` of the frame."""
    frame = FRAMES[name]
    return any(
        row["event_type"] is not None
        and (not frame.event_types or row["event_type"] in frame.event_types)
        and (frame.has_rows is None or row[name])
        for row in by_type
    )
