"""LD-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("LD-04", frame="leadership", kip="KIP-320", severity=CRITICAL, since="0.8")
class TwoLeadersInOneEpoch(Rule):
    """One leader epoch of a partition had two leaders.

    ## What it checks
    All statements about the leader of a partition in a leader epoch must agree: accepted LeaderAndIsr requests, "starts at
    leader epoch" lines of leaders and followers, controller lines, committed records, Metadata responses and AlterPartition
    responses. If the epoch has no leader (-1), none of them may name one.

    ## Why it matters
    All fences rely on it: two leaders of one epoch accept writes and answer fetches, no epoch check distinguishes them, and
    their logs diverge within the epoch.

    ## Evidence needed
    Two statements about the same epoch, from any source.

    ## What is allowed
    A refused request states nothing. Another topic is another partition, whose epochs start at 0: if a name had several
    topics and sources without topic ids differ, the rule claims nothing; nor if it may have had several, as a broker began a leader
    epoch again without an earlier one, or the epoch is 0. A controller's line belongs to the topic whose id
    the node's own log states before and after it. Metadata answers -1 for a leader that it cannot reach, and -2 in requests
    marks a topic that is being deleted. Leader hints of Fetch responses (KIP-951) are ignored: the broker reads leader and
    epoch one after the other, without a lock.

    ## What to do
    Pause the producers, and save the partition's folder on both leaders: each may have acknowledged records that the
    other lacks. First rule out a mistake of the capture: two clusters in one, or logs of a wrong node (`capture.toml`).
    Then stop one of the two, so that a new epoch begins, and compare the folders (EP-07). CE-02, IS-13 and EP-06 name
    the usual causes; ZooKeeper or a metadata log restored from a backup is another.

    ## Example
    Broker 1 logs "Leader orders-0 starts at leader epoch 7". An accepted LeaderAndIsr of another controller names broker 2
    for epoch 7.

    ## References
    Kafka's TLA+ model (one leader per epoch); KIP-320; Partition.makeLeader; KafkaApis.getCurrentLeader.
    """

    caused_by = ("EP-01", "IS-13", "TI-01", "TI-04", "TI-05")
    evidence = {"one statement": "lowest_leader_ref", "the other": "highest_leader_ref"}
    expected = "one leader of {topic}-{partition} in leader epoch {leader_epoch}"
    observed = "leader {lowest_leader} and leader {highest_leader}"
    because = (
        "{lowest_leader_stated_by} states leader {lowest_leader} for leader epoch {leader_epoch} of {topic}-{partition}",
        "{highest_leader_stated_by} states leader {highest_leader} for the same epoch",
    )

    def applies(self) -> Column:
        return col("leader_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        differ = col("lowest_leader") != col("highest_leader")
        by_id = (F.size("leaders_by_id") == 0) | F.array_contains("leaders_by_id", col("lowest_leader"))
        nameless = col("ambiguous_name") & col("topic_id").isNull()
        of_each = "one leader of {topic}-{partition} in leader epoch {leader_epoch} of each topic of the name"
        return first_of(
            unverifiable(nameless & differ, AMBIGUOUS_TOPIC, expected=of_each),
            unverifiable(
                nameless & ~by_id,
                AMBIGUOUS_TOPIC,
                expected=of_each,
                observed="leader {lowest_leader} (-1: none) in all of {statements} statements by name, leader {leaders_by_id} in"
                " those with a topic id",
                because=(
                    self.because[0],
                    "statements with topic ids of the name state leader {leaders_by_id} for leader epoch {leader_epoch}",
                ),
            ),
            unverifiable(
                differ & ~col("differ_by_id") & col("may_be_of_two_topics"),
                "the topic of the name may have been deleted and created again in between, and no topic id distinguishes them",
                expected=of_each,
            ),
            violation(differ),
            otherwise=passed(
                observed="leader {lowest_leader} in all of {statements} statements (-1: none)",
                because=(
                    "{lowest_leader_stated_by} states leader {lowest_leader} for leader epoch {leader_epoch} of {topic}-{partition}",
                ),
            ),
        )
