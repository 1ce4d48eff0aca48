"""Lines of state-change.log, version by version, as events."""

from __future__ import annotations

import time

import pytest

from epochaudit.sources import state_change_log
from epochaudit.sources.server_log import decoder as server_log
from epochaudit.sources.sink import LineOutcome
from tests.sources.decoding import decode, ignored, only_event, quarantine_reason

BROKER = "[2026-11-21 04:08:22,531] INFO [Broker id=1] "
CONTROLLER = "[2026-11-21 04:08:22,531] INFO [Controller id=1 epoch=2] "
LOGGER = " (state.change.logger)"
STATE_3_9 = (
    "LeaderAndIsrPartitionState(topicName='h1', partitionIndex=2, controllerEpoch=1, leader=3, leaderEpoch=4, isr=[3, 1, 2],"
    " partitionEpoch=5, replicas=[3, 1, 2], addingReplicas=[], removingReplicas=[], isNew=true, leaderRecoveryState=0)"
)
STATE_3_2 = STATE_3_9.replace("partitionEpoch=", "zkVersion=").replace("controllerEpoch=1", "controllerEpoch=-1")
SKIPPED_STATE = {
    "event_type": "LEADER_AND_ISR_SKIPPED",
    "topic": "h1",
    "partition": 2,
    "leader": 3,
    "leader_epoch": 4,
    "isr": [3, 1, 2],
    "partition_epoch": 5,
    "replicas": [3, 1, 2],
}
REQUEST = {"controller_id": 3, "controller_epoch": 7, "correlation_id": 5}


def event(message: str, prefix: str = BROKER) -> dict[str, object]:
    return only_event(state_change_log, prefix + message + LOGGER)


def test_an_event_has_the_place_and_time_of_its_line() -> None:
    line = BROKER + "Finished LeaderAndIsr request in 8ms correlationId 3 from controller 1 for 4 partitions" + LOGGER
    decoded = decode(state_change_log, "\tat a.stack.Trace(Trace.java:1)", line)
    assert decoded.outcomes == [LineOutcome.IGNORED, LineOutcome.EVENT]
    [found] = decoded.events
    assert found["time_ms"] == 1795234102531
    assert (found["byte_offset"], found["line_in_split"], found["partition_row"]) == (32, 2, 0)


@pytest.mark.parametrize(
    ("message", "more"),
    [
        (
            "Leader h1-0 with topic id Some(9gDNO0PzRlKeeIAaGyFvow) starts at leader epoch 8 from offset 252 with partition"
            " epoch 12, high watermark 251, ISR [1,2], adding replicas [3] and removing replicas [2] (under-min-isr)."
            " Previous leader Some(2) and previous leader epoch was 7.",
            {"topic_id": "9gDNO0PzRlKeeIAaGyFvow", "partition_epoch": 12},
        ),
        (
            "Leader h1-0 with topic id None starts at leader epoch 8 from offset 252 with partition epoch 12, high watermark"
            " 251, ISR [1,2], adding replicas [] and removing replicas []. Previous leader epoch was 7.",
            {"partition_epoch": 12},
        ),
        (
            "Leader h1-0 starts at leader epoch 8 from offset 252 with high watermark 251 ISR [1,2] addingReplicas []"
            " removingReplicas []. Previous leader epoch was 7.",
            {},
        ),
    ],
    ids=["3.6 on", "3.3", "2.6 to 3.2"],
)
def test_a_leader_starts_an_epoch_at_an_offset(message: str, more: dict[str, object]) -> None:
    assert event(message) == {
        "event_type": "LEADER_STARTS",
        "topic": "h1",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 8,
        "start_offset": 252,
        "high_watermark": 251,
        "isr": [1, 2],
        "previous_epoch": 7,
        **more,
    }


@pytest.mark.parametrize(
    ("message", "more"),
    [
        (
            "Follower h1-1 starts at leader epoch 3 from offset 27 with partition epoch 6 and high watermark 26. Current"
            " leader is 2. Previous leader Some(3) and previous leader epoch was 1.",
            {"leader": 2, "partition_epoch": 6, "previous_epoch": 1},
        ),
        (
            "Follower h1-1 starts at leader epoch 3 from offset 27 with partition epoch 6 and high watermark 26. Current"
            " leader is 2. Previous leader None and previous leader epoch was -1.",
            {"leader": 2, "partition_epoch": 6, "previous_epoch": -1},
        ),
        (
            "Follower h1-1 starts at leader epoch 3 from offset 27 with partition epoch 6 and high watermark 26. Current"
            " leader is 2. Previous leader Some(2) and previous leader epoch was 3.",
            {"leader": 2, "partition_epoch": 6},
        ),
        (
            "Follower h1-1 starts at leader epoch 3 from offset 27 with partition epoch 6 and high watermark 26. Current"
            " leader is 2. Previous leader epoch was 1.",
            {"leader": 2, "partition_epoch": 6, "previous_epoch": 1},
        ),
        (
            "Follower h1-1 starts at leader epoch 3 from offset 27 with high watermark 26. Previous leader epoch was -1.",
            {"previous_epoch": -1},
        ),
    ],
    ids=["4.2 on", "4.2 on, of a new process", "3.6 to 4.1, which state the new epoch", "3.3 to 3.5", "2.6 to 3.2"],
)
def test_a_follower_starts(message: str, more: dict[str, object]) -> None:
    assert event(message) == {
        "event_type": "FOLLOWER_STARTS",
        "topic": "h1",
        "partition": 1,
        "leader_epoch": 3,
        "start_offset": 27,
        "high_watermark": 26,
        **more,
    }


def test_topic_and_partition_are_split_at_the_last_dash() -> None:
    found = event("Creating new partition orders.eu-1-0 with topic id NywrUCMRStCBJJOEQBTNww.")
    assert found == {
        "event_type": "PARTITION_CREATED",
        "topic": "orders.eu-1",
        "partition": 0,
        "topic_id": "NywrUCMRStCBJJOEQBTNww",
    }


def test_a_partition_that_is_created_because_it_was_missing() -> None:
    found = event(
        "Expected partition t-0 with topic id NywrUCMRStCBJJOEQBTNww to exist, but it was missing. Creating..."
    )
    assert found["event_type"] == "PARTITION_CREATED"


@pytest.mark.parametrize(
    ("message", "event_type"),
    [
        ("Handling LeaderAndIsr request correlationId 5 from controller 3 for 1 partitions", "LEADER_AND_ISR_HANDLING"),
        (
            "Finished LeaderAndIsr request in 12ms correlationId 5 from controller 3 for 1 partitions",
            "LEADER_AND_ISR_FINISHED",
        ),
        ("Handling StopReplica request correlationId 5 from controller 3 for 1 partitions", "STOP_REPLICA_HANDLING"),
    ],
)
def test_the_handling_of_a_request(message: str, event_type: str) -> None:
    assert event(message) == {"event_type": event_type, "controller_id": 3, "correlation_id": 5}


@pytest.mark.parametrize(
    ("message", "topic"),
    [
        (f"Received LeaderAndIsr request {STATE_3_9} correlation id 5 from controller 3 epoch 7", "h1"),
        (f"Received LeaderAndIsr request {STATE_3_2} correlation id 5 from controller 3 epoch 7", "h1"),
        (
            "Received LeaderAndIsr request PartitionState(controllerEpoch=1, leader=3, leaderEpoch=4, isr=3,1,2, zkVersion=5,"
            " replicas=3,1,2, isNew=true) correlation id 5 from controller 3 epoch 7 for partition a-b-2",
            "a-b",
        ),
    ],
    ids=["3.3 on", "2.4 to 3.2", "up to 2.3"],
)
def test_a_received_leader_and_isr(message: str, topic: str) -> None:
    assert event(message) == {**SKIPPED_STATE, "event_type": "LEADER_AND_ISR_RECEIVED", "topic": topic, **REQUEST}


IGNORING = "Ignoring LeaderAndIsr request from controller 3 with correlation id 5 epoch 7 for partition h1-2"
KNOWN_8: dict[str, object] = {"current_controller_epoch": 8, "reason": "stale_controller_epoch"}
OF_PARTITION = {"event_type": "LEADER_AND_ISR_IGNORED", "topic": "h1", "partition": 2, **REQUEST}


@pytest.mark.parametrize(
    ("message", "columns"),
    [
        (
            IGNORING + " since its associated leader epoch 2 is smaller than the current leader epoch 4",
            {**OF_PARTITION, "leader_epoch": 2, "current_leader_epoch": 4, "reason": "stale_leader_epoch"},
        ),
        (
            IGNORING + " since its associated leader epoch 4 matches the current leader epoch",
            {**OF_PARTITION, "leader_epoch": 4, "reason": "equal_leader_epoch"},
        ),
        (
            IGNORING + " since its associated leader epoch 4 is not higher than the current leader epoch 4",
            {**OF_PARTITION, "leader_epoch": 4, "reason": "equal_leader_epoch"},
        ),
        (
            IGNORING + " since its associated leader epoch 4 is not higher than the current leader epoch 41",
            {**OF_PARTITION, "leader_epoch": 4, "current_leader_epoch": 41, "reason": "stale_leader_epoch"},
        ),
        (
            IGNORING + " as itself is not in assigned replica list 2,3",
            {**OF_PARTITION, "replicas": [2, 3], "reason": "not_in_replicas"},
        ),
        (
            IGNORING + " as the local replica for the partition is in an offline log directory",
            {**OF_PARTITION, "reason": "offline_log_dir"},
        ),
        (
            "Ignoring LeaderAndIsr request from controller 3 with correlation id 5 since its controller epoch 7 is old."
            " Latest known controller epoch is 8",
            {"event_type": "LEADER_AND_ISR_IGNORED", **REQUEST, **KNOWN_8},
        ),
        (
            "Received LeaderAndIsrRequest with correlation id 5 from controller 3 epoch 7 for partition h1-2 (last update"
            " controller epoch 6) but cannot become follower since the new leader -1 is unavailable.",
            {**OF_PARTITION, "leader": -1, "reason": "leader_unavailable"},
        ),
        (
            "Topic ID in memory: GQxZaGHnRWyDgG9ltALc3w does not match the topic ID for partition h1-2 received:"
            " zzzzzzzzQQyzzzzzzzzzzA.",
            {
                "event_type": "LEADER_AND_ISR_IGNORED",
                "topic": "h1",
                "partition": 2,
                "topic_id": "zzzzzzzzQQyzzzzzzzzzzA",
                "reason": "inconsistent_topic_id",
            },
        ),
        (
            "Topic Id in memory: GQxZaGHnRWyDgG9ltALc3w does not match the topic Id for partition h1-2 provided in the"
            " request: zzzzzzzzQQyzzzzzzzzzzA.",
            {
                "event_type": "LEADER_AND_ISR_IGNORED",
                "topic": "h1",
                "partition": 2,
                "topic_id": "zzzzzzzzQQyzzzzzzzzzzA",
                "reason": "inconsistent_topic_id",
            },
        ),
    ],
)
def test_a_leader_and_isr_is_ignored_for_a_reason(message: str, columns: dict[str, object]) -> None:
    assert event(message) == columns


ID = "NywrUCMRStCBJJOEQBTNww"


@pytest.mark.parametrize(
    ("message", "columns"),
    [
        (
            f"Skipped the become-follower state change for h1-2 with topic id Some({ID}) and partition state {STATE_3_9}"
            " since it is already a follower with leader epoch 4.",
            {**SKIPPED_STATE, "topic_id": ID, "reason": "already_in_state"},
        ),
        (
            f"Skipped the become-leader state change for h1-2 with topic id Some({ID}) and partition state {STATE_3_9} since"
            " it is already the leader with leader epoch 4. Current high watermark 0, ISR [1], adding replicas [] and"
            " removing replicas [].",
            {**SKIPPED_STATE, "topic_id": ID, "reason": "already_in_state"},
        ),
        (
            f"Skipped the become-leader state change for h1-2 with topic id None and partition state {STATE_3_9} since the"
            " leader is already at a newer partition epoch 9.",
            {**SKIPPED_STATE, "reason": "newer_partition_epoch"},
        ),
        *(
            (
                f"Skipped the become-{role} state change for h1-2 with topic id Some({ID}), partition registration"
                " PartitionRegistration(replicas=[3, 1, 2], directories=[AAAAAAAAAAAAAAAAAAAAAA, AAAAAAAAAAAAAAAAAAAAAA,"
                f" {ID}], isr=[3, 1, 2], removingReplicas=[], addingReplicas=[], elr=[], lastKnownElr=[], leader=3,"
                f" leaderRecoveryState=RECOVERED, leaderEpoch=4, partitionEpoch=5) and isNew=false since {why}",
                {**SKIPPED_STATE, "topic_id": ID, "reason": reason},
            )
            for role, why, reason in (
                ("follower", "it is already a follower with leader epoch 4.", "already_in_state"),
                ("follower", "the follower is already at a newer partition epoch 9.", "newer_partition_epoch"),
                (
                    "leader",
                    "it is already the leader with leader epoch 4. Current high watermark 0, ISR [1], adding replicas [] and"
                    " removing replicas [].",
                    "already_in_state",
                ),
            )
        ),
        (
            f"Skipped the become-follower state change after marking its partition as follower for partition h1-2 with id"
            f" {ID} and partition state {STATE_3_2}.",
            {**SKIPPED_STATE, "topic_id": ID, "reason": "already_in_state"},
        ),
        (
            f"Skipped the become-leader state change for h1-2 with topic id {ID} because this partition is already a local"
            " leader.",
            {
                "event_type": "LEADER_AND_ISR_SKIPPED",
                "topic": "h1",
                "partition": 2,
                "topic_id": ID,
                "reason": "already_in_state",
            },
        ),
        (
            f"Updating log for h1-2 to assign topic ID {ID} from LeaderAndIsr request from controller 3 with correlation id 5 epoch 7",
            {**OF_PARTITION, "event_type": "LEADER_AND_ISR_SKIPPED", "topic_id": ID, "reason": "topic_id_assigned"},
        ),
        (
            "Skipped the become-leader state change after marking its partition as leader with correlation id 5 from"
            " controller 3 epoch 7 for partition h1-2 (last update controller epoch 7) since it is already the leader for the"
            " partition.",
            {**OF_PARTITION, "event_type": "LEADER_AND_ISR_SKIPPED", "reason": "already_in_state"},
        ),
        (
            "Skipped the become-follower state change after marking its partition as follower with correlation id 5 from"
            " controller 3 epoch 7 for partition h1-2 (last update controller epoch 7) since the new leader 2 is the same as"
            " the old leader",
            {**OF_PARTITION, "event_type": "LEADER_AND_ISR_SKIPPED", "leader": 2, "reason": "already_in_state"},
        ),
        (
            "Skipped the become-follower state change with correlation id 5 from controller 3 epoch 7 for partition h1-2"
            " (last update controller epoch 7) with leader 2 since the replica for the partition is offline due to storage"
            " error java.io.IOException: (disk) gone",
            {**OF_PARTITION, "event_type": "LEADER_AND_ISR_SKIPPED", "leader": 2, "reason": "offline_log_dir"},
        ),
        *(
            (
                f"A ZooKeeper client exception has occurred{text}",
                {"event_type": "LEADER_AND_ISR_SKIPPED", "topic": "h1", "partition": 2, "reason": "zookeeper_error"},
            )
            for text in (
                " and makeLeader will be skipping the state change for the partition h1-2 with leader epoch: 5 ",
                " and makeLeader will be skipping the state change for the partition h1-2 with leader epoch: -1.",
                ". makeFollower will be skipping the state change for the partition h1-2 with leader epoch: 5.",
            )
        ),
    ],
)
def test_a_change_of_state_is_skipped_for_a_reason(message: str, columns: dict[str, object]) -> None:
    assert event(message) == columns


STOPPING = (
    "Ignoring StopReplica request (delete=true) from controller 3 with correlation id 5 epoch 7 for partition h1-2"
)
STOP_IGNORED = {**OF_PARTITION, "event_type": "STOP_REPLICA_IGNORED", "delete_partition": True}


@pytest.mark.parametrize(
    ("message", "columns"),
    [
        (
            "Received StopReplica request StopReplicaPartitionState(partitionIndex=2, leaderEpoch=-2, deletePartition=false)"
            " correlation id 5 from controller 3 epoch 7 for partition h1-2",
            {**STOP_IGNORED, "event_type": "STOP_REPLICA_RECEIVED", "leader_epoch": -2, "delete_partition": False},
        ),
        (
            "Handling stop replica (delete=true) for partition h1-2",
            {"event_type": "STOP_REPLICA_RECEIVED", "topic": "h1", "partition": 2, "delete_partition": True},
        ),
        (
            STOPPING + " since its associated leader epoch 3 is smaller than the current leader epoch 6",
            {**STOP_IGNORED, "leader_epoch": 3, "current_leader_epoch": 6, "reason": "stale_leader_epoch"},
        ),
        (
            STOPPING + " since its associated leader epoch 3 matches the current leader epoch",
            {**STOP_IGNORED, "leader_epoch": 3, "reason": "equal_leader_epoch"},
        ),
        (
            STOPPING + " as the local replica for the partition is in an offline log directory",
            {**STOP_IGNORED, "reason": "offline_log_dir"},
        ),
        (
            "Ignoring StopReplica request from controller 3 with correlation id 5 since its controller epoch 7 is old. Latest"
            " known controller epoch is 8",
            {"event_type": "STOP_REPLICA_IGNORED", **REQUEST, **KNOWN_8},
        ),
        (
            "Received stop replica request from an old controller epoch 7. Latest known controller epoch is 8",
            {"event_type": "STOP_REPLICA_IGNORED", "controller_epoch": 7, **KNOWN_8},
        ),
    ],
)
def test_stop_replica_at_the_broker(message: str, columns: dict[str, object]) -> None:
    assert event(message) == columns


def test_stop_replica_as_the_controller_sends_it() -> None:
    found = event(
        "Sending StopReplica request StopReplicaPartitionState(partitionIndex=2, leaderEpoch=0, deletePartition=false) to"
        " broker 3 for partition h1-2",
        CONTROLLER,
    )
    assert found == {
        "event_type": "STOP_REPLICA_SENDING",
        "controller_id": 1,
        "controller_epoch": 2,
        "broker_id": 3,
        "topic": "h1",
        "partition": 2,
        "leader_epoch": 0,
        "delete_partition": False,
    }


def test_update_metadata_is_applied_or_refused() -> None:
    assert event(
        "Add 3 partitions and deleted 0 partitions from metadata cache in response to UpdateMetadata request sent by"
        " controller 3 epoch 7 with correlation id 5"
    ) == {"event_type": "UPDATE_METADATA_APPLIED", **REQUEST}
    assert event(
        "Received update metadata request with correlation id 5 from an old controller 3 with epoch 7. Latest known"
        " controller epoch is 8"
    ) == {"event_type": "UPDATE_METADATA_IGNORED", **REQUEST, **KNOWN_8}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("Transitioning 3 partition(s) to local leaders.", "transitioning_leaders"),
        ("Transitioning 3 partition(s) to local followers.", "transitioning_followers"),
        ("Stopped fetchers as part of become-follower for 3 partitions", "stopped_fetchers"),
        ("Started fetchers as part of become-follower for 3 partitions", "started_fetchers"),
    ],
)
def test_a_metadata_delta_is_applied_in_steps(message: str, name: str) -> None:
    assert event(message) == {"event_type": "METADATA_DELTA", "name": name}


@pytest.mark.parametrize(
    ("message", "more"),
    [
        (
            "Changed partition h1-0 from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=1,"
            " isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=3, brokerEpoch=-1)),"
            " leaderRecoveryState=RECOVERING, partitionEpoch=4)",
            {"leader_recovery_state": 1, "partition_epoch": 4},
        ),
        (
            "Changed partition h1-0 from NewPartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=1,"
            " isr=List(2, 3), zkVersion=4)",
            {"partition_epoch": 4},
        ),
        (
            "Partition h1-0 state changed to (Leader:2,ISR:2,3,LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:4,"
            "ControllerEpoch:1) after removing replica 1 from the ISR as part of transition to OfflineReplica",
            {"leader_recovery_state": 0, "partition_epoch": 4},
        ),
        (
            "Partition h1-0 state changed to (Leader:2,ISR:2,3,LeaderEpoch:1,ControllerEpoch:1) after removing replica 1 from"
            " the ISR as part of transition to OfflineReplica",
            {},
        ),
        (
            "Sent LeaderAndIsr request (Leader:2,ISR:2,3,LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:4,ControllerEpoch:2)"
            " with new replica assignment ReplicaAssignment(replicas=2,3,1, addingReplicas=3, removingReplicas=1) to leader 2 for"
            " partition being reassigned h1-0",
            {"leader_recovery_state": 0, "partition_epoch": 4},
        ),
        (
            "Sent LeaderAndIsr request (Leader:2,ISR:2,3,LeaderEpoch:1,ControllerEpoch:2) with new assigned replica list 2,3,1 to"
            " leader 2 for partition being reassigned h1-0",
            {},
        ),
    ],
    ids=[
        "3.5 on",
        "2.0 on",
        "3.2 on, offline replica",
        "2.6 on, offline replica",
        "3.2 on, reassigned",
        "1.0 on, reassigned",
    ],
)
def test_the_controller_changes_a_partition(message: str, more: dict[str, object]) -> None:
    assert event(message, CONTROLLER) == {
        "event_type": "PARTITION_STATE_CHANGED",
        "controller_id": 1,
        "controller_epoch": 2,
        "topic": "h1",
        "partition": 0,
        "leader": 2,
        "leader_epoch": 1,
        "isr": [2, 3],
        **more,
    }


@pytest.mark.parametrize(
    "line",
    [
        BROKER
        + "Cached leader info UpdateMetadataPartitionState(topicName='h1', partitionIndex=0) for partition h1-0"
        + LOGGER,
        BROKER
        + "Handling LeaderAndIsr request correlationId 3 from controller 1 epoch 1 starting the become-leader transition"
        " for partition h1-0" + LOGGER,
        BROKER
        + "Stopped fetchers as part of become-follower request from controller 1 epoch 1 with correlation id 3 for 2"
        " partitions" + LOGGER,
        CONTROLLER + "Changed partition h1-0 state from OnlinePartition to OfflinePartition" + LOGGER,
        CONTROLLER + "Changed partition h1-0 from OfflinePartition to OnlinePartition with leader 1" + LOGGER,
        CONTROLLER + "Received response UpdateMetadataResponseData(errorCode=0) for request UPDATE_METADATA" + LOGGER,
        "kafka.common.StateChangeFailedException: Failed to elect leader for partition t-0",
        "\tat kafka.controller.ZkPartitionStateMachine.handleStateChanges(PartitionStateMachine.scala:124)",
        "[1, 2]",
        "",
    ],
)
def test_lines_that_tell_nothing_more_are_ignored(line: str) -> None:
    assert ignored(state_change_log, line)


FOLLOWER = BROKER + "Follower h1-1 starts at leader epoch 3 from offset 27 with high watermark 26. Previous" + LOGGER


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (FOLLOWER[:-9], "cut off"),
        (BROKER + "Cached leader in", "cut off"),
        ("[2026-11-21 04:0", "cut off"),
        ("[2026-11-21 04:08:22,531] INF", "cut off"),
        (BROKER + "Partition h1-0 state changed to (Leader:2,ISR:2,3,LeaderEpoch:1,ControllerEpoch:1)", "not known"),
        (FOLLOWER.encode().replace(b"h1", b"h\0"), "NUL"),
        (b"\0" * 40, "NUL"),
        (FOLLOWER.encode().replace(b"h1", b"h\xff"), "UTF-8"),
        (FOLLOWER.replace("epoch 3", "epoch 2147483648"), "out of its range"),
        (FOLLOWER.replace("epoch 3", "epoch " + "9" * 6000), "out of its range"),
        (BROKER + "Leader h1-0 leads from now on." + LOGGER, "not known"),
    ],
)
def test_bad_lines_are_quarantined_with_a_reason(line: str | bytes, reason: str) -> None:
    assert reason in quarantine_reason(state_change_log, line)


def test_a_bad_line_does_not_harm_its_neighbours() -> None:
    decoded = decode(state_change_log, FOLLOWER, FOLLOWER[:-30], FOLLOWER)
    assert decoded.outcomes == [LineOutcome.EVENT, LineOutcome.QUARANTINED, LineOutcome.EVENT]


@pytest.mark.parametrize("filling", ["-1", "a-", "(", " (x", "1, ", "()", "9"])
@pytest.mark.parametrize(
    "message",
    [
        "Leader {} starts at leader epoch 1",
        "Skipped the become-leader state change for {}",
        "Changed partition t-0 from A to B with state LeaderAndIsr(leader=2, leaderEpoch=1, isr=List({",
        "Ignoring LeaderAndIsr request from controller 3 with correlation id 5 epoch 7 for partition t-0 as itself is not in"
        " assigned replica list {}",
    ],
)
def test_hostile_lines_are_read_in_linear_time(message: str, filling: str) -> None:
    line = BROKER + message.replace("{}", filling * 100_000) + "!" + LOGGER
    begin = time.process_time()
    decode(state_change_log, line)
    assert time.process_time() - begin < 2


def test_the_log_is_recognised_by_its_first_dated_line() -> None:
    head = ("\tat the.rest.of.a.Trace(T.java)\n" + FOLLOWER + "\n").encode()
    assert state_change_log.recognise(head)
    assert not server_log.recognise(head)
    assert not state_change_log.recognise(b"[2026-11-21 04:08:22,531] INFO starting (kafka.server.KafkaServer)\n")
    assert not state_change_log.recognise(b'{"text": "(state.change.logger)"}\n')
