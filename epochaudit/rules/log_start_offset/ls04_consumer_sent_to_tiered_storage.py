"""LS-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.rules.rule import LOW, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("LS-04", frame="tiered_fetches", kip="KIP-405", severity=LOW, since="3.6")
class ConsumerSentToTieredStorage(Rule):
    """A broker answered a consumer that records are in tiered storage, in place of serving them from there.

    ## What it checks
    The answer 109 (OFFSET_MOVED_TO_TIERED_STORAGE) is for followers only: they build their log anew from tiered storage. To a consumer
    the leader gives the records from there itself.

    ## Why it matters
    Consumers do not know this error: they fail, or reset their position and skip records.

    ## Evidence needed
    The brokers' request logs.

    ## What is allowed
    The answer to a follower. If the request does not show who asked, it is unverifiable.

    ## What to do
    Compare the consumer's next position with `fetch_offset` of the request: what lies between was skipped, and can be read again after
    `kafka-consumer-groups.sh --reset-offsets`. Check the broker's version and its remote log manager's settings
    (`remote.log.storage.system.enable`, `remote.storage.enable` of the topic).

    ## Example
    A consumer fetches orders-0 at offset 40, which the leader has only in tiered storage, and is answered 109.

    ## References
    ReplicaManager.handleOffsetOutOfRangeError; KIP-405, Follower Replication.
    """

    evidence = {"the request and its answer": "answer_ref"}
    expected = "records from tiered storage for a consumer"
    observed = "error {OFFSET_MOVED_TO_TIERED_STORAGE}"
    because = ("Fetch {correlation_id} of {client_id} asks for {topic}-{partition} at offset {fetch_offset}",)

    def applies(self) -> Column:
        return F.lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            passed(
                col("replica_id") >= 0,
                expected="error {OFFSET_MOVED_TO_TIERED_STORAGE}, as replica {replica_id} is to build its log from tiered storage",
            ),
            unverifiable(col("replica_id").isNull(), "whether a follower or a consumer asked is not in the evidence"),
            otherwise=violation(),
        )
