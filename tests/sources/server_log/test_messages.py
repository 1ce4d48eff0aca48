"""Each wording of server.log and controller.log, release by release: what its event holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from epochaudit.sources.server_log import decoder as server_log
from epochaudit.sources.server_log.messages import BEGINNINGS, EVENT_TYPES
from epochaudit.sources.sink import LineOutcome
from tests.sources.decoding import decode, ignored, only_event, quarantine_reason

AT = "[2026-11-21 04:43:00,829] INFO "
ID = "GNxFFp-2TSGEYZnA4byTpQ"
OTHER_ID = "Qp0U2lMVQWCZSoyNwmfG4w"
PARTITION = "[Partition t-0 broker=1] "
FETCHER = "[ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] "
LOG = "[Log partition=t-0, dir=/var/lib/kafka/data-1] "
UNIFIED = "[UnifiedLog partition=t-0, dir=/var/lib/kafka/data-1] "
CACHE = "[LeaderEpochCache t-0] "
QUORUM = "[QuorumController id=100] "
OLD_QUORUM = "[Controller 100] "
CONTROLLER = "[Controller id=1] "
LOGGERS = {
    "Partition": "kafka.cluster.Partition",
    "Replica": "kafka.cluster.Replica",
    "Log": "kafka.log.Log",
    "LocalLog": "kafka.log.LocalLog",
    "UnifiedLog": "kafka.log.UnifiedLog",
    "UnifiedLog4": "org.apache.kafka.storage.internals.log.UnifiedLog",
    "LogLoader": "kafka.log.LogLoader",
    "LogLoader$": "kafka.log.LogLoader$",
    "LogManager": "kafka.log.LogManager",
    "LogManager4": "org.apache.kafka.storage.internals.log.LogManager",
    "LogManager$": "kafka.log.LogManager$",
    "BrokerMetadataPublisher$": "kafka.server.metadata.BrokerMetadataPublisher$",
    "BrokerMetadataPublisher": "kafka.server.metadata.BrokerMetadataPublisher",
    "Fetcher": "kafka.server.ReplicaFetcherThread",
    "Cache": "kafka.server.epoch.LeaderEpochFileCache",
    "Cache3.5": "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache",
    "Producers": "kafka.log.ProducerAppendInfo",
    "Producers3.5": "org.apache.kafka.storage.internals.log.ProducerAppendInfo",
    "ZK": "kafka.controller.KafkaController",
    "DELETION": "kafka.controller.TopicDeletionManager",
    "Overrides": "kafka.server.DynamicConfigManager",
    "Overrides3.3": "kafka.server.ZkConfigManager",
    "Creation": "kafka.zk.AdminZkClient",
    "Publisher": "kafka.server.metadata.DynamicConfigPublisher",
    "KafkaServer": "kafka.server.KafkaServer",
    "Lifecycle": "kafka.server.BrokerLifecycleManager",
    "Replication": "org.apache.kafka.controller.ReplicationControlManager",
    "Cluster": "org.apache.kafka.controller.ClusterControlManager",
    "Heartbeats": "org.apache.kafka.controller.BrokerHeartbeatManager",
    "Quorum": "org.apache.kafka.controller.QuorumController",
    "Configuration": "org.apache.kafka.controller.ConfigurationControlManager",
    "Features": "org.apache.kafka.controller.FeatureControlManager",
    "Raft": "org.apache.kafka.raft.QuorumState",
    "RaftClient": "org.apache.kafka.raft.KafkaRaftClient",
    "Transactions": "kafka.coordinator.transaction.TransactionCoordinator",
}
T0: dict[str, object] = {"topic": "t", "partition": 0}
LED = {**T0, "leader": 1}
Case = tuple[str, str, str, dict[str, object]]  # logger, message, event type, columns


def check(case: Case) -> None:
    logger, message, event_type, columns = case
    assert only_event(server_log, f"{AT}{message} ({LOGGERS[logger]})") == {"event_type": event_type, **columns}


def named(cases: list[Case]) -> list[object]:
    return [pytest.param(case, id=f"{case[2]}: {case[1].rpartition('] ')[2][:60]}") for case in cases]


ISR: list[Case] = [
    ("Partition", PARTITION + "Shrinking ISR from 1,2 to 1", "ISR_SHRINKING", {**LED, "isr": [1]}),
    (
        "Partition",
        PARTITION + "Shrinking ISR from 1,2,3 to 1,2. Leader: (highWatermark: 58, endOffset: 59). Out of sync replicas:"
        " (brokerId: 3, endOffset: 58).",
        "ISR_SHRINKING",
        {**LED, "isr": [1, 2], "high_watermark": 58, "offset": 59},
    ),
    (
        "Partition",
        PARTITION + "Shrinking ISR from 1,2,3 to 1. Leader: (highWatermark: 58, endOffset: 59). Out of sync replicas:"
        " (brokerId: 3, endOffset: 58, lastCaughtUpTimeMs: 17) (brokerId: 2, endOffset: unknown, lastCaughtUpTimeMs: unknown).",
        "ISR_SHRINKING",
        {**LED, "isr": [1], "high_watermark": 58, "offset": 59},
    ),
    ("Partition", PARTITION + "Expanding ISR from 1 to 1,2", "ISR_EXPANDING", {**LED, "isr": [1, 2]}),
    *(
        ("Partition", PARTITION + f"ISR updated {words}", "ISR_UPDATED", {**LED, "isr": [1, 2], "partition_epoch": 5})
        for words in (
            "to [1,2] and zkVersion updated to [5]",
            "from AlterIsr to 1,2 and version updated to [5]",
            "to 1,2 and version updated to [5]",
            "to 1,2 and version updated to 5",
            "to 1,2  and version updated to 5",
            "to 1,2 (under-min-isr) and version updated to 5",
        )
    ),
    *(
        (
            "Partition",
            PARTITION + f"Cached zkVersion {version} not equal to that in zookeeper, skip updating ISR",
            "ISR_UPDATE_SKIPPED",
            {**LED, "partition_epoch": 4, "reason": "stale_partition_epoch"},
        )
        for version in ("[4]", "4")
    ),
    (
        "Partition",
        PARTITION + "Failed to alter partition to PendingExpandIsr(newInSyncReplicaId=3, sentLeaderAndIsr=LeaderAndIsr(leader=1,"
        " leaderEpoch=2, isrWithBrokerEpoch=[BrokerState(brokerId=1, brokerEpoch=84)], leaderRecoveryState=RECOVERED,"
        " partitionEpoch=4), leaderRecoveryState=RECOVERED, lastCommittedState=CommittedPartitionState(isr=Set(1),"
        " leaderRecoveryState=RECOVERED)) since the controller rejected the request with INELIGIBLE_REPLICA. Partition state"
        " has been reset to the latest committed state CommittedPartitionState(isr=Set(1), leaderRecoveryState=RECOVERED).",
        "ALTER_PARTITION_FAILED",
        {**LED, "leader_epoch": 2, "reason": "rejected", "value": "INELIGIBLE_REPLICA"},
    ),
    *(
        ("Partition", PARTITION + message, "ALTER_PARTITION_FAILED", {**LED, "reason": reason, **more})
        for message, reason, more in (
            (
                "Controller failed to update ISR to PendingExpandIsr(isr=Set(1), newInSyncReplicaId=2) due to invalid zk"
                " version. Giving up.",
                "stale_partition_epoch",
                {},
            ),
            (
                "Failed to update ISR to PendingShrinkIsr(isr=Set(1, 2), outOfSyncReplicaIds=Set(2)) since we sent an old"
                " leader epoch. Giving up.",
                "stale_leader_epoch",
                {},
            ),
            (
                "Failed to update ISR to PendingExpandIsr(isr=Set(1), newInSyncReplicaId=2) due to unexpected"
                " UNKNOWN_SERVER_ERROR. Retrying.",
                "unexpected_error",
                {"value": "UNKNOWN_SERVER_ERROR"},
            ),
            (
                "Failed to alter partition to PendingShrinkIsr(isr=Set(2, 1), outOfSyncReplicaIds=Set(1),"
                " sentLeaderAndIsr=LeaderAndIsr(leader=2, leaderEpoch=3, isr=List(2), leaderRecoveryState=RECOVERED,"
                " zkVersion=6), leaderRecoveryState=RECOVERED) since the leader epoch is old. Giving up.",
                "stale_leader_epoch",
                {"leader_epoch": 3},
            ),
            (
                "Failed to alter partition to PendingExpandIsr(x) because the partition epoch is invalid. Partition state may"
                " be out of sync, awaiting new the latest metadata.",
                "stale_partition_epoch",
                {},
            ),
        )
    ),
    *(
        (logger, message + "loaded for partition t-0 with initial high watermark 7", "HIGH_WATERMARK_LOADED",
         {**T0, "high_watermark": 7})
        for logger, message in (("Replica", "Replica "), ("Partition", PARTITION + "Log "))
    ),
]  # fmt: skip

TRUNCATION: list[Case] = [
    ("Log", LOG + "Truncating to offset 5", "LOG_TRUNCATED", {**T0, "offset": 5}),
    ("UnifiedLog", UNIFIED + "Truncating to offset 5", "LOG_TRUNCATED", {**T0, "offset": 5}),
    ("UnifiedLog4", UNIFIED + "Truncating to offset 5", "LOG_TRUNCATED", {**T0, "offset": 5}),
    ("Log", LOG + "Truncate and start at offset 5", "LOG_EMPTIED", {**T0, "offset": 5}),
    ("Log", LOG + "Recovering unflushed segment 5", "LOG_RECOVERED", {**T0, "offset": 5}),
    ("LogLoader", LOG.replace("Log ", "LogLoader ", 1) + "Recovering unflushed segment 5. 0/1 recovered for t-0.", "LOG_RECOVERED",
     {**T0, "offset": 5}),
    ("LogLoader$", LOG.replace("Log ", "LogLoader ", 1) + "Recovering unflushed segment 5", "LOG_RECOVERED", {**T0, "offset": 5}),
    ("Log", "Truncating log t-0 to offset 5.", "LOG_TRUNCATED", {**T0, "offset": 5}),
    ("Log", "Truncate and start log 't-0' at offset 5", "LOG_EMPTIED", {**T0, "offset": 5}),
    ("Log", "Recovering unflushed segment 5 in log t-0.", "LOG_RECOVERED", {**T0, "offset": 5}),
    ("Log", "Recovering unflushed segment 5 in log t-0.3c5f7b1f5d6e4c0c8a0d6ed5a3bd2d8f-delete.", "LOG_RECOVERED", {**T0, "offset": 5}),
    ("Log", "Incrementing log start offset of partition t-0 to 5 in dir /data", "LOG_START_INCREMENTED", {**T0, "offset": 5}),
    ("UnifiedLog", UNIFIED + "Truncate and start at offset 5, logStartOffset: 5", "LOG_EMPTIED", {**T0, "offset": 5}),
    ("Log", LOG + "Deleting segments as part of log truncation: LogSegment(baseOffset=0, size=1)", "LOG_SEGMENTS_TRUNCATED", T0),
    ("LocalLog", "[LocalLog partition=t-0, dir=/data] Deleting segments as part of log truncation: LogSegment(baseOffset=0)",
     "LOG_SEGMENTS_TRUNCATED", T0),
    ("Log", LOG + "Incrementing log start offset to 5", "LOG_START_INCREMENTED", {**T0, "offset": 5}),
    ("UnifiedLog", UNIFIED + "Incremented log start offset to 5 due to client delete records request",
     "LOG_START_INCREMENTED", {**T0, "offset": 5, "reason": "client delete records request"}),
    *(
        (
            logger,
            UNIFIED + f"Non-monotonic update of high watermark from {before} to {after}",
            "HIGH_WATERMARK_LOWERED",
            {**T0, "previous_offset": 83, "high_watermark": 81},
        )
        for logger, before, after in (
            ("UnifiedLog", "(offset=83 segment=[0:6255])", "(offset=81 segment=[0:6031])"),
            ("UnifiedLog", "(offset=83segment=[0:6255])", "(offset=81segment=[-1:-1])"),
            ("UnifiedLog4", "(offset=83, segment=[0:6255])", "(offset=81, segment=[-1:-1])"),
        )
    ),
    (
        "Fetcher",
        FETCHER + "Truncating partition t-0 to local high watermark 7",
        "FOLLOWER_TRUNCATING",
        {**LED, "offset": 7, "high_watermark": 7, "reason": "high_watermark"},
    ),
    (
        "Fetcher",
        FETCHER + "Truncating partition t-0 with TruncationState(offset=6, completed=true) due to local high watermark 7",
        "FOLLOWER_TRUNCATING",
        {**LED, "offset": 6, "high_watermark": 7, "reason": "high_watermark"},
    ),
    (
        "Fetcher",
        FETCHER + "Truncating partition t-0 with TruncationState(offset=10, completed=true) due to leader epoch and offset"
        " EpochEndOffset(errorCode=0, partition=0, leaderEpoch=3, endOffset=12)",
        "FOLLOWER_TRUNCATING",
        {**LED, "offset": 10, "diverging_epoch": 3, "diverging_end_offset": 12, "reason": "leader_epoch"},
    ),
    (
        "Fetcher",
        FETCHER + "Truncating t-0 to offset 0 below high watermark 10",
        "TRUNCATION_BELOW_HIGH_WATERMARK",
        {**LED, "offset": 0, "high_watermark": 10},
    ),
    (
        "UnifiedLog4",
        UNIFIED + "Truncating t-0 to offset 0 below high watermark 10",
        "TRUNCATION_BELOW_HIGH_WATERMARK",
        {**T0, "offset": 0, "high_watermark": 10},
    ),
    *(
        ("Fetcher", FETCHER + message, "TRUNCATION_OFFSET_CHOSEN", {**LED, "reason": reason, **more})
        for message, reason, more in (
            (
                "Based on follower's leader epoch, leader replied with an unknown offset in t-0. High watermark 4 will be used"
                " for truncation.",
                "epoch_unknown_to_leader",
                {"offset": 4},
            ),
            (
                "Based on replica's leader epoch, leader replied with an unknown offset in t-0. The initial fetch offset 4"
                " will be used for truncation.",
                "epoch_unknown_to_leader",
                {"offset": 4},
            ),
            (
                "Based on replica's leader epoch, leader replied with epoch 2 below any replica's tracked epochs for t-0. The"
                " leader's offset only 4 will be used for truncation.",
                "epoch_below_own",
                {"offset": 4, "diverging_epoch": 2},
            ),
            (
                "Based on follower's leader epoch, leader replied with epoch 2 unknown to the follower for t-0. Will truncate"
                " to 4 and send another leader epoch request to the leader.",
                "epoch_unknown_to_follower",
                {"offset": 4, "diverging_epoch": 2},
            ),
            (
                "Based on follower's leader epoch, leader replied with an offset 9 >= the follower's log end offset 4 in t-0. No"
                " truncation needed.",
                "nothing_to_truncate",
                {"offset": 4, "diverging_end_offset": 9},
            ),
            (
                "Leader or replica is on protocol version where leader epoch is not considered in the OffsetsForLeaderEpoch"
                " response. The leader's offset 4 will be used for truncation in t-0.",
                "no_epoch_in_answer",
                {"offset": 4},
            ),
        )
    ),
    *(
        ("Fetcher", FETCHER + message, "FETCH_OFFSET_RESET", {**LED, "previous_offset": 10, "offset": 3, "reason": reason})
        for message, reason in (
            ("Reset fetch offset for partition t-0 from 10 to current leader's latest offset 3", "leader_log_end"),
            ("Reset fetch offset for partition t-0 from 10 to current leader's start offset 3", "leader_log_start"),
            ("Reset fetch offset for partition t-0 from 10 to the current local replica's end offset 3", "own_log_end"),
            (
                "Truncate fully and reset fetch offset for partition t-0 from 10 to the current leader's start offset 3"
                " because the local replica's end offset is smaller than the current leader's start offsets.",
                "leader_log_start",
            ),
        )
    ),
    *(
        ("Fetcher", FETCHER + message, "FETCH_OFFSET_OUT_OF_RANGE", {**LED, "previous_offset": 10, "offset": 3})
        for message in (
            "Current offset 10 for partition t-0 out of range; reset offset to 3",
            "Current offset 10 for partition t-0 is out of range, which typically implies a leader change. Reset fetch offset"
            " to 3",
        )
    ),
    *(
        ("Fetcher", FETCHER + message, "FETCHER_FENCED", {**LED, "current_leader_epoch": 4, "reason": reason})
        for message, reason in (
            (
                "Partition t-0 has an older epoch (4) than the current leader. Will await the new LeaderAndIsr state before"
                " resuming fetching.",
                "older_epoch",
            ),
            ("Partition t-0 has an new epoch (4) than the current leader. retry the partition later", "newer_epoch"),
            ("Partition t-0 has a newer epoch (4) than the current leader. Retry the partition later.", "newer_epoch"),
        )
    ),
    ("Fetcher", FETCHER + "Partition t-0 marked as failed", "FETCHER_FAILED", LED),
]  # fmt: skip

PRODUCERS: list[Case] = [
    *(
        (
            logger,
            "Detected invalid coordinator epoch for producerId 1001 at offset 41 in partition t-0: 4 is older than previously known"
            " coordinator epoch 5",
            "OLDER_COORDINATOR_EPOCH",
            {**T0, "producer_id": 1001, "offset": 41, "coordinator_epoch": 4, "last_epoch": 5},
        )
        for logger in ("Producers", "Producers3.5")
    ),
    (
        "Producers",
        "Producer's epoch at offset 41 in t-0 is 3, which is smaller than the last seen epoch 4",
        "OLDER_PRODUCER_EPOCH",
        {**T0, "offset": 41, "producer_epoch": 3, "last_epoch": 4},
    ),
    (
        "Producers3.5",
        "Epoch of producer 1001 at offset 41 in t-0 is 3, which is smaller than the last seen epoch 4",
        "OLDER_PRODUCER_EPOCH",
        {**T0, "producer_id": 1001, "offset": 41, "producer_epoch": 3, "last_epoch": 4},
    ),
    *(
        (
            "Producers3.5",
            f"Epoch of producer 1001 at offset 41 in t-0 is 3, which is {how} the last seen epoch 4 (TV{version})",
            "OLDER_PRODUCER_EPOCH",
            {**T0, "producer_id": 1001, "offset": 41, "producer_epoch": 3, "last_epoch": 4},
        )
        for how, version in (("<", 0), ("<=", 2))
    ),
]

ENTRY = {**T0, "leader_epoch": 2, "start_offset": 15}
EPOCHS: list[Case] = [
    (
        "Cache",
        "Updated PartitionLeaderEpoch. New: {epoch:2, offset:15}, Current: {epoch:1, offset7} for Partition: t-0. Cache now"
        " contains 1 entries.",
        "EPOCH_CACHE_APPENDED",
        {**ENTRY, "value": "1"},
    ),
    *(
        (
            logger,
            CACHE + "Appended new epoch entry EpochEntry(epoch=2, startOffset=15). Cache now contains 3 entries.",
            "EPOCH_CACHE_APPENDED",
            {**ENTRY, "value": "3"},
        )
        for logger in ("Cache", "Cache3.5")
    ),
    (
        "Cache3.5",
        CACHE + "Appended new epoch entry EpochEntry[epoch=2, startOffset=15]. Cache now contains 3 entries.",
        "EPOCH_CACHE_APPENDED",
        {**ENTRY, "value": "3"},
    ),
    (
        "Cache",
        CACHE + "New epoch entry EpochEntry(epoch=2, startOffset=15) caused truncation of conflicting entries"
        " ListBuffer(EpochEntry(epoch=1, startOffset=15)). Cache now contains 2 entries.",
        "EPOCH_CACHE_CONFLICT",
        {**ENTRY, "value": "2"},
    ),
    (
        "Cache",
        "Cleared latest Set(EpochEntry(2,15)) entries from epoch cache based on passed offset 15 leaving 1 in EpochFile for"
        " partition t-0",
        "EPOCH_CACHE_END_TRUNCATED",
        {**T0, "offset": 15},
    ),
    (
        "Cache3.5",
        CACHE + "Cleared entries [EpochEntry(epoch=2, startOffset=15)] from epoch cache after truncating to end offset 15,"
        " leaving 1 entries in the cache.",
        "EPOCH_CACHE_END_TRUNCATED",
        {**T0, "offset": 15},
    ),
    (
        "Cache",
        "Cleared earliest 1 entries from epoch cache based on passed offset 15 leaving 1 in EpochFile for partition t-0",
        "EPOCH_CACHE_START_TRUNCATED",
        {**T0, "offset": 15},
    ),
    (
        "Cache",
        CACHE + "Cleared entries ListBuffer(EpochEntry(epoch=2, startOffset=7)) and rewrote first entry EpochEntry(epoch=2,"
        " startOffset=15) after truncating to start offset 15, leaving 1 in the cache.",
        "EPOCH_CACHE_START_TRUNCATED",
        {**ENTRY, "offset": 15},
    ),
    (
        "Cache",
        "Received a PartitionLeaderEpoch assignment for an epoch < latestEpoch. This implies messages have arrived out of"
        " order. New: {epoch:2, offset:15}, Current: {epoch:3, offset7} for Partition: t-0",
        "EPOCH_CACHE_DISORDER",
        ENTRY,
    ),
    (
        "Cache",
        CACHE + "Received leader epoch assignment EpochEntry(epoch=2, startOffset=15) which has an epoch less than the epoch of"
        " the latest entry EpochEntry(epoch=3, startOffset=7). This implies messages have arrived out of order.",
        "EPOCH_CACHE_DISORDER",
        ENTRY,
    ),
]  # fmt: skip

STRAY = (
    f"Log(dir=/kafka/data/t-0, topicId={ID}, topic=t, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0,"
    " logEndOffset=20)"
)
FOLDERS: list[Case] = [
    ("LogManager", "Created log for partition [t,0] in /data with properties {a -> b}.", "LOG_CREATED", T0),
    ("LogManager", "Created log for partition t-0 in /data with properties {a -> b}.", "LOG_CREATED", T0),
    ("LogManager", "Created log for partition t-0 in /data/t-0 with properties {}", "LOG_CREATED", T0),
    (
        "LogManager",
        "Created log for partition t-0 in /data/t-0.ab12-future with properties {}",
        "FUTURE_LOG_CREATED",
        T0,
    ),
    (
        "LogManager",
        "The current replica is successfully replaced with the future replica for t-0",
        "FUTURE_LOG_PROMOTED",
        T0,
    ),
    ("LogManager", "Successfully recovered abandoned future log for t-0", "FUTURE_LOG_PROMOTED", T0),
    (
        "LogManager",
        "Log for partition t-0 is renamed to /data/t-0.12b9c557babc42bdb0c2e877245f43a0-delete and is scheduled for deletion",
        "LOG_DELETION_SCHEDULED",
        T0,
    ),
    ("LogManager", "Log for partition t-0 is marked as stray and renamed to /data/t-0.1-stray", "LOG_MARKED_STRAY", T0),
    ("LogManager", "Log in /data/t-0 marked stray and renamed to /data/t-0.1-stray", "LOG_MARKED_STRAY", T0),
    (
        "LogManager4",
        "Found stray log dir Log(dir=/data/t-0, topic=t, partition=0, highWatermark=0): the topicId null does not exist in the"
        " metadata image.",
        "STRAY_PARTITION",
        {**T0, "reason": "topic_deleted"},
    ),
    *(
        (logger, f"Found stray log dir {STRAY}: {why}", "STRAY_PARTITION", {**T0, "topic_id": ID, "reason": reason})
        for logger, why, reason in (
            ("LogManager$", f"the topicId {ID} does not exist in the metadata image", "topic_deleted"),
            ("LogManager4", f"the topicId {ID} does not exist in the metadata image.", "topic_deleted"),
            ("BrokerMetadataPublisher$", f"the topicId {ID} does not exist in the metadata image", "topic_deleted"),
            (
                "LogManager$",
                "the current replica assignment [1, 2] does not contain the local brokerId 3.",
                "not_in_replicas",
            ),
            ("LogManager$", f"this partition now exists with topic ID {OTHER_ID} not {ID}.", "inconsistent_topic_id"),
            (
                "LogManager$",
                "this partition does not exist in the new full LeaderAndIsrRequest.",
                "not_in_request",
            ),
        )
    ),
    (
        "LogManager$",
        f"The topicId does not exist in {STRAY.replace(ID, 'None')}, treat it as a stray log",
        "STRAY_PARTITION",
        {**T0, "reason": "no_topic_id"},
    ),
    (
        "BrokerMetadataPublisher",
        "[BrokerMetadataPublisher id=1] The topicId does not exist in Log(dir=/kafka/data/t-0, topic=t, partition=0, highWatermark=0,"
        " lastStableOffset=0, logStartOffset=0, logEndOffset=20), treat it as a stray log.",
        "STRAY_PARTITION",
        {**T0, "reason": "no_topic_id"},
    ),
]

BY_1: dict[str, object] = {"controller_id": 1}
OF_T: dict[str, object] = {"topic": "t"}
OF_3: dict[str, object] = {"broker_id": 3}
UNCLEAN: dict[str, object] = {"name": "unclean.leader.election.enable", "value": "true"}
ZOOKEEPER: list[Case] = [
    (
        "ZK",
        CONTROLLER + "Newly added brokers: 3, deleted brokers: , all live brokers: 1,2,3",
        "BROKERS_CHANGED",
        {**BY_1, "added_brokers": [3], "deleted_brokers": [], "live_brokers": [1, 2, 3]},
    ),
    (
        "ZK",
        CONTROLLER + "Newly added brokers: , deleted brokers: 2, bounced brokers: 3, all live brokers: 1,3",
        "BROKERS_CHANGED",
        {**BY_1, "added_brokers": [], "deleted_brokers": [2], "bounced_brokers": [3], "live_brokers": [1, 3]},
    ),
    ("ZK", CONTROLLER + "Incremented epoch to 3", "CONTROLLER_EPOCH_INCREMENTED", {**BY_1, "controller_epoch": 3}),
    ("ZK", CONTROLLER + "Epoch incremented to 3", "CONTROLLER_EPOCH_INCREMENTED", {**BY_1, "controller_epoch": 3}),
    (
        "ZK",
        CONTROLLER + "Ready to serve as the new controller with epoch 3",
        "CONTROLLER_READY",
        {**BY_1, "controller_epoch": 3},
    ),
    ("ZK", CONTROLLER + "Resigned", "CONTROLLER_RESIGNED", BY_1),
    (
        "ZK",
        CONTROLLER + "Starting replica leader election (UNCLEAN) for partitions a.b-c-0 triggered by AdminClientTriggered",
        "UNCLEAN_ELECTION_REQUESTED",
        {**BY_1, "topic": "a.b-c", "partition": 0, "reason": "AdminClientTriggered"},
    ),
    ("ZK", CONTROLLER + "Shutting down broker 3", "BROKER_SHUTTING_DOWN", {**BY_1, "broker_id": 3}),
    *(
        (
            "DELETION",
            f"[Topic Deletion Manager 1]{comma} Deletion of topic a.b-c successfully completed",
            "TOPIC_DELETION_COMPLETED",
            {**BY_1, "topic": "a.b-c"},
        )
        for comma in ("", ",")  # up to 2.0 with one
    ),
    (
        "ZK",
        CONTROLLER + "Updated leader epoch for partition t-0 to 3",
        "LEADER_EPOCH_UPDATED",
        {**BY_1, **T0, "leader_epoch": 3},
    ),
    (
        "ZK",
        CONTROLLER + "Updated leader epoch for partition t-0 to 3, zkVersion=5",
        "LEADER_EPOCH_UPDATED",
        {**BY_1, **T0, "leader_epoch": 3, "partition_epoch": 5},
    ),
    *(
        ("ZK", CONTROLLER + message, "ALTER_PARTITION_REJECTED", {**BY_1, "broker_id": 3, **more})
        for message, more in (
            ("Ignoring AlterIsr due to unknown broker 3", {"reason": "unknown_broker"}),
            ("Ignoring AlterPartition due to unknown broker 3", {"reason": "unknown_broker"}),
            (
                "Ignoring AlterIsr due to stale broker epoch 26 for broker 3",
                {"reason": "stale_broker_epoch", "broker_epoch": 26},
            ),
            (
                "Ignoring AlterPartition due to stale broker epoch 26 and local broker epoch Some(181) for broker 3",
                {"reason": "stale_broker_epoch", "broker_epoch": 26, "current_broker_epoch": 181},
            ),
            (
                "Rejecting AlterPartition request from node 3 for t-0 because it specified ineligible replicas Set(2) in the new"
                " ISR List(3, 2).",
                {**T0, "reason": "ineligible_replicas", "value": "2", "isr": [3, 2]},
            ),
            (
                "Rejecting AlterPartition from node 3 for t-0 because leader is recovering and ISR is greater than 1:"
                " LeaderAndIsr(leader=3, leaderEpoch=2)",
                {**T0, "reason": "leader_recovering"},
            ),
        )
    ),
    (
        "ZK",
        CONTROLLER + "Failed to update ISR to LeaderAndIsr(leader=3, leaderEpoch=2, isr=List(3), zkVersion=4) for partition"
        " t-0, bad ZK version.",
        "ALTER_PARTITION_REJECTED",
        {**BY_1, **T0, "leader": 3, "leader_epoch": 2, "partition_epoch": 4, "reason": "stale_partition_epoch"},
    ),
    (
        "ZK",
        CONTROLLER + "Failed to update ISR for partition t-0, bad ZK version",
        "ALTER_PARTITION_REJECTED",
        {**BY_1, **T0, "reason": "stale_partition_epoch"},
    ),
    (
        "ZK",
        CONTROLLER + "Failed to update ISR for partition t-0",
        "ALTER_PARTITION_REJECTED",
        {**BY_1, **T0, "reason": "unexpected_error"},
    ),
    (
        "KafkaServer",
        "Deleting local metadata log from /data since this is a ZK broker in migration mode.",
        "METADATA_LOG_DELETED",
        {"value": "/data"},
    ),
    ("KafkaServer", "[KafkaServer id=1] Starting controlled shutdown", "CONTROLLED_SHUTDOWN_STARTED", {}),
    ("KafkaServer", "[KafkaServer id=1] Controlled shutdown succeeded", "CONTROLLED_SHUTDOWN_SUCCEEDED", {}),
    (
        "KafkaServer",
        "[KafkaServer id=1] Controlled shutdown request returned successfully after 9ms",
        "CONTROLLED_SHUTDOWN_SUCCEEDED",
        {},
    ),
    (
        "KafkaServer",
        "[KafkaServer id=1] Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed",
        "CONTROLLED_SHUTDOWN_FAILED",
        {},
    ),
]  # fmt: skip

BY_100: dict[str, object] = {"controller_id": 100}
REGISTRATION = (
    f"RegisterBrokerRecord(brokerId=1, incarnationId={ID}, brokerEpoch=30, endPoints=[BrokerEndpoint(name='PLAINTEXT',"
    " host='127.0.0.1', port=23211, securityProtocol=0)], features=[], rack=null, fenced=true)"
)
REGISTRATION_4 = (
    f"RegisterBrokerRecord(brokerId=1, isMigratingZkBroker=false, incarnationId={ID}, brokerEpoch=30, endPoints=[BrokerEndpoint("
    "name='PLAINTEXT', host='127.0.0.1', port=23211, securityProtocol=0)], features=[], rack=null, fenced=true,"
    f" inControlledShutdown=false, logDirs=[{OTHER_ID}])"
)
REGISTERED = {**BY_100, "broker_id": 1, "broker_epoch": 30, "incarnation_id": ID}
REPLAYED = {**REGISTERED, "fenced": True}
REPLAYED_4 = {**REPLAYED, "in_controlled_shutdown": False}
BROKER_30 = {**BY_100, "broker_id": 1, "broker_epoch": 30}
NODE: list[Case] = [
    (
        "Lifecycle",
        f"[BrokerLifecycleManager id=1] Incarnation {ID} of broker 1 in cluster sTqnNTPTHGgxzlNYLUxN_Q is now STARTING.",
        "BROKER_INCARNATION_STARTING",
        {"broker_id": 1, "incarnation_id": ID},
    ),
    (
        "Lifecycle",
        "[BrokerLifecycleManager id=1 isZkBroker=true] Successfully registered broker 1 with broker epoch 30",
        "BROKER_REGISTERED",
        {"broker_id": 1, "current_broker_epoch": 30, "name": "zookeeper_in_migration"},
    ),
    (
        "Lifecycle",
        "[BrokerLifecycleManager id=1] The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
        "BROKER_UNFENCED",
        {},
    ),
    ("Lifecycle", "[BrokerLifecycleManager id=1] Beginning controlled shutdown.", "CONTROLLED_SHUTDOWN_STARTED", {}),
    *(
        (
            "Lifecycle",
            f"[BrokerLifecycleManager id=1] The {who} has asked us to exit controlled shutdown.",
            "CONTROLLED_SHUTDOWN_SUCCEEDED",
            {},
        )
        for who in ("controller", "controlled")
    ),
]
_VOTE_OF_2 = "Vote request VoteRequestData(clusterId='9oC6O2IuRkGc4D-6SecI8g', "
_LOG_END = "lastOffsetEpoch=3, lastOffset=8"
_KEYS = f"DirectoryId={ID}, voterDirectoryId={OTHER_ID}, "
_VOTE: dict[str, object] = {
    "raft_epoch": 4,
    "replica_id": 2,
    "cluster_id": "9oC6O2IuRkGc4D-6SecI8g",
    "vote_granted": True,
}
VOTES: list[Case] = [
    *(
        ("RaftClient", f"[RaftManager {node}] {message}", "RAFT_VOTE_ANSWERED", {**_VOTE, **more})
        for node, message, more in (
            (  # 2.8
                "nodeId=1",
                _VOTE_OF_2
                + f"topics=[TopicData(topicName='__cluster_metadata', partitions=[PartitionData(partitionIndex=0,"
                f" candidateEpoch=4, candidateId=2, {_LOG_END})])]) is granted",
                {},
            ),
            (  # 3.0 to 3.8
                "nodeId=1",
                _VOTE_OF_2
                + f"topics=[TopicData(topicName='__cluster_metadata', partitions=[PartitionData(partitionIndex=0,"
                f" candidateEpoch=4, candidateId=2, {_LOG_END})])]) with epoch 4 is rejected",
                {"vote_granted": False},
            ),
            (  # 3.9
                "id=1",
                _VOTE_OF_2
                + "voterId=1, topics=[TopicData(topicName='__cluster_metadata', partitions=[PartitionData(partitionIndex=0,"
                f" candidateEpoch=4, candidateId=2, candidate{_KEYS}{_LOG_END})])]) with epoch 4 is granted",
                {},
            ),
            *(
                (  # 4.0 on
                    "id=1",
                    _VOTE_OF_2 + "voterId=1, topics=[TopicData(topicName='__cluster_metadata',"
                    " partitions=[PartitionData(partitionIndex=0, replicaEpoch=4, replicaId=2,"
                    f" replica{_KEYS}{_LOG_END}, preVote={printed})])]) with epoch 4 is granted",
                    {"pre_vote": pre_vote},
                )
                for printed, pre_vote in (("true", True), ("false", False))
            ),
        )
    ),
    *(
        (
            "Raft",
            f"[RaftManager id=1] Completed transition to {state}",
            "RAFT_STATE_CHANGED",
            {"raft_epoch": 4, **more},
        )
        for state, more in (
            ("Voted(epoch=4, votedId=2, voters=[1, 2], electionTimeoutMs=1500)", {"name": "Voted", "replica_id": 2}),
            (  # 3.8
                f"Voted(epoch=4, votedKey=ReplicaKey(id=2, directoryId=Optional[{ID}]), voters=[1, 2], electionTimeoutMs=1500,"
                " highWatermark=Optional.empty) from Unattached(epoch=4, voters=[1, 2], electionTimeoutMs=1100)",
                {"name": "Voted", "replica_id": 2},
            ),
            (  # 3.9
                f"Unattached(epoch=4, votedKey=ReplicaKey(id=2, directoryId=Optional[{ID}]), voters=[1, 2], electionTimeoutMs=1500,"
                " highWatermark=Optional.empty) from Unattached(epoch=4, votedKey=null, voters=[1, 2], electionTimeoutMs=1100)",
                {"name": "Unattached", "replica_id": 2},
            ),
            (
                "Unattached(epoch=4, votedKey=null, voters=[1, 2], electionTimeoutMs=1500, highWatermark=Optional.empty) from"
                f" Unattached(epoch=3, votedKey=ReplicaKey(id=2, directoryId=Optional[{ID}]), voters=[1, 2], electionTimeoutMs=1100)",
                {"name": "Unattached"},
            ),
            (  # 4.0 on
                f"UnattachedState(epoch=4, leaderId=OptionalInt.empty, votedKey=Optional[ReplicaKey(id=2, directoryId={ID})],"
                " voters=[1, 2], electionTimeoutMs=1455, highWatermark=Optional.empty) from UnattachedState(epoch=4,"
                " leaderId=OptionalInt.empty, votedKey=Optional.empty, voters=[1, 2], electionTimeoutMs=1692)",
                {"name": "Unattached", "replica_id": 2},
            ),
            (
                "FollowerState(fetchTimeoutMs=2000, epoch=4, leader=3, leaderEndpoints=Endpoints(endpoints={}),"
                f" votedKey=Optional[ReplicaKey(id=2, directoryId={ID})], voters=[1, 2, 3], highWatermark=Optional.empty,"
                " fetchingSnapshot=Optional.empty) from UnattachedState(epoch=4, leaderId=OptionalInt.empty)",
                {"name": "Follower", "leader": 3, "replica_id": 2},
            ),
            (
                f"ProspectiveState(epoch=4, leaderId=OptionalInt.empty, votedKey=Optional[ReplicaKey(id=2, directoryId={ID})],"
                " epochElection=EpochElection(voterStates={}), electionTimeoutMs=1987, highWatermark=Optional.empty) from null",
                {"name": "Prospective", "replica_id": 2},
            ),
            (
                "ProspectiveState(epoch=4, leaderId=OptionalInt.empty, votedKey=Optional.empty, epochElection=EpochElection("
                f"voterStates={{1=VoterState(replicaKey=ReplicaKey(id=1, directoryId={ID}), state=GRANTED)}}), electionTimeoutMs=1987)"
                f" from UnattachedState(epoch=3, votedKey=Optional[ReplicaKey(id=2, directoryId={ID})])",
                {"name": "Prospective"},
            ),
        )
    ),
]
TRANSACTIONS: list[Case] = [
    (
        "Transactions",
        f"[TransactionCoordinator id=2] Initialized transactionalId {printed} with producerId 1000 and producer epoch 3 on partition"
        " __transaction_state-2",
        "PRODUCER_INITIALIZED",
        {"transactional_id": printed, "response_producer_id": 1000, "response_producer_epoch": 3},
    )
    for printed in ("pay-v1", "[a] b with producerId 7 and producer epoch 1 on partition __transaction_state-0")
]
QUORUM_OF_CONTROLLERS: list[Case] = [
    (
        "Raft",
        "[RaftManager nodeId=100] Completed transition to Leader(localId=100, epoch=3, epochStartOffset=5,"
        " highWatermark=Optional.empty, voterStates={100=ReplicaState(nodeId=100)})",
        "RAFT_STATE_CHANGED",
        {"name": "Leader", "leader": 100, "raft_epoch": 3},
    ),
    (
        "Raft",
        f"[RaftManager id=100] Completed transition to Leader(localVoterNode=VoterNode(voterKey=ReplicaKey(id=100, directoryId={ID}),"
        " listeners=Endpoints(endpoints={ListenerName(CONTROLLER)=h/<unresolved>:1}), supportedKRaftVersion=SupportedVersionRange"
        "[min_version:0, max_version:1]), epoch=3, epochStartOffset=0) from CandidateState(localId=100, epoch=2)",
        "RAFT_STATE_CHANGED",
        {"name": "Leader", "leader": 100, "raft_epoch": 3},
    ),
    (
        "Raft",
        "[RaftManager nodeId=1] Completed transition to FollowerState(fetchTimeoutMs=2000, epoch=3, leaderId=100, voters=[100])",
        "RAFT_STATE_CHANGED",
        {"name": "Follower", "leader": 100, "raft_epoch": 3},
    ),
    *(
        (
            "Raft",
            f"[RaftManager id=1] Completed transition to FollowerState(fetchTimeoutMs=2000, epoch=3, leader={host}:9093 (id: 100"
            " rack: null) voters=[100], highWatermark=Optional.empty, fetchingSnapshot=Optional.empty) from Unattached(epoch=2)",
            "RAFT_STATE_CHANGED",
            {"name": "Follower", "leader": 100, "raft_epoch": 3},
        )
        for host in ("10.0.0.5", "fd00:0:0:0:0:0:0:5", "controller-1", "2.example.com")  # 3.8
    ),
    (
        "Raft",
        "[RaftManager id=1] Completed transition to FollowerState(fetchTimeoutMs=2000, epoch=3, leader=100, leaderEndpoints="
        "Endpoints(endpoints={}), votedKey=Optional.empty) from UnattachedState(epoch=2, leaderId=OptionalInt.empty)",
        "RAFT_STATE_CHANGED",
        {"name": "Follower", "leader": 100, "raft_epoch": 3},
    ),
    (
        "Raft",
        "[RaftManager id=1] Completed transition to UnattachedState(epoch=3, leaderId=OptionalInt.empty, votedKey=Optional.empty)"
        " from null",
        "RAFT_STATE_CHANGED",
        {"name": "Unattached", "raft_epoch": 3},
    ),
    (
        "Raft",
        "[RaftManager nodeId=100] Completed transition to Unattached(epoch=3, voters=[100], electionTimeoutMs=1)",
        "RAFT_STATE_CHANGED",
        {"name": "Unattached", "raft_epoch": 3},
    ),
    *(
        ("Quorum", message, "CONTROLLER_ACTIVE", {**BY_100, "raft_epoch": 3})
        for message in (
            OLD_QUORUM + "Becoming active at controller epoch 3.",
            OLD_QUORUM + "Becoming the active controller at epoch 3, committed offset -1 and committed epoch -1.",
            QUORUM + "Becoming the active controller at epoch 3, next write offset 1.",
            QUORUM + "We were the leader in epoch 2, and are still the leader in the new epoch 3.",
        )
    ),
    (
        "Quorum",
        OLD_QUORUM + "Renouncing the leadership at oldEpoch 2 due to a metadata log event. Reverting to last committed offset 7.",
        "CONTROLLER_STANDBY",
        {**BY_100, "controller_epoch": 2},
    ),
    (
        "Quorum",
        QUORUM + "Renouncing the leadership due to a metadata log event. We were the leader at epoch 2, but in the new epoch 3,"
        " the leader is 101. Reverting to last stable offset 7.",
        "CONTROLLER_STANDBY",
        {**BY_100, "controller_epoch": 2, "raft_epoch": 3, "leader": 101},
    ),
    (
        "Quorum",
        QUORUM + "In the new epoch 3, the leader is (none).",
        "RAFT_LEADER_KNOWN",
        {**BY_100, "raft_epoch": 3},
    ),
    (
        "Heartbeats",
        OLD_QUORUM + "The request from broker 1 to unfence has been granted because it has caught up with the last committed"
        " metadata offset 9.",
        "UNFENCE_GRANTED",
        {**BY_100, "broker_id": 1},
    ),
    *(
        (
            "Heartbeats",
            QUORUM + f"The request from broker 1 to unfence has been granted because it has caught up with the offset of {its}"
            " register broker record 9.",
            "UNFENCE_GRANTED",
            {**BY_100, "broker_id": 1, "metadata_offset": 9},
        )
        for its in ("it's", "its")
    ),
    (
        "Heartbeats",
        QUORUM + "The request from broker 1 to shut down has been granted since the lowest active offset 9 is now greater than"
        " the broker's controlled shutdown offset 8.",
        "SHUTDOWN_GRANTED",
        {**BY_100, "broker_id": 1, "name": "controlled"},
    ),
    *(
        ("Heartbeats", QUORUM + message, event_type, {**BY_100, "broker_id": 1, **more})
        for message, event_type, more in (
            (
                "Unfenced broker 1 has requested and been granted a controlled shutdown.",
                "CONTROLLED_SHUTDOWN_GRANTED",
                {},
            ),
            (
                "Unfenced broker 1 has requested and been granted an immediate shutdown.",
                "SHUTDOWN_GRANTED",
                {"name": "immediate"},
            ),
            ("Unfenced broker 1 has requested and been granted fencing", "FENCE_GRANTED", {}),
            (
                "Fenced broker 1 has requested and been granted an immediate shutdown.",
                "SHUTDOWN_GRANTED",
                {"name": "immediate"},
            ),
        )
    ),
    (
        "Replication",
        OLD_QUORUM + "Fencing broker 1 because its session has timed out.",
        "BROKER_SESSION_EXPIRED",
        {**BY_100, "broker_id": 1},
    ),
    (
        "Replication",
        QUORUM + "Fencing broker 1 at epoch 30 because its session has timed out.",
        "BROKER_SESSION_EXPIRED",
        BROKER_30,
    ),
    *(
        ("Cluster", message, "BROKER_REGISTRATION_ACCEPTED", {**REGISTERED, "name": name})
        for message, name in (
            (
                QUORUM + f"No previous registration found for broker 1. New incarnation ID is {ID}.  Generated 0 record(s) to"
                " clean up previous incarnations. New broker epoch is 30.",
                "first",
            ),
            (
                QUORUM + f"Registering a new incarnation of broker 1. Previous incarnation ID was {OTHER_ID}; new incarnation ID"
                f" is {ID}. Generated 5 record(s) to clean up previous incarnations. Broker epoch will become 30.",
                "new_incarnation",
            ),
            (
                QUORUM + f"Amending registration of broker 1, incarnation ID {ID}. Broker epoch remains 30.",
                "same_incarnation",
            ),
        )
    ),
    *(
        ("Cluster", message, "BROKER_REGISTRATION_REPLAYED", {**columns, "name": name})
        for message, columns, name in (
            (OLD_QUORUM + f"Registered new broker: {REGISTRATION}", REPLAYED, "first"),
            (OLD_QUORUM + f"Re-registered broker incarnation: {REGISTRATION}", REPLAYED, "same_incarnation"),
            (OLD_QUORUM + f"Re-registered broker id 1: {REGISTRATION}", REPLAYED, "new_incarnation"),
            (QUORUM + f"Replayed initial RegisterBrokerRecord for broker 1: {REGISTRATION_4}", REPLAYED_4, "first"),
            (
                QUORUM + f"Replayed RegisterBrokerRecord modifying the registration for broker 1: {REGISTRATION_4}",
                REPLAYED_4,
                "same_incarnation",
            ),
            (
                QUORUM + f"Replayed RegisterBrokerRecord establishing a new incarnation of broker 1: {REGISTRATION_4}",
                REPLAYED_4,
                "new_incarnation",
            ),
        )
    ),
    *(
        ("Cluster", message, "BROKER_UNREGISTERED", BROKER_30)
        for message in (
            OLD_QUORUM + "Unregistered broker: UnregisterBrokerRecord(brokerId=1, brokerEpoch=30)",
            QUORUM + "Replayed UnregisterBrokerRecord(brokerId=1, brokerEpoch=30)",
        )
    ),
    *(
        ("Cluster", message, "BROKER_FENCING_REPLAYED", {**BROKER_30, **more})
        for message, more in (
            (OLD_QUORUM + "Fenced broker: FenceBrokerRecord(id=1, epoch=30)", {"fenced": True}),
            (OLD_QUORUM + "Unfenced broker: UnfenceBrokerRecord(id=1, epoch=30)", {"fenced": False}),
            (
                QUORUM + "Replayed FenceBrokerRecord modifying the registration for broker 1: FenceBrokerRecord(id=1, epoch=30)",
                {"fenced": True},
            ),
            (
                QUORUM + "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 1:"
                " BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch=30, fenced=-1, inControlledShutdown=0, logDirs=[])",
                {"fenced": False},
            ),
            (
                QUORUM + "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 1:"
                " BrokerRegistrationChangeRecord(brokerId=1, brokerEpoch=30, fenced=0, inControlledShutdown=1)",
                {"in_controlled_shutdown": True},
            ),
        )
    ),
]  # fmt: skip

REFUSED = {**BY_100, **T0, "broker_id": 2}
MEMBERS = "[BrokerState(brokerId=2, brokerEpoch=18), BrokerState(brokerId=3, brokerEpoch=-1)]"
STATE = "isr=[1, 2], removingReplicas=[], addingReplicas=[], leader=1, leaderRecoveryState=RECOVERED, leaderEpoch=4, partitionEpoch=6)."
PARTITION_STATE = {
    **BY_100,
    **T0,
    "topic_id": ID,
    "replicas": [1, 2, 3],
    "isr": [1, 2],
    "leader": 1,
    "leader_recovery_state": 0,
    "leader_epoch": 4,
    "partition_epoch": 6,
}
SET_TO_2 = {**BY_100, "name": "min.insync.replicas", "value": "2"}
REFUSALS: list[tuple[str, dict[str, object]]] = [
            (
                OLD_QUORUM + "Rejecting alterIsr request from node 2 for t-0 because the current leader is 1.",
                {"reason": "not_leader", "leader": 1},
            ),
            (
                QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because the current leader epoch is 4, not 3.",
                {"reason": "other_leader_epoch", "leader_epoch": 3, "response_leader_epoch": 4},
            ),
            (
                QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because the current partition epoch is 4, which is"
                " greater than the local value 9.",
                {"reason": "other_partition_epoch", "partition_epoch": 9, "response_partition_epoch": 4},
            ),
            (
                QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because it specified ineligible replicas"
                f" [2 (broker epoch mismatch: requested=18 VS expected=19), 3 (fenced)] in the new ISR {MEMBERS}.",
                {
                    "reason": "ineligible_replicas",
                    "value": "2 (broker epoch mismatch: requested=18 VS expected=19), 3 (fenced)",
                    "isr": [2, 3],
                    "isr_broker_epochs": [18, -1],
                },
            ),
            (
                OLD_QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because it specified an invalid ISR [2, 7].",
                {"reason": "invalid_isr", "isr": [2, 7]},
            ),
            (
                QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because it specified an invalid ISR [3] that"
                " doesn't include itself.",
                {"reason": "invalid_isr", "isr": [3]},
            ),
            (
                QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because the ISR [2, 3] had more than one replica"
                " while the leader was still recovering from an unlcean leader election RECOVERING.",
                {"reason": "leader_recovering", "isr": [2, 3]},
            ),
            (
                QUORUM + "Rejecting AlterPartition request from node 2 for t-0 because the ISR [2, 3] had more than one replica"
                " while the leader was still recovering from an unclean leader election RECOVERING.",
                {"reason": "leader_recovering", "isr": [2, 3]},
            ),
            *(
                (
                    QUORUM + f"Rejecting AlterPartition request from node 2 for t-0 because {why} Proposed ISR was {MEMBERS} and"
                    " current ISR is [2]. Current replica set is [2, 1, 3]. Current partitionEpoch is 4. Current leaderEpoch is 1.",
                    {"isr": [2, 3], "isr_broker_epochs": [18, -1], **more},
                )
                for why, more in (
                    ("the current leader is 1.", {"reason": "not_leader", "leader": 1}),
                    (
                        "the current leader epoch is 4, which is lower than the request value 5.",
                        {"reason": "other_leader_epoch", "leader_epoch": 5, "response_leader_epoch": 4},
                    ),
                    (
                        "the current partition epoch is 1, not 0.",
                        {"reason": "other_partition_epoch", "partition_epoch": 0, "response_partition_epoch": 1},
                    ),
                    (
                        "it specified ineligible replicas [3 (fenced)] in the new ISR.",
                        {"reason": "ineligible_replicas", "value": "3 (fenced)"},
                    ),
                    ("it specified an invalid ISR.", {"reason": "invalid_isr"}),
                    ("it specified an invalid ISR that doesn't include itself.", {"reason": "invalid_isr"}),
                    (
                        "the ISR had more than one replica while the leader was still recovering from an unclean leader"
                        " election RECOVERING.",
                        {"reason": "leader_recovering"},
                    ),
                    (
                        "the leader recovery state cannot change from RECOVERED to RECOVERING.",
                        {"reason": "recovery_state"},
                    ),
                )
            ),
]  # fmt: skip
RECORDS: list[Case] = [
    *(
        ("Replication", message, "ALTER_PARTITION_REJECTED", {**REFUSED, **more})
        for message, more in REFUSALS
    ),
    (
        "Replication",
        OLD_QUORUM + "Rejecting AlterPartition request for unknown topic ID null.",
        "ALTER_PARTITION_REJECTED",
        {**BY_100, "reason": "unknown_topic"},
    ),
    (
        "Replication",
        QUORUM + f"Rejecting AlterPartition request for unknown topic ID {ID} or name t.",
        "ALTER_PARTITION_REJECTED",
        {**BY_100, "reason": "unknown_topic", "topic_id": ID, "topic": "t"},
    ),
    (
        "Replication",
        QUORUM + f"Rejecting AlterPartition request for unknown topic ID {ID} or name .",
        "ALTER_PARTITION_REJECTED",
        {**BY_100, "reason": "unknown_topic", "topic_id": ID},
    ),
    (
        "Replication",
        QUORUM + "Rejecting AlterPartition request for unknown partition t-0.",
        "ALTER_PARTITION_REJECTED",
        {**BY_100, **T0, "reason": "unknown_partition"},
    ),
    (
        "Replication",
        OLD_QUORUM + f"Created partition t-0 with topic ID {ID} and PartitionRegistration(replicas=[1, 2, 3], {STATE}",
        "PARTITION_REPLAYED",
        PARTITION_STATE,
    ),
    *(
        (
            "Replication",
            QUORUM + f"Replayed PartitionRecord for {new} partition t-0 with topic ID {ID} and PartitionRegistration(replicas="
            f"[1, 2, 3], directories=[{OTHER_ID}, {OTHER_ID}, {ID}], {STATE}",
            "PARTITION_REPLAYED",
            PARTITION_STATE,
        )
        for new in ("new", "existing")
    ),
    (
        "Replication",
        QUORUM + f"partition change for t-0 with topic ID {ID}: isr: [1, 2, 3] -> [2, 3], leader: 1 -> 2, leaderEpoch: 3 -> 4,"
        " elr: [] -> [1], partitionEpoch: 5 -> 6",
        "PARTITION_CHANGE_REPLAYED",
        {**BY_100, **T0, "topic_id": ID, "isr": [2, 3], "leader": 2, "leader_epoch": 4, "partition_epoch": 6},
    ),
    *(
        ("Replication", message, event_type, {**BY_100, "topic": "t-0", "topic_id": ID})
        for message, event_type in (
            (OLD_QUORUM + f"Created topic t-0 with ID {ID}.", "TOPIC_REPLAYED"),
            (OLD_QUORUM + f"Created topic t-0 with topic ID {ID}.", "TOPIC_REPLAYED"),
            (QUORUM + f"Replayed TopicRecord for topic t-0 with topic ID {ID}.", "TOPIC_REPLAYED"),
            (OLD_QUORUM + f"Removed topic t-0 with ID {ID}.", "TOPIC_REMOVED"),
            (QUORUM + f"Replayed RemoveTopicRecord for topic t-0 with ID {ID}.", "TOPIC_REMOVED"),
        )
    ),
    (
        "Configuration",
        OLD_QUORUM + "ConfigResource(type=TOPIC, name='t'): set configuration min.insync.replicas to 2",
        "CONFIG_CHANGED",
        {**SET_TO_2, "topic": "t"},
    ),
    (
        "Configuration",
        QUORUM + "Replayed ConfigRecord for ConfigResource(type=BROKER, name='') which set configuration min.insync.replicas to 2",
        "CONFIG_CHANGED",
        SET_TO_2,
    ),
    (
        "Configuration",
        QUORUM + "Replayed ConfigRecord for ConfigResource(type=BROKER, name='3') which set configuration min.insync.replicas to 2",
        "CONFIG_CHANGED",
        {**SET_TO_2, "broker_id": 3},
    ),
    *(
        ("Configuration", beginning + setting + " unclean.leader.election.enable to null", "CONFIG_CHANGED",
        {**BY_100, "topic": "t", "name": UNCLEAN["name"]})
        for beginning, setting in (
            (OLD_QUORUM, "ConfigResource(type=TOPIC, name='t'): set configuration"),
            (QUORUM, "Replayed ConfigRecord for ConfigResource(type=TOPIC, name='t') which set configuration"),
        )
    ),
    *(
        ("ZK", CONTROLLER + f"Unclean leader election has been enabled {whose}", "CONFIG_CHANGED", {**BY_1, **UNCLEAN, **topic})
        for whose, topic in (("by default", {}), ("for topic a.b-c", {"topic": "a.b-c"}))
    ),
    *(
        (logger, message, "CONFIG_CHANGED", expected)
        for logger, message, expected in (
            (
                "Overrides",
                "Processing override for entityPath: topics/t-0 with config: Map(a -> 9, unclean.leader.election.enable -> true)",
                {**UNCLEAN, "topic": "t-0"},
            ),
            ("Overrides3.3", "Processing override for entityPath: topics/t with config: HashMap()", OF_T),
            ("Overrides", "Processing override for entityPath: brokers/3 with config: Map(a -> b)", OF_3),
            (
                "Overrides",
                "Processing override for entityPath: brokers/<default> with config: Map(unclean.leader.election.enable -> true)",
                UNCLEAN,
            ),
            (
                "Creation",
                "Creating topic t with configuration {min.insync.replicas=1, unclean.leader.election.enable=true} and initial"
                " partition assignment HashMap(0 -> ArrayBuffer(1, 2))",
                {**UNCLEAN, "topic": "t"},
            ),
            (
                "Publisher",
                "[DynamicConfigPublisher broker id=3] Updating topic t with new configuration : unclean.leader.election.enable -> true",
                {**UNCLEAN, "topic": "t"},
            ),
            (
                "Publisher",
                "[DynamicConfigPublisher broker id=3] Updating topic t with new configuration : min.insync.replicas -> 1",
                OF_T,
            ),
        )
    ),
    *(
        ("Features", message, "FEATURE_REPLAYED", {**BY_100, "name": name, "value": value})
        for message, name, value in (
            (OLD_QUORUM + "Setting metadata.version to 7", "metadata.version", "7"),
            (QUORUM + "Setting metadata version to 3.5-IV2", "metadata.version", "3.5-IV2"),
            (QUORUM + "Replayed a FeatureLevelRecord setting metadata version to 3.7-IV4", "metadata.version", "3.7-IV4"),
            (QUORUM + "Replayed a FeatureLevelRecord setting metadata.version to 4.1-IV1", "metadata.version", "4.1-IV1"),
            (QUORUM + "Replayed a FeatureLevelRecord setting feature group.version to 1", "group.version", "1"),
            (QUORUM + "Replayed a FeatureLevelRecord removing feature group.version", "group.version", "0"),
            (OLD_QUORUM + "Removing feature group.version", "group.version", "0"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", named(ISR))
def test_isr_changes_of_a_leader(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(TRUNCATION))
def test_truncations_and_fetch_positions_of_a_follower(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(PRODUCERS))
def test_epochs_of_producers(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(EPOCHS))
def test_the_epoch_cache(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(FOLDERS))
def test_the_folders_of_logs(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(ZOOKEEPER))
def test_a_zookeeper_cluster(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(NODE))
def test_a_broker_of_a_quorum(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(QUORUM_OF_CONTROLLERS))
def test_the_controllers_of_a_quorum(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(VOTES))
def test_votes_in_a_quorum(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(TRANSACTIONS))
def test_the_coordinator_of_a_transactional_id(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", named(RECORDS))
def test_records_and_refusals_of_a_quorum(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    "message",
    [
        LOG + "Truncating to 41 has no effect as the largest offset in the log is 40 (kafka.log.Log)",
        UNIFIED + "Truncating future t-0 to offset 4 below high watermark 5 (org.apache.kafka.storage.internals.log.UnifiedLog)",
        QUORUM + "The request from broker 1 to unfence cannot yet be granted because it has not caught up with the offset of"
        " its register broker record 9. It is still at offset 8. (org.apache.kafka.controller.BrokerHeartbeatManager)",
        QUORUM + "The request from broker 1 to shut down can not yet be granted because the lowest active offset 8 is not"
        " greater than the broker's shutdown offset 9. (org.apache.kafka.controller.BrokerHeartbeatManager)",
        "[ReplicaAlterLogDirs on broker 1] Partition t-0 has an older epoch (4) than the current leader. Will await the new"
        " LeaderAndIsr state before resuming fetching. (kafka.server.ReplicaAlterLogDirsThread)",
        PARTITION + "Recorded replica 2 log end offset (LEO) position 3 and log start offset 0. (kafka.cluster.Partition)",
        PARTITION + "High watermark updated from (offset=1 segment=[0:1]) to (offset=2 segment=[0:2])"
        " (kafka.cluster.Partition)",
    ],
)  # fmt: skip
def test_neighbours_of_events_are_ignored(message: str) -> None:
    assert ignored(server_log, AT + message)


ELECTION = CONTROLLER + "Starting replica leader election "
ADMINISTRATOR = f" triggered by AdminClientTriggered ({LOGGERS['ZK']})"


def test_an_election_of_several_partitions_is_a_row_of_each() -> None:
    decoded = decode(server_log, f"{AT}{ELECTION}(UNCLEAN) for partitions t-0,a-b-12{ADMINISTRATOR}")
    assert decoded.outcomes == [LineOutcome.EVENT]
    rows = [(row.get("partition_row"), row["topic"], row["partition"]) for row in decoded.events]
    assert sorted(rows, key=str) == [(0, "t", 0), (1, "a-b", 12)]


@pytest.mark.parametrize("what", ["(UNCLEAN) for partitions ", "(PREFERRED) for partitions t-0"])
def test_an_election_of_none_or_of_the_preferred_leader_is_no_event(what: str) -> None:
    assert ignored(server_log, f"{AT}{ELECTION}{what}{ADMINISTRATOR}")


def test_an_election_whose_partitions_are_cut_is_put_aside() -> None:
    assert quarantine_reason(server_log, f"{AT}{ELECTION}(UNCLEAN) for partitions t-0,t{ADMINISTRATOR}")


@pytest.mark.parametrize("logger", ["Partition", "k.c.Partition", "kafka.cluster.Partition"])
def test_a_class_goes_by_its_simple_name(logger: str) -> None:
    event = only_event(server_log, f"{AT}{PARTITION}Expanding ISR from 1 to 1,2 ({logger})")
    assert event["event_type"] == "ISR_EXPANDING"


def test_a_stack_trace_belongs_to_its_line() -> None:
    assert ignored(server_log, "java.lang.IllegalStateException: Truncating partition t-0")
    assert ignored(server_log, "\tat kafka.cluster.Partition.expandIsr(Partition.scala:12)")
    assert ignored(server_log, "Caused by: org.apache.kafka.common.errors.StaleBrokerEpochException")


def test_beginnings_are_found_by_a_whole_word() -> None:
    assert all(b" " in beginning for beginnings in BEGINNINGS.values() for beginning in beginnings)


def test_every_event_of_a_log_line_is_described() -> None:
    rows = re.findall(r"^\| (`[A-Z_`, ]+) \|", Path("docs/events.md").read_text(), re.MULTILINE)
    described = {event_type for row in rows for event_type in re.findall(r"\w+", row)}
    assert EVENT_TYPES - described == set()
