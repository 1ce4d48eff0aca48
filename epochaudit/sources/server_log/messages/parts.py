"""Shared parts of the patterns of server.log, and the columns that they fill."""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import IDENTITY, LogPattern

COLUMNS: Final = (
    *IDENTITY, "controller_id", "controller_epoch", "broker_id", "broker_epoch", "current_broker_epoch", "incarnation_id",
    "live_brokers", "live_broker_epochs", "added_brokers", "deleted_brokers", "bounced_brokers", "topic", "topic_id",
    "partition", "leader", "leader_epoch", "partition_epoch", "isr", "isr_broker_epochs", "replicas",
    "leader_recovery_state", "start_offset", "high_watermark", "offset", "previous_offset", "current_leader_epoch",
    "previous_epoch", "diverging_epoch", "diverging_end_offset", "response_leader_epoch", "response_partition_epoch", "fenced",
    "in_controlled_shutdown", "raft_epoch", "replica_id", "pre_vote", "vote_granted", "cluster_id", "metadata_offset", "group_id",
    "transactional_id", "response_producer_id", "response_producer_epoch",
    "producer_id", "producer_epoch", "coordinator_epoch", "last_epoch", "name", "value", "reason",
)  # fmt: skip

Beginnings = dict[bytes, tuple[LogPattern, ...]]
"""Patterns by the beginning of the message after its `[...] ` prefix."""

PatternsByClass = dict[bytes, Beginnings]
"""Patterns by the simple name of the logging class."""

CONTROLLER: Final = rb"\[Controller id=(?P<controller_id>\d+)\] "
QUORUM_CONTROLLER: Final = rb"\[(?:Quorum)?Controller (?:id=)?(?P<controller_id>\d+)\] "
"""`[Controller 100]` up to 3.5, `[QuorumController id=100]` since."""

EPOCH_ENTRY: Final = rb"EpochEntry[(\[]epoch=(?P<leader_epoch>-?\d+), startOffset=(?P<start_offset>-?\d+)[)\]]"
"""In brackets from 4.1 on."""

MEMBERS: Final = rb"\[[^\[\]]*\]"
"""An ISR as a list of ids, since 3.5 of BrokerState(brokerId=, brokerEpoch=)."""

NEW_ISR: Final = rb"(?=(?P<isr_broker_epochs>" + MEMBERS + rb"))(?P<isr>" + MEMBERS + rb")"
TOPIC_ID: Final = rb"(?P<topic_id>[\w-]{22})"
