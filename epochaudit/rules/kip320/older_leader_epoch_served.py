"""FF-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.replay.fetches import MINGLED, sessions_lose_epochs
from epochaudit.rules.kip320.leader_epoch_fence import may_be_older, older_than_held
from epochaudit.rules.rule import HIGH, MEDIUM, Branch, Rule, exposed, first_of, passed, rule, unverifiable


@rule("FF-01", frame="fetches", kip="KIP-320", severity=HIGH, since="2.1")
class OlderLeaderEpochServed(Rule):
    """A Fetch in an older leader epoch was served.

    ## What it checks
    Fetch 9+ carries the leader epoch that the follower or consumer believes in. A broker that holds a newer one for the
    partition must answer 74 (FENCED_LEADER_EPOCH), leader or follower alike; 74 for its own current epoch, or 75 for an
    older one, is the wrong answer.

    ## Why it matters
    The requester has not heard of an election. A follower that is served goes on without truncating what the new leader
    does not have; its fetch offset may count towards the high watermark. A consumer reads on past a truncation.

    ## Evidence needed
    The request log, the node's "starts at leader epoch" lines, and for partitions that an incremental fetch leaves out the
    request of the session that last listed them.

    ## What is allowed
    No epoch (-1): the fence is skipped. While an epoch starts, from its line to the end of the handler, the old
    epoch and the new one may both judge; and as a request's line may be written late, so may an epoch that ended
    just before. A Fetch that waits is judged on arrival and again when it is answered. Codes that come before the
    epoch check (3, 6, 56, 100, 103) say nothing about the epoch. Kafka 2.1.0 to 2.4.1 lose the epoch in incremental
    sessions (KAFKA-9338): reported as exposed.

    ## Example
    Broker 2 leads orders-0 in epoch 7. A consumer that still believes in epoch 6 fetches from it and gets records.

    ## References
    Partition.getLocalLog, FetchSession; KIP-320, Leader Fetch Handling; KAFKA-9338.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "error 74 (FENCED_LEADER_EPOCH) for leader epoch {current_leader_epoch}, as the broker held {held_max}"
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = (
        "broker {node} held leader epoch {held_min} to {held_max} of {topic}-{partition} while it worked on the request",
        "{client_id} fetched in leader epoch {current_leader_epoch} (as its {epoch_source} states)",
        "and was answered {error_code}",
    )

    def applies(self) -> Column:
        return may_be_older() | col("epoch_source").isin("unknown", MINGLED) & col("error_code").isin(0, 74)

    def verdict(self) -> tuple[Branch, ...]:
        older = col("current_leader_epoch") < col("held_min")
        lost = exposed(
            older & (col("error_code") == 0) & sessions_lose_epochs(),
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
            *older_than_held(hinted=col("hinted_leader_epoch"), lost=lost),
            otherwise=passed(),
        )

    def severity_of(self) -> Column | None:
        return F.when(col("replica_id") < 0, MEDIUM)
