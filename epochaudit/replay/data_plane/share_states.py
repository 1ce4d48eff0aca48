"""Frame `share_states`: how share coordinators answered reads and writes of share groups' states, and what they had answered before.

A leader reads a group's state of its partition in its leader epoch before it delivers records, and the group coordinator initializes the
state in a state epoch. Share coordinators (KIP-932) write both epochs to __share_group_state, and must refuse lower ones from then on,
until the state is deleted. Clock: the coordinator's host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import (
    DELETE_SHARE_GROUP_STATE,
    INITIALIZE_SHARE_GROUP_STATE,
    READ_SHARE_GROUP_STATE,
    WRITE_SHARE_GROUP_STATE,
)
from epochaudit.events.times import SLACK_MS
from epochaudit.events.views import holds, of_types, ref
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import (
    SHARE_GROUP_STATE,
    returned_between,
    with_coordinator_log,
    with_returns,
)
from epochaudit.replay.state.incarnations import topic_incarnations, with_identity
from epochaudit.replay.state.late_lines import came_after, came_just_after
from epochaudit.replay.state.log_gaps import gap_between, request_log_gaps
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, of_last, then_by_place, with_refs
from epochaudit.spark.memo import checkpointed

STATE_REQUESTS: Final = (INITIALIZE_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE, WRITE_SHARE_GROUP_STATE)

_STATE: Final = ("cluster", "group_id", "topic_id", "partition")
_AT_NODE: Final = ("node", *_STATE)
_REQUEST: Final = (*_AT_NODE, "event_type", "leader_epoch", "state_epoch", "error_code")
_WHEN: Final = {"after": came_after, "just_after": came_just_after}
_STANDING: Final = ("after_read", "just_after_read", "after_state", "just_after_state")
_FIRST: Final = (*PLACE_OF_NODE, "arrival_ms", "client_id", "correlation_id")
_WITHOUT_EFFECT: Final = (
    Errors.FENCED_STATE_EPOCH,
    Errors.NOT_COORDINATOR,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.INVALID_REQUEST,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
)


def share_states(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, partition, API, epochs, error code): the first such request, before and after a higher epoch.

    Needs: the events table. Requests are ReadShareGroupState, WriteShareGroupState and InitializeShareGroupState. They are aggregated
    where they are read.
    Columns: the subject columns (node = the coordinator; client_id and correlation_id of the first request), event_type, state_epoch (of
    a read: as answered), error_code, request_ref, and
      recorded           the coordinator had answered a read or an initialization of the state before
      newer_leader_epoch   the highest leader epoch above the row's in which the coordinator had answered a read before the request
                         arrived, and nothing has deleted or initialized the state there since; null: none is recorded
      newer_read_ref     that answer
      newer_state_epoch  the highest state epoch above the row's to which it had initialized the state before, and nothing has deleted the
                         state there since; null: none is recorded
      newer_state_ref    that answer
      just_after_read, just_after_state   the request was accepted and came just after these answers, see `came_just_after`, and not
                         after another such answer; else it came after them
      deleted_elsewhere  another coordinator was asked to delete the state
      changed_elsewhere  the same, or to initialize it in a higher state epoch than newer_read_ref answered
      coordinator_log, lossy_election_ref, lossy_isr_ref   see `with_coordinator_log`: of __share_group_state
      returned_since_read    another broker may have led a partition of __share_group_state since newer_read_ref, see `with_returns`
      returned_since_state   the same since newer_state_ref
      requests_missing_since_read, requests_missing_since_state   files of the coordinator's request log are missing since then
    """
    histories = F.broadcast(_histories(events))
    rows = of_types(events, *STATE_REQUESTS).where(
        F.col("in_request") & F.col("topic_id").isNotNull() & F.col("error_code").isNotNull()
    )
    lower_leader = holds(F.col("leader_epoch") < F.col("highest_leader_epoch"))
    lower_state = holds(F.col("state_epoch") < F.col("highest_state_epoch"))
    rows = rows.join(histories, list(_AT_NODE), "left").withColumns(
        {
            **{f"{when}_read": lower_leader & _newer_read(after).isNotNull() for when, after in _WHEN.items()},
            **{f"{when}_state": lower_state & _newer_state(after).isNotNull() for when, after in _WHEN.items()},
            "recorded": holds(F.col("recorded_ms") < F.col("arrival_ms")),
            "at": at(),
        }
    )
    accepted = F.col("error_code") == Errors.NONE
    rows = rows.withColumns(
        {f"just_after_{of}": accepted & F.col(f"just_after_{of}") & ~F.col(f"after_{of}") for of in ("read", "state")}
    )
    found = rows.groupBy(*_REQUEST, *_STANDING, "recorded").agg(*of_first(_FIRST, "at", "request_"))
    first = {name: F.col(f"request_{name}") for name in ("arrival_ms", "time_ms", "client_id", "correlation_id")}
    found = with_refs(found.withColumns(first), events, "request").join(histories, list(_AT_NODE), "left")
    found = found.withColumns(
        {
            "newer_read": F.when(F.col("after_read"), _newer_read(came_after)).when(
                F.col("just_after_read"), _newer_read(came_just_after)
            ),
            "newer_state": F.when(F.col("after_state"), _newer_state(came_after)).when(
                F.col("just_after_state"), _newer_state(came_just_after)
            ),
        }
    )
    elsewhere = F.filter("changes", lambda c: c["node"] != F.col("node"))
    found = found.select(
        *_REQUEST, "client_id", "correlation_id", "recorded", "just_after_read", "just_after_state", "request_ref",
        F.lit(None).cast("string").alias("topic"),
        F.col("newer_read.leader_epoch").alias("newer_leader_epoch"), F.col("newer_read.ref").alias("newer_read_ref"),
        F.col("newer_state.state_epoch").alias("newer_state_epoch"), F.col("newer_state.ref").alias("newer_state_ref"),
        holds(F.exists(elsewhere, lambda c: c["deletes"])).alias("deleted_elsewhere"),
        holds(F.exists(elsewhere, lambda c: c["deletes"] | (c["state_epoch"] > F.col("newer_read.state_epoch"))))
        .alias("changed_elsewhere"),
    )  # fmt: skip
    found = with_coordinator_log(with_identity(found, topic_incarnations(events)), events, SHARE_GROUP_STATE)
    found = with_returns(found, events, SHARE_GROUP_STATE)
    since = {"read": "newer_read_ref", "state": "newer_state_ref"}
    returned = {
        f"returned_since_{which}": returned_between(F.col(name), F.col("request_ref")) for which, name in since.items()
    }
    found = found.join(F.broadcast(request_log_gaps(events)), ["cluster", "node"], "left")
    missing = {
        f"requests_missing_since_{which}": gap_between(F.col(name)["time_ms"], F.col("request_ref.time_ms"))
        for which, name in since.items()
    }
    return found.withColumns({**returned, **missing}).drop("returns", "gaps", "first_ms", "last_ms")


def _newer_read(after: Callable[[Column], Column]) -> Column:
    """The read with the highest leader epoch above the row's whose answer the row's request came after.

    after: `came_after` or `came_just_after`. Needs: reads, changes, node and the times.
    """
    newer = F.filter(
        "reads",
        lambda r: (
            (r["leader_epoch"] > F.col("leader_epoch"))
            & after(r["until_ms"])
            & ~F.exists("changes", lambda c: _between(c, r["from_ms"]))
        ),
    )
    return F.array_max(newer)


def _newer_state(after: Callable[[Column], Column]) -> Column:
    """The initialization to the highest state epoch above the row's, likewise. Needs: states, and as `_newer_read`."""
    newer = F.filter(
        "states",
        lambda s: (
            (s["state_epoch"] > F.col("state_epoch"))
            & after(s["until_ms"])
            & ~F.exists("changes", lambda c: (c["deletes"] | (c["state_epoch"] < 0)) & _between(c, s["from_ms"]))
        ),
    )
    return F.array_max(newer)


def _between(change: Column, from_ms: Column) -> Column:
    """The coordinator may have made the change after that time and before it answered the row's request."""
    of_node = change["node"] == F.col("node")
    return of_node & (change["until_ms"] + SLACK_MS > from_ms) & (change["from_ms"] < F.col("time_ms"))


@checkpointed
def _histories(events: DataFrame) -> DataFrame:
    """One row per (coordinator, group, partition) that answered a read or an initialization of the state.

    Columns: reads, the first and the last answered read of each leader epoch between two changes of the state there; states, the first and
    the last initialization to each state epoch; highest_leader_epoch and highest_state_epoch of these; recorded_ms, when the first of all
    was answered; changes, the requests to delete or initialize the state at any coordinator, unless they were refused without effect.
    """
    requests = of_types(events, INITIALIZE_SHARE_GROUP_STATE, READ_SHARE_GROUP_STATE, DELETE_SHARE_GROUP_STATE).where(
        F.col("in_request") & F.col("topic_id").isNotNull()
    )
    is_read = F.col("event_type") == READ_SHARE_GROUP_STATE
    had_effect = ~holds(F.col("error_code").isin(*_WITHOUT_EFFECT))
    binds_from = F.when(is_read, F.col("arrival_ms")).otherwise(F.col("time_ms") + SLACK_MS)
    in_order = Window.partitionBy(*_AT_NODE).orderBy(binds_from, is_read)
    changed = F.sum((~is_read & had_effect).cast("int")).over(in_order)
    requests = requests.withColumn("period", F.when(is_read, changed))
    answered = requests.where(F.col("error_code") == Errors.NONE).withColumn("ref", ref())
    own = F.when(is_read, F.col("leader_epoch")).otherwise(F.col("state_epoch"))
    answer = F.struct(
        "leader_epoch", "state_epoch", F.col("arrival_ms").alias("from_ms"), F.col("time_ms").alias("until_ms"), "ref"
    )
    by_epoch = answered.withColumns({"own_epoch": own, "answer": answer})
    by_epoch = by_epoch.where(F.col("own_epoch") >= 0)  # a deletion has none
    in_time = then_by_place(F.col("time_ms"))
    by_epoch = by_epoch.groupBy(*_AT_NODE, "event_type", "own_epoch", "period").agg(
        *of_first(("answer",), in_time, "first_"), *of_last(("answer",), in_time, "last_")
    )
    both = F.array_distinct(F.array("first_answer", "last_answer"))
    at_node = by_epoch.groupBy(*_AT_NODE).agg(
        F.flatten(F.collect_list(F.when(is_read, both))).alias("reads"),
        F.flatten(F.collect_list(F.when(~is_read, both))).alias("states"),
        F.max(F.when(is_read, F.col("own_epoch"))).alias("highest_leader_epoch"),
        F.max(F.when(~is_read, F.col("own_epoch"))).alias("highest_state_epoch"),
        F.min("first_answer.until_ms").alias("recorded_ms"),
    )
    change = F.struct(
        "node", (F.col("event_type") == DELETE_SHARE_GROUP_STATE).alias("deletes"), "state_epoch", F.col("arrival_ms").alias("from_ms"),
        F.col("time_ms").alias("until_ms"),
    )  # fmt: skip
    changes = requests.where(~is_read & had_effect).groupBy(*_STATE).agg(F.collect_list(change).alias("changes"))
    return at_node.join(changes, list(_STATE), "left").withColumn(
        "changes", F.coalesce("changes", F.array().cast("array<struct<node:int,deletes:boolean,state_epoch:int,"
                                                       "from_ms:bigint,until_ms:bigint>>"))
    )  # fmt: skip
