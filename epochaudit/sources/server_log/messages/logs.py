"""A broker's logs: truncation by the log and by its fetchers, leader epochs of the cache, producers, creation and removal.

Log, UnifiedLog, ReplicaFetcherThread, LeaderEpochFileCache, ProducerAppendInfo, LogManager. Log and UnifiedLog do not show
whether a replica is the future replica of a move between directories. ReplicaAlterLogDirsThreads, which fill future
replicas, are not read: their leader is the broker itself.
"""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import TOPIC_PARTITION, LogPattern
from epochaudit.sources.server_log.messages.parts import EPOCH_ENTRY, Beginnings, PatternsByClass

_LOG: Final = rb"\[(?:Unified|Local)?Log partition=" + TOPIC_PARTITION + rb", dir=[^\]]*\] "
_FETCHER: Final = rb"\[ReplicaFetcher replicaId=\d+, leaderId=(?P<leader>\d+), fetcherId=\d+\] "
_CACHE: Final = rb"\[LeaderEpochCache " + TOPIC_PARTITION + rb"\] "
_OFFSET: Final = rb"(?P<offset>-?\d+)"
_FROM: Final = rb"(?P<previous_offset>-?\d+)"
_WATERMARK: Final = rb"(?P<high_watermark>-?\d+)"
_SEGMENT: Final = rb"(?:[^()\d][^()]*)?\)"  # with a comma before, with a space, or (3.5) with neither
_AND_FOR_TRUNCATION: Final = _OFFSET + rb" will be used for truncation"
_ENTRIES: Final = rb"(?:Cache now contains (?P<value>\d+) entries|.*)\.?"
_OLD_ENTRY: Final = (  # 1.0 to 2.0.0
    rb"New: \{epoch:(?P<leader_epoch>-?\d+), offset:(?P<start_offset>-?\d+)\}, Current: .* for Partition: "
    + TOPIC_PARTITION
)


def _fetcher(event_type: str, pattern: bytes, **constants: str) -> LogPattern:
    return LogPattern(event_type, _FETCHER + pattern, **constants)


_LOGS: Final[Beginnings] = {
    b"Truncating to offset ": (LogPattern("LOG_TRUNCATED", _LOG + rb"Truncating to offset " + _OFFSET),),
    b"Truncating log ": (  # 1.0.0 and 1.0.1
        LogPattern("LOG_TRUNCATED", rb"Truncating log " + TOPIC_PARTITION + rb" to offset " + _OFFSET + rb"\."),
    ),
    b"Truncate and start at offset ": (
        LogPattern(
            "LOG_EMPTIED",
            _LOG + rb"Truncate and start at offset (?P<offset>-?\d+)(?:, logStartOffset: -?\d+)?",
        ),
    ),
    b"Truncate and start log ": (  # 1.0.0 and 1.0.1
        LogPattern("LOG_EMPTIED", rb"Truncate and start log '" + TOPIC_PARTITION + rb"' at offset " + _OFFSET),
    ),
    b"Deleting segments as part ": (  # 2.7 on; of all segments, where a follower is sent to the remote tier
        LogPattern("LOG_SEGMENTS_TRUNCATED", _LOG + rb"Deleting segments as part of log truncation: .*"),
    ),
    b"Incremented log start ": (  # 2.6 on
        LogPattern(
            "LOG_START_INCREMENTED",
            _LOG + rb"Incremented log start offset to " + _OFFSET + rb" due to (?P<reason>.+)",
        ),
    ),
    b"Incrementing log start ": (
        LogPattern("LOG_START_INCREMENTED", _LOG + rb"Incrementing log start offset to " + _OFFSET),
        LogPattern(  # 1.0.0 and 1.0.1
            "LOG_START_INCREMENTED",
            rb"Incrementing log start offset of partition " + TOPIC_PARTITION + rb" to " + _OFFSET + rb" in dir .*",
        ),
    ),
    b"Non-monotonic update of high watermark ": (
        LogPattern(
            "HIGH_WATERMARK_LOWERED",
            _LOG + rb"Non-monotonic update of high watermark from \(offset=" + _FROM + _SEGMENT + rb" to \(offset="
            + _WATERMARK + _SEGMENT,
        ),
    ),
}  # fmt: skip

_RECOVERY: Final[Beginnings] = {
    b"Recovering unflushed ": (
        LogPattern(
            "LOG_RECOVERED", rb"\[(?:Log|LogLoader) partition=" + TOPIC_PARTITION + rb", dir=[^\]]*\] Recovering unflushed segment"
            rb" (?P<offset>\d+)(?:\..*)?"
        ),
        LogPattern(  # 1.0.0 and 1.0.1, which print the folder's name
            "LOG_RECOVERED",
            rb"Recovering unflushed segment (?P<offset>\d+) in log " + TOPIC_PARTITION + rb"(?:\.\w+-delete)?\.",
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
        LogPattern("EPOCH_CACHE_APPENDED", _CACHE + rb"Appended new epoch entry " + EPOCH_ENTRY + rb"\. " + _ENTRIES),
    ),
    b"Updated PartitionLeaderEpoch. ": (
        LogPattern("EPOCH_CACHE_APPENDED", rb"Updated PartitionLeaderEpoch\. " + _OLD_ENTRY + rb"\. " + _ENTRIES),
    ),
    b"New epoch entry ": (
        LogPattern(
            "EPOCH_CACHE_CONFLICT",
            _CACHE + rb"New epoch entry " + EPOCH_ENTRY + rb" caused truncation of conflicting entries .*\. " + _ENTRIES,
        ),
    ),
    b"Cleared entries ": (
        LogPattern(
            "EPOCH_CACHE_END_TRUNCATED",
            _CACHE + rb"Cleared entries .* from epoch cache after truncating to end offset " + _OFFSET + rb", .*",
        ),
        LogPattern(
            "EPOCH_CACHE_START_TRUNCATED",
            _CACHE + rb"Cleared entries .* and rewrote first entry " + EPOCH_ENTRY + rb" after truncating to start offset "
            + _OFFSET + rb", .*",
        ),
    ),
    b"Cleared latest ": (  # 1.0 to 2.0.0
        LogPattern(
            "EPOCH_CACHE_END_TRUNCATED",
            rb"Cleared latest .* based on passed offset " + _OFFSET + rb" leaving .* for partition " + TOPIC_PARTITION,
        ),
    ),
    b"Cleared earliest ": (
        LogPattern(
            "EPOCH_CACHE_START_TRUNCATED",
            rb"Cleared earliest .* based on passed offset " + _OFFSET + rb" leaving .* for partition " + TOPIC_PARTITION,
        ),
    ),
    b"Received leader epoch assignment ": (
        LogPattern("EPOCH_CACHE_DISORDER", _CACHE + rb"Received leader epoch assignment " + EPOCH_ENTRY + rb" which has .*"),
    ),
    b"Received a PartitionLeaderEpoch assignment ": (
        LogPattern("EPOCH_CACHE_DISORDER", rb"Received a PartitionLeaderEpoch assignment for .* " + _OLD_ENTRY),
    ),
}  # fmt: skip

_OF_PRODUCER: Final = rb"Epoch of producer (?P<producer_id>\d+) at offset " + _OFFSET
_OLDER: Final = rb" in " + TOPIC_PARTITION + rb" is (?P<producer_epoch>-?\d+), which is "
_LAST_SEEN: Final = rb" the last seen epoch (?P<last_epoch>-?\d+)"

_PRODUCERS: Final[Beginnings] = {  # 2.4.1 on, of a batch that a replica fetches or recovers: its leader had to refuse it
    b"Detected invalid coordinator epoch ": (
        LogPattern(
            "OLDER_COORDINATOR_EPOCH",
            rb"Detected invalid coordinator epoch for producerId (?P<producer_id>\d+) at offset " + _OFFSET + rb" in partition "
            + TOPIC_PARTITION + rb": (?P<coordinator_epoch>-?\d+) is older than previously known coordinator epoch (?P<last_epoch>-?\d+)",
        ),
    ),
    b"Epoch of producer ": (
        LogPattern("OLDER_PRODUCER_EPOCH", _OF_PRODUCER + _OLDER + rb"smaller than" + _LAST_SEEN),
        # 4.2 on, with the transaction version of a marker
        LogPattern("OLDER_PRODUCER_EPOCH", _OF_PRODUCER + _OLDER + rb"<=?" + _LAST_SEEN + rb" \(TV-?\d+\)"),
    ),
    b"Producer's epoch at offset ": (  # 2.4.1 to 2.7
        LogPattern("OLDER_PRODUCER_EPOCH", rb"Producer's epoch at offset " + _OFFSET + _OLDER + rb"smaller than" + _LAST_SEEN),
    ),
}  # fmt: skip

_STRAY: Final = (
    rb"Log\(dir=[^,]*(?:, topicId=(?:None|null|(?P<topic_id>[\w-]{22})))?, topic=(?P<topic>[\w.-]+), partition=(?P<partition>\d+),"
    rb" .*?\)"
)


def _stray(reason: str, ending: bytes) -> LogPattern:
    return LogPattern("STRAY_PARTITION", rb"Found stray log dir " + _STRAY + rb": " + ending, reason=reason)


_FOLDERS: Final[Beginnings] = {
    b"Created log for partition ": (
        LogPattern(  # the future replica of a move between directories
            "FUTURE_LOG_CREATED", rb"Created log for partition " + TOPIC_PARTITION + rb" in .*-future with properties .*"
        ),
        LogPattern("LOG_CREATED", rb"Created log for partition " + TOPIC_PARTITION + rb" in .*"),
        LogPattern("LOG_CREATED", rb"Created log for partition \[(?P<topic>[\w.-]+),(?P<partition>\d+)\] in .*"),  # 1.0
    ),
    b"Log for partition ": (
        LogPattern(
            "LOG_DELETION_SCHEDULED",
            rb"Log for partition " + TOPIC_PARTITION + rb" is renamed to .* and is scheduled for deletion",
        ),
        LogPattern("LOG_MARKED_STRAY", rb"Log for partition " + TOPIC_PARTITION + rb" is marked as stray and renamed to .*"),
    ),
    b"Log in ": (
        LogPattern("LOG_MARKED_STRAY", rb"Log in .*[/\\]" + TOPIC_PARTITION + rb" marked stray and renamed to .*"),
    ),
    b"The current replica is ": (
        LogPattern(
            "FUTURE_LOG_PROMOTED",
            rb"The current replica is successfully replaced with the future replica for " + TOPIC_PARTITION,
        ),
    ),
    b"Successfully recovered abandoned ": (  # 3.7.1 on
        LogPattern("FUTURE_LOG_PROMOTED", rb"Successfully recovered abandoned future log for " + TOPIC_PARTITION),
    ),
    b"Found stray log dir ": (  # 3.2 on
        _stray("not_in_replicas", rb"the current replica assignment .*"),
        _stray("topic_deleted", rb"the topicId \S+ does not exist in the metadata image\.?"),
        _stray("inconsistent_topic_id", rb"this partition now exists with topic ID .*"),
        _stray("not_in_request", rb"this partition does not exist in the new full LeaderAndIsrRequest\."),
    ),
    b"The topicId does not exist in ": (
        LogPattern(
            "STRAY_PARTITION",
            rb"(?:\[[^\]]*\] )?The topicId does not exist in " + _STRAY + rb", treat it as a stray log\.?",
            reason="no_topic_id",
        ),
    ),
}  # fmt: skip


def _folders(beginning: bytes) -> Beginnings:
    """The one line about folders that another class writes in some releases."""
    return {beginning: _FOLDERS[beginning]}


MARKED: Final = {
    b"UnifiedLog": (
        b" below high watermark ",
        LogPattern(  # from 4.2 on; before, the fetcher logged it
            "TRUNCATION_BELOW_HIGH_WATERMARK",
            rb"\[UnifiedLog partition=[^\]]*\] Truncating " + TOPIC_PARTITION + rb" to offset " + _OFFSET
            + rb" below high watermark " + _WATERMARK,
        ),
    ),
}  # fmt: skip
"""Class -> mark of a message whose first words other messages have, too."""

PATTERNS: Final[PatternsByClass] = {
    b"Log": {**_LOGS, **_RECOVERY},
    b"LogLoader": _RECOVERY,
    b"LogLoader$": _RECOVERY,  # 3.0 and 3.1
    b"UnifiedLog": _LOGS,
    b"LocalLog": _LOGS,
    b"ReplicaFetcherThread": {**_TRUNCATING, **_RESETS},
    b"LeaderEpochFileCache": _EPOCHS,
    b"ProducerAppendInfo": _PRODUCERS,
    b"LogManager": _FOLDERS,
    b"LogManager$": _FOLDERS,
    b"BrokerMetadataPublisher$": _folders(b"Found stray log dir "),  # 3.2 to 3.6
    b"BrokerMetadataPublisher": _folders(b"The topicId does not exist in "),  # 4.3 on
}
