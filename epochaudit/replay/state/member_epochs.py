"""Epochs that a group's coordinator answered to a member in heartbeats (KIP-848), and when the member certainly had them.

A coordinator answers a heartbeat after it has written the member's epoch to __consumer_offsets. The member states that epoch in its next
heartbeat. Clock: the coordinator's request log. A member sends one heartbeat after the other, so their lines have their order.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import CONSUMER_GROUP_HEARTBEAT
from epochaudit.events.times import FOREVER, SLACK_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.state.late_lines import came_just_after
from epochaudit.replay.state.places import at, of_first, of_last
from epochaudit.spark.memo import checkpointed

MEMBER: Final = ("cluster", "node", "group_id", "member_id")
"""A member at one coordinator."""


def member_heartbeats(events: DataFrame) -> DataFrame:
    """One row per heartbeat of a member. Columns: those of events, at, accepted (answered 0), answered_before, run, membership.

    answered_before: the epoch in the answer to the heartbeat before, null if that was refused or is not recorded.
    Within a run the coordinator accepted each heartbeat, and each states the epoch that was answered to the one before. So the member's
    epoch was never lower in between, at this coordinator or another. Only the first heartbeat of a run may be a join, a refused one, or one
    with another epoch. A membership consists of runs: it begins with a join or a refused heartbeat, or with an answer that is lower than
    the one before.
    """
    rows = of_types(events, CONSUMER_GROUP_HEARTBEAT).where(
        F.col("group_id").isNotNull() & F.col("member_id").isNotNull() & F.col("member_epoch").isNotNull()
    )
    stated, answered = F.col("member_epoch"), F.col("response_member_epoch")
    accepted = holds((F.col("request_error_code") == Errors.NONE) & (answered >= stated))
    rows = rows.withColumns({"at": at(), "accepted": accepted})
    in_order = Window.partitionBy(*MEMBER).orderBy("at")
    before = F.lag(F.when(F.col("accepted"), answered)).over(in_order)
    rows = rows.withColumn("answered_before", before)
    goes_on = F.col("accepted") & (stated > 0) & (answered >= F.col("answered_before"))
    rows = rows.withColumns(
        {
            "begins_run": ~holds(goes_on & (stated == F.col("answered_before"))),
            "begins_membership": ~holds(goes_on),
        }
    )
    numbers = {name: F.sum(F.col(f"begins_{name}").cast("int")).over(in_order) for name in ("run", "membership")}
    return rows.withColumns(numbers).drop("begins_run", "begins_membership")


@checkpointed
def member_epochs(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, member, run, epoch) that the coordinator answered. Clock: the coordinator's host.

    Columns: answered_ref, the first answer with the epoch, and answered_at, its place; since_ms and until_ms: a request with
    since_ms < arrival_ms <= until_ms came after that answer, and not after the next; certain_until_ms, a second before the arrival of the
    last heartbeat of the run that states this epoch or a higher one: up to then the member's epoch was not lower; certain_ref, that
    heartbeat. The last two are null if no heartbeat states it. former_epoch is the next lower one of the membership, and former_ref the
    first answer with it.
    """
    rows = member_heartbeats(events).withColumn("ref", ref())
    answered = F.col("accepted") & (F.col("response_member_epoch") > 0)
    last = F.struct("member_epoch", "arrival_ms", "ref")
    rows = rows.withColumns({"epoch": F.when(answered, F.col("response_member_epoch")), "heartbeat": last})
    epochs = rows.groupBy(*MEMBER, "membership", "run", "epoch").agg(
        F.min("time_ms").alias("first_ms"), *of_first(["ref", "at"], "at", "answered_"), *of_last(["heartbeat"], "at", "last_"),
    )  # fmt: skip
    in_order = Window.partitionBy(*MEMBER).orderBy("answered_at")
    of_run = Window.partitionBy(*MEMBER, "run").orderBy("answered_at")
    former = F.struct("epoch", (-F.col("answered_at")).alias("earliest"), F.col("answered_ref").alias("ref"))
    lower = Window.partitionBy(*MEMBER, "membership").orderBy("epoch").rangeBetween(Window.unboundedPreceding, -1)
    epochs = epochs.withColumns(
        {
            "former": F.max(former).over(lower),
            "following": F.lead(F.struct("first_ms", "run")).over(in_order),
            "last": F.last("last_heartbeat").over(
                of_run.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
            ),
        }
    )
    until = F.col("following.first_ms") + F.when(F.col("following.run") == F.col("run"), SLACK_MS).otherwise(0)
    stated = F.col("last.member_epoch") >= F.col("epoch")
    return epochs.where(F.col("epoch").isNotNull()).select(
        *MEMBER, "run", "epoch", "answered_ref", "answered_at", (F.col("first_ms") + SLACK_MS).alias("since_ms"),
        F.coalesce(until, F.lit(FOREVER)).alias("until_ms"),
        F.when(stated, F.col("last.arrival_ms") - SLACK_MS).alias("certain_until_ms"),
        F.when(stated, F.col("last.ref")).alias("certain_ref"),
        F.col("former.epoch").alias("former_epoch"), F.col("former.ref").alias("former_ref"),
    )  # fmt: skip


def with_last_answer(rows: DataFrame, epochs: DataFrame, *more: str) -> DataFrame:
    """Adds answered: the epoch that the coordinator had answered last before the request arrived; and recent: one that it came just after.

    Structs of run and epoch, and of the columns `more` of `epochs`, the result of `member_epochs`. Null if there is none, or it is not
    certain. See `came_after` and `came_just_after`. Grain unchanged. Needs: MEMBER, arrival_ms.
    """
    span = F.struct("since_ms", "until_ms", "run", "epoch", *more)
    spans = epochs.groupBy(*MEMBER).agg(F.collect_list(span).alias("spans"))
    not_replaced = F.filter("spans", lambda one: F.col("arrival_ms") <= one["until_ms"])
    found = {
        "answered": F.filter(not_replaced, lambda one: F.col("arrival_ms") > one["since_ms"]),
        "recent": F.filter(not_replaced, lambda one: came_just_after(one["since_ms"] - SLACK_MS)),
    }
    rows = rows.join(F.broadcast(spans), list(MEMBER), "left")
    return rows.withColumns({name: F.array_max(matching) for name, matching in found.items()}).drop("spans")
