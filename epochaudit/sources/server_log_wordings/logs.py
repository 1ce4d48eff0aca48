"""A broker's logs: truncation by the log and by its fetchers, leader epochs of the cache, creation and removal.

Log, UnifiedLog, ReplicaFetcherThread, LeaderEpochFileCache, LogManager. Log and UnifiedLog name no directory that tells
a replica from the future replica of a move between directories. Threads that feed such replicas are not read: their
leader is the broker itself.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.log4j import TOPIC_PARTITION, Wording
from epochaudit.sources.server_log_wordings.parts import EPOCH_ENTRY, Beginnings, Told

_LOG: Final = rb"\[(?:Unified)?Log partition=" + TOPIC_PARTITION + rb", dir=[^\]]*\] "
_FETCHER: Final = rb"\[ReplicaFetcher replicaId=\d+, leaderId=(?P<leader>\d+), fetcherId=\d+\] "
_CACHE: Final = rb"\[LeaderEpochCache " + TOPIC_PARTITION + rb"\] "
_OFFSET: Final = rb"(?P<offset>-?\d+)"
_FROM: Final = rb"(?P<previous_offset>-?\d+)"
_WATERMARK: Final = rb"(?P<high_watermark>-?\d+)"
_SEGMENT: Final = rb"(?:[^()\d][^()]*)?\)"  # with a comma before, with a space, or (3.5) with neither
_AND_FOR_TRUNCATION: Final = _OFFSET + rb" will be used for truncation"
_OLD_ENTRY: Final = (  # 1.0 and 1.1
    rb"New: \{epoch:(?P<leader_epoch>-?\d+), offset:(?P<start_offset>-?\d+)\}, Current: .* for Partition: "
    + TOPIC_PARTITION
)


def _fetcher(event_type: str, pattern: bytes, **told: str) -> Wording:
    return Wording(event_type, _FETCHER + pattern, **told)


_LOGS: Final[Beginnings] = {
    b"Truncating to offset ": (Wording("LOG_TRUNCATED", _LOG + rb"Truncating to offset " + _OFFSET),),
    b"Truncate and start at offset ": (
        Wording(
            "LOG_EMPTIED",
            _LOG + rb"Truncate and start at offset (?P<offset>-?\d+)(?:, logStartOffset: -?\d+)?",
        ),
    ),
    b"Non-monotonic update of high watermark ": (
        Wording(
            "HIGH_WATERMARK_LOWERED",
            _LOG + rb"Non-monotonic update of high watermark from \(offset=" + _FROM + _SEGMENT + rb" to \(offset="
            + _WATERMARK + _SEGMENT,
        ),
    ),
}  # fmt: skip

_TRUNCATING: Final[Beginnings] = {
    b"Truncating partition ": (
        _fetcher(  # 3.1 on
            "FOLLOWER_TRUNCATING",
            rb"Truncating partition " + TOPIC_PARTITION + rb" with TruncationState\(offset=" + _OFFSET
            + rb", completed=\w+\) due to local high watermark " + _WATERMARK,
            reason="high_watermark",
        ),
        _fetcher(
            "FOLLOWER_TRUNCATING",
            rb"Truncating partition " + TOPIC_PARTITION + rb" with TruncationState\(offset=" + _OFFSET
            + rb", completed=\w+\) due to leader epoch and offset EpochEndOffset\(.*\bleaderEpoch=(?P<diverging_epoch>-?\d+),"
            rb" endOffset=(?P<diverging_end_offset>-?\d+)\)",
            reason="leader_epoch",
        ),
        _fetcher(  # 2.1 to 3.0
            "FOLLOWER_TRUNCATING",
            rb"Truncating partition " + TOPIC_PARTITION + rb" to local high watermark (?=(?P<offset>-?\d+))" + _WATERMARK,
            reason="high_watermark",
        ),
    ),
    b"Truncating ": (
        _fetcher(
            "TRUNCATION_BELOW_HIGH_WATERMARK",
            rb"Truncating " + TOPIC_PARTITION + rb" to offset " + _OFFSET + rb" below high watermark " + _WATERMARK,
        ),
    ),
    b"Based on ": (
        _fetcher(
            "TRUNCATION_OFFSET_CHOSEN",
            rb"Based on [\w']+ leader epoch, leader replied with an unknown offset in " + TOPIC_PARTITION
            + rb"\. (?:The initial fetch offset|High watermark) " + _AND_FOR_TRUNCATION + rb"\.",
            reason="epoch_unknown_to_leader",
        ),
        _fetcher(
            "TRUNCATION_OFFSET_CHOSEN",
            rb"Based on [\w']+ leader epoch, leader replied with epoch (?P<diverging_epoch>-?\d+) below any [\w']+ tracked"
            rb" epochs for " + TOPIC_PARTITION + rb"\. The leader's offset only " + _AND_FOR_TRUNCATION + rb"\.",
            reason="epoch_below_own",
        ),
        _fetcher(
            "TRUNCATION_OFFSET_CHOSEN",
            rb"Based on [\w']+ leader epoch, leader replied with epoch (?P<diverging_epoch>-?\d+) unknown to the \w+ for "
            + TOPIC_PARTITION + rb"\. Will truncate to " + _OFFSET + rb" and send another .*",
            reason="epoch_unknown_to_follower",
        ),
        _fetcher(  # 1.0 and 1.1
            "TRUNCATION_OFFSET_CHOSEN",
            rb"Based on [\w']+ leader epoch, leader replied with an offset (?P<diverging_end_offset>\d+) >= the [\w']+ log end"
            rb" offset " + _OFFSET + rb" in " + TOPIC_PARTITION + rb"\. No truncation needed\.",
            reason="nothing_to_truncate",
        ),
    ),
    b"Leader or ": (
        _fetcher(
            "TRUNCATION_OFFSET_CHOSEN",
            rb"Leader or \w+ is on protocol version where .* The leader's offset " + _AND_FOR_TRUNCATION + rb" in "
            + TOPIC_PARTITION + rb"\.",
            reason="no_epoch_in_answer",
        ),
    ),
}  # fmt: skip

_RESETS: Final[Beginnings] = {
    b"Reset fetch offset for partition ": (
        _fetcher(
            "FETCH_OFFSET_RESET",
            rb"Reset fetch offset for partition " + TOPIC_PARTITION + rb" from " + _FROM + rb" to (?:the )?current leader's"
            rb" latest offset " + _OFFSET,
            reason="leader_log_end",
        ),
        _fetcher(  # up to 3.5
            "FETCH_OFFSET_RESET",
            rb"Reset fetch offset for partition " + TOPIC_PARTITION + rb" from " + _FROM + rb" to (?:the )?current leader's"
            rb" start offset " + _OFFSET,
            reason="leader_log_start",
        ),
        _fetcher(
            "FETCH_OFFSET_RESET",
            rb"Reset fetch offset for partition " + TOPIC_PARTITION + rb" from " + _FROM + rb" to the current local replica's"
            rb" end offset " + _OFFSET,
            reason="own_log_end",
        ),
    ),
    b"Truncate fully and reset fetch offset for ": (  # 3.6 on
        _fetcher(
            "FETCH_OFFSET_RESET",
            rb"Truncate fully and reset fetch offset for partition " + TOPIC_PARTITION + rb" from " + _FROM
            + rb" to the current leader's start offset " + _OFFSET + rb" because .*",
            reason="leader_log_start",
        ),
    ),
    b"Current offset ": (
        _fetcher(
            "FETCH_OFFSET_OUT_OF_RANGE",
            rb"Current offset " + _FROM + rb" for partition " + TOPIC_PARTITION + rb" (?:is )?out of range.* [Rr]eset"
            rb" (?:fetch )?offset to " + _OFFSET,
        ),
    ),
    b"Partition ": (
        _fetcher(
            "FETCHER_FENCED",
            rb"Partition " + TOPIC_PARTITION + rb" has an older epoch \((?P<current_leader_epoch>-?\d+)\) than the current"
            rb" leader\. .*",
            reason="older_epoch",
        ),
        _fetcher(
            "FETCHER_FENCED",
            rb"Partition " + TOPIC_PARTITION + rb" has an? new(?:er)? epoch \((?P<current_leader_epoch>-?\d+)\) than the current"
            rb" leader\. .*",
            reason="newer_epoch",
        ),
        _fetcher("FETCHER_FAILED", rb"Partition " + TOPIC_PARTITION + rb" marked as failed"),
    ),
}  # fmt: skip

_EPOCHS: Final[Beginnings] = {
    b"Appended new epoch entry ": (
        Wording("EPOCH_CACHE_APPENDED", _CACHE + rb"Appended new epoch entry " + EPOCH_ENTRY + rb"\. .*"),
    ),
    b"Updated PartitionLeaderEpoch. ": (
        Wording("EPOCH_CACHE_APPENDED", rb"Updated PartitionLeaderEpoch\. " + _OLD_ENTRY + rb"\. .*"),
    ),
    b"New epoch entry ": (
        Wording(
            "EPOCH_CACHE_CONFLICT",
            _CACHE + rb"New epoch entry " + EPOCH_ENTRY + rb" caused truncation of conflicting entries .*",
        ),
    ),
    b"Cleared entries ": (
        Wording(
            "EPOCH_CACHE_END_TRUNCATED",
            _CACHE + rb"Cleared entries .* from epoch cache after truncating to end offset " + _OFFSET + rb", .*",
        ),
        Wording(
            "EPOCH_CACHE_START_TRUNCATED",
            _CACHE + rb"Cleared entries .* and rewrote first entry " + EPOCH_ENTRY + rb" after truncating to start offset "
            + _OFFSET + rb", .*",
        ),
    ),
    b"Cleared latest ": (  # 1.0 and 1.1
        Wording(
            "EPOCH_CACHE_END_TRUNCATED",
            rb"Cleared latest .* based on passed offset " + _OFFSET + rb" leaving .* for partition " + TOPIC_PARTITION,
        ),
    ),
    b"Cleared earliest ": (
        Wording(
            "EPOCH_CACHE_START_TRUNCATED",
            rb"Cleared earliest .* based on passed offset " + _OFFSET + rb" leaving .* for partition " + TOPIC_PARTITION,
        ),
    ),
    b"Received leader epoch assignment ": (
        Wording("EPOCH_CACHE_DISORDER", _CACHE + rb"Received leader epoch assignment " + EPOCH_ENTRY + rb" which has .*"),
    ),
    b"Received a PartitionLeaderEpoch assignment ": (
        Wording("EPOCH_CACHE_DISORDER", rb"Received a PartitionLeaderEpoch assignment for .* " + _OLD_ENTRY),
    ),
}  # fmt: skip

_STRAY: Final = (
    rb"Log\(dir=[^,]*(?:, topicId=(?:None|null|(?P<topic_id>[\w-]{22})))?, topic=(?P<topic>[\w.-]+), partition=(?P<partition>\d+),"
    rb" .*?\)"
)


def _stray(reason: str, ending: bytes) -> Wording:
    return Wording("STRAY_PARTITION", rb"Found stray log dir " + _STRAY + rb": " + ending, reason=reason)


_FOLDERS: Final[Beginnings] = {
    b"Created log for partition ": (
        Wording("LOG_CREATED", rb"Created log for partition " + TOPIC_PARTITION + rb" in .*"),
        Wording("LOG_CREATED", rb"Created log for partition \[(?P<topic>[\w.-]+),(?P<partition>\d+)\] in .*"),  # 1.0
    ),
    b"Log for partition ": (
        Wording(
            "LOG_DELETION_SCHEDULED",
            rb"Log for partition " + TOPIC_PARTITION + rb" is renamed to .* and is scheduled for deletion",
        ),
        Wording("LOG_MARKED_STRAY", rb"Log for partition " + TOPIC_PARTITION + rb" is marked as stray and renamed to .*"),
    ),
    b"Log in ": (
        Wording("LOG_MARKED_STRAY", rb"Log in .*[/\\]" + TOPIC_PARTITION + rb" marked stray and renamed to .*"),
    ),
    b"Found stray log dir ": (  # 3.6 on
        _stray("not_in_replicas", rb"the current replica assignment .*"),
        _stray("topic_deleted", rb"the topicId \S+ does not exist in the metadata image\.?"),
        _stray("inconsistent_topic_id", rb"this partition now exists with topic ID .*"),
        _stray("not_in_request", rb"this partition does not exist in the new full LeaderAndIsrRequest\."),
    ),
    b"The topicId does not exist in ": (
        Wording(
            "STRAY_PARTITION", rb"The topicId does not exist in " + _STRAY + rb", treat it as a stray log\.?",
            reason="no_topic_id",
        ),
    ),
}  # fmt: skip

MARKED: Final = {
    b"UnifiedLog": (
        b" below high watermark ",
        Wording(  # 4.2 on; before, the fetcher said it
            "TRUNCATION_BELOW_HIGH_WATERMARK",
            rb"\[UnifiedLog partition=[^\]]*\] Truncating " + TOPIC_PARTITION + rb" to offset " + _OFFSET
            + rb" below high watermark " + _WATERMARK,
        ),
    ),
}  # fmt: skip
"""By class: what a message holds whose first words other messages have, too."""

TOLD: Final[Told] = {
    b"Log": _LOGS,
    b"UnifiedLog": _LOGS,
    b"ReplicaFetcherThread": {**_TRUNCATING, **_RESETS},
    b"LeaderEpochFileCache": _EPOCHS,
    b"LogManager": _FOLDERS,
    b"LogManager$": _FOLDERS,
}
