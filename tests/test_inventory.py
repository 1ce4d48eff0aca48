"""The inventory's counts, as the truth of a capture defines them."""

from __future__ import annotations

from typing import Any

from epochaudit.inventory import EventCounts, event_counts


def group(source: str, event_type: str, rows: int, **changes: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("error_code", "node", "name", "value", "last"))
    told = {"source": source, "event_type": event_type, "rows": rows, "cluster": "c", "requested": False}
    return {**nothing, **told, **changes}


def said(
    node: int, event_type: str, name: str | None, value: str | None, place: tuple[int, int] = (0, 0)
) -> dict[str, Any]:
    last = {"file_order": place[0], "byte_offset": place[1]}
    return group("server_log", event_type, 1, node=node, name=name, value=value, last=last)


def version(node: int, printed: str, file_order: int, byte_offset: int) -> dict[str, Any]:
    return said(node, "KAFKA_VERSION", "kafka", printed, (file_order, byte_offset))


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


def test_a_nodes_roles_are_those_it_states() -> None:
    counts = counted(
        said(1, "CONFIG_VALUE", "process.roles", "[]"),
        said(1, "CONFIG_VALUE", "zookeeper.connect", "localhost:2181"),
        said(1, "CONTROLLER_ELECTED", None, None),
        said(2, "CONFIG_VALUE", "process.roles", "[broker, controller]"),
        said(2, "CONFIG_VALUE", "zookeeper.connect", "null"),
        said(3, "CONFIG_VALUE", "process.roles", "broker"),
    )
    assert counts.roles == {
        ("c", 1): {"broker", "controller"},
        ("c", 2): {"broker", "controller"},
        ("c", 3): {"broker"},
    }


def test_what_there_is_of_a_node_is_told_by_its_events() -> None:
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
