"""FF-04."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.kip320.leader_epoch_fence import HOLE
from epochaudit.rules.rule import MEDIUM, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

NOT_LEADER_OR_FOLLOWER: Final = 6
FIRST_READING_FROM_FOLLOWERS: Final = 11
CONSUMER: Final = -1


@rule("FF-04", frame="fetches", kip="KIP-320", severity=MEDIUM, since="0.8")
class FollowerServedFetch(Rule):
    """A replica that does not lead served a follower or a plain consumer.

    ## What it checks
    Followers, and consumers below Fetch 11, may read from the leader only. Another replica must answer 6
    (NOT_LEADER_OR_FOLLOWER), whatever leader epoch the request states.

    ## Why it matters
    A follower that copies from a follower copies what the leader may never have had, and the leader does not see its
    progress. A consumer that does not know of reading from followers takes the high watermark there for the leader's.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines, of leaders and of followers (2.6 and later).

    ## What is allowed
    Consumers with Fetch 11 and later may read from any replica (KIP-392), debugging consumers (replica -2) too. A leader
    answers 6 for reasons of its own. While leadership changes either role may answer; as a request's line may be
    written late, so may the role that ended just before.

    ## Example
    Broker 3 follows broker 1 for orders-0. Broker 2 fetches orders-0 from broker 3 and gets records.

    ## References
    Partition.getLocalLog, FetchParams.fetchOnlyLeader; KIP-392.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the line by which the broker became a follower": "held_ref",
    }
    expected = "error 6 (NOT_LEADER_OR_FOLLOWER)"
    observed = "error {error_code} in Fetch {api_version} of replica {replica_id}"
    because = (
        "broker {node} held leader epoch {leader_epoch} of {topic}-{partition} as a follower",
        "{client_id} fetched as replica {replica_id} with Fetch {api_version} and was answered {error_code}",
    )

    def applies(self) -> Column:
        return col("error_code").isin(0, NOT_LEADER_OR_FOLLOWER) & (col("replica_id") >= CONSUMER)

    def verdict(self) -> tuple[Branch, ...]:
        leads = F.coalesce(col("held_leader") & col("held_complete"), F.lit(False))
        anywhere = (col("replica_id") == CONSUMER) & (col("api_version") >= FIRST_READING_FROM_FOLLOWERS)
        return first_of(
            fenced((col("error_code") == NOT_LEADER_OR_FOLLOWER) & ~leads),
            passed((col("error_code") == NOT_LEADER_OR_FOLLOWER) | anywhere | leads),
            unverifiable(~col("held_complete"), "whether the broker led is not recorded"),
            unverifiable(col("leader_epoch").isNull(), "the leadership changed while the request was worked on"),
            unverifiable(
                col("held_just_before") < col("held_min"),
                "the broker's epoch changed just before, and request lines may be written late",
            ),
            unverifiable(
                F.coalesce("led_just_before", F.lit(False)),
                "the broker led in the same epoch just before, perhaps another topic of the name",
            ),
            unverifiable(col("held_outdated"), HOLE),
            otherwise=violation(),
        )
