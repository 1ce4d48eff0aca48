"""Producer ids, producer epochs and transactions.

INIT_PRODUCER_ID 0-6, ALLOCATE_PRODUCER_IDS 0, ADD_PARTITIONS_TO_TXN 0-5, ADD_OFFSETS_TO_TXN 0-4, END_TXN 0-5, WRITE_TXN_MARKERS 0-2.
Printed as text (Kafka 1.0 to 2.7): INIT_PRODUCER_ID 0-4, ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN and END_TXN 0-2, WRITE_TXN_MARKERS 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from epochaudit.sources.request_log.apis.envelope import Api, Completed, Int32, Int64, Json, Row
from epochaudit.sources.request_log.apis.joining import joined


class InitRequest(Json):
    transactional_id: str | None
    producer_id: Int64 | None = None
    producer_epoch: Int32 | None = None
    keep_prepared_txn: bool | None = None


class InitResponse(Json):
    error_code: Int32
    producer_id: Int64
    producer_epoch: Int32


INIT_COLUMNS: Final = (
    "transactional_id", "producer_id", "producer_epoch", "keep_prepared_txn", "response_producer_id", "response_producer_epoch",
)  # fmt: skip


def init_producer_id(_: int, request: InitRequest, response: InitResponse | None) -> Iterable[Row]:
    """One row: the id and the epoch that the producer had, and those that the coordinator gave it, -1 with an error."""
    given = (None, None) if response is None else (response.producer_id, response.producer_epoch)
    return [(request.transactional_id, request.producer_id, request.producer_epoch, request.keep_prepared_txn, *given)]


class AllocateRequest(Json):
    broker_id: Int32
    broker_epoch: Int64


class AllocateResponse(Json):
    error_code: Int32
    producer_id_start: Int64
    producer_id_len: Int32


ALLOCATE_COLUMNS: Final = ("broker_id", "broker_epoch", "producer_id_start", "producer_id_len")


def allocate_producer_ids(_: int, request: AllocateRequest, response: AllocateResponse | None) -> Iterable[Row]:
    """One row: the broker, and the block of ids that the controller gave it."""
    block = (None, None) if response is None else (response.producer_id_start, response.producer_id_len)
    return [(request.broker_id, request.broker_epoch, *block)]


class AddedTopic(Json):
    name: str
    partitions: list[Int32]


class Transaction(Json):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int32
    verify_only: bool
    topics: list[AddedTopic]


class AddPartitionsRequest(Json):
    """Of several transactions from version 4. Of one below, under other names since 3.5."""

    transactions: list[Transaction] = []
    v3_and_below_transactional_id: str | None = None
    v3_and_below_producer_id: Int64 | None = None
    v3_and_below_producer_epoch: Int32 | None = None
    v3_and_below_topics: list[AddedTopic] = []
    transactional_id: str | None = None
    producer_id: Int64 | None = None
    producer_epoch: Int32 | None = None
    topics: list[AddedTopic] = []

    def asked(self) -> Iterator[tuple[str | None, Row, list[AddedTopic]]]:
        """(transactional id, its producer, topics) of each transaction."""
        for one in self.transactions:
            yield one.transactional_id, (one.producer_id, one.producer_epoch, one.verify_only), one.topics
        if self.v3_and_below_transactional_id is not None:
            producer: Row = (self.v3_and_below_producer_id, self.v3_and_below_producer_epoch, False)
            yield self.v3_and_below_transactional_id, producer, self.v3_and_below_topics
        if self.transactional_id is not None:
            yield self.transactional_id, (self.producer_id, self.producer_epoch, False), self.topics


class AddedPartition(Json):
    partition_index: Int32
    partition_error_code: Int32 | None = None
    error_code: Int32 | None = None  # its name up to 3.4


class AddedResult(Json):
    name: str
    results_by_partition: list[AddedPartition] = []
    results: list[AddedPartition] = []  # its name up to 3.4


class TransactionResult(Json):
    transactional_id: str
    topic_results: list[AddedResult]


class AddPartitionsResponse(Json):
    error_code: Int32 | None = None
    results_by_transaction: list[TransactionResult] = []
    results_by_topic_v3_and_below: list[AddedResult] = []
    results: list[AddedResult] = []  # its name up to 3.4

    def answered(self, only: str | None) -> Iterator[tuple[tuple[str | None, str, int], Row]]:
        """(transactional id, topic, partition) with its error code. only: the transactional id below version 4."""
        results = [(one.transactional_id, topic) for one in self.results_by_transaction for topic in one.topic_results]
        results += [(only or "", topic) for topic in (*self.results_by_topic_v3_and_below, *self.results)]
        for transactional_id, topic in results:
            for p in (*topic.results_by_partition, *topic.results):
                code = p.error_code if p.partition_error_code is None else p.partition_error_code
                yield (transactional_id, topic.name, p.partition_index), (code,)


ADD_PARTITIONS_COLUMNS: Final = (
    "transactional_id", "producer_id", "producer_epoch", "verify_only", "topic", "partition", "in_request", "in_response",
    "error_code",
)  # fmt: skip


def add_partitions(_: int, request: AddPartitionsRequest, response: AddPartitionsResponse | None) -> Iterable[Row]:
    """One row per transactional id and partition."""
    transactions = list(request.asked())
    producers = {transactional_id: producer for transactional_id, producer, _ in transactions}
    asked = (((name, t.name, p), True) for name, _, topics in transactions for t in topics for p in t.partitions)
    answered = () if response is None else response.answered(next(iter(producers), None))
    return [
        (key[0], *producers.get(key[0], (None,) * 3), *key[1:], question is not None, answer is not None,
         *(answer or (None,)))
        for key, question, answer in joined(asked, answered)
    ]  # fmt: skip


class AddOffsetsRequest(Json):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int32
    group_id: str


class Coded(Json):
    error_code: Int32


def add_offsets(_: int, request: AddOffsetsRequest, __: Coded | None) -> Iterable[Row]:
    """One row."""
    return [(request.transactional_id, request.producer_id, request.producer_epoch, request.group_id)]


class EndRequest(Json):
    transactional_id: str
    producer_id: Int64
    producer_epoch: Int32
    committed: bool


class EndResponse(Json):
    error_code: Int32
    producer_id: Int64 | None = None
    producer_epoch: Int32 | None = None


END_COLUMNS: Final = (
    "transactional_id", "producer_id", "producer_epoch", "committed", "response_producer_id", "response_producer_epoch",
)  # fmt: skip


def end_txn(_: int, request: EndRequest, response: EndResponse | None) -> Iterable[Row]:
    """One row: the outcome that was asked for, and from version 5 what the producer is to use next, -1 with an error."""
    given = (None, None) if response is None else (response.producer_id, response.producer_epoch)
    return [(request.transactional_id, request.producer_id, request.producer_epoch, request.committed, *given)]


class MarkedTopic(Json):
    name: str
    partition_indexes: list[Int32]


class Marker(Json):
    producer_id: Int64
    producer_epoch: Int32
    transaction_result: bool
    topics: list[MarkedTopic]
    coordinator_epoch: Int32
    transaction_version: Int32 | None = None


class MarkersRequest(Json):
    markers: list[Marker]


class WrittenPartition(Json):
    partition_index: Int32
    error_code: Int32


class WrittenTopic(Json):
    name: str
    partitions: list[WrittenPartition]


class Written(Json):
    producer_id: Int64
    topics: list[WrittenTopic]


class MarkersResponse(Json):
    markers: list[Written]


MARKERS_COLUMNS: Final = (
    "producer_id", "topic", "partition", "producer_epoch", "committed", "coordinator_epoch", "transaction_version", "in_request",
    "in_response", "error_code",
)  # fmt: skip


def write_txn_markers(_: int, request: MarkersRequest, response: MarkersResponse | None) -> Iterable[Row]:
    """One row per marker and partition.

    An answer names the producer id only. If a request has two markers of one producer id for a partition, neither has an answer.
    """
    marked = [((m.producer_id, t.name, p), m) for m in request.markers for t in m.topics for p in t.partition_indexes]
    times = Counter(key for key, _ in marked)
    markers = () if response is None else response.markers
    codes = {
        (one.producer_id, topic.name, p.partition_index): p.error_code
        for one in markers
        for topic in one.topics
        for p in topic.partitions
    }
    found: list[Row] = []
    for key, one in marked:
        code = codes.get(key) if times[key] == 1 else None
        marker = (one.producer_epoch, one.transaction_result, one.coordinator_epoch, one.transaction_version)
        found.append((*key, *marker, True, code is not None, code))
    return found


APIS: Final = (
    Api("INIT_PRODUCER_ID", 6, Completed[InitRequest, InitResponse], INIT_COLUMNS, init_producer_id),
    Api(
        "ALLOCATE_PRODUCER_IDS",
        0,
        Completed[AllocateRequest, AllocateResponse],
        ALLOCATE_COLUMNS,
        allocate_producer_ids,
    ),
    Api(
        "ADD_PARTITIONS_TO_TXN",
        5,
        Completed[AddPartitionsRequest, AddPartitionsResponse],
        ADD_PARTITIONS_COLUMNS,
        add_partitions,
    ),
    Api(
        "ADD_OFFSETS_TO_TXN",
        4,
        Completed[AddOffsetsRequest, Coded],
        ("transactional_id", "producer_id", "producer_epoch", "group_id"),
        add_offsets,
    ),
    Api("END_TXN", 5, Completed[EndRequest, EndResponse], END_COLUMNS, end_txn),
    Api("WRITE_TXN_MARKERS", 2, Completed[MarkersRequest, MarkersResponse], MARKERS_COLUMNS, write_txn_markers),
)
