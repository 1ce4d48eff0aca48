"""Frame `quorum_answers`: requests of the metadata quorum and the epoch that the responder knew (KIP-595)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, VOTE
from epochaudit.events.views import of_types, ref
from epochaudit.replay.state.quorum import QUORUM_REQUESTS, is_quorum_request, maybe_parked

_LEADER_CHECKED: Final = (FETCH, FETCH_SNAPSHOT)


def quorum_answers(events: DataFrame) -> DataFrame:
    """One row per Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot and Fetch of the metadata log that states an epoch.

    Needs: the events table. Clock: none, each row stands alone: a node checks the epoch, takes it over and answers in one step of
    one thread. Columns: the subject columns (node = the responder; topic, partition and leader_epoch null), and
      api           the request's name in words
      request_error_code, error_code   of the answer as a whole and of the partition; null without an answer
      asked         the epoch that the request states
      answered      the epoch of the quorum that the responder knew after the request; null without an answer
      asks_leader   a request that only the leader answers, in its own epoch: Fetch, FetchSnapshot
      parked        a Fetch that waited, see `maybe_parked`
      request_ref   the line
    """
    asks_leader = F.col("event_type").isin(*_LEADER_CHECKED)
    words = F.create_map(*(F.lit(text) for pair in _WORDS.items() for text in pair))
    rows = of_types(events, *QUORUM_REQUESTS).where(is_quorum_request() & F.col("in_request"))
    return rows.select(
        "cluster", "node", "client_id", "correlation_id", "request_error_code", "error_code", ref().alias("request_ref"),
        words[F.col("event_type")].alias("api"),
        F.when(asks_leader, F.col("current_leader_epoch")).otherwise(F.col("raft_epoch")).alias("asked"),
        F.when(asks_leader, F.nullif("hinted_leader_epoch", F.lit(-1)))
        .otherwise(F.col("response_leader_epoch")).alias("answered"),
        asks_leader.alias("asks_leader"), maybe_parked().alias("parked"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id", "group_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip


_WORDS: Final = {
    VOTE: "Vote",
    BEGIN_QUORUM_EPOCH: "BeginQuorumEpoch",
    END_QUORUM_EPOCH: "EndQuorumEpoch",
    FETCH: "Fetch",
    FETCH_SNAPSHOT: "FetchSnapshot",
}
