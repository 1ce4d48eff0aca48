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


def log_incomplete(subjects: Column | None = None, **sentences: Unpack[OwnSentences]) -> Branch:
    """A record in between may have changed what is judged. subjects: for which this matters; None: for all. Needs: log_whole."""
    incomplete = ~col("log_whole")
    return unverifiable(
        incomplete if subjects is None else subjects & incomplete,
        "a part of the metadata log is missing between its records",
        **sentences,
    )
