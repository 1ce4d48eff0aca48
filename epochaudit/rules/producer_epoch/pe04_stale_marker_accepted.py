"""PE-04."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import OLDER_COORDINATOR_EPOCH, OLDER_PRODUCER_EPOCH, WRITE_TXN_MARKERS
from epochaudit.kafka.errors import Errors
from epochaudit.replay.data_plane.coordinator_logs import LOSSY, UNKNOWN
from epochaudit.rules.reasons import AMBIGUOUS_TOPIC, NEWER_JUST_BEFORE, PARTITION_ANSWER_MISSING
from epochaudit.rules.rule import (
    CRITICAL,
    Branch,
    OwnSentences,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

FENCING: Final = (Errors.TRANSACTION_COORDINATOR_FENCED, Errors.INVALID_PRODUCER_EPOCH)

_MARKER: Final = (
    "marker of producer id {producer_id} with coordinator epoch {coordinator_epoch} and producer epoch {producer_epoch}"
)
_ASKED: Final = "WriteTxnMarkers {correlation_id} of {client_id} has, for {topic}-{partition}, a " + _MARKER
_LOGGED: Final = "at offset {offset} the log of {topic}-{partition} on broker {node} has a " + _MARKER
_NEWER: Final = (
    "the partition had accepted a marker of the producer id with coordinator epoch {newer_coordinator_epoch} before",
    "the partition had accepted a marker of the producer id with producer epoch {newer_producer_epoch} before",
)
_REFUSED: Final = "error {TRANSACTION_COORDINATOR_FENCED} or {INVALID_PRODUCER_EPOCH}"
_NONE_NEWER: Final = "no lower coordinator epoch and no lower producer epoch than markers of the producer id had before"


@rule("PE-04", frame="transaction_markers", kip="KIP-98", severity=CRITICAL, since="1.0")
class StaleMarkerAccepted(Rule):
    """A leader accepted a transaction marker of a replaced coordinator, or a batch of a replaced producer epoch.

    ## What it checks
    A transaction ends with a marker in each of its partitions. The marker states the coordinator epoch, which is the leader epoch of the
    coordinator's partition of __transaction_state, and the producer epoch. For each producer id, a leader remembers the highest epochs
    that its log has. It must refuse a marker with a lower coordinator epoch with 52 (TRANSACTION_COORDINATOR_FENCED), and one with a
    lower producer epoch with 47 (INVALID_PRODUCER_EPOCH). So neither falls along the log of a partition. Three kinds of subjects: a
    partition of a marker in WriteTxnMarkers, the first and the last marker of each run with one coordinator epoch in a log, and the lines
    in which a replica finds a batch of an older epoch.

    ## Why it matters
    A replaced coordinator does not know how the transaction ended. Its marker may abort what its successor committed, or end a later
    transaction of the producer too early: consumers with `read_committed` then miss records, or get a part of a transaction. A
    replaced producer is a zombie, whose records come twice.

    ## Evidence needed
    Any of these: segments of the partition, or what `epochaudit collect` takes of them, or dumps with --deep-iteration; server.log of the
    replicas, which log the batches that they fetch and should not have been accepted (2.4.1 and later); request logs of the leaders.
    In a request log, the answer to the newer marker must be of the same node, and must have been logged a second
    before the other marker arrived. If it was logged within that second, an accepted marker is unverifiable, as lines may be written
    late. For a violation there, the elections of the partition: state-change.log or the metadata log.

    ## What is allowed
    Equal epochs: a marker is sent again until it is answered, and under transaction version 1 many transactions have one producer
    epoch. Any epochs of different producer ids. Administrators who abort a hanging transaction state its last coordinator epoch, or 0
    where there was none: the same fence holds for them. Exposed: a broker forgets a producer `producer.id.expiration.ms` after its last
    batch, a day by default (up to 3.3 `transactional.id.expiration.ms`), and then accepts any epoch.
    A line of a replica counts at any time, as the replica had not forgotten the producer. Other error codes are no verdict.

    Data batches of an older producer epoch are known by the lines of replicas only. Lines of 2.4.1 to 2.7 do not name the producer id.

    ## What to do
    Find out what the coordinators did: `Elected as the txn coordinator` in server.log, and the long pause of the one that was
    replaced. Compare the markers of the transaction in all its partitions (`kafka-dump-log --deep-iteration`): if they differ, a part of it
    was committed. Before 2.4.1 a leader forgot producers too early (KAFKA-9144), and may fail to start, as it refuses its own log: upgrade.

    ## Example
    Broker 1 coordinates in epoch 4 and is frozen. Broker 2 takes over in epoch 5 and aborts the transaction of producer id 7 in orders-0.
    Broker 1 goes on, and its marker of epoch 4 is accepted.

    ## References
    ProducerAppendInfo.checkCoordinatorEpoch and checkProducerEpoch, ProducerStateManager.isProducerExpired, EndTransactionMarker;
    KIP-98; KIP-664; KIP-890; KAFKA-9144.
    """

    evidence = {
        "the marker, or the line about the batch": "marker_ref",
        "a marker with a newer coordinator epoch before": "newer_coordinator_ref",
        "a marker with a newer producer epoch before": "newer_producer_ref",
        "an election of the partition that may have lost the newer marker": "lossy_election_ref",
        "the ISR of one broker before that election": "lossy_isr_ref",
    }
    caused_by = ("PE-03", "EP-01", "TR-06")
    expected = _REFUSED
    observed = "the marker was accepted"
    because = (_ASKED, *_NEWER)

    def applies(self) -> Column:
        return col("error_code").isNull() | col("error_code").isin(Errors.NONE, *FENCING)

    def verdict(self) -> tuple[Branch, ...]:
        of_request = col("event_type") == WRITE_TXN_MARKERS
        older = col("newer_coordinator_epoch").isNotNull() | col("newer_producer_epoch").isNotNull()
        asked: OwnSentences = {"because": (_ASKED, *_NEWER)}
        logged: OwnSentences = {"observed": "the marker is in the log", "because": (_LOGGED, *_NEWER)}
        forgotten = "the leader may have forgotten the producer id in between (producer.id.expiration.ms)"
        return first_of(
            fenced(col("error_code").isin(*FENCING), observed="error {error_code}"),
            unverifiable(
                of_request & col("error_code").isNull(),
                PARTITION_ANSWER_MISSING,
                expected=_NONE_NEWER,
                observed="the answer is not known",
            ),
            violation(
                col("event_type") == OLDER_COORDINATOR_EPOCH,
                observed="the marker is in the leader's log",
                because=(
                    "broker {node} found, at offset {offset} of {topic}-{partition}, a marker of producer id {producer_id}"
                    " with coordinator epoch {coordinator_epoch}",
                    "its log had one with coordinator epoch {last_epoch} before",
                ),
            ),
            violation(
                col("event_type") == OLDER_PRODUCER_EPOCH,
                expected="error {INVALID_PRODUCER_EPOCH}",
                observed="the batch is in the leader's log",
                because=(
                    "broker {node} found, at offset {offset} of {topic}-{partition}, a batch with producer epoch {producer_epoch}",
                    "the producer id is {producer_id}",
                    "its log had a batch of the producer id with producer epoch {last_epoch} before",
                ),
            ),
            unverifiable(older & col("ambiguous_name"), AMBIGUOUS_TOPIC, **asked),
            unverifiable(col("newer_just_before"), NEWER_JUST_BEFORE, **asked),
            exposed(of_request & col("expired"), forgotten, **asked),
            exposed(col("expired"), forgotten, **logged),
            exposed(
                older & (col("partition_log") == LOSSY),
                "an election of the partition was unclean or from an ISR of one, and may have lost the newer marker",
                **asked,
            ),
            exposed(
                older & (col("partition_log") == UNKNOWN),
                "whether an election of the partition was unclean is not in the evidence",
                **asked,
            ),
            violation(of_request & older, **asked),
            violation(older, **logged),
            passed(
                of_request,
                expected=_NONE_NEWER,
                observed="no newer marker had been accepted before",
                because=(_ASKED,),
            ),
            otherwise=passed(expected=_NONE_NEWER, observed="no marker in front of it is newer", because=(_LOGGED,)),
        )
