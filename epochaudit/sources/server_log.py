"""server.log and controller.log: processes, versions and settings, broker epochs, elections.

The two files have one format and share loggers between Kafka versions, so one decoder reads both. A line is dispatched
by the logger that closes it: what a message quotes (client ids, topic names) cannot choose its reader. Wordings of
Kafka 2.0 to 4.1: KafkaServer, BrokerServer, AppInfoParser, KafkaZkClient, BrokerLifecycleManager, KafkaApis,
KafkaController, ReplicationControlManager, and Partition, whose "starts at Leader Epoch" line moved to
state-change.log in 2.6.

A message may go on over further lines, which have no date: stack traces, and the `key = value` lines that follow
`KafkaConfig values:`. Of the latter the settings in `SETTINGS` are events, at the time of the dated line.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from epochaudit.sources.capture import RecordedFile
from epochaudit.sources.log4j import (
    IDENTITY,
    TOPIC_PARTITION,
    Log4jLines,
    Wording,
    Wordings,
    fault,
    first_logger,
    looks_cut,
    message_start,
)
from epochaudit.sources.sink import LineDecoder, LineOutcome, RowSink

COLUMNS: Final = (
    *IDENTITY, "controller_id", "controller_epoch", "broker_id", "broker_epoch", "current_broker_epoch", "live_brokers",
    "live_broker_epochs", "topic", "topic_id", "partition", "leader", "leader_epoch", "partition_epoch", "isr",
    "start_offset", "high_watermark", "name", "value",
)  # fmt: skip
SETTING_COLUMNS: Final = (*IDENTITY, "name", "value")

SETTINGS: Final = frozenset(
    {
        b"advertised.listeners",
        b"broker.id",
        b"broker.rack",
        b"controller.quorum.voters",
        b"inter.broker.protocol.version",
        b"listeners",
        b"node.id",
        b"process.roles",
        b"unclean.leader.election.enable",
        b"zookeeper.connect",
    }
)
"""The settings of the config dump that are kept."""

_CONFIG_DUMP: Final = b"KafkaConfig values:"
_UNPRINTED: Final = b"null"


_ANY: Final = rb"(?:\[[^\[\]]*\]|[\w-]+)"


def _change(name: bytes, value: bytes) -> bytes:
    """One optional part of PartitionRegistration.diff: `name: old -> new, `; parts come in a fixed order."""
    return rb"(?:" + name + rb": " + _ANY + rb" -> " + value + rb"(?:, )?)?"


_UNCLEAN: Final = (
    rb"\[[\w =]+\] UNCLEAN partition change for " + TOPIC_PARTITION + rb" with topic ID (?P<topic_id>[\w-]{22}): "
    + _change(rb"replicas", _ANY)
    + _change(rb"directories", _ANY)
    + _change(rb"isr", rb"\[(?P<isr>[\d, ]*)\]")
    + _change(rb"removingReplicas", _ANY)
    + _change(rb"addingReplicas", _ANY)
    + _change(rb"leader", rb"(?P<leader>-?\d+)")
    + _change(rb"leaderRecoveryState", _ANY)
    + _change(rb"leaderEpoch", rb"(?P<leader_epoch>-?\d+)")
    + _change(rb"elr", _ANY)
    + _change(rb"lastKnownElr", _ANY)
    + _change(rb"partitionEpoch", rb"(?P<partition_epoch>-?\d+)")
)  # fmt: skip
_CACHED: Final = rb"[-\d >,]*"


def _wordings(*wordings: Wording) -> Wordings:
    return Wordings(COLUMNS, wordings)


def _stale_broker_epoch(name: str, printed: bytes) -> Wording:
    return Wording(
        "STALE_BROKER_EPOCH",
        rb"\[KafkaApi-\d+\] Received " + printed + rb" request with broker epoch (?P<broker_epoch>-?\d+)"
        rb" smaller than the current broker epoch (?P<current_broker_epoch>-?\d+)"
        rb"(?: from controller (?P<controller_id>-?\d+) with epoch (?P<controller_epoch>-?\d+)\.)?",
        name=name,
    )


_BY_LOGGER: Final[dict[bytes, tuple[tuple[bytes, Wordings], ...]]] = {
    b"org.apache.kafka.common.utils.AppInfoParser": (
        (b"Kafka version", _wordings(Wording("KAFKA_VERSION", rb"Kafka version ?: (?P<value>[\w.+-]+)", name="kafka"))),
    ),
    b"kafka.server.KafkaServer": (
        (b" starting (", _wordings(Wording("PROCESS_STARTING", rb"(?:\[KafkaServer id=-?\d+\] )?starting"))),
        (b"] shutting down (", _wordings(Wording("PROCESS_SHUTTING_DOWN", rb"\[KafkaServer id=-?\d+\] shutting down"))),
        (
            b"] shut down completed (",
            _wordings(Wording("PROCESS_STOPPED", rb"\[KafkaServer id=-?\d+\] shut down completed")),
        ),
    ),
    b"kafka.server.BrokerServer": (
        (
            b"] Transition from SHUTDOWN to ",
            _wordings(Wording("PROCESS_STARTING", rb"\[BrokerServer id=\d+\] Transition from SHUTDOWN to STARTING")),
        ),
        (
            b" to SHUTTING_DOWN",
            _wordings(
                Wording("PROCESS_SHUTTING_DOWN", rb"\[BrokerServer id=\d+\] Transition from \w+ to SHUTTING_DOWN")
            ),
        ),
        (
            b" to SHUTDOWN",
            _wordings(Wording("PROCESS_STOPPED", rb"\[BrokerServer id=\d+\] Transition from \w+ to SHUTDOWN")),
        ),
    ),
    b"kafka.zk.KafkaZkClient": (
        (
            b"Registered broker ",
            _wordings(
                Wording(
                    "BROKER_REGISTERED",
                    rb"Registered broker (?P<broker_id>\d+) at path .*,"
                    rb" czxid \(broker epoch\): (?P<current_broker_epoch>\d+)",
                ),
                Wording("BROKER_REGISTERED", rb"Registered broker (?P<broker_id>\d+) at path .*"),  # up to 2.1
            ),
        ),
    ),
    b"kafka.server.BrokerLifecycleManager": (
        (
            b"Successfully registered broker ",
            _wordings(
                Wording(
                    "BROKER_REGISTERED",
                    rb"\[BrokerLifecycleManager id=\d+\] Successfully registered broker (?P<broker_id>\d+)"
                    rb" with broker epoch (?P<current_broker_epoch>\d+)",
                )
            ),
        ),
    ),
    b"kafka.server.KafkaApis": (
        (
            b" smaller than the current broker epoch ",
            _wordings(
                _stale_broker_epoch("LeaderAndIsr", rb"LeaderAndIsr"),
                _stale_broker_epoch("StopReplica", rb"(?:StopReplica|stop replica)"),
                _stale_broker_epoch("UpdateMetadata", rb"(?:UpdateMetadata|update metadata)"),
            ),
        ),
    ),
    b"kafka.controller.KafkaController": (
        (
            b" broker epochs cache: ",
            _wordings(
                Wording(  # the pairs are read twice: once for the brokers, once for their epochs
                    "BROKER_EPOCHS_CACHE",
                    rb"\[Controller id=(?P<controller_id>\d+)\] (?:Initialized|Updated) broker epochs cache:"
                    rb" \w+\((?=(?P<live_brokers>" + _CACHED + rb"))(?P<live_broker_epochs>" + _CACHED + rb")\)",
                )
            ),
        ),
        (
            b" successfully elected as the controller",
            _wordings(
                Wording(
                    "CONTROLLER_ELECTED",
                    rb"\[Controller id=\d+\] (?P<controller_id>\d+) successfully elected as the controller"
                    rb"(?:\. Epoch incremented to (?P<controller_epoch>\d+) and epoch zk version is now \d+)?",
                )
            ),
        ),
    ),
    b"org.apache.kafka.controller.ReplicationControlManager": (
        (b"UNCLEAN partition change for ", _wordings(Wording("UNCLEAN_ELECTION", _UNCLEAN))),
    ),
    b"kafka.cluster.Partition": (
        (
            b" starts at ",
            _wordings(
                Wording(  # up to 2.5
                    "LEADER_STARTS",
                    rb"\[Partition \S+ broker=(?P<leader>\d+)\] " + TOPIC_PARTITION + rb" starts at [Ll]eader [Ee]poch"
                    rb" (?P<leader_epoch>\d+) from offset (?P<start_offset>-?\d+)"
                    rb"(?: with high watermark (?P<high_watermark>-?\d+))?\. Previous [Ll]eader [Ee]poch was.*",
                )
            ),
        ),
    ),
}
_MARKS: Final = tuple(mark for told in _BY_LOGGER.values() for mark, _ in told)
_SERVER_CLASS: Final = (
    re.compile(  # a class of the server, not of a client: the Python client's loggers are kafka.* too
        rb" \((?:kafka\.(?:cluster|controller|coordinator|log|migration|network|raft|server|utils|zk|zookeeper)"
        rb"|org\.apache\.kafka\.(?:controller|coordinator|image|metadata|raft|server|storage))\.[\w.]*[A-Z][\w$]*\)"
    )
)
_OTHER_LOGS: Final = (b"kafka.request.logger", b"kafka.authorizer.logger")


def recognise(head: bytes) -> bool:
    """Dated lines, the first not from the logger of another log, and some from the server's own classes."""
    first = first_logger(head)
    if first is None or first in _OTHER_LOGS or first == b"state.change.logger":
        return False
    return _SERVER_CLASS.search(head) is not None


class ServerLog(Log4jLines):
    """One row per line that is an event; clock: line order within the file, time to the millisecond as printed.

    A byte range that begins within a config dump gives its settings without a time.
    """

    kind: ClassVar[str] = "server-log"
    splittable: ClassVar[bool] = True

    def __init__(self, file: RecordedFile, sink: RowSink) -> None:
        super().__init__(COLUMNS, file, sink)
        self._settings = sink.rows(SETTING_COLUMNS)
        self._in_config_dump = True
        self._dump_time_ms: int | None = None

    def line(self, text: bytes, byte_offset: int, line_in_split: int) -> LineOutcome:
        start = message_start(text)
        if not start:
            return self._undated(text, byte_offset, line_in_split)
        self._in_config_dump = False
        if not text.endswith(b")"):
            return self._unclosed(text, start, byte_offset, line_in_split)
        for mark, wordings in _BY_LOGGER.get(text[text.rfind(b" (") + 2 : -1], ()):
            if mark in text:
                return self._event(wordings, text, start, byte_offset, line_in_split)
        return LineOutcome.IGNORED

    def _unclosed(self, text: bytes, start: int, byte_offset: int, line: int) -> LineOutcome:
        """A message that goes on over further lines, or a line that was cut: bad only if it should be an event."""
        if text.startswith(_CONFIG_DUMP, start):
            self._in_config_dump, self._dump_time_ms = True, self._clock.read(text)
            return LineOutcome.IGNORED
        if any(mark in text for mark in _MARKS):
            return self._quarantine(text, byte_offset, line, fault(text))
        return LineOutcome.IGNORED

    def _undated(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        if self._in_config_dump and text[:1] == b"\t":
            return self._setting(text, byte_offset, line)
        self._in_config_dump = False
        return self._quarantine(text, byte_offset, line, fault(text)) if looks_cut(text) else LineOutcome.IGNORED

    def _setting(self, text: bytes, byte_offset: int, line: int) -> LineOutcome:
        key, separator, value = text[1:].partition(b" = ")
        if not separator or key not in SETTINGS:
            return LineOutcome.IGNORED
        try:
            printed = None if value == _UNPRINTED else value.decode()
        except UnicodeDecodeError:
            return self._quarantine(text, byte_offset, line, fault(text))
        self._settings.append(("CONFIG_VALUE", byte_offset, line, 0, self._dump_time_ms, key.decode(), printed))
        return LineOutcome.EVENT


DECODER: type[LineDecoder] = ServerLog
