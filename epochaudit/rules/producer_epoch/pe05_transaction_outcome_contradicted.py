"""PE-05."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.kafka.field_values import EPOCH_BUMP_TRANSACTION_VERSION
from epochaudit.replay.data_plane.coordinator_logs import TRANSACTION_STATE
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.rule import CRITICAL, Branch, Rule, exposed, first_of, passed, rule, unverifiable

_PRODUCER = "transactional id {transactional_id}, producer id {producer_id}"
_TWO_ENDS = "an EndTxn that commits and one that aborts were both answered {NONE}"
_TWO_MARKERS = "leaders accepted a marker that commits and one that aborts"
_DIFFERS = "the EndTxn that was answered {NONE} and a marker that the leader of {topic}-{partition} accepted differ"
_EPOCH = "under transaction version 2, only this transaction has markers of epoch {marker_epoch}"


@rule("PE-05", frame="transaction_outcomes", kip="KIP-890", severity=CRITICAL, since="4.0")
class TransactionOutcomeContradicted(Rule):
    """A transaction was committed and aborted.

    ## What it checks
    Under transaction version 2, each transaction has a producer epoch of its own: EndTxn 5 states it, and the markers have the next one.
    All EndTxn that were answered 0 and all markers that leaders accepted must agree on one outcome. The subject is a transaction: a
    producer id and the epoch of its markers.

    ## Why it matters
    The producer got the answer that its transaction is committed, and consumers with `read_committed` do not get a part of
    its records. Or they get records that were aborted, and that the producer sends once more.

    ## Evidence needed
    Request logs as JSON of coordinators (EndTxn 5, 4.0 and later) and of the partitions' leaders (WriteTxnMarkers). No clocks are compared.
    For a violation: WriteTxnMarkers 2, which states the transaction version, or two EndTxn; and the elections of __transaction_state.

    ## What is allowed
    Repeated requests and markers with one outcome. A transaction without markers, which had no partition. Transactions of version 1, many
    of which share an epoch: clients before 4.0, or `transaction.version` below 2. If that was lowered while a producer ran, a transaction
    of version 1 may have the epoch of markers of version 2. The verdict is unverifiable where EndTxn 4 shows such a transaction, and
    exposed where the marker's request has no version. Markers of an administrator (KIP-664) are not judged, nor the last epoch of a
    producer id.

    ## What to do
    Dump the partition with `kafka-dump-log.sh` around the marker, and compare what `read_committed` consumers got with what the producer
    had sent in this transaction. Keep the logs of the coordinator and of the leader: this points to a fault in Kafka, unless an election
    of __transaction_state lost the outcome.

    ## Example
    EndTxn of producer id 7, epoch 3, commits and is answered 0 with epoch 4. The leader of orders-0 accepts a marker of epoch 4 that
    aborts.

    ## References
    TransactionCoordinator.endTransaction; TransactionMetadata.prepareAbortOrCommit; WriteTxnMarkersRequest; KIP-890.
    """

    evidence = {
        "the EndTxn that commits": "committed_ref",
        "the EndTxn that aborts": "aborted_ref",
        "a marker that commits": "committed_marker_ref",
        "a marker that aborts": "aborted_marker_ref",
        **LOSS,
    }
    caused_by = ("PE-01", "TR-06", "AW-01")
    expected = "one outcome of the transaction of producer id {producer_id} with markers of epoch {marker_epoch}"
    observed = _DIFFERS
    because = (_PRODUCER, _EPOCH)

    def applies(self) -> Column:
        ended = col("committed_ref").isNotNull() | col("aborted_ref").isNotNull()
        return ended | self._stated("committed") | self._stated("aborted")

    @staticmethod
    def _stated(outcome: str) -> Column:
        """All markers with that outcome are of transaction version 2."""
        version = col(f"{outcome}_marker_version")
        return version >= EPOCH_BUMP_TRANSACTION_VERSION

    def verdict(self) -> tuple[Branch, ...]:
        commits, aborts = col("committed_ref").isNotNull(), col("aborted_ref").isNotNull()
        differs = {"aborted": commits & col("aborted_marked"), "committed": aborts & col("committed_marked")}
        differ = differs["aborted"] | differs["committed"]
        certain = (differs["aborted"] & self._stated("aborted")) | (differs["committed"] & self._stated("committed"))
        other = F.when(differs["aborted"], col("aborted_marker_version")).otherwise(col("committed_marker_version"))
        below = other < EPOCH_BUMP_TRANSACTION_VERSION
        return first_of(
            *breaches(commits & aborts, TRANSACTION_STATE, _TWO_ENDS, _PRODUCER),
            unverifiable(
                differ & (col("ended_otherwise") | below),
                "a transaction of version 1 has the same epoch: they cannot be distinguished",
                because=(_PRODUCER,),
            ),
            *breaches(certain, TRANSACTION_STATE, _DIFFERS, _PRODUCER, _EPOCH),
            exposed(
                differ,
                "the marker's request does not state whether it is of a transaction of version 1 with the same epoch",
                because=(_PRODUCER,),
            ),
            *breaches(self._stated("committed") & self._stated("aborted"), TRANSACTION_STATE, _TWO_MARKERS, _EPOCH),
            otherwise=passed(
                observed="no EndTxn that was answered {NONE} and no accepted marker in the evidence differs", because=()
            ),
        )
