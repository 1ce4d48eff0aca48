"""Simulated transaction coordinators.

Coordinators follow TransactionCoordinator and TransactionMetadata of 3.3 to 4.3 (handleInitProducerId, prepareInitProducerIdTransit,
handleAddPartitionsToTransaction, endTransaction), with transaction version 1 and with version 2, which raises the epoch with each
transaction.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from prove.coordination import (
    ALLOCATE_PRODUCER_IDS,
    EPOCH_BUMP,
    LAST_EPOCH,
    NO_PRODUCER,
    WRITE_TXN_MARKERS,
    AddsOffsets,
    AddsPartitions,
    AllocatesIds,
    GivesEpoch,
    Initialized,
    OfProducer,
    TopicPartition,
    WritesMarkers,
)
from prove.simulators.coordinator_cluster import LOADING, CoordinatorCluster
from prove.simulators.quorum_cluster import CONTROLLER

TOPIC: Final = "__transaction_state"
BLOCK: Final = 1000

FAULTS: Final = {
    "replaced producer is obeyed": 0.7,
    "producer epoch is given again": 0.1,
    "producer id is given again": 0.3,
    "block of ids is given again": 0.3,
    "outcome is turned round": 0.1,
    "marker of older epochs is accepted": 0.8,
}
"""What a coordinator or a controller does wrong, and how often when it can."""

FENCED, FENCED_BEFORE_2_7, OTHER_ID, BAD_STATE, CONCURRENT, ABORTABLE = 90, 47, 49, 48, 51, 120
EMPTY, ONGOING, PREPARE, COMPLETE = "Empty", "Ongoing", "Prepare", "Complete"


@dataclass
class Transaction:
    """TransactionMetadata. commits: of Prepare and Complete. bumps: the transaction is of version 2."""

    producer_id: int
    epoch: int = NO_PRODUCER
    last_epoch: int = NO_PRODUCER
    previous_id: int = NO_PRODUCER
    next_id: int = NO_PRODUCER
    state: str = EMPTY
    commits: bool = False
    bumps: bool = False
    partitions: tuple[TopicPartition, ...] = ()


@dataclass
class TransactionCluster(CoordinatorCluster):
    """A cluster with transactional producers. blocks: broker -> (next producer id, first one that it does not have).

    marked: the highest producer epoch and coordinator epoch of the markers that a partition has of a producer id.
    """

    blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    next_block: int = 1000
    given_ids: list[int] = field(default_factory=list)
    marked: dict[tuple[TopicPartition, int], tuple[int, int]] = field(default_factory=dict)
    fences_twice: bool = True
    version_2: bool = False

    # -- producer ids

    def booted(self, broker: int) -> None:
        """A new process asks for a new block of producer ids: it throws the rest of the former one's away."""
        self.blocks.pop(broker, None)

    def allocate(self, broker: int) -> bool:
        """A broker asks the controller for a block of producer ids. The answer may get lost."""
        epoch = self.registrations[broker].broker_epoch
        request = AllocatesIds(0, CONTROLLER, 0, api=ALLOCATE_PRODUCER_IDS, client_id=str(broker))
        request.broker_id, request.broker_epoch = broker, epoch
        self.sent(request, broker)
        if self.nodes[broker].isolated or self.chance(0.05):
            request.error_code = 41  # NOT_CONTROLLER
            self.answered(request)
            return False
        start = self.next_block
        if start > 1000 and self.takes("block of ids is given again"):
            start -= BLOCK
        self.next_block = start + BLOCK
        self.write(
            (
                "PRODUCER_IDS_RECORD",
                0,
                {"brokerId": broker, "brokerEpoch": epoch, "nextProducerId": self.next_block},
            )
        )
        request.start, request.length = start, BLOCK
        self.answered(request)
        if self.chance(0.1):
            return False
        used = self.choices.choice((0, 0, BLOCK - 2))  # others have used the rest
        self.blocks[broker] = start + used, start + BLOCK
        return True

    def new_id(self, broker: int) -> int | None:
        """The next producer id of a broker; None: it has none."""
        if self.given_ids and self.takes("producer id is given again"):
            return self.choices.choice(self.given_ids)
        next_id, end = self.blocks.get(broker, (0, 0))
        if next_id >= end:
            if not self.allocate(broker):
                return None
            next_id, end = self.blocks[broker]
        self.blocks[broker] = next_id + 1, end
        self.given_ids.append(next_id)
        return next_id

    # -- coordinators

    def memory(self, node: int) -> dict[str, Transaction]:
        """The transactions that a coordinator has in memory."""
        found: dict[str, Transaction] = self.nodes[node].memory[TOPIC]
        return found

    def _written(self, node: int, transactional_id: str, changed: Transaction) -> int:
        """Put a transaction into memory and the log, or neither."""
        memory = self.memory(node)
        before = memory.get(transactional_id)
        memory[transactional_id] = changed
        code = self.persists(node, TOPIC)
        if code and before is None:
            del memory[transactional_id]
        elif code and before is not None:
            memory[transactional_id] = before
        return code

    def loaded(self, stored: dict[str, Transaction]) -> dict[str, Transaction]:
        """TransactionLog keeps neither the last epoch nor, before 4.0, the previous id."""
        for one in stored.values():
            if not self.release.version.startswith("4"):
                one.last_epoch, one.previous_id = NO_PRODUCER, NO_PRODUCER
            elif not one.bumps:
                one.last_epoch = NO_PRODUCER
        return stored

    def init_producer_id(self, request: GivesEpoch) -> None:
        """TransactionCoordinator.handleInitProducerId."""
        node, name = request.node, request.transactional_id
        if name is None:
            given = self.new_id(node)
            request.error_code = LOADING if given is None else 0
            request.given_id, request.given_epoch = (NO_PRODUCER, NO_PRODUCER) if given is None else (given, 0)
            return
        request.error_code = self.coordinates(node, TOPIC)
        if request.error_code:
            return
        one = deepcopy(self.memory(node).get(name))
        if one is None:
            given = self.new_id(node)
            if given is None:
                request.error_code = LOADING
                return
            one = Transaction(given)
        request.error_code = self._init(request, node, name, one)
        if not request.error_code:
            request.error_code = self._written(node, name, one)
        if not request.error_code:
            request.given_id, request.given_epoch = one.producer_id, one.epoch
            line = Initialized(self._next(), node, self.clock(node), name, one.producer_id, one.epoch)
            self.history.events.append(line)

    def _init(self, request: GivesEpoch, node: int, name: str, one: Transaction) -> int:
        """TransactionCoordinator.prepareInitProducerIdTransit."""
        expects, epoch = request.producer_id != NO_PRODUCER, request.producer_epoch
        own = one.epoch == NO_PRODUCER or request.producer_id == one.producer_id
        retries = request.producer_id == one.previous_id and epoch >= LAST_EPOCH
        if expects and not own and not retries:
            return FENCED if request.version >= 4 else FENCED_BEFORE_2_7
        if one.state == PREPARE:
            return CONCURRENT
        if one.state == ONGOING:
            return self._fence(node, name) or CONCURRENT
        if one.epoch >= LAST_EPOCH and (not expects or epoch == one.epoch):
            given = self.new_id(node)
            if given is None:
                return LOADING
            one.previous_id, one.last_epoch = one.producer_id, one.epoch if expects else NO_PRODUCER
            one.producer_id, one.epoch = given, 0
        elif not expects and one.epoch >= 0 and self.takes("producer epoch is given again"):
            pass
        elif not expects or one.epoch == NO_PRODUCER:
            one.epoch, one.last_epoch = one.epoch + 1, NO_PRODUCER
        elif epoch == one.epoch:
            one.epoch, one.last_epoch = one.epoch + 1, one.epoch
        elif epoch != one.last_epoch:
            if epoch >= 0 and self.takes("replaced producer is obeyed"):
                one.epoch += 1
            else:
                return FENCED if request.version >= 4 else FENCED_BEFORE_2_7
        one.state, one.partitions, one.next_id = EMPTY, (), NO_PRODUCER
        return 0

    def _fence(self, node: int, name: str) -> int:
        """Abort an ongoing transaction under a new epoch, which nobody is given."""
        one = deepcopy(self.memory(node)[name])
        one.epoch, one.last_epoch = one.epoch + 1, NO_PRODUCER
        one.bumps = self.version_2
        if one.bumps and self.fences_twice:
            one.last_epoch, one.epoch = one.epoch, one.epoch + 1
        one.state, one.commits = PREPARE, False
        return self._written(node, name, one)

    def time_out(self) -> None:
        """A coordinator aborts a transaction that takes too long."""
        node = self.coordinator(TOPIC)
        if node is None or TOPIC not in self.nodes[node].leads:
            return
        ongoing = [name for name, one in self.memory(node).items() if one.state == ONGOING]
        if ongoing:
            self._fence(node, self.choices.choice(ongoing))

    def complete(self) -> None:
        """Coordinators write the markers of what is prepared. Those of a former coordinator go on too."""
        for broker in self.nodes.values():
            if not broker.up or TOPIC not in broker.leads:
                continue
            for name, one in list(self.memory(broker.id).items()):
                if one.state == PREPARE and self.chance(0.7):
                    self._complete(broker.id, name, deepcopy(one))

    def _complete(self, node: int, name: str, one: Transaction) -> None:
        for partition in one.partitions:
            if not self._mark(node, one, partition):
                return
        one.state, one.partitions = COMPLETE, ()
        if one.bumps and one.next_id != NO_PRODUCER:
            one.previous_id, one.producer_id, one.epoch, one.next_id = one.producer_id, one.next_id, 0, NO_PRODUCER
        self._written(node, name, one)

    def _mark(self, node: int, one: Transaction, partition: TopicPartition) -> bool:
        """The leader of a partition takes a marker. Returns whether its answer has arrived."""
        up = [broker.id for broker in self.nodes.values() if broker.up]
        leader = self.choices.choice((*up, *(up[partition[1] % len(up)],) * 6))  # mostly the same one
        stated = int(one.bumps) + 1 if self.release.version >= "4.2" else None
        request = WritesMarkers(
            0, leader, 0, api=WRITE_TXN_MARKERS, version=1 if stated is None else 2, client_id=f"broker-{node}-txn-marker-sender",
            producer_id=one.producer_id, producer_epoch=one.epoch, committed=one.commits,
            coordinator_epoch=self.nodes[node].leads[TOPIC], transaction_version=stated,
        )  # fmt: skip
        self.sent(request, "markers", node)
        code = self.choices.choice((0, 0, 0, 0, 6))  # NOT_LEADER_OR_FOLLOWER
        if not code:
            code = self._compared(partition, request)
        if not code and self.takes("outcome is turned round"):
            request.committed = not request.committed
        request.codes = ((partition, code),)
        self.answered(request)
        return not code and self.chance(0.9)

    def _compared(self, partition: TopicPartition, request: WritesMarkers) -> int:
        """ProducerAppendInfo.appendEndTxnMarker. All replicas have accepted markers."""
        producer_epoch, coordinator_epoch = self.marked.get(
            (partition, request.producer_id), (NO_PRODUCER, NO_PRODUCER)
        )
        code = 0
        if request.producer_epoch < producer_epoch:
            code = 47  # INVALID_PRODUCER_EPOCH
        elif request.coordinator_epoch < coordinator_epoch:
            code = 52  # TRANSACTION_COORDINATOR_FENCED
        if code and not self.takes("marker of older epochs is accepted"):
            return code
        newest = max(producer_epoch, request.producer_epoch), max(coordinator_epoch, request.coordinator_epoch)
        self.marked[partition, request.producer_id] = newest
        return 0

    def add_partitions(self, request: AddsPartitions) -> None:
        """handleAddPartitionsToTransaction and handleVerifyPartitionsInTransaction."""
        node, name = request.node, request.transactional_id or ""
        code = self.coordinates(node, TOPIC)
        partitions = [partition for partition, _ in request.codes]
        one = None if code else deepcopy(self.memory(node).get(name))
        if not code:
            code = self._checked(request, one, FENCED if request.version >= 2 else FENCED_BEFORE_2_7)
        if not code and one is not None and one.state == PREPARE:
            code = CONCURRENT
        if code or one is None:
            request.codes = tuple((partition, code) for partition in partitions)
            return
        if request.verify_only:
            request.codes = tuple((p, 0 if p in one.partitions else ABORTABLE) for p in partitions)
            return
        if one.state != ONGOING or not {*partitions} <= {*one.partitions}:
            unchanged = one.partitions if one.state == ONGOING else ()
            one.state, one.partitions = ONGOING, tuple(dict.fromkeys((*unchanged, *partitions)))
            one.bumps = request.version >= 5
            code = self._written(node, name, one)
        request.codes = tuple((partition, code) for partition in partitions)

    def _checked(self, request: OfProducer, one: Transaction | None, fenced: int) -> int:
        """Whether the request is of the current producer."""
        if one is None:
            return OTHER_ID
        other = request.producer_id != one.producer_id
        if (other or request.producer_epoch != one.epoch) and not self._obeyed(request, one):
            return OTHER_ID if other else fenced
        return 0

    def _obeyed(self, request: OfProducer, one: Transaction) -> bool:
        replaced = request.producer_id != one.producer_id or request.producer_epoch < one.epoch - 1
        return replaced and self.takes("replaced producer is obeyed")

    def add_offsets(self, request: AddsOffsets) -> None:
        """A group's offsets become part of the transaction."""
        node, name = request.node, request.transactional_id or ""
        asked = AddsPartitions(
            0, node, 0, version=request.version, transactional_id=name, producer_id=request.producer_id,
            producer_epoch=request.producer_epoch, codes=((("__consumer_offsets", 3), 0),),
        )  # fmt: skip
        self.add_partitions(asked)
        request.error_code = asked.codes[0][1]

    def end_txn(self, request: GivesEpoch) -> None:
        """TransactionCoordinator.endTransaction."""
        node, name = request.node, request.transactional_id or ""
        request.error_code = self.coordinates(node, TOPIC)
        if request.error_code:
            return
        one = deepcopy(self.memory(node).get(name))
        bumps = request.version >= EPOCH_BUMP
        fenced = FENCED if request.version >= 2 else FENCED_BEFORE_2_7
        if one is None:
            request.error_code = OTHER_ID
            return
        retry = bumps and one.bumps and one.state in (PREPARE, COMPLETE) and self._retries(request, one)
        if not retry:
            request.error_code = self._checked(request, one, fenced)
        if not request.error_code:
            request.error_code = self._ended(request, name, one, retry=retry, bumps=bumps)
        if not request.error_code and bumps:
            request.given_id, request.given_epoch = one.producer_id, one.epoch
            if one.next_id != NO_PRODUCER:
                request.given_id, request.given_epoch = one.next_id, 0

    @staticmethod
    def _retries(request: GivesEpoch, one: Transaction) -> bool:
        """The producer had no answer to its EndTxn 5, and sends it again."""
        if request.producer_id == one.producer_id and request.producer_epoch + 1 == one.epoch:
            return True
        used_up = request.producer_id == one.previous_id and request.producer_epoch == LAST_EPOCH
        return used_up and one.epoch == 0 and one.state == COMPLETE

    def _ended(self, request: GivesEpoch, name: str, one: Transaction, *, retry: bool, bumps: bool) -> int:
        """By the transaction's state, after its producer was checked."""
        if one.state == PREPARE:
            return CONCURRENT if one.commits == request.committed else BAD_STATE
        if one.state == COMPLETE and (retry or not bumps):
            return 0 if one.commits == request.committed else BAD_STATE
        if one.state != ONGOING and (request.committed or not bumps):
            return BAD_STATE
        if bumps:
            if one.epoch >= LAST_EPOCH:
                given = self.new_id(request.node)
                if given is None:
                    return LOADING
                one.next_id = given
            one.last_epoch, one.epoch = one.epoch, one.epoch + 1
        if one.state != ONGOING:
            one.partitions = ()
        one.state, one.commits, one.bumps = PREPARE, request.committed, bumps
        return self._written(request.node, name, one)

    def expire_transactional_id(self) -> None:
        """A coordinator forgets a transactional id that was not used for long."""
        node = self.coordinator(TOPIC)
        if node is None or TOPIC not in self.nodes[node].leads:
            return
        idle = [name for name, one in self.memory(node).items() if one.state in (EMPTY, COMPLETE)]
        if idle:
            removed = self.choices.choice(idle)
            before = self.memory(node).pop(removed)
            if self.persists(node, TOPIC):
                self.memory(node)[removed] = before
