"""Which brokers a ZooKeeper controller considered live when it answered a request.

The controller logs in controller.log which brokers are live and which of them it is shutting down. A broker that is shutting
down counts as not live (ControllerContext.liveBrokerIds). Both states end when another controller
is elected or the process ends. Lines and requests of one node share its clock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.times import SLACK_MS, TOLERANCE_MS
from epochaudit.events.views import holds
from epochaudit.spark.columns import let

_LONGEST_SHUTDOWN_MS: Final = 120_000
"""A broker asks for its controlled shutdown `controlled.shutdown.max.retries` (3) times, each with `controller.socket.timeout.ms` (30 s),
and leaves whatever the answer."""


def with_absent_members(rows: DataFrame) -> DataFrame:
    """Adds columns about the members of `isr` that were not live at the answering controller between from_ms and to_ms.

    Needs: node, isr, from_ms, to_ms; elections, releases, known_live_brokers and live_sent of `cluster_history`.
    Clock: the node's host. Columns:
      dead_members    members that were not live, or were shutting down, all the time. Null: the controller's lines do not show
                      which brokers were live when the request arrived. A member that the controller sent as live after its last
                      line is left out: a later line is missing
      dead_at_times   some member was, or can have been, not live or shutting down at some time. It can have been if the controller's
                      log begins just before the request, and after the election: the line about its shutdown may be older
      dead_ref        the line about the first dead member; without one, about the shutdown of a member that registered anew
    """
    dead = F.filter("standings", lambda m: m["missing"] | (m["leaving_ref"].isNotNull() & ~m["anew"]))

    def first_ref(members: Column | str) -> Column:
        refs = F.transform(members, lambda m: F.coalesce(m["leaving_ref"], m["missing_ref"]))
        return F.try_element_at(F.array_compact(refs), F.lit(1))

    return (
        rows.withColumn("absent", _of_lines(_absent))
        .withColumn("standings", F.col("absent.members"))
        .withColumns(
            {
                "dead_members": F.when(F.col("absent.known"), dead["broker_id"]),
                "dead_at_times": F.exists("standings", lambda m: m["maybe_dead"] | m["leaving_ref"].isNotNull()),
                "dead_ref": F.coalesce(first_ref(dead), first_ref("standings")),
            }
        )
        .drop("absent", "standings")
    )


def _absent(before: Column, during: Column, begins_ms: Column) -> Column:
    """struct(known, members): the controller's lines before and during the request, for each member of `isr`."""
    begins_late = holds(begins_ms + _LONGEST_SHUTDOWN_MS > F.col("from_ms"))
    own_live_sent = F.filter("live_sent", lambda s: (s["node"] == F.col("node")) & (s["time_ms"] <= F.col("from_ms")))

    def of_members(last_list: Column, last_sent: Column) -> Column:
        members = F.transform("isr", lambda member: _member(member, before, during, last_list, last_sent, begins_late))
        return F.struct(last_list.isNotNull().alias("known"), members.alias("members"))

    return let(
        F.try_element_at(F.filter(before, lambda t: t["live"].isNotNull()), F.lit(-1)),
        lambda last_list: let(
            F.try_element_at(own_live_sent, F.lit(-1)), lambda last_sent: of_members(last_list, last_sent)
        ),
    )


def _member(
    member: Column, before: Column, during: Column, last_list: Column, last_sent: Column, begins_late: Column
) -> Column:
    """A member by the lines of the controller. last_list: the last list of live brokers; last_sent: what it last sent of them.

    begins_late: a line about a shutdown that still counts may be older than the controller's log.

    struct(broker_id, missing, missing_ref, leaving_ref, anew, maybe_dead):
      missing      the last list lacks the member, and nothing from then to the answer lists it as live; missing_ref that line
      leaving_ref  the line about the member's controlled shutdown, unless it was removed since
      anew         the member registers anew during the request
      maybe_dead   the last list or what was sent since lacks the member, or a line during the request removes it or shuts it down, or
                   an older line may have: the member has not registered anew since the log begins
    """
    sent_live = F.array_contains(last_sent["live"], member)

    def sent_since(what: Column) -> Column:
        """`what` holds, and the controller sent it after its last list: then a line about the change is missing."""
        return holds((last_sent["time_ms"] > last_list["time_ms"]) & what)

    def lists(line: Column) -> Column:
        return F.array_contains(line["live"], member)

    def leaving_ref(shutdown: Column) -> Column:
        removed_since = F.exists(
            before,
            lambda t: holds(t["time_ms"] > shutdown["time_ms"]) & F.array_contains(t["removed"], member),
        )
        return F.when(~removed_since, shutdown["ref"])

    shutdown = F.try_element_at(F.filter(before, lambda t: t["shutting_down"] == member), F.lit(-1))
    registers = F.exists(before, lambda t: holds(F.array_contains(t["removed"], member)))
    anew = F.exists(during, lambda t: F.array_contains(t["removed"], member) & lists(t))
    listed_live = F.exists(during, lambda t: holds(lists(t)))
    missing = holds(~lists(last_list) & ~listed_live & ~sent_since(sent_live))
    change = F.exists(
        during,
        lambda t: holds(~lists(t)) | holds(t["shutting_down"] == member),
    )
    return F.struct(
        member.alias("broker_id"),
        missing.alias("missing"),
        F.when(missing, last_list["ref"]).alias("missing_ref"),
        let(shutdown, leaving_ref).alias("leaving_ref"),
        anew.alias("anew"),
        (change | ~lists(last_list) | sent_since(~sent_live) | (begins_late & ~registers)).alias("maybe_dead"),
    )


def live_epochs() -> Column:
    """Broker epochs that the answering controller can have held for broker_id between from_ms and to_ms, in the order of its lines.

    Array of struct(epoch, ref): -1 for not live; ref is the line. Null if its lines do not state them. Clock: the node's host.
    Needs: node, broker_id, from_ms, to_ms; elections, releases and known_live_brokers of `cluster_history`.
    """
    broker = F.col("broker_id")

    def epoch(line: Column) -> Column:
        place = F.array_position(line["live"], broker)
        own = F.when(place == 0, F.lit(-1).cast("bigint")).otherwise(F.get(line["epochs"], (place - 1).cast("int")))
        return F.when(own.isNotNull(), F.struct(own.alias("epoch"), line["ref"].alias("ref")))

    def epochs(before: Column, during: Column, _: Column) -> Column:
        last = F.try_element_at(F.array_compact(F.transform(before, epoch)), F.lit(-1))
        of_request = F.array_compact(F.transform(during, epoch))
        return let(last, lambda one: F.when(one.isNotNull(), F.concat(F.array(one), of_request)))

    return _of_lines(epochs)


def _of_lines(body: Callable[[Column, Column, Column], Column]) -> Column:
    """body(before, during, begins_ms), for entries of known_live_brokers.

    They are those that the node wrote since it became the answering controller: before the request, and during it. begins_ms is the
    time of the first one if older lines since its election may be missing, else null. A line does not count after a missing file of
    the controller's log: what changed since is not known. The controller's first list of a tenure counts as before the request if the
    node was elected before: it answers nothing until it has read which brokers are live (KafkaController.onControllerFailover,
    initializeControllerContext).
    """

    def of_controller(tenure: Column) -> Column:
        own = F.filter(
            "known_live_brokers",
            lambda t: (
                (t["node"] == F.col("node")) & (t["time_ms"] >= tenure["since_ms"]) & (t["until_ms"] >= F.col("to_ms"))
            ),
        )
        return let(own, lambda lines: let(_first_list(lines, tenure), lambda first: of_lines(lines, first, tenure)))

    def of_lines(lines: Column, first: Column, tenure: Column) -> Column:
        def is_first(line: Column) -> Column:
            return holds(line["ref"] == first["ref"])

        before = F.filter(lines, lambda t: (t["time_ms"] < F.col("from_ms") - TOLERANCE_MS) | is_first(t))
        during = F.filter(lines, lambda t: _during_request(t) & ~is_first(t))
        begins_ms = F.when(~_recorded_from_election(tenure), F.get(lines, F.lit(0))["time_ms"])
        return let(before, lambda earlier: let(during, lambda of_request: body(earlier, of_request, begins_ms)))

    return let(_tenure(), of_controller)


def _first_list(lines: Column, tenure: Column) -> Column:
    """The first of the controller's lines that lists live brokers; null unless the request arrived after its election.

    Null, too, if a file of the controller's log may be missing before the list, or if the list is not of the second after the
    election: a later one may state a change, where the line of the first one is missing.
    """
    by_ms = F.least(F.col("to_ms") + TOLERANCE_MS, tenure["elected_ms"] + SLACK_MS)
    lists = F.filter(lines, lambda t: t["live"].isNotNull() & (t["time_ms"] <= by_ms))
    elected_before = tenure["elected_ms"] <= F.col("from_ms")
    return F.when(elected_before & _recorded_from_election(tenure), F.get(lists, F.lit(0)))


def _recorded_from_election(tenure: Column) -> Column:
    """The node's log has its election as the answering controller, and lacks no file from there to the request."""
    is_latest = tenure["elected_ms"] == tenure["since_ms"]
    return holds(is_latest & (tenure["whole_until_ms"] >= F.col("to_ms")))


def _during_request(line: Column) -> Column:
    return line["time_ms"].between(F.col("from_ms") - TOLERANCE_MS, F.col("to_ms") + TOLERANCE_MS)


def _tenure() -> Column:
    """struct(since_ms, elected_ms, whole_until_ms): since when the node has been the answering controller.

    since_ms        its latest election or the start of its process, if that is later; 0 if both are older than the evidence
    elected_ms      its latest election; null: none is in the evidence
    whole_until_ms  from that election to then no file of the controller's log is missing
    Needs: node, to_ms; elections and releases of `cluster_history`.
    """
    own = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= F.col("to_ms")))
    ran = F.filter("releases", lambda r: (r["node"] == F.col("node")) & (r["since_ms"] <= F.col("to_ms")))
    started_ms = F.array_max(ran["since_ms"])
    return let(
        F.array_max(own),
        lambda latest: F.struct(
            F.coalesce(F.greatest(latest["time_ms"], started_ms), F.lit(0)).alias("since_ms"),
            latest["time_ms"].alias("elected_ms"),
            latest["until_ms"].alias("whole_until_ms"),
        ),
    )
