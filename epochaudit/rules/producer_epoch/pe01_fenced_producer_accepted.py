"""PE-01."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import TRANSACTION_STATE
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.reasons import NEWER_JUST_BEFORE
from epochaudit.rules.rule import CRITICAL, Branch, Rule, fenced, first_of, passed, rule, unverifiable

FENCING: Final = (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH, Errors.INVALID_PRODUCER_ID_MAPPING)
_LAST_EPOCH: Final = 32766  # TransactionMetadata.isEpochExhausted: then the transactional id gets another producer id

_ASKED = (
    "{event_type} {correlation_id} of {client_id} for transactional id {transactional_id} states epoch {producer_epoch}"
)
_GAVE = "coordinator {node} had given it epoch {given_epoch} of producer id {producer_id} before the request arrived"
_USED = "coordinator {node} had accepted epoch {accepted_epoch} of producer id {producer_id} before the request arrived"
_GAVE_ID = "coordinator {node} had replaced producer id {producer_id} by {given_id} before the request arrived"
_JUST = (
    "coordinator {node} had given or accepted epoch {recent_epoch} of producer id {producer_id} less than a second before the request "
    "arrived"
)
_JUST_ID = "coordinator {node} had replaced producer id {producer_id} by {recent_id} less than a second before the request arrived"
_ACCEPTED = "epoch {producer_epoch} of producer id {producer_id} was answered {producer_error_code}"
_ANY_NEWER = "an epoch that the coordinator has not replaced"


@rule("PE-01", frame="producer_requests", kip="KIP-98", severity=CRITICAL, since="1.0")
class FencedProducerAccepted(Rule):
    """A coordinator accepted a request of a producer whose epoch it had replaced: a zombie producer.

    ## What it checks
    Once a coordinator has given a transactional id a producer epoch, or accepted one that another coordinator gave, it must refuse lower
    ones, and other producer ids that it had given before: with 90 (PRODUCER_FENCED), or 47 (INVALID_PRODUCER_EPOCH) in older versions, or
    49 (INVALID_PRODUCER_ID_MAPPING). Judged are AddPartitionsToTxn (each partition), AddOffsetsToTxn, EndTxn, and InitProducerId that
    states an epoch.

    ## Why it matters
    The producer that took over relies on the former one being shut out. What a zombie adds to a transaction, or commits, is in the
    output as well: records come twice, or half a transaction becomes visible.

    ## Evidence needed
    The coordinators' request logs. The answer that gave the newer epoch must be of the same node, and must have
    been logged a second before the request arrived. If it was logged within that second, an accepted request is unverifiable, as lines may
    be written late. Instead of the answer counts an answer 0 to AddPartitionsToTxn, AddOffsetsToTxn, or EndTxn before version 5, in the
    newer epoch: coordinators accept these in their own epoch only. For a violation, the elections of __transaction_state:
    state-change.log or the metadata log.

    ## What is allowed
    An epoch that is as high, or higher. The retry of a lost answer: EndTxn 5 and InitProducerId with the epoch just before. After
    the last epoch of a producer id, its retry with the old id. InitProducerId that is answered another producer id, as the transactional
    id had expired. Other error codes are no verdict. 14 to 16 are answered before the epoch is compared, and so is 51
    (CONCURRENT_TRANSACTIONS): to InitProducerId, and from 4.0 on to the others, too. 48 (INVALID_TXN_STATE) is what some releases of 4.x
    answer under transaction version 2 to the commit of a transaction that the coordinator had aborted after its timeout (KAFKA-20785).

    Produce requests do not print the producer's epoch, and TxnOffsetCommit is answered by another coordinator: neither is judged.

    ## What to do
    Stop the former producer: its client id and `connection` are in the evidence. From 3.6 on brokers send AddPartitionsToTxn themselves
    (client id AddPartitionsManager-client-1, 1 being their id): then it is the producer that was given the lower epoch. Compare the
    output of the transactional id since the newer epoch was given with what its owner wrote. If two processes are configured with one
    `transactional.id`, give each its own. Exposed points to __transaction_state: set `transaction.state.log.replication.factor=3`,
    `transaction.state.log.min.isr=2` and `unclean.leader.election.enable=false`.

    ## Example
    A producer of transactional id pay is frozen in a transaction with epoch 3. Another process starts and is given epoch 5. The first
    goes on and commits with epoch 3: it is answered 0.

    ## References
    TransactionCoordinator.handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction, endTransaction and
    prepareInitProducerIdTransit; KIP-98; KIP-360; KIP-588; KIP-890.
    """

    evidence = {
        "the request and its answer": "request_ref",
        "the highest epoch that the coordinator had given before": "given_ref",
        "a request in a higher epoch that it had accepted before": "accepted_ref",
        "another producer id that it had given": "other_id_ref",
        "an answer in a higher epoch, less than a second before": "recent_ref",
        "an answer with another producer id, less than a second before": "recent_id_ref",
        **LOSS,
    }
    caused_by = ("PE-02", "TR-06", "AW-01")
    expected = "error {PRODUCER_FENCED}, {INVALID_PRODUCER_EPOCH} or {INVALID_PRODUCER_ID_MAPPING}"
    observed = _ACCEPTED
    because = (_ASKED,)

    def applies(self) -> Column:
        judged = col("event_type").isin(ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, INIT_PRODUCER_ID)
        return judged & col("expects") & col("producer_error_code").isin(Errors.NONE, *FENCING)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("producer_error_code").isin(*FENCING)
        is_replaced = col("producer_epoch") < col("least_epoch")
        initialises = col("event_type") == INIT_PRODUCER_ID
        just_older, just_replaced = col("recent_epoch").isNotNull(), col("recent_id").isNotNull()
        may_retry = (col("event_type") == END_TXN) | initialises
        last_of_id = may_retry & (col("producer_epoch") >= _LAST_EPOCH)
        return first_of(
            fenced(refused & is_replaced, because=(_ASKED, _GAVE, _USED)),
            fenced(refused & col("replaced"), because=(_ASKED, _GAVE_ID)),
            fenced(refused & (just_older | just_replaced), because=(_ASKED, _JUST, _JUST_ID)),
            fenced(refused, expected=f"{_ANY_NEWER}, or one of these errors"),
            passed(
                initialises & (col("response_producer_id") != col("producer_id")),
                expected="error {PRODUCER_FENCED}, or another producer id",
                observed="producer id {response_producer_id} in place of {producer_id}",
            ),
            *breaches(is_replaced, TRANSACTION_STATE, _ACCEPTED, _ASKED, _GAVE, _USED),
            unverifiable(just_older, NEWER_JUST_BEFORE, expected=_ANY_NEWER, because=(_ASKED, _JUST)),
            passed(
                (col("replaced") | just_replaced) & last_of_id,
                expected="the retry of a request that used up the epochs of the producer id",
            ),
            *breaches(col("replaced"), TRANSACTION_STATE, _ACCEPTED, _ASKED, _GAVE_ID),
            unverifiable(
                just_replaced,
                "another producer id was answered just before, and request lines may be written late",
                expected=_ANY_NEWER,
                because=(_ASKED, _JUST_ID),
            ),
            passed(
                col("given_epoch").isNull() & (col("lowest_epoch") <= col("producer_epoch")),
                expected=_ANY_NEWER,
                because=(
                    _ASKED,
                    "coordinator {node} had given or accepted no newer epoch before the request arrived",
                ),
            ),
            unverifiable(
                col("given_epoch").isNull(),
                "no answer in which this coordinator gave the producer id to the transactional id is in the evidence",
                expected=_ANY_NEWER,
            ),
            unverifiable(
                col("given_id") != col("producer_id"),
                "the answers that gave the transactional id two producer ids overlap",
                expected=_ANY_NEWER,
                because=(_ASKED, _GAVE),
            ),
            passed(
                col("producer_epoch") < col("given_epoch"),
                expected="the retry of a request whose answer may have been lost",
                because=(_ASKED, _GAVE),
            ),
            otherwise=passed(expected=_ANY_NEWER, because=(_ASKED, _GAVE)),
        )
