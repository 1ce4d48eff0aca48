"""Controllers of a KRaft quorum: refused AlterPartition requests; replayed topics, partitions, features and settings."""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import NUMBERS, TOPIC_PARTITION, LogPattern
from epochaudit.sources.server_log.messages.parts import NEW_ISR, TOPIC_ID, PatternsByClass
from epochaudit.sources.server_log.messages.parts import QUORUM_CONTROLLER as QUORUM

_ANY: Final = rb"(?:\[[^\[\]]*\]|[\w-]+)"
_REQUEST: Final = rb"(?:alterIsr|AlterPartition) request "
_PROPOSED: Final = (
    rb" Proposed ISR was " + NEW_ISR + rb" and current ISR is .*"
)  # at the end of every refusal from 4.3 on
_STATE: Final = (
    rb"PartitionRegistration\(replicas=\[(?P<replicas>" + NUMBERS + rb")\], .*?\bisr=\[(?P<isr>" + NUMBERS + rb")\],"
    rb" .*?\bleader=(?P<leader>-?\d+), (?:leaderRecoveryState=(?P<leader_recovery_state>RECOVERED|RECOVERING), )?"
    rb"leaderEpoch=(?P<leader_epoch>-?\d+), partitionEpoch=(?P<partition_epoch>-?\d+)\)\."
)


def _change(name: bytes, value: bytes) -> bytes:
    """One optional part of PartitionRegistration.diff: `name: old -> new, `; parts come in a fixed order."""
    return rb"(?:" + name + rb": " + _ANY + rb" -> " + value + rb"(?:, )?)?"


_CHANGED: Final = rb"partition change for " + TOPIC_PARTITION + rb" with topic ID " + TOPIC_ID + rb": "


def _changes(leader: bytes) -> bytes:
    """The parts of PartitionRegistration.diff. leader: the pattern of the new leader."""
    return (
        _change(rb"replicas", _ANY)
        + _change(rb"directories", _ANY)
        + _change(rb"isr", rb"\[(?P<isr>[\d, ]*)\]")
        + _change(rb"removingReplicas", _ANY)
        + _change(rb"addingReplicas", _ANY)
        + _change(rb"leader", leader)
        + _change(rb"leaderRecoveryState", rb"(?P<leader_recovery_state>RECOVERED|RECOVERING)")
        + _change(rb"leaderEpoch", rb"(?P<leader_epoch>-?\d+)")
        + _change(rb"elr", _ANY)
        + _change(rb"lastKnownElr", _ANY)
        + _change(rb"partitionEpoch", rb"(?P<partition_epoch>-?\d+)")
    )


_WITH_LEADER: Final = rb"\[(?:\d+, )*(?P=leader)[,\]]"
_ELECTS_UNCLEANLY: Final = (
    rb"(?=.*\bleader: -?\d+ -> (?P<leader>\d+), )"
    rb"(?:(?=.*\bleaderRecoveryState: RECOVERED -> RECOVERING, )"
    rb"|(?!replicas: )(?=.*\bisr: (?!" + _WITH_LEADER + rb"))(?!.*\belr: " + _WITH_LEADER + rb"))"
)
"""The change marks its new leader, or takes it from outside the ISR and the ELR, and does not complete a reassignment.

PartitionRegistration.maybeLogPartitionChange prints UNCLEAN also of a leader from the ISR with which the record completes a
reassignment (up to 4.0), of one from the ELR (up to 3.9), and of every change until the leader has recovered (from 4.1 on).
Before 3.2, and while an earlier mark stands, an unclean election sets no mark.
"""
_UNCLEAN: Final = (
    LogPattern("UNCLEAN_ELECTION", QUORUM + rb"UNCLEAN " + _CHANGED + _ELECTS_UNCLEANLY + _changes(rb"\d+")),
    LogPattern("PARTITION_CHANGE_REPLAYED", QUORUM + rb"UNCLEAN " + _CHANGED + _changes(rb"(?P<leader>-?\d+)")),
)


def _refused(reason: str, ending: bytes, *, added: bytes = _PROPOSED) -> LogPattern:
    return LogPattern(
        "ALTER_PARTITION_REJECTED",
        QUORUM + rb"Rejecting " + _REQUEST + rb"from node (?P<broker_id>\d+) for " + TOPIC_PARTITION + rb" because "
        + ending + added,
        reason=reason,
    )  # fmt: skip


def _unknown(reason: str, subject: bytes) -> tuple[LogPattern, ...]:
    pattern = QUORUM + rb"Rejecting " + _REQUEST + rb"for unknown " + subject + rb"\."
    return (LogPattern("ALTER_PARTITION_REJECTED", pattern, reason=reason),)


_OTHER_VALUE: Final = rb" (?:not|which is (?:greater than the local|lower than the request) value) "
_REFUSED: Final = (
    *(
        _refused(reason, ending, added=added)
        for added in (b"", _PROPOSED)
        for reason, ending in (
            ("not_leader", rb"the current leader is (?P<leader>-?\d+)\."),
            (
                "other_leader_epoch",
                rb"the current leader epoch is (?P<response_leader_epoch>-?\d+)," + _OTHER_VALUE
                + rb"(?P<leader_epoch>-?\d+)\.",
            ),
            (
                "other_partition_epoch",
                rb"the current partition epoch is (?P<response_partition_epoch>-?\d+)," + _OTHER_VALUE
                + rb"(?P<partition_epoch>-?\d+)\.",
            ),
            ("recovery_state", rb"the leader recovery state cannot change from RECOVERED to RECOVERING\."),
        )
    ),
    _refused(
        "ineligible_replicas",
        rb"it specified ineligible replicas \[(?P<value>[^\[\]]*)\] in the new ISR " + NEW_ISR + rb"\.",
        added=b"",
    ),
    _refused("invalid_isr", rb"it specified an invalid ISR " + NEW_ISR + rb"(?: that doesn't include itself)?\.", added=b""),
    _refused(
        "leader_recovering",
        rb"the ISR " + NEW_ISR + rb" had more than one replica while the leader was still recovering from an"
        rb" un(?:lcean|clean) leader election \w+\.",
        added=b"",
    ),
    _refused(
        "ineligible_replicas", rb"it specified ineligible replicas \[(?P<value>[^\[\]]*)\] in the new ISR\."
    ),
    _refused("invalid_isr", rb"it specified an invalid ISR(?: that doesn't include itself)?\."),
    _refused(
        "leader_recovering",
        rb"the ISR had more than one replica while the leader was still recovering from an unclean leader election \w+\.",
    ),
)  # fmt: skip
_UNKNOWN_TOPIC: Final = _unknown(
    "unknown_topic", rb"topic ID (?:null|" + TOPIC_ID + rb")(?: or name (?P<topic>[\w.-]+)?)?"
)
_UNKNOWN_PARTITION: Final = _unknown("unknown_partition", rb"partition " + TOPIC_PARTITION)
_NEW_PARTITION: Final = TOPIC_PARTITION + rb" with topic ID " + TOPIC_ID + rb" and " + _STATE


def _topic(event_type: str, beginning: bytes, id_is: bytes) -> tuple[LogPattern, ...]:
    return (
        LogPattern(event_type, QUORUM + beginning + rb"(?P<topic>[\w.-]+) with " + id_is + rb" " + TOPIC_ID + rb"\."),
    )


def _configured(beginning: bytes, verb: bytes) -> dict[bytes, tuple[LogPattern, ...]]:
    """A setting of a topic, of one or (no name) all brokers, or of something else. `null`: it is taken away."""
    setting = rb" configuration (?P<name>[\w.-]+) to (?:null|(?P<value>.*))"
    owners = (
        (b"TOPIC", rb"(?P<topic>[\w.-]+)"),
        (b"BROKER", rb"(?P<broker_id>\d+)?"),
        (b"GROUP", rb"(?P<group_id>.*?)"),
        (b"CLIENT_METRICS", rb".*?"),
        (b"UNKNOWN", rb".*?"),
    )
    return {
        b"%bConfigResource(type=%b, " % (beginning, kind): (
            LogPattern(
                "CONFIG_CHANGED",
                QUORUM + beginning + rb"ConfigResource\(type=" + kind + rb", name='" + name + rb"'\)" + verb + setting,
            ),
        )
        for kind, name in owners
    }


PATTERNS: Final[PatternsByClass] = {
    b"ReplicationControlManager": {
        b"Rejecting alterIsr request for unknown topic ": _UNKNOWN_TOPIC,
        b"Rejecting AlterPartition request for unknown topic ": _UNKNOWN_TOPIC,
        b"Rejecting alterIsr request for unknown partition ": _UNKNOWN_PARTITION,
        b"Rejecting AlterPartition request for unknown partition ": _UNKNOWN_PARTITION,
        b"Rejecting alterIsr request from node ": _REFUSED,
        b"Rejecting AlterPartition request from node ": _REFUSED,
        b"UNCLEAN partition change for ": _UNCLEAN,
        b"partition change for ": (
            LogPattern("PARTITION_CHANGE_REPLAYED", QUORUM + _CHANGED + _changes(rb"(?P<leader>-?\d+)")),
        ),
        b"Replayed PartitionRecord for new partition ": (
            LogPattern("PARTITION_REPLAYED", QUORUM + rb"Replayed PartitionRecord for new partition " + _NEW_PARTITION),
        ),
        b"Replayed PartitionRecord for existing partition ": (
            LogPattern("PARTITION_REPLAYED", QUORUM + rb"Replayed PartitionRecord for existing partition " + _NEW_PARTITION),
        ),
        b"Created partition ": (  # 3.0 to 3.5; 2.8 prints the topic's id in place of its name
            LogPattern("PARTITION_REPLAYED", QUORUM + rb"Created partition " + _NEW_PARTITION),
            LogPattern("PARTITION_REPLAYED", QUORUM + rb"Created partition " + TOPIC_ID + rb":(?P<partition>\d+) with .*"),
        ),
        b"Replayed TopicRecord ": _topic("TOPIC_REPLAYED", rb"Replayed TopicRecord for topic ", rb"topic ID"),
        b"Created topic ": _topic("TOPIC_REPLAYED", rb"Created topic ", rb"(?:topic )?ID"),
        b"Replayed RemoveTopicRecord ": _topic("TOPIC_REMOVED", rb"Replayed RemoveTopicRecord for topic ", rb"ID"),
        b"Removed topic ": _topic("TOPIC_REMOVED", rb"Removed topic ", rb"ID"),
    },
    b"ConfigurationControlManager": {
        **_configured(b"Replayed ConfigRecord for ", rb" which set"),
        **_configured(b"", rb": set"),  # up to 3.5
    },
    b"FeatureControlManager": {
        b"Replayed a FeatureLevelRecord setting metadata": (
            LogPattern(
                "FEATURE_REPLAYED",
                QUORUM + rb"Replayed a FeatureLevelRecord setting metadata[. ]version to (?P<value>\S+)",
                name="metadata.version",
            ),
        ),
        b"Setting metadata": (
            LogPattern(
                "FEATURE_REPLAYED", QUORUM + rb"Setting metadata[. ]version to (?P<value>\S+)", name="metadata.version"
            ),
        ),
        b"Replayed a FeatureLevelRecord setting feature ": (
            LogPattern(
                "FEATURE_REPLAYED",
                QUORUM + rb"Replayed a FeatureLevelRecord setting feature (?P<name>\S+) to (?P<value>\S+)",
            ),
        ),
        b"Setting feature ": (
            LogPattern("FEATURE_REPLAYED", QUORUM + rb"Setting feature (?P<name>\S+) to (?P<value>\S+)"),
        ),
        **{
            beginning: (LogPattern("FEATURE_REPLAYED", QUORUM + beginning + rb"(?P<name>\S+)", value="0"),)
            for beginning in (b"Replayed a FeatureLevelRecord removing feature ", b"Removing feature ")
        },
    },
}  # fmt: skip
