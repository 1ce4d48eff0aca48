"""Simulated transactional producers: they lose answers and ask again, are frozen while another process takes over, and wake up.

Java clients and others of several versions, with transaction version 1 and 2. The feature transaction.version changes now and then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from prove.coordination import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    INIT_PRODUCER_ID,
    NO_PRODUCER,
    AddsOffsets,
    AddsPartitions,
    GivesEpoch,
    OfProducer,
)
from prove.history import PRODUCERS, History, Release
from prove.simulators.coordinator_cluster import NOT_AVAILABLE, NOT_COORDINATOR
from prove.simulators.transactions import (
    BAD_STATE,
    FAULTS,
    FENCED,
    FENCED_BEFORE_2_7,
    OTHER_ID,
    TOPIC,
    Transaction,
    TransactionCluster,
)

RELEASES: Final = (
    Release(PRODUCERS, "3.3.2", "kraft", metadata_version=7),
    Release(PRODUCERS, "3.5.2", "kraft", metadata_version=11),
    Release(PRODUCERS, "3.9.1", "kraft", metadata_version=21),
    Release(PRODUCERS, "4.1.2", "kraft", metadata_version=25),
    Release(PRODUCERS, "4.3.1", "kraft", metadata_version=30),
)


@dataclass
class Producer:
    """A producer's process. bumps: it speaks transaction version 2. lost: its last request, whose answer did not arrive."""

    transactional_id: str
    client_id: str
    instance: str
    init: int
    bumps: bool
    producer_id: int = NO_PRODUCER
    epoch: int = NO_PRODUCER
    in_transaction: bool = False
    ends: bool | None = None
    fenced: bool = False
    coordinator: int | None = None


@dataclass
class ProducerCluster(TransactionCluster):
    """A cluster with transactional producers."""

    producers: list[Producer] = field(default_factory=list)
    transactional_ids: tuple[str, ...] = ("pay", "billing-7")

    def new_producer(self) -> None:
        """A process starts as the producer of a transactional id. Another one may still run."""
        name = self.choices.choice(self.transactional_ids)
        number = len(self.history.events)
        init = self.choices.choice([one for one in (0, 1, 2, 3, 4) if one >= 2 or self.chance(0.3)])
        bumps = self.version_2 and self.chance(0.75)
        client_id = self.choice_of_client_id(name, number)
        self.producers.append(
            Producer(name, client_id, f"{name}-{number}", 5 if bumps else init, bumps),
        )
        self.producers = self.producers[-5:]

    def choice_of_client_id(self, name: str, number: int) -> str:
        """Two processes of one transactional id may have one client id."""
        return self.choices.choice((f"producer-{name}", f"producer-{number}"))

    def act(self) -> None:
        """A producer does what comes next, or somebody starts an idempotent one."""
        if not self.producers or self.chance(0.12):
            self.new_producer()
        if self.chance(0.08):
            self._idempotent()
        weights = [1] * (len(self.producers) - 1) + [4]
        self._go_on(self.choices.choices(self.producers, weights)[0])
        if self.chance(0.6):
            self.complete()

    def _idempotent(self) -> None:
        up = [node.id for node in self.nodes.values() if node.up]
        if up:
            request = GivesEpoch(0, self.choices.choice(up), 0, api=INIT_PRODUCER_ID, version=4, client_id="writer")
            self.sent(request, len(self.history.events))
            self.init_producer_id(request)
            self.answered(request)

    def _go_on(self, one: Producer) -> None:
        """A producer's next request; it finds the coordinator anew now and then."""
        if one.coordinator is None or self.chance(0.1) or not self.nodes[one.coordinator].up:
            one.coordinator = self.coordinator(TOPIC, current=self.chance(0.8))
        if one.coordinator is None or (one.fenced and self.chance(0.5)):
            return
        if one.producer_id == NO_PRODUCER:
            self._initialise(one, NO_PRODUCER, NO_PRODUCER)
        elif one.ends is not None or (one.in_transaction and self.chance(0.4)):
            self._end(one)
        elif not one.in_transaction and one.init >= 3 and self.chance(0.15):
            self._initialise(one, one.producer_id, one.epoch)
        elif one.bumps and self.chance(0.1):
            self._end(one)
        elif not one.bumps and self.chance(0.25):
            self._add_offsets(one)
        else:
            self._add_partitions(one)

    def _heard(self, one: Producer, request: OfProducer, code: int) -> bool:
        """The producer gets the answer, and acts on an error. False: it does not get it, or there is an error."""
        if not self.heard(request):
            return False
        if code in (NOT_AVAILABLE, NOT_COORDINATOR):
            one.coordinator = self.coordinator(TOPIC)
        one.fenced = one.fenced or code in (FENCED, FENCED_BEFORE_2_7, OTHER_ID)
        if one.fenced and self.chance(0.5):
            one.fenced = False  # a client that does not care, or a fault of its own
        return code == 0

    def _initialise(self, one: Producer, producer_id: int, epoch: int) -> None:
        assert one.coordinator is not None
        request = GivesEpoch(
            0, one.coordinator, 0, api=INIT_PRODUCER_ID, version=one.init, client_id=one.client_id,
            transactional_id=one.transactional_id, producer_id=producer_id, producer_epoch=epoch,
        )  # fmt: skip
        self.sent(request, one.instance)
        self.init_producer_id(request)
        self.answered(request)
        if self._heard(one, request, request.error_code):
            one.producer_id, one.epoch = request.given_id, request.given_epoch
            one.in_transaction, one.ends = False, None

    def _end(self, one: Producer) -> None:
        assert one.coordinator is not None
        if one.ends is None or self.chance(0.05):
            one.ends = self.chance(0.7)
        request = GivesEpoch(
            0, one.coordinator, 0, api=END_TXN, version=5 if one.bumps else 3, client_id=one.client_id,
            transactional_id=one.transactional_id, producer_id=one.producer_id, producer_epoch=one.epoch, committed=one.ends,
        )  # fmt: skip
        self.sent(request, one.instance)
        self.end_txn(request)
        self.answered(request)
        if self._heard(one, request, request.error_code):
            one.in_transaction, one.ends = False, None
            if one.bumps:
                one.producer_id, one.epoch = request.given_id, request.given_epoch
        elif request.error_code == BAD_STATE:
            one.in_transaction, one.ends = False, None

    def _add_partitions(self, one: Producer) -> None:
        """By the producer; or, of version 2 and to verify, by the leader of a partition to which it writes."""
        assert one.coordinator is not None
        verify = not one.bumps and self.release.version >= "3.6" and self.chance(0.4)
        partitions = self.choices.sample((("orders", 0), ("orders", 1), ("payments", 0)), self.choices.choice((1, 2)))
        request = AddsPartitions(
            0, one.coordinator, 0, api=ADD_PARTITIONS_TO_TXN, version=3, client_id=one.client_id,
            transactional_id=one.transactional_id, producer_id=one.producer_id, producer_epoch=one.epoch,
            verify_only=verify, codes=tuple((partition, 0) for partition in sorted(partitions)),
        )  # fmt: skip
        if one.bumps or verify:
            request.client_id = f"AddPartitionsManager-client-{one.coordinator}"
            request.version = 5 if one.bumps else 4
        self.sent(request, "manager" if one.bumps or verify else one.instance)
        self.add_partitions(request)
        self.answered(request)
        if self._heard(one, request, max(code for _, code in request.codes)):
            one.in_transaction = True

    def _add_offsets(self, one: Producer) -> None:
        assert one.coordinator is not None
        request = AddsOffsets(
            0, one.coordinator, 0, api=ADD_OFFSETS_TO_TXN, version=3, client_id=one.client_id,
            transactional_id=one.transactional_id, producer_id=one.producer_id, producer_epoch=one.epoch, group_id="billing",
        )  # fmt: skip
        self.sent(request, one.instance)
        self.add_offsets(request)
        self.answered(request)
        if self._heard(one, request, request.error_code):
            one.in_transaction = True

    def change_version(self) -> None:
        """The feature transaction.version is raised or lowered. Producers follow between two transactions, or do not."""
        if not self.release.version.startswith("4"):
            return
        self.version_2 = not self.version_2
        for one in self.producers:
            if not one.in_transaction and self.chance(0.7):
                one.bumps = self.version_2

    # -- the whole

    def run(self, steps: int) -> History:
        """Let the cluster start, and take steps. Some transactional ids are older than the recorded part."""
        self.version_2 = self.release.version.startswith("4") and self.chance(0.75)
        self.fences_twice = self.chance(0.5)
        before = {
            name: Transaction(700 + number, self.choices.choice((3, 3, 32_760, 32_763)))
            for number, name in enumerate(self.transactional_ids)
            if self.chance(0.4)
        }
        self.begin()
        self.make_log(TOPIC, before)
        self.publish_all()
        for _ in range(4 * steps):
            step = self.choices.choices(
                (self.act, self.disturb, self.time_out, self.expire_transactional_id, self.change_version),
                (20, 3, 0.6, 0.25, 0.2),
            )[0]
            step()
            self.pass_time(*self.choices.choice(((10, 90), (10, 900), (1100, 2500), (1500, 4000))))
        self.complete()
        self.end_history()
        self.log_slow_answers()
        return self.history


def simulate(name: str, release: Release, choices: Random, steps: int, *, faulty: bool) -> History:
    """A history of a cluster with transactional producers. faulty: breaches are planted."""
    return ProducerCluster(name, release, choices, faulty, chances=FAULTS).run(steps)
