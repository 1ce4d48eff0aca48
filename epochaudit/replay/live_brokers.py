"""Which brokers a ZooKeeper controller held for live when it answered a request.

The controller says in controller.log which brokers are live, and which of them it is shutting down. A broker that is
shutting down counts as not live (ControllerContext.liveBrokerIds). Both are forgotten when another controller is
elected, and with the process. Lines and requests of one node share its clock.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_GRAIN_MS: Final = 2  # log4j counts whole milliseconds


def absent_members() -> dict[str, Column]:
    """Columns about the members of `isr` at the node that answered between from_ms and to_ms.

    Needs: node, isr, from_ms, to_ms; elections, releases, live_told and live_sent of `cluster_history`. Adds:
      dead_members    members that were not live, or shutting down, all the time; null: the controller's lines do not
                      tell which brokers were live when the request came. Not one that the controller itself named live
                      since its last line: then a later line is missing
      dead_at_times   some member was so, or can have been, at some moment; dead_ref the line that tells of the first
    """
    said = F.filter("live_told", lambda t: (t["node"] == F.col("node")) & (t["time_ms"] >= _began_ms()))
    before = F.filter(said, lambda t: t["time_ms"] < F.col("from_ms") - _GRAIN_MS)
    during = F.filter(said, lambda t: t["time_ms"].between(F.col("from_ms") - _GRAIN_MS, F.col("to_ms") + _GRAIN_MS))
    listed = F.try_element_at(F.filter(before, lambda t: t["live"].isNotNull()), F.lit(-1))
    to_itself = F.filter("live_sent", lambda s: (s["node"] == F.col("node")) & (s["time_ms"] <= F.col("from_ms")))
    sent = F.try_element_at(to_itself, F.lit(-1))

    def leaving(member: Column) -> Column:
        """The line that tells of the member's controlled shutdown, unless it went and came back since."""
        went = F.array_max(F.filter(said, lambda t: F.array_contains(t["gone"], member))["time_ms"])
        asked = F.try_element_at(F.filter(before, lambda t: t["shutting_down"] == member), F.lit(-1))
        return F.when(went.isNull() | (went < asked["time_ms"]), asked)

    def missing(member: Column) -> Column:
        back = F.exists(during, lambda t: F.coalesce(F.array_contains(t["live"], member), F.lit(False)))
        named = (sent["time_ms"] > listed["time_ms"]) & F.array_contains(sent["live"], member)
        return F.when(~F.array_contains(listed["live"], member) & ~back & ~F.coalesce(named, F.lit(False)), listed)

    def doubtful(member: Column) -> Column:
        change = F.exists(
            during,
            lambda t: (
                F.coalesce(~F.array_contains(t["live"], member), F.lit(False))
                | F.coalesce(t["shutting_down"] == member, F.lit(False))
            ),
        )
        return change | (~F.array_contains(listed["live"], member))

    dead = F.filter("isr", lambda m: missing(m).isNotNull() | leaving(m).isNotNull())
    known = listed.isNotNull()
    return {
        "dead_members": F.when(known, dead),
        "dead_at_times": F.exists("isr", lambda m: doubtful(m) | leaving(m).isNotNull()),
        "dead_ref": F.try_element_at(
            F.array_compact(F.transform("isr", lambda m: F.coalesce(leaving(m), missing(m))["ref"])), F.lit(1)
        ),
    }


def live_epochs() -> Column:
    """Epochs that the answering controller can have held for `broker_id` between from_ms and to_ms, -1 for not live.

    Needs: node, broker_id, from_ms, to_ms; elections, releases and live_told of `cluster_history`. Null: its lines do not tell.
    """
    broker = F.col("broker_id")

    def epoch(told: Column) -> Column:
        place = F.array_position(told["live"], broker)
        return F.when(place == 0, F.lit(-1).cast("bigint")).otherwise(F.get(told["epochs"], (place - 1).cast("int")))

    said = F.filter("live_told", lambda t: (t["node"] == F.col("node")) & (t["time_ms"] >= _began_ms()))
    earlier = F.filter(said, lambda t: t["time_ms"] < F.col("from_ms") - _GRAIN_MS)
    during = F.filter(said, lambda t: t["time_ms"].between(F.col("from_ms") - _GRAIN_MS, F.col("to_ms") + _GRAIN_MS))
    last = F.try_element_at(F.array_compact(F.transform(earlier, epoch)), F.lit(-1))
    known = F.array_distinct(F.concat(F.array(last), F.array_compact(F.transform(during, epoch))))
    return F.when(last.isNotNull(), known)


def _began_ms() -> Column:
    """When the node began to be the controller that answered: at its latest election, and not before its process started.

    0 if both are older than the evidence. Needs: node, to_ms; elections and releases of `cluster_history`.
    """
    own = F.filter("elections", lambda e: (e["node"] == F.col("node")) & (e["time_ms"] <= F.col("to_ms")))
    ran = F.filter("releases", lambda r: (r["node"] == F.col("node")) & (r["since_ms"] <= F.col("to_ms")))
    return F.coalesce(F.greatest(F.array_max(own["time_ms"]), F.array_max(ran["since_ms"])), F.lit(0))
