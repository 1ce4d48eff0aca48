"""PE-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.event_types import INIT_PRODUCER_ID, PRODUCER_INITIALIZED
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import TRANSACTION_STATE
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable

_GIVEN = (
    "coordinator {node} gave transactional id {transactional_id} producer id {response_producer_id} with epoch "
    "{response_producer_epoch}"
)
_REPEATED = {
    "first_ref": "which another answer has, too",
    "used_ref": "in which the same coordinator had accepted a request before",
}


@rule("PE-02", frame="producer_requests", kip="KIP-98", severity=CRITICAL, since="1.0")
class ProducerEpochGivenTwice(Rule):
    """A transactional id was given a producer epoch that had been given out before.

    ## What it checks
    A producer that starts sends InitProducerId without an epoch. The coordinator raises the transactional id's epoch, writes it to the
    transaction log, and then answers with it. Each such answer is a subject. Its
    epoch must be in no other answer of any coordinator, including answers to an EndTxn that gives the next epoch
    (KIP-890), and the same coordinator must not have given a higher one before, nor have accepted a request in it or in a higher one
    (AddPartitionsToTxn, AddOffsetsToTxn, EndTxn).

    ## Why it matters
    Two producers of one transactional id have one epoch: neither fences the other. Both write to the same transaction, and what one
    of them commits or aborts contains the records of the other.

    ## Evidence needed
    The coordinators' request logs, or their server.log, which has a line for each such answer ("Initialized transactionalId"). A line
    does not tell whether its request stated an epoch: where another answer gives the same epoch, or an earlier request was accepted in
    it, it is unverifiable. An answer is unverifiable, too, if its request arrived less than a second after a line that shows as high an
    epoch, as lines may be written late. Between coordinators no clocks are compared. An answer of a coordinator whose log is missing
    stays unknown. For a violation, the elections of __transaction_state: state-change.log or the metadata log.

    ## What is allowed
    A producer that states its epoch after an error (KIP-360) may ask again and is answered the same. A new producer id begins with epoch
    0. Epochs may leave out numbers: coordinators raise them when they abort a transaction. Requests that keep a prepared transaction
    (KIP-939) are not judged. An unclean election of a leader of __transaction_state loses epochs, and so may one from an ISR of one: then
    it is exposed.

    ## What to do
    Stop all but one producer of the transactional id, and start that one again. Compare what consumers with `read_committed` got of its
    transactions with what it had sent. Set `transaction.state.log.replication.factor=3`, `transaction.state.log.min.isr=2`, and
    `unclean.leader.election.enable=false` for __transaction_state. TR-06 and AW-01 name the election that lost the epoch.

    ## Example
    Coordinator 1 gives transactional id pay epoch 5. Coordinator 2, elected uncleanly, gives it epoch 5 again.

    ## References
    TransactionMetadata.prepareIncrementProducerEpoch; TransactionCoordinator.handleInitProducerId; KIP-98; KIP-360; KIP-890.
    """

    evidence = {
        "the answer, or the coordinator's line about it": "request_ref",
        "another answer with that epoch": "first_ref",
        "an answer with that epoch or a higher one, before": "repeated_ref",
        "an accepted request in that epoch or a higher one, before": "used_ref",
        "an answer or accepted request with that epoch or a higher one, just before": "recent_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "a producer epoch that no other answer has"
    observed = "epoch {response_producer_epoch}"
    because = (_GIVEN,)

    def applies(self) -> Column:
        given = col("producer_error_code") == Errors.NONE
        anew = F.coalesce(~col("expects"), F.lit(True))
        return col("event_type").isin(INIT_PRODUCER_ID, PRODUCER_INITIALIZED) & given & anew

    def verdict(self) -> tuple[Branch, ...]:
        is_line = col("event_type") == PRODUCER_INITIALIZED
        higher = col("given_epoch") > col("response_producer_epoch")
        repeats = col("given_epoch") == col("response_producer_epoch")
        used_higher = col("accepted_epoch") > col("response_producer_epoch")
        return first_of(
            unverifiable(
                col("response_producer_id").isNull(),
                "the request log does not print the answer",
                observed="the answer to {event_type} {correlation_id} is not printed",
                because=(),
            ),
            *breaches(
                higher | (repeats & ~is_line),
                TRANSACTION_STATE,
                "epoch {response_producer_epoch}, after the same coordinator had given {given_epoch}",
                _GIVEN,
            ),
            *breaches(
                col("used_ref").isNotNull() & (used_higher | ~is_line),
                TRANSACTION_STATE,
                "epoch {response_producer_epoch}, after the same coordinator had accepted a request in {accepted_epoch}",
                _GIVEN,
            ),
            *(
                unverifiable(
                    is_line & col(name).isNotNull(),
                    "whether the producer had asked for its own epoch again is not in the evidence (request log)",
                    expected="a producer epoch that no other answer has, if the request stated none",
                    observed=f"epoch {{response_producer_epoch}}, {observed}",
                )
                for name, observed in _REPEATED.items()
            ),
            *breaches(
                col("first_ref").isNotNull(),
                TRANSACTION_STATE,
                "another answer has epoch {response_producer_epoch}, too",
                _GIVEN,
            ),
            unverifiable(
                col("recent_ref").isNotNull(),
                "an epoch that is no lower was answered just before, and request lines may be written late",
                observed="epoch {response_producer_epoch}, less than a second after the same coordinator had given or accepted "
                "{recent_epoch}",
            ),
            otherwise=passed(observed="no other recorded answer has epoch {response_producer_epoch}"),
        )
