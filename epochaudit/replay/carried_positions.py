"""What consumers did when a topic that they read was deleted and created again under the same name.

Leader epochs and offsets of the new topic start at 0, so that no leader epoch tells the two apart. A position that was
reached in the old topic means another place in the new one.
Clock: one client's fetches by the leader epoch that served them, within one broker by its request log; topics of one name
by the nodes that knew both.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from epochaudit.replay.incarnations import earlier_ids, later_ids, topic_incarnations, with_identity

_CLIENT: Final = ("cluster", "client_id", "client_host", "software_version", "topic", "partition")
_ENTRY: Final = ("ref", "correlation_id", "api_version", "log_start_offset")


def carried_positions(histories: DataFrame, events: DataFrame) -> DataFrame:
    """One row per (client instance, partition, topic id) that the client read after another topic of the same name.

    Needs: `histories` of the frame `positions`. Columns: entered (true), the subject columns (node = the broker that
    served the first fetch answered 0 in the new topic, leader_epoch the one it was served in), fetch_offset (null: left
    to a session whose offset is not known), fetch_ref, api_version, left_to_session, log_start_offset of the new topic
    (0 where the answer does not say), previous_topic_id; position_ref: where the client had read up to or asked for
    this offset in the old topic, null if it had not; created_ref: where the node first took a statement of the new
    topic; last_skipped_offset; committed_ref: its group's coordinator had told it the offset; resumed: and not only the
    client itself had committed it, as by then it had read the old topic alone; detected: how the client got a new
    position, null if it did not; refused: a leader epoch of its was refused before; order_unknown:
    which of the topics came first is not in the evidence; several_incarnations (then topic_id is null: nothing tells
    the topics apart); shared_client_id.
    """
    rows = with_identity(histories, topic_incarnations(events), "recreated", "sightings")
    rows = rows.where(F.col("recreated") | F.col("several_incarnations"))
    rows = _with_other_topics(rows).withColumn("reads", F.filter("reads", _placed))
    rows = rows.where((F.size("reads") > 0) & F.col("topic").isNotNull())
    entered = F.size("old_reads") > 0
    nameless = F.col("topic_id").isNull() & F.col("several_incarnations")
    rows = _entry(rows.where(entered | F.col("order_unknown") | nameless))
    return _origin(rows).select(
        F.lit(True).alias("entered"), "cluster", F.col("first.node").alias("node"), "topic", "topic_id", "partition",
        F.col("first.leader_epoch").alias("leader_epoch"), "client_id", F.col("resume.group_id").alias("group_id"),
        F.col("at.correlation_id").alias("correlation_id"), "fetch_offset", F.col("at.ref").alias("fetch_ref"),
        F.col("at.api_version").alias("api_version"), "left_to_session", "log_start_offset",
        F.coalesce("origin.of.topic_id", "previous_topic_id").alias("previous_topic_id"),
        F.col("origin.read_ref").alias("position_ref"), "created_ref", (F.col("fetch_offset") - 1).alias("last_skipped_offset"),
        "resumed", F.col("resume.ref").alias("committed_ref"), "detected", "refused",
        "order_unknown", "several_incarnations", "shared_client_id",
    )  # fmt: skip


def _with_other_topics(rows: DataFrame) -> DataFrame:
    """Adds what the client read of the topics that had the name before, and its answers that no topic id tells apart."""
    one = Window.partitionBy(*_CLIENT)
    own = F.col("topic_id")
    lives = F.collect_list(F.struct("topic_id", "reads", "marks", "resumes")).over(one)
    rows = rows.withColumns({"lives": lives, "before": earlier_ids(own), "after": later_ids(own)})

    def untold(life: Column) -> Column:
        told = F.array_contains("before", life["topic_id"]) | F.array_contains("after", life["topic_id"])
        return (life["topic_id"] != own) & (F.size(life["reads"]) > 0) & ~told

    old = F.filter("lives", lambda life: F.array_contains("before", life["topic_id"]) & (F.size(life["reads"]) > 0))
    here = F.filter("lives", lambda life: life["topic_id"].isNull() | (life["topic_id"] == own))
    return rows.withColumns(
        {
            "old_reads": F.flatten(F.transform(old, _of_topic)),
            "untold_reads": F.flatten(
                F.filter("lives", lambda life: life["topic_id"].isNull() & own.isNotNull())["reads"]
            ),
            "previous_topic_id": F.array_max(F.transform(old, lambda life: _generation(life["topic_id"])))["topic_id"],
            "marks": F.flatten(here["marks"]),
            "resumes": F.flatten(F.col("lives")["resumes"]),
            "order_unknown": F.coalesce(F.exists("lives", untold), F.lit(False)),
        }
    ).drop("lives", "before", "after")


def _of_topic(life: Column) -> Column:
    return F.transform(life["reads"], lambda read: read.withField("of", _generation(life["topic_id"])))


def _generation(topic_id: Column) -> Column:
    """A topic id by how many of the name came before it."""
    return F.struct(F.size(earlier_ids(topic_id)).alias("generation"), topic_id.alias("topic_id"))


def _placed(read: Column) -> Column:
    """The client asked for the partition, or was given records of it: it was not only told of a high watermark."""
    return read["first_at"].isNotNull() | read["unlisted"]["unlisted_at"].isNotNull()


def _entry(rows: DataFrame) -> DataFrame:
    """The client's first fetch of the new topic: a request that lists it, or a delivery that it left to its session."""
    first = F.array_min("reads")
    rows = rows.withColumns({"first": first, "shared_client_id": interleaved("reads")})
    one, unlisted = F.col("first"), F.col("first.unlisted")
    left = unlisted["unlisted_at"].isNotNull() & (
        one["first_at"].isNull() | (unlisted["unlisted_at"] < one["first_at"])
    )
    entry = F.struct(
        one["node"].alias("node"),
        F.when(left, unlisted["unlisted_at"]).otherwise(one["first_at"]).alias("place"),
        *(F.when(left, unlisted[name]).otherwise(one[name]).alias(name) for name in _ENTRY),
    )

    def in_session(read: Column) -> Column:
        here = (read["node"] == one["node"]) & (unlisted["session_id"] > 0)
        return here & (read["last_session_id"] == unlisted["session_id"])

    def asked(reads: Column) -> Column:
        return F.transform(reads, lambda r: F.struct(r["last_at"], r["last_fetch_offset"], r["first_at"]))

    # a request that may have been for either topic may have told the session its position in the new one
    untold = asked(F.filter("untold_reads", in_session))
    untold = F.filter(untold, lambda r: r["first_at"] < unlisted["unlisted_at"])
    last = F.array_max(F.concat(asked(F.filter("old_reads", in_session)), untold))
    unclear = F.exists(untold, lambda r: r["last_at"] > unlisted["unlisted_at"])
    return rows.withColumns(
        {
            "left_to_session": left,
            "fetch_offset": F.when(left, F.when(~unclear, last["last_fetch_offset"])).otherwise(
                one["first_fetch_offset"]
            ),
            "at": entry,
        }
    ).withColumn("log_start_offset", F.greatest(F.coalesce("at.log_start_offset", F.lit(0)), F.lit(0)))


def _origin(rows: DataFrame) -> DataFrame:
    """Where the position came from, and what the client was answered before."""
    o, at = F.col("fetch_offset"), F.col("at")
    stated = F.filter("sightings", lambda s: (s["topic_id"] == F.col("topic_id")) & (s["node"] == at["node"]))
    read = F.filter(
        "old_reads",
        lambda r: (
            ((r["read_from"] < o) & (o <= r["high_watermark"]))
            | (r["first_fetch_offset"] == o)
            | (r["last_fetch_offset"] == o)
        ),
    )
    own_ref = F.transform(
        read,
        lambda r: F.struct(
            r["of"].alias("of"), r["leader_epoch"], F.coalesce(r["read_ref"], r["ref"]).alias("read_ref")
        ),
    )

    def before(mark: Column) -> Column:
        """Not later in the request log of the broker that served the first fetch; another broker's order is unknown."""
        return (mark["node"] != at["node"]) | (mark["first_at"] <= at["place"])

    def seen(kind: str) -> Column:
        return F.exists("marks", lambda m: (m["kind"] == kind) & before(m))

    reset = F.exists("marks", lambda m: (m["kind"] == "reset") & before(m) & (m["answered_offset"] == o))
    diverged = ~F.col("left_to_session") & (F.col("first.diverging_epoch") >= 0)
    return rows.withColumns(
        {
            "origin": F.array_max(own_ref),
            "resume": F.array_max(F.filter("resumes", lambda c: c["answered_offset"] == o)),
            "resumed": F.exists("resumes", lambda c: (c["answered_offset"] == o) & ~c["own"]),
            "detected": F.when(reset, "a new position from ListOffsets")
            .when(seen("out_of_range"), "an out-of-range answer")
            .when(diverged, "the leader's comparison with lastFetchedEpoch"),
            "refused": seen("refused"),
            "created_ref": F.get(stated, F.lit(0))["ref"],
        }
    )


def interleaved(reads: str) -> Column:
    """Two connections of one client read the partition at one broker in turns: more than one consumer bears the client id."""
    return F.exists(
        reads,
        lambda a: F.exists(
            reads,
            lambda b: (a["node"] == b["node"]) & (a["first_at"] < b["first_at"]) & (b["first_at"] < a["last_at"]),
        ),
    )
