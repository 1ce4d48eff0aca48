"""Frame `member_commits`: commits of members of KIP-848 groups, with the member epochs that their coordinator had answered before.

Each member has an epoch of its own, and a commit must state it. The coordinator writes it to __consumer_offsets before it answers a
heartbeat with it. Clock: the coordinator's host.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.event_types import TXN_OFFSET_COMMIT
from epochaudit.events.views import holds, of_types
from epochaudit.kafka.api_versions import MEMBER_EPOCH_OFFSET_COMMIT_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.commits import COMMITS
from epochaudit.replay.data_plane.group_generations import classic_joins, has_classic_id
from epochaudit.replay.state.member_epochs import MEMBER, member_epochs, with_last_answer
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, with_refs
from epochaudit.replay.state.releases import releases, releases_at

_COMMIT: Final = (*MEMBER, "generation_id", "event_type", "error_code", "is_stale", "certain", "just_after_newer")
_FIRST: Final = (*PLACE_OF_NODE, "client_id", "correlation_id", "answered_run", "answered_epoch")


def states_member_epoch() -> Column:
    """The commit is of a member whose id is not that of a classic member. Needs: a row of COMMITS."""
    version = (F.col("event_type") == TXN_OFFSET_COMMIT) | (F.col("api_version") >= MEMBER_EPOCH_OFFSET_COMMIT_VERSION)
    return (F.col("generation_id") >= 0) & version & ~has_classic_id()


def member_commits(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, epoch, API, error code): the first such commit, while the epoch was the member's and after.

    Needs: the events table. Commits are OffsetCommit from version 9 on and TxnOffsetCommit that state a member epoch. They are aggregated
    where they are read. Those of a generation that the member was given in a classic group are left out, whatever its id.
    Columns: the subject columns (node = the coordinator; client_id and correlation_id of the first commit), event_type, error_code,
    member_id, generation_id (the member epoch that the commit states), commit_ref, and
      given_ref      the coordinator's first answer that gave the member this epoch; null: none is recorded
      is_stale       a higher epoch was the last one that it had answered to the member, a second before the commit arrived
      just_after_newer   the commit was accepted, is not stale, and came just after an answer with a higher epoch, see `came_just_after`
      newer_epoch    that epoch, and newer_ref, its first answer with it
      certain        a later heartbeat shows that the member had not joined anew: it states that epoch or a higher one, and all
                     heartbeats in between were accepted
      certain_ref    the last such heartbeat
      kafka_version  the coordinator's release as a number (4001000 for 4.1.0), the highest possible; null: not in the evidence
    """
    epochs = member_epochs(events)
    rows = of_types(events, *COMMITS).where(states_member_epoch())
    rows = _with_epoch(rows, epochs).withColumn("at", at())
    found = rows.groupBy(*_COMMIT).agg(*of_first(_FIRST, "at", "commit_"))
    found = with_refs(found, events, "commit")
    found = found.join(F.broadcast(_newer(epochs)), [*MEMBER, "commit_answered_run", "commit_answered_epoch"], "left")
    found = found.join(F.broadcast(_given(events, epochs)), [*MEMBER, "generation_id"], "left")
    found = found.where(~holds(F.col("is_generation")))
    found = found.join(F.broadcast(releases(events)), ["cluster", "node"], "left")
    is_older = F.col("is_stale") | F.col("just_after_newer")
    return found.select(
        *MEMBER, "generation_id", "event_type", "error_code", "is_stale", "certain", "just_after_newer", "commit_ref", "given_ref",
        *(F.col(f"commit_{name}").alias(name) for name in ("client_id", "correlation_id")),
        *(F.when(is_older, F.col(column)).alias(name) for name, column in _IF_OLDER.items()),
        F.array_max(releases_at(at_ms=F.col("commit_time_ms"))["version"]).alias("kafka_version"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip


_IF_OLDER: Final = {"newer_epoch": "commit_answered_epoch", "newer_ref": "newer_ref", "certain_ref": "certain_ref"}


def _with_epoch(rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Adds is_stale, certain, just_after_newer; answered_run and answered_epoch of the newer epoch. Grain unchanged."""
    rows = with_last_answer(rows, epochs, "certain_until_ms")
    is_stale = holds(F.col("generation_id") < F.col("answered.epoch"))
    accepted = F.col("error_code") == Errors.NONE
    just_after_newer = holds(accepted & (F.col("generation_id") < F.col("recent.epoch"))) & ~is_stale
    newer = F.when(just_after_newer, F.col("recent")).otherwise(F.col("answered"))
    return rows.withColumns(
        {
            "is_stale": is_stale,
            "certain": is_stale & holds(F.col("time_ms") < F.col("answered.certain_until_ms")),
            "just_after_newer": just_after_newer,
            **{f"answered_{name}": newer[name] for name in ("run", "epoch")},
        }
    ).drop("answered", "recent")


def _newer(epochs: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, run, epoch), named as columns of a commit: newer_ref, certain_ref."""
    names = {"run": "commit_answered_run", "epoch": "commit_answered_epoch", "answered_ref": "newer_ref"}
    return epochs.withColumnsRenamed(names).select(
        *MEMBER, "commit_answered_run", "commit_answered_epoch", "newer_ref", "certain_ref"
    )


def _given(events: DataFrame, epochs: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, epoch): given_ref, the first answer to a heartbeat; is_generation.

    is_generation: the member was given that number in JoinGroup of a classic group.
    """
    names = {"epoch": "generation_id", "answered_ref": "ref"}
    rows = epochs.withColumnsRenamed(names).select(*MEMBER, "generation_id", "ref", "answered_at")
    joins = classic_joins(events).select(*MEMBER, "generation_id", F.lit(True).alias("is_generation"))
    rows = rows.unionByName(joins, allowMissingColumns=True)
    return rows.groupBy(*MEMBER, "generation_id").agg(
        *of_first(["ref"], "answered_at", "given_"), F.max("is_generation").alias("is_generation")
    )
