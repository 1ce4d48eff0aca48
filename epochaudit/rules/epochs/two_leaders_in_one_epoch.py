"""LD-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("LD-04", frame="leadership", kip="KIP-320", severity=CRITICAL, since="0.8")
class TwoLeadersInOneEpoch(Rule):
    """One leader epoch of a partition had two leaders.

    ## What it checks
    Everything that states who leads a partition in a leader epoch must agree: accepted LeaderAndIsr requests, "starts at
    leader epoch" lines of leaders and followers, controller lines, committed records, Metadata responses, AlterPartition
    answers and the leader hints of Fetch answers. An epoch without a leader (-1) has none in any of them.

    ## Why it matters
    All fencing rests on it: two leaders of one epoch accept writes and answer fetches that no epoch check tells apart, and
    their logs diverge within the epoch.

    ## Evidence needed
    Two statements about the same epoch, of any source.

    ## What is allowed
    A refused request states nothing. Another topic is another partition, whose epochs start at 0: where a name had
    several and the source does not tell which, nothing is claimed. Metadata answers -1 for a leader it cannot reach, and -2
    in requests marks a topic being deleted. Hints given in the middle of a transition are not counted.

    ## Example
    Broker 1 logs "Leader orders-0 starts at leader epoch 7"; an accepted LeaderAndIsr of another controller names broker 2
    for epoch 7.

    ## References
    Kafka's TLA+ model (one leader per epoch); KIP-320; Partition.makeLeader.
    """

    caused_by = ("EP-01", "IS-13", "TI-01", "TI-04", "TI-05")
    evidence = {
        "one statement": "lowest_leader_ref",
        "the other": "highest_leader_ref",
    }
    expected = "one leader of {topic}-{partition} in leader epoch {leader_epoch}"
    observed = "leader {lowest_leader} and leader {highest_leader}"
    because = (
        "{lowest_leader_stated_by} states leader {lowest_leader} for leader epoch {leader_epoch} of {topic}-{partition}",
        "{highest_leader_stated_by} states leader {highest_leader} for the same epoch",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("several_incarnations") & col("topic_id").isNull(),
                "the topic name had several incarnations and no topic id tells them apart",
            ),
            violation(col("lowest_leader") != col("highest_leader")),
            otherwise=passed(),
        )
