"""Frame `share_sessions`: the epochs of share sessions that brokers accepted from members of share groups, one after the other (KIP-932).

A session begins with epoch 0, and each accepted request has the epoch after the one before, whether it is a ShareFetch or a
ShareAcknowledge. A broker handles the requests of a connection one by one, and a client numbers them by correlation id. Clock: the line
order of the broker's request log, in which the requests of a connection have their own order.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.events.event_types import SHARE_ACKNOWLEDGE, SHARE_FETCH
from epochaudit.events.views import holds, of_types
from epochaudit.kafka.api_versions import STABLE_SHARE_SESSION_VERSION
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import FINAL_EPOCH, FULL_EPOCH
from epochaudit.replay.state.places import PLACE_OF_NODE, at, of_first, with_refs

SHARE_SESSION_REQUESTS: Final = (SHARE_FETCH, SHARE_ACKNOWLEDGE)
REFUSED: Final = (Errors.SHARE_SESSION_NOT_FOUND, Errors.INVALID_SHARE_SESSION_EPOCH)
"""Answers after which the session is what it was before."""

NEXT: Final = "next"
OUT_OF_ORDER: Final = "out of order"
UNKNOWN: Final = "unknown"

_MEMBER: Final = ("cluster", "node", "group_id", "member_id")
_OF_CONNECTION: Final = (*_MEMBER, "connection", "error_code", "order", "repeated_epoch")
_FIRST: Final = (*PLACE_OF_NODE, "event_type", "client_id", "correlation_id", "session_epoch", "previous")
_HIGHEST_EPOCH: Final = 2**31 - 1


def share_sessions(events: DataFrame) -> DataFrame:
    """One row per (broker, group, member, connection) whose requests followed each other, and per epoch that did not, or was refused.

    Needs: the events table. Requests are aggregated where they are read.
    Columns: the subject columns (node = the broker; client_id and correlation_id of the first request), member_id, event_type,
    session_epoch, error_code (of the whole answer: 0, or one of REFUSED), requests (how many), request_ref (the first), and
      order             of accepted requests: `next`: each has the epoch after the one that the connection's request before was accepted
                        with. `out of order`: it has another, and no request of the member lies between the two. `unknown`: a request
                        before it is not recorded, or its answer leaves open what the session was. Null: refused
      previous_epoch    the epoch of the request before, if that was accepted; -1: it closed the session
      previous_ref      that request
    """
    rows = of_types(events, *SHARE_SESSION_REQUESTS).where(
        F.col("partition").isNull()
        & (F.col("api_version") >= STABLE_SHARE_SESSION_VERSION)
        & F.col("group_id").isNotNull()
        & F.col("member_id").isNotNull()
        & F.col("connection").isNotNull()
    )
    rows = _with_order(_with_previous(rows.withColumn("at", at())))
    rows = rows.withColumn("error_code", F.col("request_error_code"))
    found = rows.groupBy(*_OF_CONNECTION).agg(*of_first(_FIRST, "at", "request_"), F.count("*").alias("requests"))
    previous = {f"previous_{name}": F.col(f"request_previous.{name}") for name in (*PLACE_OF_NODE, "session_epoch")}
    found = with_refs(found.withColumns(previous), events, "request", "previous")
    return found.select(
        *_MEMBER, "order", "error_code", "requests", "request_ref", "previous_ref",
        *(F.col(f"request_{name}").alias(name) for name in ("event_type", "client_id", "correlation_id", "session_epoch")),
        F.col("previous_session_epoch").alias("previous_epoch"),
        *(F.lit(None).cast("string").alias(name) for name in ("topic", "topic_id")),
        *(F.lit(None).cast("int").alias(name) for name in ("partition", "leader_epoch")),
    )  # fmt: skip


def _with_previous(rows: DataFrame) -> DataFrame:
    """Adds previous, the last request of the connection that may have changed the session.

    And number, the member's requests so far, and number_on_connection, those of them on the connection.
    """
    so_far = Window.partitionBy(*_MEMBER).orderBy("at")
    on_connection = Window.partitionBy(*_MEMBER, "connection").orderBy("at")
    numbers = {"number": F.row_number().over(so_far), "number_on_connection": F.row_number().over(on_connection)}
    changes = ~holds(F.col("request_error_code").isin(*REFUSED))
    request = F.struct(*PLACE_OF_NODE, "session_epoch", "correlation_id", "request_error_code", *numbers)
    earlier = on_connection.rowsBetween(Window.unboundedPreceding, -1)
    previous = F.last(F.when(changes, request), ignorenulls=True).over(earlier)
    return rows.withColumns(numbers).withColumn("previous", previous)


def _with_order(rows: DataFrame) -> DataFrame:
    """Adds order and repeated_epoch, null of requests in order. Drops requests that open or close a session, and other answers."""
    epoch, before = F.col("session_epoch"), F.col("previous.session_epoch")
    known = F.col("previous.request_error_code") == Errors.NONE
    following = F.when(before == _HIGHEST_EPOCH, F.lit(1)).when(before > FINAL_EPOCH, before + 1)
    requests = F.col("correlation_id") - F.col("previous.correlation_id")
    adjoining = F.lit(True)
    for number in (
        "number",
        "number_on_connection",
    ):  # none is missing on the connection, and none lies between on another one
        adjoining &= requests == F.col(number) - F.col(f"previous.{number}")
    accepted = F.col("request_error_code") == Errors.NONE
    order = (
        F.when(~accepted, F.lit(None).cast("string"))
        .when(holds(known & (epoch == following)), F.lit(NEXT))
        .when(holds(known & adjoining), F.lit(OUT_OF_ORDER))
        .otherwise(F.lit(UNKNOWN))
    )
    judged = (accepted & (epoch > FULL_EPOCH)) | F.col("request_error_code").isin(*REFUSED)
    rows = rows.where(judged).withColumn("order", order)
    in_order = holds(F.col("order") == NEXT)
    return rows.withColumns(
        {"previous": F.when(holds(known), F.col("previous")), "repeated_epoch": F.when(~in_order, epoch)}
    )
