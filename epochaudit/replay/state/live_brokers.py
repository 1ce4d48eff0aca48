"""Which brokers a ZooKeeper controller considered live when it answered a request.

The controller logs in controller.log which brokers are live and which of them it is shutting down. A broker that is shutting
down counts as not live (ControllerContext.liveBrokerIds). Both states end when another controller
is elected or the process ends. Lines and requests of one node share its clock.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from epochaudit.events.times import GRAIN_MS


def absent_members() -> dict[str, Column]:
    """Columns about the members of `isr` that were not live at the answering controller between from_ms and to_ms.

    Needs: node, isr, from_ms, to_ms; elections, releases, known_live_brokers and live_sent of `cluster_history`.
    Clock: the node's host. Columns:
      dead_members    members that were not live, or were shutting down, all the time. Null: the controller's lines do not show
                      which brokers were live when the request arrived. A member that the controller sent as live after its last
                      line is left out: a later line is missing
      dead_at_times   some member was, or can have been, not live or shutting down at some time
      dead_ref        the line about the first dead member
    """
    lines = _lines_of_controller()
    before, during = _before_request(lines), _during_request(lines)
    last_list = F.try_element_at(F.filter(before, lambda t: t["live"].isNotNull()), F.lit(-1))
    own_live_sent = F.filter("live_sent", lambda s: (s["node"] == F.col("node")) & (s["time_ms"] <= F.col("from_ms")))
    last_sent = F.try_element_at(own_live_sent, F.lit(-1))

    def shutdown_of(member: Column) -> Column:
        return F.try_element_at(F.filter(before, lambda t: t["shutting_down"] == member), F.lit(-1))

    def after_shutdown(line: Column, member: Column) -> Column:
        return F.coalesce(line["time_ms"] > shutdown_of(member)["time_ms"], F.lit(False))

    def leaving(member: Column) -> Column:
        """The line about the member's controlled shutdown, unless it was removed since."""
        removed_before = F.exists(before, lambda t: after_shutdown(t, member) & F.array_contains(t["removed"], member))
        return F.when(~removed_before, shutdown_of(member))

    def anew(member: Column) -> Column:
        """The member registers anew during the request."""
        return F.exists(during, lambda t: F.array_contains(t["removed"], member) & F.array_contains(t["live"], member))

    def sent_live(member: Column) -> Column:
        return F.array_contains(last_sent["live"], member)

    def sent_since(what: Column) -> Column:
        """So it is in what the controller sent after its last list: a line is missing."""
        return F.coalesce((last_sent["time_ms"] > last_list["time_ms"]) & what, F.lit(False))

    def missing(member: Column) -> Column:
        """The last list of live brokers, if it lacks the member, and nothing from then to the answer lists it as live."""
        listed_live = F.exists(during, lambda t: F.coalesce(F.array_contains(t["live"], member), F.lit(False)))
        return F.when(
            ~F.array_contains(last_list["live"], member) & ~listed_live & ~sent_since(sent_live(member)), last_list
        )

    def maybe_dead(member: Column) -> Column:
        """The last list or what was sent since lacks the member, or a line during the request removes it or shuts it down."""
        change = F.exists(
            during,
            lambda t: (
                F.coalesce(~F.array_contains(t["live"], member), F.lit(False))
                | F.coalesce(t["shutting_down"] == member, F.lit(False))
            ),
        )
        return change | (~F.array_contains(last_list["live"], member)) | sent_since(~sent_live(member))

    dead = F.filter("isr", lambda m: missing(m).isNotNull() | (leaving(m).isNotNull() & ~anew(m)))
    known = last_list.isNotNull()
    return {
        "dead_members": F.when(known, dead),
        "dead_at_times": F.exists("isr", lambda m: maybe_dead(m) | leaving(m).isNotNull()),
        "dead_ref": F.try_element_at(
            F.array_compact(F.transform("isr", lambda m: F.coalesce(leaving(m), missing(m))["ref"])), F.lit(1)
        ),
    }


def live_epochs() -> Column:
    """Broker epochs that the answering controller can have held for broker_id between from_ms and to_ms; -1: not live.

    Null if its lines do not state them. Clock: the node's host.
    Needs: node, broker_id, from_ms, to_ms; elections, releases and known_live_brokers of `cluster_history`.
    """
    broker = F.col("broker_id")

    def epoch(line: Column) -> Column:
        place = F.array_position(line["live"], broker)
        return F.when(place == 0, F.lit(-1).cast("bigint")).otherwise(F.get(line["epochs"], (place - 1).cast("int")))

    lines = _lines_of_controller()
    before, during = _before_request(lines), _during_request(lines)
    last = F.try_element_at(F.array_compact(F.transform(before, epoch)), F.lit(-1))
    known = F.array_distinct(F.concat(F.array(last), F.array_compact(F.transform(during, epoch))))
    return F.when(last.isNotNull(), known)


def _lines_of_controller() -> Column:
    """Entries of known_live_brokers that the node wrote since it became the answering controller."""
    return F.filter(
        "known_live_brokers", lambda line: (line["node"] == F.col("node")) & (line["time_ms"] >= _controller_since_ms())
    )


def _before_request(lines: Column) -> Column:
    return F.filter(lines, lambda line: line["time_ms"] < F.col("from_ms") - GRAIN_MS)


def _during_request(lines: Column) -> Column:
    return F.filter(lines, lambda line: line["time_ms"].between(F.col("from_ms") - GRAIN_MS, F.col("to_ms") + GRAIN_MS))


def _controller_since_ms() -> Column:
    """Time at which the node became the answering controller: its latest election or the start of its process, if that is later.

    0 if both are older than the evidence. Needs: node, to_ms; elections and releases of `cluster_history`.
    """
    own = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= F.col("to_ms")))
    ran = F.filter("releases", lambda r: (r["node"] == F.col("node")) & (r["since_ms"] <= F.col("to_ms")))
    return F.coalesce(F.greatest(F.array_max(own["time_ms"]), F.array_max(ran["since_ms"])), F.lit(0))
