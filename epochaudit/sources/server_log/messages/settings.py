"""Changed settings of topics and brokers, and settings of new topics, as brokers print them.

Such a line lists all settings of its owner. Only unclean.leader.election.enable is read; a line without it gives null
`name` and `value`.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import LogPattern
from epochaudit.sources.server_log.messages.parts import PatternsByClass

_SETTING: Final = rb"(?:.*?\b(?P<name>unclean\.leader\.election\.enable)(?: -> |=)(?P<value>\w+))?.*"
_TOPIC: Final = rb"(?P<topic>[\w.-]+)"


def _changed(pattern: bytes) -> tuple[LogPattern, ...]:
    return (LogPattern("CONFIG_CHANGED", pattern + _SETTING),)


_NOTIFIED: Final = {  # ZooKeeper: every broker is notified
    b"Processing override for entityPath: topics/": _changed(
        rb"(?:\[[^\]]*\],? )?Processing override for entityPath: topics/" + _TOPIC + rb" with config: "
    ),
    b"Processing override for entityPath: brokers/": _changed(
        rb"(?:\[[^\]]*\],? )?Processing override for entityPath: brokers/(?:<default>|(?P<broker_id>\d+)) with config: "
    ),
}
_UPDATING: Final = {
    b"Updating topic ": _changed(
        rb"(?:\[[^\]]*\] )?Updating topic " + _TOPIC + rb" with new configuration ?: "
    ),
}  # fmt: skip

PATTERNS: Final[PatternsByClass] = {
    b"DynamicConfigManager": _NOTIFIED,
    b"ZkConfigManager": _NOTIFIED,
    b"AdminZkClient": {b"Creating topic ": _changed(rb"Creating topic " + _TOPIC + rb" with configuration ")},
    b"BrokerMetadataPublisher": _UPDATING,
    b"DynamicConfigPublisher": _UPDATING,
}
