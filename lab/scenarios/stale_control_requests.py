"""See the function's docstring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.control_requests import (
    EPOCH_DURING_DELETE,
    LEADER_AND_ISR,
    LEADER_DURING_DELETE,
    LEADER_EPOCH_IN_STOP_REPLICA,
    NO_EPOCH,
    STOP_REPLICA,
    TOPIC_ID_IN_LEADER_AND_ISR,
    UPDATE_METADATA,
    ControlRequest,
    Epochs,
    Replicas,
    version_of,
)
from lab.processes import RunError, wait_for
from lab.raw_requests import MetadataState, RawSender
from lab.releases import ZOOKEEPER
from lab.scenario import scenario

FENCED: Final = "orders"  # gets what every release refuses
LOST: Final = "ledger"  # whose leader deletes its log
RECREATED: Final = "sessions"  # gets what was meant for the former topic of its name
# Each of these gets one request that a release applies.
STOPPED, HALTED, DELETED, OLDER, REVIVED, REPEATED, PUBLISHED = SCRATCH = (
    "stopped",
    "halted",
    "deleted",
    "older",
    "revived",
    "repeated",
    "published",
)
ANOTHER_TOPIC: Final = "zzzzzzzzQQyzzzzzzzzzzA"
OLDER_VERSION: Final = 2  # of StopReplica: what a controller of 2.5 sends
RECORDS: Final = 20
# What else the logs may show of the loss: the leader's epoch cache and high watermark, and its followers' truncation.
OF_AN_EMPTIED_LOG: Final = ("EP-04", "HW-01", "TR-07")
FORMER_PRODUCER: Final = "mobile"


class _Sender(RawSender):
    """Requests in a controller's place, each about partition 0 and right but for the fields that are named."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.control_requests("sender"))
        self.cluster = cluster
        self.replicas = Replicas(tuple(map(int, cluster.release.version.split("."))))

    def version(self, api: str) -> int:
        """That of the release's controllers."""
        return version_of(api, self.cluster.release.number)

    def request(
        self,
        api: str,
        broker: int,
        topic: str,
        version: int | None = None,
        *,
        controller_id: int | None = None,
        leader: int | None = None,
        delete_partition: bool = False,
        **epochs: Any,
    ) -> None:
        """epochs: fields of `Epochs`. What is not named is as ZooKeeper has it."""
        state, number = self.state(), self.version(api) if version is None else version
        partition = state.partitions[topic, 0]
        current = Epochs(
            int(state.controller_epoch or 0),
            state.broker_epoch(broker),
            partition["leader_epoch"],
            partition["partition_epoch"],
            partition["topic_id"],
        )
        made = ControlRequest(
            api, number, broker, topic, 0, replace(current, **epochs), current, delete_partition=delete_partition
        )
        sender = {
            "controller_id": int(state.controller or 0) if controller_id is None else controller_id,
            "leader": partition["leader"] if leader is None else leader,
        }
        named = {"controller_id": controller_id, "leader": leader, **epochs}
        changes = [f"{name} {value}" for name, value in named.items() if value is not None]
        name = ", ".join([f"{topic}-0", *changes, *(["delete_partition"] if delete_partition else [])])
        outcome = self.replicas.receive(made)
        fields = made.fields(sender, partition, self.cluster.settings.broker_ports)
        client_id = str(sender["controller_id"])  # as that of a controller
        answer = self.send(broker, name, api, number, fields, outcome.codes, outcome.findings, client_id=client_id)
        self.cluster.note(f"{api} {number} to broker {broker} for {name}: answered {answer['codes']}")


@scenario(FENCED, LOST, RECREATED, *SCRATCH, modes=(ZOOKEEPER,))
def stale_control_requests(cluster: Cluster) -> Expected:
    """LeaderAndIsr, StopReplica and UpdateMetadata arrive late, or from a replaced controller. The report must judge each of them.

    A client sends them in the controller's place: in an older controller epoch, broker epoch, leader epoch and partition epoch, and with
    another topic id. It lists what it sent, what ZooKeeper had at that moment, and the answers. What every release refuses goes to a topic
    under load, which loses nothing: the report must have CE-01, BE-01, LI-01, SR-01, SR-02, TI-01 and UM-01 as fenced, each with the
    correlation ids of its requests. Of a topic that was created again, 2.8 has no topic id yet: TI-01 exposed.

    Each other topic gets what a release applies. StopReplica up to 2.5 has no leader epoch: SR-04 exposed. From 2.6 on the leader epochs -1
    and -2 pass the fence: SR-03 violated. A broker that has deleted its replica has forgotten its leader epoch: LI-01 exposed. The metadata
    cache compares neither leader epochs nor topic ids: UM-02 exposed, and MD-03 if a client asks in time. StopReplica has no topic id, so
    the deletion of a former topic reaches the next one of its name: SR-07 and SR-03 exposed from 2.6 on. One StopReplica deletes the log of
    a leader. Its followers truncate theirs in the next leader epoch: the report must have TR-06 and AW-01, the lost offsets, and the
    consumer that had read them.
    """
    former = int(cluster.admin("cluster")["controller"])
    leader, follower = (one for one in cluster.layout.brokers if one != former)
    replicas = f"{leader},{follower},{former}"
    for topic in (FENCED, LOST, *SCRATCH):
        cluster.create(topic, replicas)
    shop = cluster.producer("shop", [f"{FENCED}-0"], "all")
    others = cluster.producer("web", [f"{topic}-0" for topic in (LOST, *SCRATCH)], "all", pause_ms=1)
    billing = cluster.consumer("billing", [FENCED])
    auditor = cluster.consumer("auditor", [LOST])
    others.send(RECORDS * (1 + len(SCRATCH)))
    shop.send(RECORDS)
    auditor.wait("consumed", RECORDS)
    auditor.stop()
    billing.wait("consumed", RECORDS)
    sender = _Sender(cluster)
    before = _replaced_controller(cluster, sender, former)
    shop.tell("run")
    _refused(sender, before, leader, follower)
    _applied(sender, leader, follower)
    _meant_for_a_former_topic(sender, replicas, follower)
    # a follower that does not fetch leaves the ISR once the leader has records that it lacks
    nudge = cluster.producer("kiosk", [f"{topic}-0" for topic in SCRATCH], "1", pause_ms=1)
    nudge.send(len(SCRATCH))
    for topic in (STOPPED, HALTED):
        cluster.wait_for_isr(topic, [leader, former])
    _restarted(cluster, follower, (FENCED, LOST, RECREATED, *SCRATCH))
    others.send_until_acknowledged()
    others.send(2 * (1 + len(SCRATCH)))
    shop.wait("acknowledged", len(shop.events("acknowledged")) + RECORDS)
    shop.tell("halt")
    return Expected(
        losses=frozenset({(LOST, 0)}),
        allowed=frozenset({("MD-03", PUBLISHED, 0), *((rule, LOST, 0) for rule in OF_AN_EMPTIED_LOG)}),
        deleted=frozenset({FORMER_PRODUCER}),
        required=frozenset({("TR-06", LOST, 0), ("AW-01", LOST, 0)}),
        requests=tuple(sender.requests),
    )


def _replaced_controller(cluster: Cluster, sender: _Sender, controller: int) -> MetadataState:
    """Restart the controller: the controller epoch, the broker epoch and all leader epochs rise. Returns the state before."""
    former = sender.state()
    if former.controller != controller:
        raise RunError(f"the controller changed from {controller} to {former.controller}: the machine is too slow")
    _restarted(cluster, controller)
    wait_for("another controller is active", lambda: sender.state().controller not in (-1, controller), 30)
    return former


def _restarted(cluster: Cluster, broker: int, topics: Sequence[str] = (FENCED, LOST, *SCRATCH)) -> None:
    """A controlled restart of one broker, until all replicas are in sync."""
    cluster.nodes[broker].stop()
    cluster.nodes[broker].start()
    for topic in topics:
        cluster.wait_for_isr(topic, cluster.layout.brokers)


def _refused(sender: _Sender, former: MetadataState, leader: int, follower: int) -> None:
    """What every release refuses, or answers as a repetition."""
    restarted = int(former.controller or 0)
    old_controller: dict[str, Any] = {"controller_id": restarted, "controller_epoch": former.controller_epoch}
    old_broker: dict[str, Any] = {"broker_epoch": former.broker_epoch(restarted)}
    apis = (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)
    for api in apis:
        for broker in (leader, follower):
            sender.request(api, broker, FENCED, **old_controller)
        sender.request(api, restarted, FENCED, **old_broker)
        sender.request(api, restarted, FENCED, **old_controller, **old_broker)
    sender.request(STOP_REPLICA, follower, FENCED, **old_controller, delete_partition=True)
    sender.request(STOP_REPLICA, restarted, FENCED, **old_broker, delete_partition=True)
    for broker in (leader, follower):
        sender.request(LEADER_AND_ISR, broker, FENCED, leader_epoch=0, partition_epoch=0)
        sender.request(LEADER_AND_ISR, broker, FENCED)
        sender.request(LEADER_AND_ISR, broker, FENCED, partition_epoch=0)
        if sender.version(LEADER_AND_ISR) >= TOPIC_ID_IN_LEADER_AND_ISR:
            sender.request(LEADER_AND_ISR, broker, FENCED, topic_id=ANOTHER_TOPIC)
            sender.request(LEADER_AND_ISR, broker, FENCED, topic_id=ANOTHER_TOPIC, leader_epoch=0, partition_epoch=0)
        if sender.version(STOP_REPLICA) >= LEADER_EPOCH_IN_STOP_REPLICA:
            for delete in (False, True):
                sender.request(STOP_REPLICA, broker, FENCED, leader_epoch=0, delete_partition=delete)


def _applied(sender: _Sender, leader: int, follower: int) -> None:
    """What a release applies, for a topic of its own each."""
    if sender.version(STOP_REPLICA) >= LEADER_EPOCH_IN_STOP_REPLICA:
        sender.request(STOP_REPLICA, follower, STOPPED, leader_epoch=NO_EPOCH)
        sender.request(STOP_REPLICA, follower, HALTED, leader_epoch=EPOCH_DURING_DELETE)
        sender.request(STOP_REPLICA, follower, REPEATED)
        sender.request(STOP_REPLICA, follower, OLDER, OLDER_VERSION, delete_partition=True)
    else:
        for topic in (STOPPED, HALTED):
            sender.request(STOP_REPLICA, follower, topic)
    for broker, topic in ((follower, DELETED), (follower, REVIVED), (leader, LOST)):
        sender.request(STOP_REPLICA, broker, topic, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True)
    sender.request(LEADER_AND_ISR, follower, REVIVED, leader_epoch=0, partition_epoch=0)
    sender.request(UPDATE_METADATA, follower, PUBLISHED, leader_epoch=0, partition_epoch=0)


def _meant_for_a_former_topic(sender: _Sender, replicas: str, follower: int) -> None:
    """A topic is deleted and created again, and requests about the former one arrive late."""
    cluster = sender.cluster
    cluster.create(RECREATED, replicas)
    producer = cluster.producer(FORMER_PRODUCER, [f"{RECREATED}-0"], "all", pause_ms=1)
    producer.send(RECORDS)
    producer.stop()
    former_id = cluster.admin(f"describe {RECREATED}")["topic_id"]
    cluster.delete(RECREATED)
    wait_for(f"{RECREATED} is deleted", lambda: "error" in cluster.admin(f"describe {RECREATED}", may_fail=True), 30)
    cluster.create(RECREATED, replicas)
    sender.replicas.recreated.add(RECREATED)
    producer = cluster.producer("tablet", [f"{RECREATED}-0"], "all", pause_ms=1)
    producer.send(RECORDS)
    cluster.wait_for_isr(RECREATED, cluster.layout.brokers)
    if sender.version(LEADER_AND_ISR) >= TOPIC_ID_IN_LEADER_AND_ISR:
        for api in (LEADER_AND_ISR, UPDATE_METADATA):
            sender.request(api, follower, RECREATED, topic_id=former_id, leader_epoch=5, partition_epoch=5)
        # as the controller would: the broker knows the topic again
        sender.request(UPDATE_METADATA, follower, RECREATED)
        sender.request(
            UPDATE_METADATA,
            follower,
            RECREATED,
            topic_id=former_id,
            leader=LEADER_DURING_DELETE,
            leader_epoch=0,
            partition_epoch=0,
        )
    for delete in (False, True):
        sender.request(STOP_REPLICA, follower, RECREATED, leader_epoch=EPOCH_DURING_DELETE, delete_partition=delete)
