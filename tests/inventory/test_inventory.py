"""The inventory's counts, as the truth of a capture defines them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from epochaudit.inventory.assembly import inventory
from epochaudit.inventory.inventory import EventCounts, Inventory, Migration, Mode, event_counts
from epochaudit.report.migrations import migration_lines
from epochaudit.sources.discovery.discovery import discover


def group(source: str, event_type: str, rows: int, **changes: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("error_code", "node", "name", "value", "last", "time_ms"))
    columns = {"source": source, "event_type": event_type, "rows": rows, "cluster": "c", "requested": False}
    return {**nothing, **columns, **changes}


def logged(
    node: int, event_type: str, name: str | None, value: str | None, place: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    last = {"file_order": place[0], "byte_offset": place[1]}
    return group("server_log", event_type, 1, node=node, name=name, value=value, last=last)


def version(node: int, printed: str, file_order: int, byte_offset: int) -> dict[str, Any]:
    return logged(node, "KAFKA_VERSION", "kafka", printed, (file_order, byte_offset))


def counted(*groups: dict[str, Any]) -> EventCounts:
    return event_counts(groups)


def test_partition_rows_count_what_requests_list_and_error_codes_what_responses_answer() -> None:
    counts = counted(
        group("request_log", "FETCH", 10, requested=True, error_code=0),
        group("request_log", "FETCH", 3, requested=True),
        group("request_log", "FETCH", 5, error_code=0),
        group("request_log", "FETCH", 2, error_code=74),
        group("request_log", "BROKER_HEARTBEAT", 9),
    )
    assert counts.partition_rows == {"FETCH": 13}
    assert counts.error_codes == {("FETCH", 0): 15, ("FETCH", 74): 2}


def test_metadata_records_leave_out_the_raft_logs_control_records() -> None:
    counts = counted(
        group("metadata_log", "TOPIC_RECORD", 2),
        group("metadata_log", "PARTITION_RECORD", 3),
        group("metadata_log", "LEADER_CHANGE", 1),
    )
    assert counts.metadata_records == {"PARTITION_RECORD": 3, "TOPIC_RECORD": 2}


def test_a_nodes_versions_are_those_it_printed_in_log_order() -> None:
    counts = counted(
        version(1, "3.9.1", 0, 900), version(1, "3.10.0", 1, 10), version(1, "3.8.0", 0, 10), version(2, "3.9.1", 0, 0)
    )
    assert counts.versions == {("c", 1): ("3.8.0", "3.9.1", "3.10.0"), ("c", 2): ("3.9.1",)}


def test_a_process_that_did_not_start_again_has_a_last_shutdown() -> None:
    counts = counted(
        *(
            group("server_log", "PROCESS_SHUTTING_DOWN", 1, node=node, name="broker", time_ms=at)
            for node, at in ((1, 5), (1, 9), (2, 7))
        ),
        *(group("server_log", "PROCESS_STARTING", 1, node=node, time_ms=at) for node, at in ((1, 6), (2, 8))),
    )
    assert counts.shutdown_ms == {("c", 1): 9}


def test_a_nodes_roles_are_those_it_states() -> None:
    counts = counted(
        logged(1, "CONFIG_VALUE", "process.roles", "[]"),
        logged(1, "CONFIG_VALUE", "zookeeper.connect", "localhost:2181"),
        logged(1, "CONTROLLER_ELECTED", None, None),
        logged(2, "CONFIG_VALUE", "process.roles", "[broker, controller]"),
        logged(2, "CONFIG_VALUE", "zookeeper.connect", "null"),
        logged(3, "CONFIG_VALUE", "process.roles", "broker"),
    )
    assert counts.roles == {
        ("c", 1): {"broker", "controller"},
        ("c", 2): {"broker", "controller"},
        ("c", 3): {"broker"},
    }


def test_a_nodes_events_show_which_of_its_logs_are_there() -> None:
    counts = counted(
        group("request_log", "FETCH", 1, node=1),
        group("request_log", "METADATA", 1, node=1),
        group("state_change_log", "LEADER_STARTS", 1, node=1),
        group("metadata_log", "TOPIC_RECORD", 1),
    )
    assert counts.present == {
        ("c", 1): {"request_log": {"FETCH", "METADATA"}, "state_change_log": {"LEADER_STARTS"}},
        ("c", None): {"metadata_log": {"TOPIC_RECORD"}},
    }


def test_a_request_log_without_any_event_is_there(tmp_path: Path) -> None:
    """A broker that leads no partition answers nothing but ApiVersions."""
    header = '{"requestApiKey":18,"requestApiVersion":4,"correlationId":2,"clientId":"shop","requestApiKeyName":"API_VERSIONS"}'
    line = f'[2026-11-24 06:35:58,791] DEBUG Completed request:{{"isForwarded":false,"requestHeader":{header},"request":{{}}}}\n'
    for node in (1, 2):
        (tmp_path / f"broker-{node}").mkdir()
        (tmp_path / f"broker-{node}" / "server.log").write_text(
            f"[2026-11-24 06:35:44,000] INFO [KafkaServer id={node}] started (kafka.server.KafkaServer)\n"
        )
    (tmp_path / "broker-1" / "kafka-request.log").write_text(line)
    events = [group("server_log", "PROCESS_STARTED", 1, node=node) for node in (1, 2)]
    events.append(group("request_log", "FETCH", 170, node=2))
    read = inventory([discover(str(tmp_path))], [], counted(*(one | {"cluster": tmp_path.name} for one in events)), {})
    assert [file.kind for file in read.files if file.path.endswith("request.log")] == ["request-log-json"]
    assert [("request_log" in node.missing_logs) for node in read.nodes] == [False, False]
    assert not [one for one in read.missing if "request log" in one.what]


def of_mode(
    node: int | None, event_type: str, time_ms: int, name: str | None = None, value: str | None = None
) -> dict[str, Any]:
    source = "metadata_log" if node is None else "server_log"
    return group(source, event_type, 1, node=node, name=name, value=value, time_ms=time_ms)


def migration() -> tuple[Migration, ...]:
    """Broker 1 starts as a ZooKeeper broker, then with migration settings, then as a KRaft broker."""
    return counted(
        of_mode(1, "PROCESS_STARTING", 1_000, "broker"),
        of_mode(1, "BROKER_REGISTERED", 2_000, "zookeeper"),
        of_mode(9, "CONTROLLER_ACTIVE", 3_000),
        of_mode(None, "ZK_MIGRATION_STATE_RECORD", 3_100, value="2"),
        of_mode(1, "PROCESS_STARTING", 4_000, "broker"),
        of_mode(1, "BROKER_REGISTERED", 5_000, "zookeeper"),
        of_mode(1, "BROKER_REGISTERED", 6_000, "zookeeper_in_migration"),
        of_mode(None, "ZK_MIGRATION_STATE_RECORD", 7_000, value="1"),
        of_mode(1, "BROKER_REGISTERED", 7_500, "zookeeper"),
        of_mode(1, "PROCESS_STARTING", 8_000, "broker"),
        of_mode(1, "BROKER_REGISTERED", 9_000, "kraft"),
        of_mode(1, "PROCESS_STARTING", 10_000, "broker"),
        of_mode(1, "BROKER_REGISTERED", 11_000, "kraft"),
        of_mode(None, "ZK_MIGRATION_STATE_RECORD", 12_000, value="3"),
    ).migrations


def test_a_migration_from_zookeeper_shows_in_its_records_and_in_how_each_process_registered() -> None:
    states = (("before the migration", 3_100), ("dual-write", 7_000), ("KRaft", 12_000))
    modes = (
        Mode(1, "zookeeper", 1_000), Mode(1, "zookeeper_in_migration", 4_000), Mode(1, "kraft", 8_000),
        Mode(9, "kraft_controller", None),
    )  # fmt: skip
    assert migration() == (Migration("c", states, modes),)


def test_up_to_3_4_a_broker_in_migration_is_known_by_its_two_registrations() -> None:
    counts = counted(
        of_mode(1, "BROKER_REGISTERED", 1_000, "zookeeper"), of_mode(1, "BROKER_REGISTERED", 2_000, "kraft")
    )
    assert counts.migrations == (Migration("c", (), (Mode(1, "zookeeper_in_migration", None),)),)


def test_clusters_of_one_mode_did_not_migrate() -> None:
    zookeeper = counted(of_mode(1, "BROKER_REGISTERED", 1_000, "zookeeper"))
    kraft = counted(
        of_mode(None, "ZK_MIGRATION_STATE_RECORD", 900, value="0"), of_mode(1, "BROKER_REGISTERED", 1_000, "kraft")
    )
    assert (zookeeper.migrations, kraft.migrations) == ((), ())


def test_a_migration_in_words() -> None:
    assert list(migration_lines(Inventory(("c",), migrations=migration()))) == [
        "migration from ZooKeeper to KRaft: before the migration from 1970-01-01 00:00:03 UTC, dual-write from"
        " 1970-01-01 00:00:07 UTC, KRaft from 1970-01-01 00:00:12 UTC",
        "node 1 was a ZooKeeper broker from 1970-01-01 00:00:01, then a ZooKeeper broker in migration from"
        " 1970-01-01 00:00:04, then a KRaft broker from 1970-01-01 00:00:08",
        "node 9 was a KRaft controller",
    ]
