"""FF-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.fetches import MINGLED, sessions_lose_epochs
from epochaudit.rules.kip320.leader_epoch_fence import may_be_newer, newer_than_held
from epochaudit.rules.rule import HIGH, MEDIUM, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("FF-02", frame="fetches", kip="KIP-320", severity=HIGH, since="2.1")
class NewerLeaderEpochServed(Rule):
    """A Fetch in a newer leader epoch than the broker's was served.

    ## What it checks
    A broker that is asked in a leader epoch it has not heard of must answer 75 (UNKNOWN_LEADER_EPOCH): it is a zombie, or
    not up to date yet. 74 for a newer epoch is the wrong answer.

    ## Why it matters
    The requester knows of an election that this broker missed. What the broker serves may be truncated already in the
    history that the requester follows.

    ## Evidence needed
    The request log, the node's "starts at leader epoch" lines, and for partitions that an incremental fetch leaves out the
    request of the session that last listed them.

    ## What is allowed
    No epoch (-1): the fence is skipped. 75 at the broker's own epoch: a follower that is not in the leader's assignment is
    refused so, and the line that starts an epoch is written some milliseconds before it takes effect. Kafka 2.1.0 to
    2.4.1 lose the epoch in incremental sessions (KAFKA-9338): reported as exposed.

    ## Example
    Broker 1 was frozen and still leads orders-0 in epoch 6. A consumer that knows epoch 7 fetches from it and gets records.

    ## References
    Partition.getLocalLog, Partition.makeLeader; KIP-320, Leader Fetch Handling; KAFKA-9338.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "error 75 (UNKNOWN_LEADER_EPOCH) for leader epoch {current_leader_epoch}, as the broker held {held_max}"
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = (
        "broker {node} held leader epoch {held_min} to {held_max} of {topic}-{partition} while it worked on the request",
        "{client_id} fetched in leader epoch {current_leader_epoch} (as its {epoch_source} states)",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        return may_be_newer() | col("epoch_source").isin("unknown", MINGLED) & col("error_code").isin(0, 75)

    def verdict(self) -> tuple[Branch, ...]:
        newer = col("current_leader_epoch") > col("held_max")
        lost = exposed(
            newer & (col("error_code") == 0) & sessions_lose_epochs(),
            "KAFKA-9338: incremental fetch sessions lose the leader epoch",
        )
        return first_of(
            unverifiable(
                col("epoch_source") == "unknown",
                "the fetch session began before the capture, or requests of it are not recorded",
            ),
            unverifiable(
                col("epoch_source") == MINGLED, "the fetch session came back to an epoch that it had stated before"
            ),
            *newer_than_held(lost=lost),
            otherwise=passed(),
        )

    def severity_of(self) -> Column | None:
        return F.when(col("replica_id") < 0, MEDIUM)
