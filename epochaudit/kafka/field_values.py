"""Reserved and enumerated values of protocol fields."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

NO_LEADER: Final = -1  # org.apache.kafka.metadata.LeaderConstants
NO_LEADER_CHANGE: Final = -2  # org.apache.kafka.metadata.LeaderConstants, in PartitionChangeRecord: unchanged
LEADER_DURING_DELETE: Final = -2  # kafka.api.LeaderAndIsr: UpdateMetadata announces a deletion with it
# kafka.api.LeaderAndIsr: leader epoch in StopReplica of a deletion, which no fence refuses
EPOCH_DURING_DELETE: Final = -2

NO_EPOCH: Final = -1  # RecordBatch.NO_PARTITION_LEADER_EPOCH: not given or not known
NO_OFFSET: Final = -1  # no position, no commit: OffsetFetchResponse.INVALID_OFFSET
NO_BROKER_EPOCH: Final = -1  # not given
METADATA_TOPIC: Final = "__cluster_metadata"  # org.apache.kafka.common.internals.Topic.CLUSTER_METADATA_TOPIC_NAME
METADATA_TOPICS: Final = (METADATA_TOPIC, "@metadata")  # the latter in 2.8: KafkaRaftServer.MetadataTopic
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  # org.apache.kafka.common.Uuid.METADATA_TOPIC_ID
NO_TOPIC_ID: Final = "A" * 22  # org.apache.kafka.common.Uuid.ZERO_UUID, as it is printed: none, or none given
NO_PRODUCER_ID: Final = -1  # RecordBatch.NO_PRODUCER_ID: none, or none given

# replicaId in consumers' FetchRequest, ListOffsetsRequest and OffsetForLeaderEpochRequest
CONSUMER_REPLICA_ID: Final = -1

# TransactionVersion.TV_2: each transaction has its own producer epoch (KIP-890)
EPOCH_BUMP_TRANSACTION_VERSION: Final = 2

FULL_EPOCH: Final = 0  # ShareRequestMetadata.INITIAL_EPOCH: opens a share session
FINAL_EPOCH: Final = -1  # ShareRequestMetadata.FINAL_EPOCH: closes it

ALL_REPLICAS: Final = -1  # acks of a ProduceRequest: all members of the ISR

HIGH_WATERMARK: Final = -1  # DeleteRecordsRequest.HIGH_WATERMARK: as an offset, all committed records

LATEST_TIMESTAMP: Final = -1  # ListOffsetsRequest, as the next five
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6

READ_COMMITTED: Final = 1  # org.apache.kafka.common.IsolationLevel

# org.apache.kafka.common.DirectoryId.MIGRATING; counts as online
UNMIGRATED_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNASSIGNED_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAQ"  # DirectoryId.UNASSIGNED; counts as online
LOST_DIRECTORY: Final = "AAAAAAAAAAAAAAAAAAAAAg"  # DirectoryId.LOST; counts as offline

TOPIC_RESOURCE: Final = 2  # org.apache.kafka.common.config.ConfigResource.Type
UNCLEAN_ELECTION_TYPE: Final = 1  # org.apache.kafka.common.ElectionType
RECOVERED: Final = 0  # org.apache.kafka.metadata.LeaderRecoveryState
RECOVERING: Final = 1


class ZkMigrationState(StrEnum):
    """org.apache.kafka.metadata.migration.ZkMigrationState, as the metadata log has it. 3.4 wrote only 1, and called it PRE_MIGRATION."""

    NONE = "0"
    MIGRATION = "1"
    PRE_MIGRATION = "2"
    POST_MIGRATION = "3"


SET: Final = 0  # org.apache.kafka.clients.admin.AlterConfigOp.OpType
UNKNOWN_TYPE: Final = 0  # AbstractControlRequest.Type.UNKNOWN: not given
FULL: Final = 2  # AbstractControlRequest.Type: a LeaderAndIsr that lists all replicas of the broker (from 3.6.1)

BROKER: Final = "broker"  # process.roles, as the next
CONTROLLER: Final = "controller"
ROLES: Final = (BROKER, CONTROLLER)
Role = Literal["broker", "controller"]
