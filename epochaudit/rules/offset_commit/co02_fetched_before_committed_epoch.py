"""CO-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.reasons import AMBIGUOUS_TOPIC
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
    A consumer that gets a committed offset with its leader epoch knows that this epoch exists. It must refresh its metadata
    until it knows a leader of that epoch or a newer one, before it fetches there.

    ## Why it matters
    The leader of an older epoch was replaced. At that offset it serves other records than the group had read before the
    commit, or it answers out of range, and the reset policy moves the group.

    ## Evidence needed
    The request logs of the coordinator (OffsetFetch 5 or later) and of the broker that served the fetch. If the fetch
    states no leader epoch: the broker's "starts at leader epoch" lines.

    ## What is allowed
    A fetch at the offset that a broker refused with 74 or 75 is fenced. A consumer that had itself read up to the offset, or
    that fetches at the beginning of the log, may have done so in an earlier run with the same client id, before it got the
    commit; its OffsetFetch and its fetches at two brokers can't be ordered. A fetch without leader epoch is exposed instead
    of a violation: Fetch below 9, and Metadata below 9, whose leader epochs are unreliable (KAFKA-9212).

    ## What to do
    See in `epochaudit timeline TOPIC-PARTITION` whether the group went back or was reset after this fetch. If so, stop
    it, and reset it to the committed offset with `kafka-consumer-groups.sh --reset-offsets --to-offset`. Restart the
    broker whose metadata lags (MD-03, UM-02). Exposed means that the protocol in use has no reliable leader epoch:
    brokers and Java clients of 2.4 and later have.

    ## Example
    Group g committed 30 in leader epoch 5. Its new consumer knows leader epoch 4 from a broker with old metadata, gets (30,
    epoch 5) from the coordinator, and fetches at 30 from the leader of epoch 4, which does not know epoch 5 yet.

    ## References
    KIP-232, Proposed Changes; KIP-320, Consumer Handling; Metadata.updateLastSeenEpochIfNewer, ConsumerUtils.
    """

    caused_by = ("FF-01", "LD-05", "MD-03")
    evidence = {
        "the first answered fetch at the committed offset": "fetch_ref",
        "the committed offset, as the coordinator returned it": "committed_ref",
        "the fetch in the older leader epoch that was refused": "refused_ref",
    }
    expected = "a fetch at {fetch_offset} in leader epoch {position_epoch} or a newer one"
    observed = "broker {node} answered Fetch {api_version} at {fetch_offset} with {NONE} in leader epoch {leader_epoch}"
    because = (
        "the coordinator answered {client_id} that group {group_id} had committed {fetch_offset} with {committed_with}",
    )

    def applies(self) -> Column:
        # False without a commit to resume from. Null where the topic was created again: no subject, TI-08 and TI-09 judge those.
        return col("position_epoch_stated")

    def verdict(self) -> tuple[Branch, ...]:
        older = col("leader_epoch") < col("lowest_offset_fetch_epoch")
        recent = col("leader_epoch") >= col("position_epoch")
        return first_of(
            unverifiable(col("ambiguous_name"), AMBIGUOUS_TOPIC),
            fenced(
                recent & col("refused_ref").isNotNull() & ~col("reached_itself"),
                observed="a fetch at {fetch_offset} in leader epoch {refused_epoch} was refused; then broker {node} answered one"
                " with {NONE} in leader epoch {leader_epoch}",
            ),
            passed(recent),
            unverifiable(
                ~older | col("reached_itself") | col("at_log_start") | col("shared_client_id"),
                "the client may have fetched at the offset before it got the answer",
            ),
            unverifiable(
                col("requests_missing"),
                "the client may have fetched at the offset before, in a request that is not in the evidence (request log)",
            ),
            violation(
                col("current_leader_epoch") >= 0,
                because=(*self.because, "the fetch states leader epoch {current_leader_epoch}"),
            ),
            otherwise=exposed(None, "the client states no leader epoch in its fetch"),
        )
