"""PE-03."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col, lit

from epochaudit.events.event_types import ALLOCATE_PRODUCER_IDS, END_TXN, INIT_PRODUCER_ID, PRODUCER_INITIALIZED
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation

_TO_ONE_PRODUCER = "producer id {first_producer_id} belongs to one producer"
_BLOCKS_APART = "no other block has an id from {first_producer_id} to {last_producer_id}"
_RISES = "the next producer id rises with each record"


@rule("PE-03", frame="producer_ids", kip="KIP-98", severity=CRITICAL, since="1.0")
class ProducerIdGivenTwice(Rule):
    """A producer id was given to two producers, or a block of producer ids to two brokers.

    ## What it checks
    A producer id belongs to one transactional id, or to one start of an idempotent producer, for ever. Controllers give brokers blocks
    of ids that do not overlap. Three kinds of subjects: a producer id that InitProducerId gave, or EndTxn (4.0: once the epochs of the one
    before are used up), a block that AllocateProducerIds gave (3.0), and a record of a block in the metadata log, whose next producer id
    must be above those of all records before.

    ## Why it matters
    Leaders tell producers apart by their ids. Of two producers with one id and epoch, the second is refused as out of order. Or worse:
    its batches are taken for those that the first has sent already, acknowledged and dropped.

    ## Evidence needed
    For ids the brokers' server.log, with a line for each transactional id ("Initialized transactionalId"), and their request logs,
    which have idempotent producers, too. For blocks request logs of the controllers, or the metadata log for its
    records. No clocks are compared. A second owner in a log that is not recorded stays unknown.

    ## What is allowed
    Gaps: a broker that restarts throws the rest of its block away. A transactional id that is given its own id again. The records by
    which a migration from ZooKeeper takes over the last block: they have no broker epoch and give no block. Snapshots repeat the state
    and give none either. The logs must be of one cluster: if it was created anew, ids begin at 0 again.

    ## What to do
    Stop both producers and start them one after the other: each is given a new id. If blocks overlap, restart the brokers that hold them
    one by one, so that they ask for new ones. Then compare what the producers sent with what the partitions hold: batches of one of them
    may be missing although they were acknowledged. After a migration from ZooKeeper, upgrade to 3.5.2, 3.6.1 or 3.7.0 (KAFKA-15552).

    ## Example
    Broker 1 gives producer id 2000 to transactional id pay. After a migration, broker 2 gives 2000 to an idempotent producer.

    ## References
    TransactionCoordinator.handleInitProducerId and endTransaction; RPCProducerIdManager; ProducerIdControlManager.generateNextProducerId;
    KIP-98; KIP-730; KIP-890; KAFKA-15552; KAFKA-18660.
    """

    evidence = {"the answer, line or record that gives it": "given_ref", "the other one": "other_ref"}
    expected = _TO_ONE_PRODUCER
    observed = "the producer id was given to {given_to} and to {other_to}"
    because = ()

    def applies(self) -> Column:
        return lit(True)

    def verdict(self) -> tuple[Branch, ...]:
        twice = col("other_ref").isNotNull()
        of_producer = col("event_type").isin(INIT_PRODUCER_ID, END_TXN, PRODUCER_INITIALIZED)
        of_broker = col("event_type") == ALLOCATE_PRODUCER_IDS
        return first_of(
            unverifiable(
                col("first_producer_id").isNull(),
                "the request log does not print the answer",
                expected="ids that nobody else was given",
                observed="the answer to {event_type} {correlation_id} is not printed",
            ),
            violation(twice & of_producer),
            violation(
                twice & of_broker,
                expected=_BLOCKS_APART,
                observed="the block was given to {given_to}, and one that overlaps it to {other_to}",
            ),
            violation(
                twice,
                expected=_RISES,
                observed="the record for {given_to} has {first_producer_id}; an earlier one, for {other_to}, is not below",
            ),
            passed(of_producer, observed="what is recorded gives it to {given_to} only"),
            passed(
                of_broker,
                expected=_BLOCKS_APART,
                observed="the block was given to {given_to}; no other recorded block has one of its ids",
            ),
            otherwise=passed(
                expected=_RISES,
                observed="the record for {given_to} has {first_producer_id}; all recorded before are below",
            ),
        )
