"""TI-07."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.control_plane.strays import DEAD, FULL_REQUEST
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("TI-07", frame="strays", kip="KIP-516", severity=HIGH, since="3.2")
class StrayReplicaKept(Rule):
    """A broker went on serving a replica that the cluster had taken from it.

    ## What it checks
    A starting KRaft broker finds folders whose topic id is not in the metadata image, or whose replica is not assigned to
    it, and renames them to `-stray` (3.7 on) or deletes them (3.2 to 3.6). A broker in migration from ZooKeeper renames
    replicas that the first LeaderAndIsr of type FULL does not list (3.6.1 on). Afterwards the broker must not serve the
    replica, and must not start one with a deleted topic id.

    ## Why it matters
    The broker serves a deleted topic's records, or blocks its successor (KAFKA-14616, KAFKA-15605).

    ## Evidence needed
    server.log with the "Found stray log dir" lines, or the request log with a LeaderAndIsr of type FULL. The broker's
    state-change.log and request log for what it served later.

    ## What is allowed
    A replica that a StopReplica had deleted before the LeaderAndIsr came is no subject.
    A replica that is assigned to the broker again starts under the same topic id, unless that id was deleted. If the lines of
    starting replicas are missing, the evidence does not show whether it was: a replica whose topic still exists is then
    unverifiable. So is a replica of a deleted topic if a follower of the name starts and no line since states its topic id.
    ZooKeeper controllers never send FULL (KIP-516 planned it): their brokers are not judged.

    ## What to do
    Stop the broker, move the replica's folder out of the log directory, and start it; keep the folder until you know
    that nobody needs the deleted topic's records. Reset consumers that read from it. Upgrade KRaft brokers to 3.7.1 or
    3.8 (KAFKA-14616), and finish a migration from ZooKeeper with 3.6.1 or later (KAFKA-15605).

    ## Example
    Broker 3 was down while orders (id A) was deleted. It starts, finds the folder stray, and answers fetches for id A.

    ## References
    LogManager.isStrayKraftReplica (isStrayReplica from 4.3 on), ReplicaManager.becomeLeaderOrFollower; KIP-516, LeaderAndIsr;
    KAFKA-14616, KAFKA-15605.
    """

    evidence = {
        "where the replica was found to be stray": "found_ref",
        "where the broker had stated the replica's topic id": "held_ref",
        "the fetch that was served": "served_ref",
        "the replica started again": "restarted_ref",
        "where the topic id of the replica started again is stated": "restarted_id_ref",
        "its folder renamed": "renamed_ref",
        "the replica of another topic id": "replaced_ref",
    }
    expected = "no replica of {topic}-{partition} under topic id {topic_id}"
    observed = "the replica was started or served again"
    because = ("broker {node} had to give up its replica of {topic}-{partition} under topic id {topic_id} ({reason})",)

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        dead, restarted = col("reason").isin(*DEAD), col("restarted_ref").isNotNull()
        served = col("served_ref").isNotNull()
        gave_up = "broker {node} had to give up its replica of {topic}-{partition} under topic id {topic_id} ({reason})"
        return first_of(
            passed(
                col("listed"),
                expected="a replica of {topic}-{partition} under topic id {topic_id}",
                observed="the LeaderAndIsr of type FULL lists it",
                because=(),
            ),
            unverifiable(
                col("topic_id").isNull(),
                "the topic id of the stray replica is not in the evidence",
                expected="no use of the stray replica of {topic}-{partition}",
                observed="a stray folder without topic id",
                because=(),
            ),
            unverifiable(
                served & ~dead & ~restarted & (col("may_have_restarted") | ~col("starts_recorded")),
                "whether the broker started the replica again is not in the evidence (state-change.log)",
                observed="a Fetch of it was answered {NONE}",
                because=(gave_up, "afterwards the broker answered a Fetch of it with {NONE}"),
            ),
            violation(
                served & (dead | ~restarted | col("served_before_restart")),
                observed="a Fetch of the replica was answered {NONE}",
                because=(gave_up, "afterwards the broker answered a Fetch of it with {NONE}"),
            ),
            violation(
                dead & restarted,
                observed="the replica was started again",
                because=(gave_up, "afterwards the broker started it again under the same topic id"),
            ),
            unverifiable(
                dead & col("may_have_restarted"),
                "no line states the topic id of a replica that was started afterwards",
                observed="a replica of {topic}-{partition} was started",
                because=(gave_up,),
            ),
            passed(
                restarted,
                expected="no replica of {topic}-{partition} under topic id {topic_id} until it is assigned again",
                observed="it was assigned again and started anew",
                because=(gave_up,),
            ),
            passed(col("renamed_ref").isNotNull(), observed="its folder was renamed", because=(gave_up,)),
            passed(
                col("replaced_ref").isNotNull(),
                observed="a replica of another topic id took its place",
                because=(gave_up,),
            ),
            passed(col("reason") == FULL_REQUEST, observed="it was not served again", because=(gave_up,)),
            otherwise=unverifiable(
                None,
                "what became of the stray replica is not in the evidence",
                observed="neither its new name nor another replica in its place is recorded",
                because=(gave_up,),
            ),
        )
