"""Lines of server.log and controller.log, version by version, as events."""

from __future__ import annotations

import pytest

from epochaudit.sources.metadata_log import dump as metadata_dump
from epochaudit.sources.server_log import decoder as server_log
from epochaudit.sources.sink import LineOutcome
from tests.sources.decoding import decode, ignored, only_event, quarantine_reason

AT = "[2026-11-21 04:43:00,829] INFO "


def event(message: str) -> dict[str, object]:
    return only_event(server_log, AT + message)


@pytest.mark.parametrize(
    "message",
    [
        "Kafka version : 2.0.1 (org.apache.kafka.common.utils.AppInfoParser)",
        "Kafka version: 2.0.1 (org.apache.kafka.common.utils.AppInfoParser)",
    ],
)
def test_the_version_of_a_process(message: str) -> None:
    assert event(message) == {"event_type": "KAFKA_VERSION", "name": "kafka", "value": "2.0.1"}


@pytest.mark.parametrize(
    ("message", "event_type", "name"),
    [
        ("starting (kafka.server.KafkaServer)", "PROCESS_STARTING", "broker"),
        ("[KafkaServer id=1] started (kafka.server.KafkaServer)", "PROCESS_STARTED", "broker"),
        ("[KafkaServer id=1] shutting down (kafka.server.KafkaServer)", "PROCESS_SHUTTING_DOWN", "broker"),
        ("[KafkaServer id=1] shut down completed (kafka.server.KafkaServer)", "PROCESS_STOPPED", "broker"),
        ("[BrokerServer id=1] Transition from SHUTDOWN to STARTING (kafka.server.BrokerServer)", "PROCESS_STARTING", "broker"),
        ("[BrokerServer id=1] Starting broker (kafka.server.BrokerServer)", "PROCESS_STARTING", "broker"),
        ("[BrokerServer id=1] shutting down (kafka.server.BrokerServer)", "PROCESS_SHUTTING_DOWN", "broker"),
        ("[BrokerServer id=1] shut down completed (kafka.server.BrokerServer)", "PROCESS_STOPPED", "broker"),
        ("Starting controller (kafka.server.ControllerServer)", "PROCESS_STARTING", "controller"),
        ("[ControllerServer id=9] Starting controller (kafka.server.ControllerServer)", "PROCESS_STARTING", "controller"),
        ("[ControllerServer id=9] shutting down (kafka.server.ControllerServer)", "PROCESS_SHUTTING_DOWN", "controller"),
        ("Kafka Server started (kafka.server.KafkaRaftServer)", "PROCESS_STARTED", "node"),
        ("[KafkaRaftServer nodeId=9] Kafka Server started (kafka.server.KafkaRaftServer)", "PROCESS_STARTED", "node"),
    ],
)  # fmt: skip
def test_the_life_of_a_process(message: str, event_type: str, name: str) -> None:
    assert event(message) == {"event_type": event_type, "name": name}


@pytest.mark.parametrize(
    ("message", "epoch"),
    [
        (
            "Registered broker 1 at path /brokers/ids/1 with addresses: PLAINTEXT://127.0.0.1:9091, czxid (broker epoch): 26"
            " (kafka.zk.KafkaZkClient)",
            {"current_broker_epoch": 26, "name": "zookeeper"},
        ),
        (
            "Registered broker 1 at path /brokers/ids/1 with addresses: ArrayBuffer(EndPoint(127.0.0.1,9091,"
            "ListenerName(PLAINTEXT),PLAINTEXT)), czxid (broker epoch): 26 (kafka.zk.KafkaZkClient)",
            {"current_broker_epoch": 26, "name": "zookeeper"},
        ),
        (
            "Registered broker 1 at path /brokers/ids/1 with addresses: ArrayBuffer(EndPoint(127.0.0.1,9091,"
            "ListenerName(PLAINTEXT),PLAINTEXT)) (kafka.zk.KafkaZkClient)",
            {"name": "zookeeper"},
        ),
        (
            "[BrokerLifecycleManager id=1] Successfully registered broker 1 with broker epoch 0"
            " (kafka.server.BrokerLifecycleManager)",
            {"current_broker_epoch": 0, "name": "kraft"},
        ),
        (
            "[BrokerLifecycleManager id=1 isZkBroker=true] Successfully registered broker 1 with broker epoch 30"
            " (kafka.server.BrokerLifecycleManager)",
            {"current_broker_epoch": 30, "name": "zookeeper_in_migration"},
        ),
    ],
    ids=["ZooKeeper, 2.4 on", "ZooKeeper, 2.2", "ZooKeeper, 2.0: no broker epochs", "KRaft", "in migration, 3.5 on"],
)
def test_the_registration_of_a_broker(message: str, epoch: dict[str, object]) -> None:
    assert event(message) == {"event_type": "BROKER_REGISTERED", "broker_id": 1, **epoch}


@pytest.mark.parametrize(
    ("pairs", "brokers", "epochs"),
    [("HashMap(1 -> 26, 3 -> 61)", [1, 3], [26, 61]), ("Map(1 -> 25)", [1], [25]), ("Map()", [], [])],
)
@pytest.mark.parametrize("verb", ["Initialized", "Updated"])
def test_the_broker_epochs_that_a_controller_knows(
    verb: str, pairs: str, brokers: list[int], epochs: list[int]
) -> None:
    assert event(f"[Controller id=2] {verb} broker epochs cache: {pairs} (kafka.controller.KafkaController)") == {
        "event_type": "BROKER_EPOCHS_CACHE",
        "controller_id": 2,
        "live_brokers": brokers,
        "live_broker_epochs": epochs,
    }


@pytest.mark.parametrize(
    ("ending", "epoch"),
    [(". Epoch incremented to 3 and epoch zk version is now 4", {"controller_epoch": 3}), ("", {})],
    ids=["2.2 on", "2.0"],
)
def test_the_election_of_a_controller(ending: str, epoch: dict[str, object]) -> None:
    found = event(
        f"[Controller id=1] 1 successfully elected as the controller{ending} (kafka.controller.KafkaController)"
    )
    assert found == {"event_type": "CONTROLLER_ELECTED", "controller_id": 1, **epoch}


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("LeaderAndIsr", "LeaderAndIsr"),
        ("StopReplica", "StopReplica"),
        ("UpdateMetadata", "UpdateMetadata"),
        ("stop replica", "StopReplica"),
        ("update metadata", "UpdateMetadata"),
    ],
)
@pytest.mark.parametrize(
    ("ending", "controller"),
    [(" from controller 1 with epoch 2.", {"controller_id": 1, "controller_epoch": 2}), ("", {})],
    ids=["3.7 on", "2.2 on"],
)
def test_a_request_with_an_old_broker_epoch(
    printed: str, name: str, ending: str, controller: dict[str, object]
) -> None:
    assert event(
        f"[KafkaApi-2] Received {printed} request with broker epoch 61 smaller than the current broker epoch 126{ending}"
        " (kafka.server.KafkaApis)"
    ) == {
        "event_type": "STALE_BROKER_EPOCH",
        "name": name,
        "broker_epoch": 61,
        "current_broker_epoch": 126,
        **controller,
    }


@pytest.mark.parametrize(
    ("message", "more"),
    [
        ("[QuorumController id=100] UNCLEAN partition change for u-0 with topic ID fuv_u9ylSa6NT-pypoGSMQ: isr: [] -> [2],"
        " leader: -1 -> 2, leaderRecoveryState: RECOVERED -> RECOVERING, leaderEpoch: 1 -> 2, elr: [1] -> [],"
        " lastKnownElr: [1] -> [], partitionEpoch: 2 -> 3 (org.apache.kafka.controller.ReplicationControlManager)",
        {"controller_id": 100, "leader_recovery_state": 1}),
        ("[Controller 100] UNCLEAN partition change for u-0 with topic ID fuv_u9ylSa6NT-pypoGSMQ: isr: [1] -> [2],"
        " leader: -1 -> 2, leaderEpoch: 1 -> 2, partitionEpoch: 2 -> 3"
        " (org.apache.kafka.controller.ReplicationControlManager)", {"controller_id": 100}),
        ("[QuorumController id=100] UNCLEAN partition change for u-0 with topic ID fuv_u9ylSa6NT-pypoGSMQ: isr: [12, 23] -> [2],"
        " leader: 12 -> 2, leaderEpoch: 1 -> 2, elr: [] -> [12], partitionEpoch: 2 -> 3"
        " (org.apache.kafka.controller.ReplicationControlManager)", {"controller_id": 100}),
        ("[QuorumController id=100] UNCLEAN partition change for u-0 with topic ID fuv_u9ylSa6NT-pypoGSMQ: replicas: [1, 2, 3] ->"
        " [3, 2], isr: [1, 3] -> [2], removingReplicas: [1] -> [], addingReplicas: [3] -> [], leader: 1 -> 2,"
        " leaderRecoveryState: RECOVERED -> RECOVERING, leaderEpoch: 1 -> 2, partitionEpoch: 2 -> 3"
        " (org.apache.kafka.controller.ReplicationControlManager)", {"controller_id": 100, "leader_recovery_state": 1}),
    ],
    ids=["4.1", "3.0", "another one while the mark stands", "one that completes a reassignment"],
)  # fmt: skip
def test_an_unclean_election(message: str, more: dict[str, object]) -> None:
    assert event(message) == {
        "event_type": "UNCLEAN_ELECTION",
        **more,
        "topic": "u",
        "partition": 0,
        "topic_id": "fuv_u9ylSa6NT-pypoGSMQ",
        "leader": 2,
        "leader_epoch": 2,
        "isr": [2],
        "partition_epoch": 3,
    }


@pytest.mark.parametrize(
    ("diff", "state"),
    [
        ("isr: [2] -> [], leader: 2 -> -1, leaderEpoch: 2 -> 3, elr: [] -> [2], lastKnownElr: [] -> [2], partitionEpoch: 3 -> 4",
        {"isr": [], "leader": -1, "leader_epoch": 3, "partition_epoch": 4}),
        ("isr: [] -> [2], leader: -1 -> 2, leaderEpoch: 3 -> 4, elr: [1, 2] -> [1], lastKnownElr: [2] -> [], partitionEpoch: 4 -> 5",
        {"isr": [2], "leader": 2, "leader_epoch": 4, "partition_epoch": 5}),
        ("isr: [1, 12, 2] -> [2], leader: 1 -> 2, leaderEpoch: 3 -> 4, partitionEpoch: 4 -> 5",
        {"isr": [2], "leader": 2, "leader_epoch": 4, "partition_epoch": 5}),
        ("leader: -1 -> 2, leaderEpoch: 3 -> 4, partitionEpoch: 4 -> 5", {"leader": 2, "leader_epoch": 4, "partition_epoch": 5}),
        ("replicas: [2] -> [2, 3], addingReplicas: [] -> [3], partitionEpoch: 4 -> 5", {"partition_epoch": 5}),
        ("replicas: [1, 4] -> [4], isr: [1] -> [4], removingReplicas: [1] -> [], addingReplicas: [4] -> [], leader: 1 -> 4,"
        " leaderEpoch: 0 -> 1, partitionEpoch: 1 -> 2", {"isr": [4], "leader": 4, "leader_epoch": 1, "partition_epoch": 2}),
        ("replicas: [1, 2, 3] -> [1, 2], directories: [OeUz9yKCMzdy8ZjfDpeEMw, RM6slb7-Z2MpBWmvFxwYjQ, 4Z9Jil-Dynk4fxNF4l1cTg] ->"
        " [OeUz9yKCMzdy8ZjfDpeEMw, RM6slb7-Z2MpBWmvFxwYjQ], isr: [3, 2] -> [2, 1], removingReplicas: [3] -> [],"
        " addingReplicas: [1] -> [], leader: 3 -> 1, leaderEpoch: 1 -> 2, partitionEpoch: 3 -> 4",
        {"isr": [2, 1], "leader": 1, "leader_epoch": 2, "partition_epoch": 4}),
    ],
    ids=[
        "no leader", "from the ELR", "from the ISR", "the last member of the ISR", "a reassignment begins", "a reassignment ends",
        "a reassignment ends, 3.9",
    ],
)  # fmt: skip
def test_a_clean_change_that_kafka_prints_as_unclean(diff: str, state: dict[str, object]) -> None:
    """From 4.1 on Kafka prints UNCLEAN until the leader has recovered, and up to 4.0 where a reassignment ends."""
    message = f"[QuorumController id=100] UNCLEAN partition change for u-0 with topic ID fuv_u9ylSa6NT-pypoGSMQ: {diff}"
    assert event(f"{message} (org.apache.kafka.controller.ReplicationControlManager)") == {
        "event_type": "PARTITION_CHANGE_REPLAYED",
        "controller_id": 100,
        "topic": "u",
        "partition": 0,
        "topic_id": "fuv_u9ylSa6NT-pypoGSMQ",
        **state,
    }


@pytest.mark.parametrize(
    ("message", "more"),
    [
        (
            "[Partition d-0 broker=1] d-0 starts at Leader Epoch 2 from offset 75. Previous Leader Epoch was: 1"
            " (kafka.cluster.Partition)",
            {},
        ),
        (
            "[Partition d-0 broker=1] d-0 starts at leader epoch 2 from offset 75 with high watermark 70. Previous leader"
            " epoch was 1. (kafka.cluster.Partition)",
            {"high_watermark": 70},
        ),
    ],
    ids=["2.0 to 2.4", "2.5"],
)
def test_a_leader_starts_an_epoch_before_2_6(message: str, more: dict[str, object]) -> None:
    assert event(message) == {
        "event_type": "LEADER_STARTS",
        "topic": "d",
        "partition": 0,
        "leader": 1,
        "leader_epoch": 2,
        "start_offset": 75,
        "previous_epoch": 1,
        **more,
    }


def test_a_config_dump_gives_the_settings_of_interest_at_its_time() -> None:
    decoded = decode(
        server_log,
        AT + "KafkaConfig values: ",
        "\tadvertised.listeners = PLAINTEXT://127.0.0.1:21111",
        "\tbackground.threads = 10",
        "\tbroker.rack = null",
        "\tunclean.leader.election.enable = false",
        " (org.apache.kafka.common.config.AbstractConfig)",
        "\tnode.id = 1",
    )
    assert [(event["name"], event.get("value")) for event in decoded.events] == [
        ("advertised.listeners", "PLAINTEXT://127.0.0.1:21111"),
        ("broker.rack", None),
        ("unclean.leader.election.enable", "false"),
    ]
    assert {(event["event_type"], event["time_ms"]) for event in decoded.events} == {("CONFIG_VALUE", 1795236180829)}
    assert decoded.outcomes[-1] is LineOutcome.IGNORED


def test_a_byte_range_that_begins_within_a_config_dump_keeps_its_settings() -> None:
    decoded = decode(server_log, "\tnode.id = 1", " (org.apache.kafka.common.config.AbstractConfig)")
    [setting] = decoded.events
    assert (setting["name"], setting["value"], setting.get("time_ms")) == ("node.id", "1", None)


@pytest.mark.parametrize(
    "line",
    [
        AT
        + "[GroupCoordinator 1]: client 'starting (kafka.server.KafkaServer)' joined (kafka.coordinator.group.GroupCoordinator)",
        AT + "ProducerConfig values: ",
        "\tat kafka.server.KafkaServer.startup(KafkaServer.scala:1)",
        "java.io.IOException: starting (kafka.server.KafkaServer)",
        AT + "[BrokerServer id=1] Transition from STARTED to SHUTTING_DOWN (kafka.server.BrokerServer)",
        AT + "[Controller id=1] New broker epochs cache: 1, 2 (kafka.controller.KafkaController)",
        "",
    ],
)
def test_other_lines_are_ignored(line: str) -> None:
    assert ignored(server_log, line)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (AT + "[Controller id=1] Updated broker epochs cache: HashMap(1 -> 26, 3 ", "cut off"),
        ("[2026-11-21 04:4", "cut off"),
        (AT + "[Controller id=1] Updated broker epochs cache: 1, 2 (kafka.controller.KafkaController)", "not known"),
        (
            AT.encode() + b"[Controller id=\0] Updated broker epochs cache: Map() (kafka.controller.KafkaController)",
            "NUL",
        ),
        (AT.encode() + b"Kafka version: 3.\xff (org.apache.kafka.common.utils.AppInfoParser)", "UTF-8"),
    ],
)
def test_bad_lines_that_should_be_events_are_quarantined(line: str | bytes, reason: str) -> None:
    assert reason in quarantine_reason(server_log, line)


def test_the_log_is_recognised_by_the_servers_own_classes() -> None:
    dated = AT.encode()
    assert server_log.recognise(dated + b"starting (kafka.server.KafkaServer)\n")
    assert server_log.recognise(
        dated + b"Kafka version: 4.1.2 (org.apache.kafka.common.utils.AppInfoParser)\n"
        + dated + b"[QuorumController id=100] x (org.apache.kafka.controller.QuorumController)\n"
    )  # fmt: skip
    assert server_log.recognise(dated + b"starting (KafkaServer)\n")
    assert server_log.recognise(dated + b"[QuorumController id=100] x (o.a.k.c.QuorumController)\n")
    assert not server_log.recognise(dated + b"Kafka version: 4.1.2 (AppInfoParser)\n")
    assert not server_log.recognise(dated + b"a Python client (kafka.client)\n")
    assert not server_log.recognise(dated + b"x (org.apache.kafka.clients.consumer.KafkaConsumer)\n")
    assert not server_log.recognise(dated + b"Completed request:{} (kafka.request.logger)\n")
    assert not metadata_dump.recognise(dated + b"starting (kafka.server.KafkaServer)\n")
