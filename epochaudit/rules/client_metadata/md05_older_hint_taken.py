"""MD-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import CLIENT_HINT_IGNORED, CLIENT_HINT_TAKEN
from epochaudit.replay.data_plane.client_epochs import KNEW_NONE
from epochaudit.rules.rule import LOW, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

NOT_NEWER = "not_newer"


@rule("MD-05", frame="client_epochs", kip="KIP-951", severity=LOW, since="3.7")
class OlderHintTaken(Rule):
    """A client took a leader over from an answer's hint that was not newer than the leader it knew.

    ## What it checks
    Brokers that refuse a Fetch (16+) or Produce (10+) with 6 or 74 return the leader and leader epoch that they know. A
    client's log shows which of these hints it accepted and which it rejected. The leader epoch of an accepted hint must be
    above the one that earlier lines of the log state.

    ## Why it matters
    The response may come from a broker that has not learned of the last election. A client that accepts its hint leaves the
    leader for a replaced one, and alternates between the two without asking for metadata.

    ## Evidence needed
    The client's log at DEBUG (org.apache.kafka.clients.Metadata), from its start. No broker log shows what a client does
    with a hint.

    ## What is allowed
    Rejected hints with an equal or older epoch: they are fenced. A client that got the partition without a leader epoch, as
    from brokers up to 2.3, has none and accepts any. A re-created topic starts again from the line that reports it. If the
    file begins later than the client, or two clients with one id write to it, the client's epoch is uncertain. Hints
    rejected for other reasons, such as an unknown address of the leader, are no subjects.

    ## What to do
    Restart the client if it still alternates between two leaders; no record is lost by it. The broker that gave the
    older hint is the one that refused the client just before: restart it if its metadata still lags. Report the
    client's name and version to its project.

    ## Example
    A producer knows leader epoch 8 of orders-1, led by broker 2. Broker 3, still in leader epoch 7, answers with a hint at
    broker 1, and the producer switches to broker 1.

    ## References
    KIP-951, Proposed Changes; Metadata.updatePartitionLeadership.
    """

    evidence = {"the line about the hint": "own_ref", "what the client knew before": "known_ref"}
    expected = "a hint at a leader epoch of {topic}-{partition} above {previous_epoch}"
    observed = "leader {leader} of leader epoch {leader_epoch} of {topic}-{partition}, {how} by {client_id}"
    because = ("{client_id} had known leader epoch {previous_epoch} of {topic}-{partition} before",)

    def applies(self) -> Column:
        return (col("kind") == CLIENT_HINT_TAKEN) | (
            (col("kind") == CLIENT_HINT_IGNORED) & (col("reason") == NOT_NEWER)
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            fenced(col("kind") == CLIENT_HINT_IGNORED),
            unverifiable(
                col("previous_epoch").isNull(),
                "what the client knew before is not in its log",
                expected="a hint at a newer leader epoch of {topic}-{partition} than {client_id} knew",
            ),
            passed(
                col("previous_epoch") == KNEW_NONE,
                expected="any hint, as {client_id} knew no leader epoch of {topic}-{partition}",
                because=(),
            ),
            passed(col("leader_epoch") > col("previous_epoch")),
            unverifiable(~col("one_client"), "the log does not have the lines of one client alone, from its start"),
            otherwise=violation(),
        )
