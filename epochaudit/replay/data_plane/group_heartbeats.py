"""Frame `group_heartbeats`: heartbeats of members of KIP-848 groups, with the member epochs that their coordinator had answered before.

A member states the epoch that it has; the answer has its new one. If an answer is lost, the member states the epoch before once more.
Clock: the coordinator's host.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.views import holds
from epochaudit.replay.data_plane.coordinator_logs import (
    CONSUMER_OFFSETS,
    returned_between,
    with_coordinator_log,
    with_returns,
)
from epochaudit.replay.state.member_epochs import MEMBER, member_epochs, member_heartbeats, with_last_answer
from epochaudit.replay.state.places import PLACE_OF_NODE, of_first, with_refs

CURRENT: Final = "current"
PREVIOUS: Final = "previous"
OLDER: Final = "older"
PERHAPS_OLDER: Final = "perhaps older"
RESTARTED: Final = "restarted"
UNKNOWN: Final = "unknown"

_HEARTBEAT: Final = (*MEMBER, "error_code", "standing")
_STATED: Final = ("client_id", "correlation_id", "member_epoch", "response_member_epoch", "answered_before")
_FIRST: Final = (*PLACE_OF_NODE, *_STATED, "answered_run", "answered_epoch")


def group_heartbeats(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, error code, standing): the first such heartbeat that states an epoch above 0.

    Needs: the events table.
    Columns: the subject columns (node = the coordinator; client_id and correlation_id of the heartbeat), member_id, member_epoch,
    response_member_epoch, answered_before (the epoch in the answer before), error_code, request_ref, and
      standing         of the stated epoch, if the heartbeat was accepted, else null. `current`: not lower than the one in the answer
                       before. `older`: two higher ones had been answered to the member one after the other, a second before the
                       heartbeat arrived. `perhaps older`: the same, but the heartbeat came just after the second of these answers, see
                       `came_just_after`. `previous`: lower, and neither of these. `restarted`: the new epoch is lower than the one in the
                       answer before. `unknown`: the answer before was no epoch, or is not recorded
      newer_epoch      if older or perhaps older: the last epoch that had been answered; newer_ref: the first answer with it
      former_epoch     the one before it, and higher than the stated one; former_ref: the first answer with it
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __consumer_offsets
      came_back        if older: another broker may have led a partition of __consumer_offsets since former_ref, see `with_returns`
    """
    epochs = member_epochs(events)
    rows = member_heartbeats(events).where((F.col("member_epoch") > 0) & F.col("request_error_code").isNotNull())
    rows = _with_standing(rows, epochs).withColumn("error_code", F.col("request_error_code"))
    found = rows.groupBy(*_HEARTBEAT).agg(*of_first(_FIRST, "at", "request_"))
    found = with_refs(found, events, "request")
    names = {"run": "request_answered_run", "epoch": "request_answered_epoch", "answered_ref": "newer_ref"}
    newer = epochs.withColumnsRenamed(names).select(*MEMBER, *names.values(), "former_epoch", "former_ref")
    found = found.join(F.broadcast(newer), [*MEMBER, "request_answered_run", "request_answered_epoch"], "left")
    older = holds(F.col("standing").isin(OLDER, PERHAPS_OLDER))
    found = found.select(
        *MEMBER, "error_code", "standing", "request_ref", *(F.col(f"request_{name}").alias(name) for name in _STATED),
        F.when(older, F.col("request_answered_epoch")).alias("newer_epoch"),
        *(F.when(older, F.col(name)).alias(name) for name in ("newer_ref", "former_epoch", "former_ref")),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip
    found = with_returns(with_coordinator_log(found, events, CONSUMER_OFFSETS), events, CONSUMER_OFFSETS)
    return found.withColumn("came_back", returned_between(F.col("former_ref"), F.col("request_ref"))).drop("returns")


def _with_standing(rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Adds standing; answered_run and answered_epoch of newer_epoch. Grain unchanged."""
    is_lower = F.col("accepted") & (F.col("member_epoch") < F.col("answered_before"))
    rows = with_last_answer(rows.withColumn("is_lower", is_lower), epochs, "former_epoch")
    standing = (
        F.when(~F.col("accepted"), F.lit(None).cast("string"))
        .when(F.col("answered_before").isNull(), F.lit(UNKNOWN))
        .when(F.col("response_member_epoch") < F.col("answered_before"), F.lit(RESTARTED))
        .when(_is_older("answered"), F.lit(OLDER))
        .when(_is_older("recent"), F.lit(PERHAPS_OLDER))
        .when(F.col("is_lower"), F.lit(PREVIOUS))
        .otherwise(F.lit(CURRENT))
    )
    newer = F.when(F.col("standing") == PERHAPS_OLDER, F.col("recent")).otherwise(F.col("answered"))
    rows = rows.withColumn("standing", standing)
    return rows.withColumns({f"answered_{name}": newer[name] for name in ("run", "epoch")}).drop("answered", "recent")


def _is_older(answer: str) -> Column:
    """The stated epoch is lower than the one before that of the answer, too. Needs: is_lower."""
    return holds(F.col("is_lower") & (F.col(f"{answer}.former_epoch") > F.col("member_epoch")))
