"""Settings of topics and brokers that were changed, or given to a topic at its creation, as brokers print them.

Such a line lists all settings of its owner; of these the one that is read is unclean.leader.election.enable. A line that
does not list it tells of no setting.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.log4j import Wording
from epochaudit.sources.server_log_wordings.parts import Told

_SETTING: Final = rb"(?:.*?\b(?P<name>unclean\.leader\.election\.enable)(?: -> |=)(?P<value>\w+))?.*"
_TOPIC: Final = rb"(?P<topic>[\w.-]+)"


def _changed(pattern: bytes) -> tuple[Wording, ...]:
    return (Wording("CONFIG_CHANGED", pattern + _SETTING),)


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

TOLD: Final[Told] = {
    b"DynamicConfigManager": _NOTIFIED,
    b"ZkConfigManager": _NOTIFIED,
    b"AdminZkClient": {b"Creating topic ": _changed(rb"Creating topic " + _TOPIC + rb" with configuration ")},
    b"BrokerMetadataPublisher": _UPDATING,
    b"DynamicConfigPublisher": _UPDATING,
}
