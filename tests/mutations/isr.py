"""AlterPartition requests that a controller should have refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from tests.mutations.editing import CONTROLLER_LOG, Copy, NotThereError, Request
from tests.mutations.metadata_log import Record
from tests.mutations.planting import Place, mutation

INELIGIBLE: Final = "kraft-ineligible-isr-4.1"
ZOOKEEPER: Final = "zk-healthy-3.9"

INVALID_REQUEST: Final = 42
OPERATION_NOT_ATTEMPTED: Final = 55
FENCED_LEADER_EPOCH: Final = 74
STALE_BROKER_EPOCH: Final = 77
INELIGIBLE_REPLICA: Final = 107

CHANGE: Final = "PARTITION_CHANGE_RECORD"
REGISTRATION_CHANGE: Final = "BROKER_REGISTRATION_CHANGE_RECORD"
STANDINGS: Final = {
    "REGISTER_BROKER_RECORD": "fenced",
    "UNREGISTER_BROKER_RECORD": "unregistered",
    REGISTRATION_CHANGE: None,
}


@dataclass(frozen=True)
class Change:
    """A partition of an AlterPartition request and its answer."""

    request: Request
    topic_id: str
    asked: dict[str, Any]
    answered: dict[str, Any]

    @property
    def key(self) -> tuple[str, int]:
        return self.topic_id, self.asked["partitionIndex"]

    @property
    def isr(self) -> list[int]:
        if "newIsr" in self.asked:
            return list(self.asked["newIsr"])
        return [member["brokerId"] for member in self.asked["newIsrWithEpochs"]]

    @property
    def code(self) -> int:
        return int(self.answered["errorCode"])

    @property
    def changed(self) -> bool:
        """It was accepted and wrote a new state."""
        return self.code == 0 and bool(self.answered["partitionEpoch"] > self.asked["partitionEpoch"])

    def accept(self, leader: int, leader_epoch: int, isr: list[int], partition_epoch: int) -> None:
        """Answer 0 with this state."""
        self.answered.update(
            errorCode=0, leaderId=leader, leaderEpoch=leader_epoch, isr=isr, partitionEpoch=partition_epoch
        )
        self.request.write()


def changes(copy: Copy) -> Iterator[Change]:
    """The partitions of all AlterPartition requests that were answered for themselves, in the order of the logs."""
    for request in copy.requests("ALTER_PARTITION"):
        answers = {
            (topic["topicId"], partition["partitionIndex"]): partition
            for topic in request.answered["topics"]
            for partition in topic["partitions"]
        }
        for topic in request.asked["topics"]:
            for partition in topic["partitions"]:
                key = (topic["topicId"], partition["partitionIndex"])
                if key in answers:
                    yield Change(request, topic["topicId"], partition, answers[key])


def topic_name(copy: Copy, topic_id: str) -> str:
    return str(copy.metadata.record("TOPIC_RECORD", topicId=topic_id).data["name"])


def place_of(copy: Copy, change: Change) -> Place:
    """Where a finding about the change has to be."""
    return Place(
        node=change.request.node,
        topic=topic_name(copy, change.topic_id),
        partition=change.asked["partitionIndex"],
        correlation_id=change.request.correlation_id,
    )


def written_by(copy: Copy, change: Change) -> Record:
    """The record of an accepted change: the one that brings the partition to the partition epoch of the answer."""
    epoch = -1
    for record in partition_records(copy, change.key):
        epoch = record.data["partitionEpoch"] if record.type == "PARTITION_RECORD" else epoch + 1
        if epoch == change.answered["partitionEpoch"]:
            return record
    raise NotThereError(f"no record of {change.key} in partition epoch {change.answered['partitionEpoch']}")


def partition_records(copy: Copy, key: tuple[str, int]) -> list[Record]:
    """The records of a partition, by offset."""
    return [
        record
        for batch in copy.metadata.batches
        for record in batch.records
        if record.type in ("PARTITION_RECORD", CHANGE) and (record.data["topicId"], record.data["partitionId"]) == key
    ]


def refused_before_joining(copy: Copy, wanted: str) -> tuple[Change, Change]:
    """A change that was refused because of a member, and the one by which the leader had that ISR accepted next.

    `wanted`: the member's last state in the metadata log: fenced, or unregistered.
    """
    all_changes = list(changes(copy))
    for index, refused in enumerate(all_changes):
        if refused.code != INELIGIBLE_REPLICA or refused.request.asked["brokerId"] not in refused.isr:
            continue
        following = next((later for later in all_changes[index + 1 :] if later.key == refused.key), None)
        if following is None or not following.changed or set(following.isr) != set(refused.isr):
            continue
        if standing(copy, refused, written_by(copy, following)) == wanted:
            return refused, following
    raise NotThereError(f"no refused ISR with a member that was {wanted}, and accepted next")


def standing(copy: Copy, refused: Change, joined: Record) -> str:
    """The state, in the last record before the refused request, of the member that the later record adds."""
    before = [r for r in partition_records(copy, refused.key) if r.offset < joined.offset and "isr" in r.data][-1]
    (member,) = set(joined.data["isr"]) - set(before.data["isr"])
    last = "unknown"
    for batch in copy.metadata.batches:
        for record in batch.records:
            if batch.time_ms > refused.request.answered_ms or record.type not in STANDINGS:
                continue
            if record.data["brokerId"] == member:
                last = STANDINGS[record.type] or {1: "fenced", -1: "active"}.get(record.data.get("fenced", 0), last)
    return last


def accept_too_early(copy: Copy, wanted: str) -> Place:
    """Let the ISR be accepted when it was refused; the leader then has no need to ask for it again."""
    refused, following = refused_before_joining(copy, wanted)
    joined = written_by(copy, following)
    at = [r for r in copy.metadata.records("NO_OP_RECORD") if r.batch.time_ms <= refused.request.answered_ms][-1]
    at.become(joined, isr=refused.isr)
    joined.become_no_op()
    refused.accept(
        following.answered["leaderId"], refused.asked["leaderEpoch"], refused.isr, refused.asked["partitionEpoch"] + 1
    )
    withdraw(following)
    return place_of(copy, refused)


def withdraw(change: Change) -> None:
    """Take the partition out of the request and its answer, and a request without partitions out of the log."""
    for topics, one in (
        (change.request.asked["topics"], change.asked),
        (change.request.answered["topics"], change.answered),
    ):
        for topic in list(topics):
            topic["partitions"] = [partition for partition in topic["partitions"] if partition is not one]
            if not topic["partitions"]:
                topics.remove(topic)
    if change.request.asked["topics"]:
        change.request.write()
    else:
        change.request.drop()


@mutation("IS-01", INELIGIBLE, also=("IS-06",), fetches=False)
def fenced_member_accepted(copy: Copy) -> Place:
    """An ISR with a fenced member is accepted and committed instead of refused with 107.

    IS-06: the committed ISR then names the fenced member.
    """
    return accept_too_early(copy, "fenced")


@mutation("IS-03", INELIGIBLE, also=("IS-06",), fetches=False)
def unregistered_member_accepted(copy: Copy) -> Place:
    """An ISR with a member that was unregistered is accepted and committed instead of refused with 107.

    IS-06: the committed ISR then names the unregistered member.
    """
    return accept_too_early(copy, "unregistered")


@mutation("IS-02", INELIGIBLE, also=("IS-06",), fetches=False)
def member_in_shutdown_accepted(copy: Copy) -> Place:
    """A leader asks for an ISR with a member that is in controlled shutdown, and the controller commits it.

    IS-06: the committed ISR then names that member.
    """
    for leaving in copy.metadata.records(REGISTRATION_CHANGE, inControlledShutdown=1):
        member, epoch = leaving.data["brokerId"], leaving.data["brokerEpoch"]
        fencing = copy.metadata.record(REGISTRATION_CHANGE, leaving.offset, brokerId=member, fenced=1)
        for change in changes(copy):
            record = written_by(copy, change) if change.changed else leaving
            if leaving.offset < record.offset < fencing.offset:
                isr = [*change.isr, member]
                change.asked["newIsrWithEpochs"].append({"brokerId": member, "brokerEpoch": epoch})
                change.answered["isr"] = isr
                change.request.write()
                record.change(isr=isr)
                return place_of(copy, change)
    raise NotThereError("no ISR change was accepted while a broker was in controlled shutdown")


def accept_as_no_op(copy: Copy, change: Change) -> Place:
    """Answer a refused request that names the ISR as it is with the state that the controller has."""
    state = state_before(copy, change.key, change.request)
    change.accept(state["leaderId"], state["leaderEpoch"], state["isr"], state["partitionEpoch"])
    return place_of(copy, change)


def state_before(copy: Copy, key: tuple[str, int], request: Request) -> dict[str, Any]:
    """The partition in the last answer of 0 before a request."""
    known = [c for c in changes(copy) if c.key == key and c.code == 0 and c.request.index < request.index]
    return dict(known[-1].answered)


@mutation("IS-04", INELIGIBLE, fetches=False)
def former_incarnation_accepted(copy: Copy) -> Place:
    """An ISR with a broker epoch that is not the registered one is accepted instead of refused with 107."""
    return accept_as_no_op(copy, next(change for change in changes(copy) if change.code == INELIGIBLE_REPLICA))


@mutation("IS-05", ZOOKEEPER, fetches=False)
def leaving_member_accepted_by_zookeeper_controller(copy: Copy) -> Place:
    """A ZooKeeper controller began to shut a broker down before it accepted an ISR with that broker."""
    change = [c for c in changes(copy) if c.changed][-1]
    member = next(b for b in change.isr if b not in (change.request.asked["brokerId"], change.request.node))
    moment = change.request.arrived_at - timedelta(milliseconds=5)
    before = [line for line in copy.lines(CONTROLLER_LOG, r"^\[", change.request.node) if line.written_at < moment][-1]
    before.insert_after(
        f"INFO [Controller id={change.request.node}] Shutting down broker {member} (kafka.controller.KafkaController)"
    )
    return Place(
        node=change.request.node, partition=change.asked["partitionIndex"], correlation_id=change.request.correlation_id
    )


@mutation("IS-10", INELIGIBLE, fetches=False)
def error_code_of_an_older_version(copy: Copy) -> Place:
    """AlterPartition 3 is refused with 55, the code of versions 0 and 1, instead of 107."""
    change = next(
        c for c in changes(copy) if c.code == INELIGIBLE_REPLICA and c.request.header["requestApiVersion"] >= 2
    )
    change.answered["errorCode"] = OPERATION_NOT_ATTEMPTED
    change.request.write()
    return place_of(copy, change)


@mutation("IS-11", INELIGIBLE, fetches=False)
def refused_isr_sent_again(copy: Copy) -> Place:
    """A leader sends the ISR that was refused with 107 again as it was, without a line about going back."""
    change = next(c for c in changes(copy) if c.code == INELIGIBLE_REPLICA)
    place = place_of(copy, change)
    change.request.document["requestHeader"]["correlationId"] += 1
    change.request.write_behind(change.request)
    return place


@mutation("IS-12", INELIGIBLE, fetches=False)
def stale_alter_partition_accepted(copy: Copy) -> Place:
    """An AlterPartition of an older leader epoch is answered 0 instead of 74."""
    return accept_as_no_op(copy, next(c for c in changes(copy) if c.code == FENCED_LEADER_EPOCH))


@mutation("IS-13", INELIGIBLE, fetches=False)
def follower_altered_the_isr(copy: Copy) -> Place:
    """An AlterPartition of a follower is answered 0 instead of 42."""
    for change in changes(copy):
        sender = change.request.asked["brokerId"]
        if change.code == INVALID_REQUEST and state_before(copy, change.key, change.request)["leaderId"] != sender:
            return accept_as_no_op(copy, change)
    raise NotThereError("no AlterPartition of a broker that did not lead")


@mutation("IS-17", INELIGIBLE, fetches=False)
def recovered_leader_recovers_again(copy: Copy) -> Place:
    """A leader that has recovered asks to be recovering, and is answered 0 instead of 42."""
    change = next(c for c in changes(copy) if c.code == INVALID_REQUEST and c.asked["leaderRecoveryState"] == 1)
    return accept_as_no_op(copy, change)


@mutation("BE-03", INELIGIBLE, fetches=False)
def former_incarnation_obeyed(copy: Copy) -> Place:
    """An AlterPartition under a broker epoch that is not the sender's registered one is answered 0 instead of 77."""
    request = copy.request("ALTER_PARTITION", lambda r: r.answered["errorCode"] == STALE_BROKER_EPOCH)
    (topic,) = request.asked["topics"]
    (partition,) = topic["partitions"]
    state = state_before(copy, (topic["topicId"], partition["partitionIndex"]), request)
    request.answered.update(errorCode=0, topics=[{"topicId": topic["topicId"], "partitions": [state]}])
    request.write()
    return Place(node=request.node, correlation_id=request.correlation_id)
