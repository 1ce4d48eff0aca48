"""Reasons of `unverifiable` that rules of several families give. Reports count subjects by these texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack

from pyspark.sql.functions import col

from epochaudit.rules.rule import Branch, OwnSentences, unverifiable

if TYPE_CHECKING:
    from pyspark.sql import Column

AMBIGUOUS_TOPIC: Final = "several topics had the name, and no topic id distinguishes them"
START_UNPROVEN: Final = (
    "the leader of the answered epoch may have written its line again, so that the epoch may start below"
)
SHARED_CLIENT_ID: Final = "several consumers share the client id"
CONTROL_REQUESTS_MISSING: Final = (
    "a control request in between is missing, perhaps one that deleted the replica (request log)"
)
RESTARTED_OR_EXPIRED: Final = "the broker restarted, or only its session with ZooKeeper expired (server.log)"
SHARE_STATE_REQUESTS_MISSING: Final = (
    "requests to the coordinator are missing in between, perhaps one that deleted the state (request log)"
)
CONTROLLER_VERSION_UNKNOWN: Final = "the controller's Kafka version is not in the evidence"
BROKER_VERSION_UNKNOWN: Final = "the version of the broker is not in the evidence"
EPOCH_CHANGED_JUST_BEFORE: Final = "the broker's epoch changed just before, and request lines may be written late"
NEWER_JUST_BEFORE: Final = "the newer epoch was answered just before, and request lines may be written late"
EARLIER_RECORDS_MISSING: Final = "the partition's earlier records are not in the evidence"
LOG_BEGINS_LATE: Final = "the metadata log does not reach back to all partitions"
EPOCH_START_UNKNOWN: Final = "where the leader epoch of the broker starts is not recorded"
HELD_EPOCH_UNKNOWN: Final = "the leader epoch that the broker held is not recorded"
HELD_EPOCH_UNCERTAIN: Final = "the leader epoch that the broker held is not certain"
LED_EPOCH_UNKNOWN: Final = "the leader epoch in which the broker led is not recorded"
EPOCH_CHANGED_MEANWHILE: Final = (
    "the leader epoch changed while the request was worked on, or the one at its arrival is not recorded"
)
REFUSAL_UNEXPLAINED: Final = "the evidence does not explain the refusal"
NO_STATE_CHANGE_LOG: Final = "no state-change.log of this broker"
PARTITION_ANSWER_MISSING: Final = "the answer for the partition is not in the evidence"
RECREATION_UNKNOWN: Final = "the topic was deleted, and no topic id shows whether it was created again"
LEADING_UNKNOWN: Final = "whether the broker led is not recorded"
NO_LINE_OF_NEW_ISR: Final = "no line of the leader shows when it had the new ISR (server.log, state-change.log)"
ELECTION_UNKNOWN: Final = "whether the election was clean is not in the evidence"
EPOCH_START_MISSING: Final = "where the leader epoch starts is not in the evidence"
NO_FETCH_OF_REPLICA: Final = "no fetch of the replica in this leader epoch is recorded (request log)"
FETCH_SESSION_INCOMPLETE: Final = "requests of the replica's fetch session are not recorded"


def log_incomplete(subjects: Column | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """A record in between may have changed what is judged. subjects: for which this matters; None: for all. Needs: log_whole."""
    incomplete = ~col("log_whole")
    return unverifiable(
        incomplete if subjects is None else subjects & incomplete,
        "a part of the metadata log is missing between its records",
        **sentences,
    )
