"""MD-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import CLIENT_EPOCH_IGNORED
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("MD-02", frame="client_epochs", kip="KIP-232", severity=INFO, since="2.1")
class OlderMetadataIgnored(Rule):
    """Observation: a client kept its own entry of a partition against older metadata.

    ## What it checks
    Lines of a client's log that reject the leader epoch of a partition in a Metadata response. Each counts as one `pass`.

    ## Why it matters
    KIP-232 proposed that one older partition makes the whole response stale, and that the client asks again at once.
    Clients do neither. They retain that partition's entry, accept the rest of the response, and ask again when a fetch
    fails. Such lines are normal after an election. If they don't end, a broker's metadata lags, or the topic was
    re-created.

    ## Evidence needed
    The client's log at DEBUG (org.apache.kafka.clients.Metadata).

    ## What is allowed
    Every such line is allowed. A client that has no epoch to compare with also rejects a new one; its log does not show
    what follows.

    ## What to do
    Nothing needs repair: the client kept the newer leader. If the lines do not end, restart the broker whose metadata
    lags (MD-03, UM-02). After a topic was created again, restart clients older than 3.0, but for 2.8.2 (KAFKA-12257).

    ## Example
    A consumer knows leader epoch 5 of orders-0. Another broker, which has not learned of the election yet, answers 4.

    ## References
    KIP-232, Proposed Changes; Metadata.updateLatestMetadata.
    """

    evidence = {"the client's line": "own_ref"}
    expected = "the entry with leader epoch {previous_epoch} is kept"
    observed = "{client_id} turned down leader epoch {leader_epoch} of {topic}-{partition}"
    because = ("it knew leader epoch {previous_epoch}",)

    def applies(self) -> Column:
        return col("kind") == CLIENT_EPOCH_IGNORED

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(
                col("previous_epoch").isNull(),
                "the client knew no leader epoch to compare with",
                expected="the entry is kept if its leader epoch is newer",
            ),
            otherwise=passed(),
        )
