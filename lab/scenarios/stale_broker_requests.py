"""See the function's docstring."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from lab.cluster import Cluster
from lab.comparison import VIOLATION, Expected
from lab.processes import RunError, wait_for
from lab.raw_requests import MetadataState, RawSender, fenced_by
from lab.releases import KRAFT
from lab.scenario import scenario

NONE, UNKNOWN_TOPIC_OR_PARTITION, NOT_CONTROLLER, INVALID_REQUEST = 0, 3, 41, 42
OPERATION_NOT_ATTEMPTED, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, STALE_BROKER_EPOCH = 55, 74, 75, 77
INVALID_UPDATE_VERSION, UNKNOWN_TOPIC_ID, DUPLICATE_BROKER_REGISTRATION, INELIGIBLE_REPLICA = 95, 100, 101, 107

BROKER_EPOCHS_SINCE: Final = (3, 5)  # AlterPartition 3
DIRECTORIES_SINCE: Final = (3, 7)  # AssignReplicasToDirs
ALTER_PARTITION_2_SINCE: Final = (4, 0)  # which no longer serves 0 and 1
WITH_TOPIC_IDS, WITH_BROKER_EPOCHS = 2, 3  # versions of AlterPartition

LEADER, SHUT_DOWN, FENCED = 1, 2, 3  # the brokers, by what happens to them
STRANGER: Final = 9  # no broker
METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
NOT_STATED: Final = -1  # for a broker epoch
RECOVERED, RECOVERING = 0, 1
APART_SECONDS: Final = 2  # rules compare times that are a second apart


@scenario("orders", "side", modes=(KRAFT,))
def stale_broker_requests(cluster: Cluster) -> Expected:
    """A raw sender in brokers' places asks the controller what it must refuse, while brokers are fenced, shut down and unregistered.

    AlterPartition in other leader and partition epochs (IS-12), of a topic that does not exist (TI-03), of a broker that is not the leader
    (IS-13), with a RECOVERED leader that recovers (IS-17), and for an ISR with a fenced member (IS-01), one in controlled shutdown (IS-02),
    one that is not registered (IS-03), and one of another broker epoch (IS-04, from 3.5 on), each in the versions that the release has.
    AlterPartition, BrokerHeartbeat, AllocateProducerIds and, from 3.7 on, AssignReplicasToDirs under another broker epoch (BE-03);
    BrokerRegistration of an id that is alive (BE-05); Vote, BeginQuorumEpoch, EndQuorumEpoch and Fetch in other epochs of the quorum
    (RA-01). The report must have each judged as fenced by the rules named here, requests as they must be by none, and one violation: a
    refused ISR that is sent again (IS-11).
    """
    cluster.nodes[cluster.controller_ids[0]].stop()  # so that the quorum has an older epoch
    cluster.nodes[cluster.controller_ids[0]].start()
    cluster.wait_for_brokers(cluster.layout.brokers)
    cluster.create("orders", "1,2,3")
    cluster.create("side", "1,2")
    cluster.create("held", "2,3")  # a broker that leads nothing shuts down at once
    shop = cluster.producer("shop", ["orders-0"], "all")
    shop.send(10)
    raw = _Sender(cluster)
    former = raw.state().broker_epoch(LEADER)
    cluster.nodes[LEADER].stop()
    cluster.nodes[LEADER].start()
    cluster.wait_for_isr("orders", cluster.layout.brokers)
    cluster.wait_for_isr("side", [1, 2])
    for topic in ("orders", "side"):
        cluster.admin(f"elect preferred {topic} 0")
    time.sleep(APART_SECONDS)
    raw.other_epochs(former)
    raw.invalid_isrs()
    raw.other_epochs_of_the_quorum()

    cluster.nodes[FENCED].freeze()
    raw.wait("broker 3 is fenced", lambda state: state.is_fenced(FENCED))
    time.sleep(APART_SECONDS)
    raw.ineligible(FENCED, "fenced", "IS-01")
    raw.sent_again()
    cluster.nodes[FENCED].thaw()
    cluster.wait_for_isr("orders", cluster.layout.brokers)

    former = raw.state().broker_epoch(FENCED)
    cluster.nodes[FENCED].kill()
    raw.wait("broker 3 is fenced", lambda state: state.is_fenced(FENCED))
    cluster.nodes[FENCED].start()
    cluster.wait_for_isr("orders", cluster.layout.brokers)
    cluster.wait_for_isr("held", [SHUT_DOWN, FENCED])
    time.sleep(APART_SECONDS)
    raw.former_incarnation(former)

    _hold_shutdown(cluster, raw)

    former = raw.state().broker_epoch(FENCED)
    cluster.nodes[FENCED].kill()
    raw.wait("broker 3 is fenced", lambda state: state.is_fenced(FENCED))
    cluster.admin(f"unregister {FENCED}")
    time.sleep(APART_SECONDS)
    raw.ineligible(FENCED, "unregistered", "IS-03", former)
    raw.under_broker_epoch("an unregistered broker", FENCED, former)
    cluster.nodes[FENCED].start()
    cluster.wait_for_isr("orders", cluster.layout.brokers)
    shop.send(10)
    return Expected(requests=tuple(raw.requests))


def _hold_shutdown(cluster: Cluster, raw: _Sender) -> None:
    """A broker shuts down while another is frozen: the controller lets it go only after the frozen one is fenced."""
    cluster.nodes[FENCED].freeze()
    cluster.nodes[SHUT_DOWN].terminate()
    raw.wait("broker 2 is shutting down", lambda state: state.is_shutting_down(SHUT_DOWN))
    time.sleep(APART_SECONDS)
    raw.ineligible(SHUT_DOWN, "shutting down", "IS-02")
    if raw.state().is_fenced(SHUT_DOWN):
        raise RunError("the controlled shutdown of broker 2 has ended before all was sent: the machine is too slow")
    cluster.nodes[SHUT_DOWN].wait_until_stopped()
    cluster.nodes[FENCED].thaw()
    raw.wait("broker 2 is fenced", lambda state: state.is_fenced(SHUT_DOWN))
    cluster.wait_for_isr("orders", [LEADER, FENCED])
    time.sleep(APART_SECONDS)
    raw.ineligible(SHUT_DOWN, "shut down", "IS-01")
    cluster.nodes[SHUT_DOWN].start()
    cluster.wait_for_isr("orders", cluster.layout.brokers)
    cluster.wait_for_isr("held", [SHUT_DOWN, FENCED])


class _Sender(RawSender):
    """Requests about `orders-0`, which broker 1 leads, each right but for what its name says."""

    def __init__(self, cluster: Cluster) -> None:
        (controller, *_) = cluster.controller_ids
        super().__init__(cluster.raw_requests("raw", controller))
        self._cluster, self._controller, release = cluster, controller, cluster.release.number
        newest = WITH_BROKER_EPOCHS if release >= BROKER_EPOCHS_SINCE else WITH_TOPIC_IDS
        self._versions = range(WITH_TOPIC_IDS if release >= ALTER_PARTITION_2_SINCE else 0, newest + 1)
        self._newest = newest

    def wait(self, what: str, holds: Callable[[MetadataState], bool]) -> None:
        wait_for(what, lambda: holds(self.state()))

    def to_controller(
        self, name: str, api: str, version: int, fields: Mapping[str, Any], codes: tuple[int, ...], *rules: str
    ) -> None:
        """A request that these rules must judge as fenced."""
        self.send(self._controller, name, api, version, fields, codes, fenced_by(*rules))

    def alter(
        self,
        name: str,
        code: int,
        *rules: str,
        version: int | None = None,
        topic: str = "orders",
        partition: int = 0,
        sender: int = LEADER,
        isr: Sequence[int] | None = None,
        members: Mapping[int, int] | None = None,
        recovery: int = RECOVERED,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        broker_epoch: int | None = None,
    ) -> None:
        """AlterPartition. leader_epoch, partition_epoch: distance from the current ones. members: other broker epochs than registered."""
        state, version = self.state(), self._newest if version is None else version
        current = state.partitions.get((topic, 0)) or {**state.partitions["orders", 0], "topic_id": _new_id()}
        epochs = {number: state.broker_epoch(number) for number in state.brokers} | dict(members or {})
        requested = current["isr"] if isr is None else isr
        one = {
            "partition_index": partition,
            "leader_epoch": current["leader_epoch"] + leader_epoch,
            "partition_epoch": current["partition_epoch"] + partition_epoch,
            "new_isr": requested,
            "new_isr_with_epochs": [
                {"broker_id": number, "broker_epoch": epochs.get(number, NOT_STATED)} for number in requested
            ],
            "leader_recovery_state": recovery,
        }
        fields = {
            "broker_id": sender,
            "broker_epoch": epochs.get(sender, NOT_STATED) if broker_epoch is None else broker_epoch,
            "topics": [{"topic_name": topic, "topic_id": current["topic_id"], "partitions": [one]}],
        }
        codes = (code,) if code == STALE_BROKER_EPOCH else (NONE, code)
        self.to_controller(name, "ALTER_PARTITION", version, fields, codes, *rules)

    def other_epochs(self, former: int) -> None:
        """former: a broker epoch that the leader had before."""
        for version in self._versions:
            self.alter("as it must be", NONE, version=version)
            self.alter("older leader epoch", FENCED_LEADER_EPOCH, "IS-12", version=version, leader_epoch=-1)
            self.alter("newer leader epoch", NOT_CONTROLLER, "IS-12", version=version, leader_epoch=1)
            self.alter("older partition epoch", INVALID_UPDATE_VERSION, "IS-12", version=version, partition_epoch=-1)
            self.alter("newer partition epoch", NOT_CONTROLLER, "IS-12", version=version, partition_epoch=1)
            self.alter("both older", FENCED_LEADER_EPOCH, "IS-12", version=version, leader_epoch=-1, partition_epoch=-1)
            unknown = UNKNOWN_TOPIC_ID if version >= WITH_TOPIC_IDS else UNKNOWN_TOPIC_OR_PARTITION
            self.alter("unknown topic", unknown, "IS-12", "TI-03", version=version, topic="nothing")
        current = self.state().broker_epoch(LEADER)
        self.under_broker_epoch("a former incarnation", LEADER, former)
        self.under_broker_epoch("a later broker epoch", LEADER, current + 1000)
        self.under_broker_epoch("a stranger", STRANGER, current)
        self.to_controller(
            "as it must be", "ALLOCATE_PRODUCER_IDS", 0, {"broker_id": LEADER, "broker_epoch": current}, (NONE,)
        )
        fields = {
            "broker_id": SHUT_DOWN,
            "cluster_id": self._cluster.admin("cluster")["cluster_id"],
            "incarnation_id": _new_id(),
            "listeners": [],
            "features": [],
            "rack": None,
        }
        self.to_controller(
            "another incarnation", "BROKER_REGISTRATION", 0, fields, (DUPLICATE_BROKER_REGISTRATION,), "BE-05"
        )

    def under_broker_epoch(self, name: str, broker: int, epoch: int) -> None:
        """Each API that states the sender's broker epoch, under one that is not registered."""
        refused = (STALE_BROKER_EPOCH,)
        sender = {"broker_id": broker, "broker_epoch": epoch}
        for version in self._versions:
            self.alter(name, STALE_BROKER_EPOCH, "BE-03", version=version, sender=broker, broker_epoch=epoch)
        heartbeat = {**sender, "current_metadata_offset": 0, "want_fence": False, "want_shut_down": False}
        self.to_controller(name, "BROKER_HEARTBEAT", 0, heartbeat, refused, "BE-03")
        self.to_controller(name, "ALLOCATE_PRODUCER_IDS", 0, sender, refused, "BE-03")
        if self._cluster.release.number >= DIRECTORIES_SINCE:
            self.to_controller(name, "ASSIGN_REPLICAS_TO_DIRS", 0, {**sender, "directories": []}, refused, "BE-03")

    def invalid_isrs(self) -> None:
        for version in self._versions:
            self.alter("not of the leader", INVALID_REQUEST, "IS-12", "IS-13", version=version, sender=SHUT_DOWN)
            self.alter("without the leader", INVALID_REQUEST, "IS-12", version=version, isr=[2, 3])
            self.alter("no member", INVALID_REQUEST, "IS-12", version=version, isr=[])
            self.alter("a member twice", INVALID_REQUEST, "IS-12", version=version, isr=[1, 2, 2])
            self.alter(
                "a member outside the replicas", INVALID_REQUEST, "IS-12", version=version, topic="side", isr=[1, 2, 3]
            )
            self.alter("unknown partition", UNKNOWN_TOPIC_OR_PARTITION, "IS-12", version=version, partition=7)
            if version > 0:
                self.alter(
                    "recovering", INVALID_REQUEST, "IS-12", "IS-17", version=version, isr=[1], recovery=RECOVERING
                )
                self.alter(
                    "recovering with others", INVALID_REQUEST, "IS-12", "IS-17", version=version, recovery=RECOVERING
                )
        if self._newest >= WITH_BROKER_EPOCHS:
            epoch = self.state().broker_epoch(SHUT_DOWN)
            for name, stated in (("an older member", epoch - 1), ("a newer member", epoch + 1000)):
                self._of_other_epoch(name, {SHUT_DOWN: stated})
            self.alter("no stated broker epochs", NONE, members={2: NOT_STATED, 3: NOT_STATED})

    def _of_other_epoch(self, name: str, members: Mapping[int, int]) -> None:
        """And another request, so that the refused one is not followed by the same ISR (IS-11)."""
        self.alter(name, INELIGIBLE_REPLICA, "IS-04", members=members)
        self.alter(f"{name}, older leader epoch", FENCED_LEADER_EPOCH, "IS-12", members=members, leader_epoch=-1)

    def ineligible(self, member: int, name: str, rule: str, epoch: int = NOT_STATED) -> None:
        """ISRs with an ineligible member, and such with epochs of which the controller thinks first."""
        members = {} if epoch == NOT_STATED else {member: epoch}
        for version in self._versions:
            isr = sorted({*self.state().partitions["orders", 0]["isr"], member})
            refusal = INELIGIBLE_REPLICA if version >= WITH_TOPIC_IDS else OPERATION_NOT_ATTEMPTED
            of_version: dict[str, Any] = {"version": version, "isr": isr, "members": members}
            self.alter(f"{name} member", refusal, rule, **of_version)
            self.alter(
                f"{name} member, older leader epoch", FENCED_LEADER_EPOCH, "IS-12", **of_version, leader_epoch=-1
            )
            if version >= WITH_BROKER_EPOCHS:
                of_version["members"] = {member: NOT_STATED}
                self.alter(f"{name} member of no stated epoch", refusal, rule, **of_version)
            self.alter(
                f"{name} member, older partition epoch",
                INVALID_UPDATE_VERSION,
                "IS-12",
                **of_version,
                partition_epoch=-1,
            )

    def sent_again(self) -> None:
        """The same refused ISR twice, from a leader that has not gone back to the committed one."""
        for name in ("fenced member", "fenced member again"):
            self.alter(name, INELIGIBLE_REPLICA, "IS-01", isr=[1, 2, FENCED])
        first = self.requests[-2]
        self.requests[-2] = replace(first, findings=first.findings | {("IS-11", VIOLATION)})

    def former_incarnation(self, former: int) -> None:
        if self._newest >= WITH_BROKER_EPOCHS:
            self._of_other_epoch("a member of a former incarnation", {FENCED: former})
        self.under_broker_epoch("a former incarnation", FENCED, former)

    def other_epochs_of_the_quorum(self) -> None:
        quorum = self._cluster.admin("quorum")
        leader, current = quorum["leader"], quorum["leader_epoch"]
        for name, epoch, code in (
            ("an older epoch", current - 1, FENCED_LEADER_EPOCH),
            ("a newer epoch", current + 1, UNKNOWN_LEADER_EPOCH),
        ):
            self.to_controller(name, "FETCH", 13, _fetch(epoch), (NONE, code), "RA-01")
        partition = {
            "partition_index": 0,
            "candidate_epoch": current - 1,  # by its names up to 3.9 and from 4.0 on
            "candidate_id": leader,
            "replica_epoch": current - 1,
            "replica_id": leader,
            "last_offset_epoch": 0,
            "last_offset": 0,
            "leader_id": leader,
            "leader_epoch": current - 1,
            "preferred_successors": [],
        }
        fields = {"cluster_id": None, "topics": [{"topic_name": "__cluster_metadata", "partitions": [partition]}]}
        for api in ("VOTE", "BEGIN_QUORUM_EPOCH", "END_QUORUM_EPOCH"):
            self.to_controller("an older epoch", api, 0, fields, (NONE, FENCED_LEADER_EPOCH), "RA-01")


def _fetch(epoch: int) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": epoch,
        "fetch_offset": 0,
        "last_fetched_epoch": 0,
        "log_start_offset": 0,
        "partition_max_bytes": 100000,
    }
    return {
        "replica_id": NOT_STATED,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 100000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic_id": METADATA_TOPIC_ID, "partitions": [partition]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def _new_id() -> str:
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
