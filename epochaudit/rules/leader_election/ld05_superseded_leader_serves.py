"""LD-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.kafka.errors import Errors
from epochaudit.rules.reasons import HELD_EPOCH_UNCERTAIN
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("LD-05", frame="fetches", kip="KIP-320", severity=INFO, since="2.1")
class SupersededLeaderServes(Rule):
    """Observation: a leader served fetches although a newer leader epoch had begun.

    ## What it checks
    A leader that was isolated or paused serves fetches in its own leader epoch until it learns of the next one. A request
    with a newer leader epoch that reached this broker and was answered 75 proves that the next epoch had begun. Each later
    Fetch that the broker still answered 0 in its old epoch counts as one `pass`. This rule never gives a violation.

    ## Why it matters
    Such a read may be stale. With an older client, or a follower in the same position, logs may diverge at this moment.
    Many such reads show that a broker learns of elections late.

    ## Evidence needed
    The broker's request log and its "starts at leader epoch" lines.

    ## What is allowed
    Every such Fetch is allowed: KIP-320 fences the requester, not the leader. A follower that serves consumers is no
    subject, nor is a broker that has deleted its replica. TR-01 and TR-06 find actual losses. The rule never compares the
    times of two hosts, so it does not see a superseded leader that no request with the newer epoch reached.

    ## What to do
    A few reads around an election need nothing; many mean a broker that learns of elections late. Look in its
    server.log for pauses, lost sessions and slow disks, and restart it if it still serves. `min.insync.replicas` of 2
    with acks=all keeps it from acknowledging writes alone. KRaft brokers of 3.3.0 and 3.3.1 stay leader in a controlled
    shutdown (KAFKA-14296): upgrade to 3.3.2.

    ## Example
    Broker 1 resumes after a pause. A consumer that knows the new leader asks it in epoch 1 and is answered 75. Another
    consumer asks in epoch 0 and gets records.

    ## References
    KIP-320, Leader Fetch Handling; Partition.getLocalLog; KAFKA-14296.
    """

    evidence = {
        "the Fetch request and its answer": "fetch_ref",
        "the request with a newer leader epoch": "newer_ref",
        "the leader epoch the broker held": "held_ref",
    }
    expected = "fetches served in leader epoch {held_max} until broker {node} learns of leader epoch {newer_epoch}"
    observed = "error {error_code} for leader epoch {current_leader_epoch}"
    because = (
        "a request in leader epoch {newer_epoch} of {topic}-{partition} had come to broker {node} and was answered {UNKNOWN_LEADER_EPOCH}",
        "broker {node} still held leader epoch {held_max} and answered {client_id} with {error_code}",
    )

    def applies(self) -> Column:
        # a follower may serve consumers, too (KIP-392): it was not superseded
        followed = ~col("held_leader") & col("leader_epoch").isNotNull()
        answered = (col("error_code") == Errors.NONE) & (col("newer_epoch") > col("held_max"))
        return answered & ~followed

    def verdict(self) -> tuple[Branch, ...]:
        uncertain, stated = col("leader_epoch").isNull(), col("current_leader_epoch") >= 0
        without = "error {error_code} for a fetch that states no leader epoch"

        def unsettled(condition: Column, observed: str) -> Branch:
            return unverifiable(
                condition,
                HELD_EPOCH_UNCERTAIN,
                expected="fetches served in an older leader epoch until broker {node} learns of leader epoch {newer_epoch}",
                observed=observed,
                because=(
                    self.because[0],
                    "broker {node} answered {client_id} with {error_code}; its log states leader epoch {held_max} at about that time",
                ),
            )

        return first_of(
            unsettled(uncertain & stated, self.observed),
            unsettled(uncertain, without),
            passed(stated),
            otherwise=passed(observed=without),
        )
