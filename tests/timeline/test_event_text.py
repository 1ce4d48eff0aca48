"""The sentence of a row, without Spark."""

from __future__ import annotations

import pytest

from epochaudit.timeline.event_text import sentence


@pytest.mark.parametrize(
    ("event_type", "name", "value", "expected"),
    [
        ("CONFIG_RECORD", "a.b", "true", "record: a.b = true"),
        ("CONFIG_RECORD", "a.b", None, "record: a.b removed"),
        ("CONFIG_CHANGED", "a.b", "true", "settings changed: a.b = true"),
        ("CONFIG_CHANGED", "a.b", None, "settings changed: a.b removed"),
        ("CONFIG_CHANGED", None, None, "settings changed"),
        ("ALTER_CONFIGS", "a.b", "true", "AlterConfigs of c, a.b = true: accepted"),
        ("ALTER_CONFIGS", "a.b", None, "AlterConfigs of c, a.b removed: accepted"),
        ("INCREMENTAL_ALTER_CONFIGS", "a.b", "1", "IncrementalAlterConfigs of c, a.b = 1: accepted"),
        ("INCREMENTAL_ALTER_CONFIGS", "a.b", None, "IncrementalAlterConfigs of c, a.b removed or edited: accepted"),
    ],
)
def test_a_setting_has_its_name_though_it_is_removed(
    event_type: str, name: str | None, value: str | None, expected: str
) -> None:
    source = "request_log" if event_type.endswith("ALTER_CONFIGS") else "server_log"
    event = {"event_type": event_type, "source": source, "name": name, "value": value, "requests": 1, "client_id": "c"}
    assert sentence(event | {"error_code": 0, "request_error_code": 0, "in_response": True}) == expected
