"""Partitions on a broker: leadership before 2.6, ISR changes and their refusals, high watermarks (Partition, Replica)."""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import TOPIC_PARTITION, LogPattern
from epochaudit.sources.server_log.messages.parts import PatternsByClass

_OF: Final = rb"\[Partition " + TOPIC_PARTITION + rb" broker="
_LEADER: Final = _OF + rb"(?P<leader>\d+)\] "
_BROKER: Final = _OF + rb"\d+\] "
_IDS: Final = rb"[\d,]*"
_SENT: Final = (  # the state that the leader asked for: printed in several forms, leader epoch and ISR from 2.7
    rb"\w+\(.*?(?:LeaderAndIsr\(leader=-?\d+, leaderEpoch=(?P<leader_epoch>-?\d+), .*)?"
)


def _failed(reason: str, ending: bytes) -> LogPattern:
    return LogPattern(
        "ALTER_PARTITION_FAILED",
        _LEADER + rb"(?:Controller failed|Failed) to (?:alter partition|update ISR) to " + _SENT + ending,
        reason=reason,
    )


_FAILED: Final = (
    _failed("rejected", rb" since the controller rejected the request with (?P<value>\w+)\. .*"),
    _failed("unexpected_error", rb" due to unexpected (?P<value>\w+)\. Retrying\."),
    _failed(
        "stale_leader_epoch", rb" since (?:we sent an old leader epoch|the leader epoch is old)\. .*"
    ),
    _failed(
        "stale_partition_epoch",
        rb" (?:due to invalid (?:zk )?version|because the version is invalid|because the partition epoch is invalid)\. .*",
    ),
    _failed("unknown_partition", rb" since (?:it|the controller) doesn't know about this topic or partition\. .*"),
    _failed("unknown_topic", rb" since the controller doesn't know about this topic\. .*"),
    _failed("invalid_request", rb" because the request is invalid\. .*"),
    _failed("pending", rb" since there is a pending (?:ISR update|AlterPartition) still inflight\. .*"),
)  # fmt: skip
_UPDATED: Final = (
    LogPattern(
        "ISR_UPDATED",
        _LEADER + rb"ISR updated (?:from AlterIsr )?to \[?(?P<isr>" + _IDS + rb")\]? *(?:\(under-min-isr\) )?"
        rb"and (?:zkV|v)ersion updated to \[?(?P<partition_epoch>-?\d+)\]?",
    ),
)
_LOADED: Final = rb" loaded for partition \S+ with initial high watermark (?P<high_watermark>-?\d+)"

MARKED: Final = {
    b"Partition": (
        b" starts at ",
        LogPattern(  # up to 2.5
            "LEADER_STARTS",
            rb"\[Partition \S+ broker=(?P<leader>\d+)\] " + TOPIC_PARTITION + rb" starts at [Ll]eader [Ee]poch"
            rb" (?P<leader_epoch>\d+) from offset (?P<start_offset>-?\d+)"
            rb"(?: with high watermark (?P<high_watermark>-?\d+))?\. Previous [Ll]eader [Ee]poch"
            rb" was:? (?P<previous_epoch>-?\d+)\.?",
        ),
    )
}  # fmt: skip
"""Class -> mark of a message that begins with the name of its partition."""

PATTERNS: Final[PatternsByClass] = {
    b"Partition": {
        b"Shrinking ISR from ": (
            LogPattern(
                "ISR_SHRINKING",
                _LEADER + rb"Shrinking ISR from " + _IDS + rb" to (?P<isr>" + _IDS + rb")"
                rb"(?:\. Leader: \(highWatermark: (?P<high_watermark>-?\d+), endOffset: (?P<offset>-?\d+)\)\..*)?",
            ),
        ),
        b"Expanding ISR from ": (
            LogPattern("ISR_EXPANDING", _LEADER + rb"Expanding ISR from " + _IDS + rb" to (?P<isr>" + _IDS + rb")"),
        ),
        b"ISR updated ": _UPDATED,
        b"Cached zkVersion ": (
            LogPattern(
                "ISR_UPDATE_SKIPPED",
                _LEADER + rb"Cached zkVersion \[?(?P<partition_epoch>-?\d+)\]? not equal to that in zookeeper, skip updating"
                rb" ISR",
                reason="stale_partition_epoch",
            ),
        ),
        b"Failed to alter partition to ": _FAILED,
        b"Failed to update ISR to ": _FAILED,
        b"Controller failed to update ISR to ": _FAILED,
        b"Log loaded for partition ": (LogPattern("HIGH_WATERMARK_LOADED", _BROKER + rb"Log" + _LOADED),),  # 2.4 on
    },
    b"Replica": {
        b"Replica loaded for partition ": (
            LogPattern(
                "HIGH_WATERMARK_LOADED",
                rb"Replica loaded for partition " + TOPIC_PARTITION
                + rb" with initial high watermark (?P<high_watermark>-?\d+)",
            ),
        ),
    },
}  # fmt: skip
