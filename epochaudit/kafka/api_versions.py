"""Request versions that introduced a field or behaviour, from the comments in Kafka's message definitions (*Request.json)."""

from __future__ import annotations

from typing import Final

LEADER_EPOCH_FETCH_VERSION: Final = 9  # currentLeaderEpoch (KIP-320)
FOLLOWER_FETCH_VERSION: Final = 11  # consumers may read from followers (KIP-392)
DIVERGING_EPOCH_FETCH_VERSION: Final = 12  # lastFetchedEpoch; divergingEpoch and currentLeader of the answer (KIP-595)
TOPIC_ID_FETCH_VERSION: Final = 13  # topic ids in place of names (KIP-516)
REPLICA_STATE_FETCH_VERSION: Final = 15  # replicaState, with the broker epoch, in place of replicaId (KIP-903)
HINTING_FETCH_VERSION: Final = 16  # currentLeader of answers 6 and 74 to clients (KIP-951)

OFFSET_NOT_AVAILABLE_LIST_OFFSETS_VERSION: Final = 5  # OFFSET_NOT_AVAILABLE while a new leader catches up (KIP-207)

RELIABLE_METADATA_VERSION: Final = 9  # MetadataResponse.hasReliableLeaderEpochs (KAFKA-9212)

TOPIC_ID_LEADER_AND_ISR_VERSION: Final = 5  # topic ids, by which the answer lists partitions (KIP-516)
RECOVERY_STATE_LEADER_AND_ISR_VERSION: Final = 6  # leaderRecoveryState (KIP-704); of 3.2
TYPE_UPDATE_METADATA_VERSION: Final = 8  # type, a tagged field (KIP-866)
LEADER_EPOCH_STOP_REPLICA_VERSION: Final = 3  # leaderEpoch and deletePartition of each partition (KIP-570)

MEMBER_EPOCH_OFFSET_COMMIT_VERSION: Final = 9  # generationIdOrMemberEpoch may be a member epoch (KIP-848)

STABLE_SHARE_SESSION_VERSION: Final = 1  # ShareFetch, ShareAcknowledge: version 0 was an early access of 4.0 (KIP-932)

PREVIOUS_EPOCH_BROKER_REGISTRATION_VERSION: Final = 3  # previousBrokerEpoch (KIP-966)
ELIGIBILITY_CHECK_VERSION: Final = 2  # AlterPartition: INELIGIBLE_REPLICA and NEW_LEADER_ELECTED (KIP-841)
TOPIC_ID_ALTER_PARTITION_VERSION: Final = 2  # topic ids in place of names (KIP-841)

# each transaction has its own producer epoch; the answer gives the next (KIP-890)
EPOCH_BUMP_END_TXN_VERSION: Final = 5
