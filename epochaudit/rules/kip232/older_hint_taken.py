"""MD-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.client_epochs import HINT_IGNORED, HINT_TAKEN, KNEW_NONE
from epochaudit.rules.rule import LOW, Branch, Rule, fenced, first_of, passed, rule, unverifiable, violation

NOT_NEWER = "not_newer"


@rule("MD-05", frame="client_epochs", kip="KIP-951", severity=LOW, since="3.7")
class OlderHintTaken(Rule):
    """A client took a leader over from an answer's hint that was not newer than the leader it knew.

    ## What it checks
    Brokers that refuse a Fetch (16+) or Produce (10+) with 6 or 74 say which leader and leader epoch they know of. A client's log
    tells which of these hints it took over and which it turned down: the leader epoch of those taken over is above the one that
    the lines before say it knew.

    ## Why it matters
    The answer may come from a broker that has not heard of the last election. A client that believes it leaves the leader for
    one that was replaced, and goes back and forth between the two without asking for metadata.

    ## Evidence needed
    The client's log at DEBUG (org.apache.kafka.clients.Metadata), from its start. No broker can see what a client does with a hint.

    ## What is allowed
    Hints that are as old or older and turned down: they are fenced. A client that was told the partition without a leader epoch,
    as by brokers up to 2.3, knows none and takes any. A topic created again counts anew from the line that says so. Where the
    file begins later than the client, or two clients of one id write to it, what the client knew is uncertain. Hints turned
    down for other reasons, as a leader whose address is not known, are no subjects.

    ## Example
    A producer knows leader epoch 8 of orders-1, led by broker 2. An answer of broker 3, which still has leader epoch 7, names
    broker 1, and the producer turns to broker 1.

    ## References
    KIP-951, Proposed Changes; Metadata.updatePartitionLeadership.
    """

    evidence = {"the line about the hint": "own_ref", "what the client knew before": "known_ref"}
    expected = "a hint at a leader epoch of {topic}-{partition} above {previous_epoch}"
    observed = "leader {leader} of leader epoch {leader_epoch} of {topic}-{partition}, {how} by {client_id}"
    because = ("{client_id} had known leader epoch {previous_epoch} of {topic}-{partition} before",)

    def applies(self) -> Column:
        return (col("kind") == HINT_TAKEN) | ((col("kind") == HINT_IGNORED) & (col("reason") == NOT_NEWER))

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            fenced(col("kind") == HINT_IGNORED),
            unverifiable(col("previous_epoch").isNull(), "what the client knew before is not in its log"),
            passed((col("leader_epoch") > col("previous_epoch")) | (col("previous_epoch") == KNEW_NONE)),
            unverifiable(~col("one_client"), "the log does not have the lines of one client alone, from its start"),
            otherwise=violation(),
        )
