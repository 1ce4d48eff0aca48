"""Where in the metadata log a controller can have been when it answered a request.

Only the leader of the quorum answers as a controller. When it begins to, it has all records before its Raft epoch
(KafkaRaftClient.maybeFireLeaderChange), and from then on it adds its own. If another node has replaced it and it has not noticed, it
is still at its last one. Each leader stamps its records by its own clock (BatchAccumulator), so the times of a request are compared
with those of records that the node itself wrote, and with no others.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from epochaudit.events.times import FOREVER, SLACK_MS, TOLERANCE_MS
from epochaudit.events.views import holds
from epochaudit.replay.state.metadata_log import record_position


def tenure_at(position: Column) -> Column:
    """`since` of the tenure that a position lies in. Needs: tenures of `cluster_history`."""
    return F.array_max(F.filter("tenures", lambda t: t["since"] <= position)["since"])


def with_stays(rows: DataFrame) -> DataFrame:
    """Adds stays and covered. Grain unchanged. Clock: the node's own, from_ms to to_ms.

    Needs: node; tenures of `cluster_history`; from_ms, to_ms and led of `on_record_clock`.
      stays    tenures in which the node can have been from arrival to answer: array of struct(since, until, since_ms, last_ms, own).
               own: the node led; if not, it is not known who did. All of these if the time of the request is not known. Null:
               there is none, or the time fits none
      covered  the node wrote a record after its answer, so the log has each state that it had until then; null: no time is known
    """
    arrived_ms, answered_ms = F.col("from_ms") - SLACK_MS, F.col("to_ms") + TOLERANCE_MS

    def part(tenure: Column) -> Column:
        led = holds(tenure["leader"] == F.col("node")) | F.array_contains("led", tenure["since"])
        own = led & tenure["since_ms"].isNotNull()  # a snapshot has the clock of the host that made it
        return F.when(own | tenure["leader"].isNull(), tenure.dropFields("leader").withField("own", own))

    # the node had left what is before the last tenure that it had begun, and had not reached what is after a record that it wrote later
    first = F.array_max(F.filter("parts", lambda t: t["own"] & (t["since_ms"] < arrived_ms))["since"])
    later = F.transform(
        F.filter("parts", lambda t: t["own"] & (t["last_ms"] > answered_ms)),
        lambda t: F.when(t["since_ms"] > answered_ms, t["since"]).otherwise(t["until"]),
    )
    # a request whose time is not known was not answered before the first record of a whole log
    beginning = F.when(F.col("from_ms").isNull(), record_position(F.lit(0)))
    bounds = {"first": F.coalesce(first, beginning, F.lit(-1)), "end": F.coalesce(F.array_min(later), F.lit(FOREVER))}
    covered = F.exists("parts", lambda t: t["own"] & (t["last_ms"] >= F.col("to_ms")))
    between = F.filter("parts", lambda t: (t["until"] > F.col("first")) & (t["since"] < F.col("end")))
    return (
        rows.withColumn("parts", F.array_compact(F.transform("tenures", part)))
        .withColumns({**bounds, "covered": covered})
        .withColumn("stays", F.when(F.size(between) > 0, between))
        .drop("parts", "first", "end")
    )


def can_have_had(since: Column, until: Column, since_ms: Column, until_ms: Column) -> Column:
    """The node can have had the state that a record began and another one ended. True if its place is not known.

    since, since_ms: position and CreateTime of the first of these records; until, until_ms: of the other one. Needs: from_ms, to_ms,
    stays of `with_stays`.
    """

    def within(stay: Column) -> Column:
        begun = (since <= stay["since"]) | (since_ms <= F.col("to_ms") + TOLERANCE_MS)
        not_ended = (until >= stay["until"]) | (until_ms + SLACK_MS >= F.col("from_ms"))
        return (since < stay["until"]) & (until > stay["since"]) & (~stay["own"] | (begun & not_ended))

    return F.coalesce(F.exists("stays", within), F.lit(True))
