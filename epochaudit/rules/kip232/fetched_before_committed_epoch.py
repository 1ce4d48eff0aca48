"""CO-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.kip320.validation import topic_unknown
from epochaudit.rules.rule import (
    MEDIUM,
    Branch,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)


@rule("CO-02", frame="positions", kip="KIP-232", severity=MEDIUM, since="2.1")
class FetchedBeforeCommittedEpoch(Rule):
    """A consumer fetched in an older leader epoch than the one that its committed offset names.

    ## What it checks
    A consumer that was told a committed offset with its leader epoch knows that this epoch exists. It has to refresh its
    metadata until it knows a leader of that epoch or a newer one before it fetches there.

    ## Why it matters
    A leader of an older epoch has been replaced: what it serves at that offset is not what the group had read before it
    committed, or it answers out of range, and the reset policy moves the group.

    ## Evidence needed
    The request logs of the coordinator (OffsetFetch 5 or later) and of the broker that served the fetch; where the fetch states
    no leader epoch, the broker's "starts at leader epoch" lines.

    ## What is allowed
    A fetch that the broker refused with 74 is fenced. A consumer that had read up to the offset itself may have done so before
    it was told; its answers and fetches at two brokers can't be ordered. Exposed instead of violation where the fetch states no
    leader epoch: Fetch below 9, and Metadata below 9, whose leader epochs can't be relied on (KAFKA-9212).

    ## Example
    Group g committed 30 in leader epoch 5. Its new consumer knows leader epoch 4 from a broker with old metadata, is told
    (30, epoch 5) by the coordinator, and fetches at 30 from the leader of epoch 4, which has not heard of epoch 5.

    ## References
    KIP-232, Proposed Changes; KIP-320, Consumer Handling; Metadata.updateLastSeenEpochIfNewer, ConsumerUtils.
    """

    caused_by = ("FF-01", "LD-05", "MD-03")
    evidence = {
        "the first fetch at the committed offset": "fetch_ref",
        "the committed offset, as the coordinator told it": "committed_ref",
    }
    expected = "a leader of epoch {position_epoch} or newer"
    observed = "Fetch {api_version} at the committed offset {fetch_offset} answered 0 by broker {node} in leader epoch {leader_epoch}"
    because = (
        "the coordinator told {client_id} that {group_id} had committed {fetch_offset}, leader epoch {position_epoch}",
        "the fetch states leader epoch {current_leader_epoch}; broker {node} served it in leader epoch {leader_epoch}",
    )

    def applies(self) -> Column:
        return col("entered").isNull() & col("resumed") & col("position_epoch_stated")

    def verdict(self) -> tuple[Branch, ...]:
        older = col("leader_epoch") < col("lowest_told_epoch")
        return first_of(
            unverifiable(topic_unknown(), "the topic name had several incarnations and no topic id tells them apart"),
            fenced((col("leader_epoch") >= col("position_epoch")) & col("refused_below")),
            passed(col("leader_epoch") >= col("position_epoch")),
            unverifiable(
                ~older | col("reached_itself") | col("shared_client_id"),
                "the client may have fetched at the offset before it was told of it",
            ),
            violation(col("current_leader_epoch") >= 0),
            otherwise=exposed(None, "the client states no leader epoch in its fetch"),
        )
