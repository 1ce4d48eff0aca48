"""MD-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.client_epochs import IGNORED
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("MD-02", frame="client_epochs", kip="KIP-232", severity=INFO, since="2.1")
class OlderMetadataKeptOut(Rule):
    """Observation: a client kept its own entry of a partition against older metadata.

    ## What it checks
    Lines of a client's log by which it turns down the leader epoch that a Metadata answer tells of one partition. One `pass` for
    each.

    ## Why it matters
    KIP-232 proposed that one older partition makes the whole answer stale, and that the client asks again at once. Clients do
    neither: they keep the entry of that partition, take the rest of the answer, and ask when their next fetch fails. Such lines
    after an election are ordinary; without end they say that a broker's metadata lags, or that the topic was created again.

    ## Evidence needed
    The client's log at DEBUG (org.apache.kafka.clients.Metadata).

    ## What is allowed
    All of it. A client that knows no epoch to compare with turns a new one down, too; what became of it then is not told.

    ## Example
    A consumer knows leader epoch 5 of orders-0 and is told 4 by another broker, which has not heard of the election yet.

    ## References
    KIP-232, Proposed Changes; Metadata.updateLatestMetadata.
    """

    evidence = {"the client's line": "own_ref"}
    expected = "the entry with leader epoch {previous_epoch} is kept"
    observed = "{client_id} turned down leader epoch {leader_epoch} of {topic}-{partition}"
    because = ("it knew leader epoch {previous_epoch}",)

    def applies(self) -> Column:
        return col("kind") == IGNORED

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("previous_epoch").isNull(), "the client knew no leader epoch to compare with"),
            otherwise=passed(),
        )
