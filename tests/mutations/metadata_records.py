"""Records that a controller should not have written (KRaft)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from tests.mutations.editing import REQUEST_LOG, SERVER_LOG, Copy, NotThereError
from tests.mutations.isr import CHANGE, INELIGIBLE, REGISTRATION_CHANGE, changes, topic_name, written_by
from tests.mutations.metadata_log import Record
from tests.mutations.planting import Place, mutation

HEALTHY: Final = "kraft-k1-healthy"

REGISTRATION: Final = "REGISTER_BROKER_RECORD"
UNCLEAN: Final = "5VqvQkYdT1mJw0c3aXhR2g"  # an incarnation id that the recordings do not have
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


def place_of(copy: Copy, record: Record) -> Place:
    """Where a finding about a partition's record has to be."""
    return Place(
        topic=topic_name(copy, record.data["topicId"]),
        partition=record.data["partitionId"],
        evidence=f"offset: {record.offset} ",
    )


def partitions(copy: Copy) -> Iterator[tuple[Record, dict[str, Any]]]:
    """Each partition record with the state before it: replicas, isr, leader, eligibleLeaderReplicas."""
    states: dict[tuple[str, int], dict[str, Any]] = {}
    for batch in copy.metadata.batches:
        for record in batch.records:
            if record.type in ("PARTITION_RECORD", CHANGE):
                state = states.setdefault((record.data["topicId"], record.data["partitionId"]), {})
                yield record, dict(state)
                state.update(record.data)


def fenced_at(copy: Copy, offset: int) -> set[int]:
    """Brokers whose last record in the log is that they are fenced."""
    fenced = set()
    for batch in copy.metadata.batches:
        for record in batch.records:
            if record.offset < offset and record.type in (REGISTRATION, REGISTRATION_CHANGE):
                change = 1 if record.type == REGISTRATION else record.data.get("fenced", 0)
                fenced.add(record.data["brokerId"]) if change == 1 else None
                fenced.discard(record.data["brokerId"]) if change == -1 else None
    return fenced


def in_shutdown_event(record: Record) -> bool:
    """The batch takes a broker into controlled shutdown."""
    return any(r.type == REGISTRATION_CHANGE and r.data.get("inControlledShutdown") for r in record.batch.records)


@mutation("IS-06", INELIGIBLE, fetches=False)
def fenced_replica_committed(copy: Copy) -> Place:
    """A record that a controlled shutdown writes puts a fenced broker back into an ISR."""
    for record, state in partitions(copy):
        if record.type == CHANGE and in_shutdown_event(record) and record.data.get("isr"):
            for broker in sorted(fenced_at(copy, record.offset) & set(state["replicas"]) - set(record.data["isr"])):
                record.change(isr=[*record.data["isr"], broker])
                return place_of(copy, record)
    raise NotThereError("no controlled shutdown of a broker while another was fenced")


@mutation("IS-07", INELIGIBLE, fetches=False)
def departed_broker_left_in_isr(copy: Copy) -> Place:
    """The last controlled shutdown of a follower leaves it in one ISR: the record that removes it is not written."""
    leaving = list(copy.metadata.records(REGISTRATION_CHANGE, inControlledShutdown=1))
    for begins in reversed(leaving):
        removals = [r for r in begins.batch.records if r.type == CHANGE and "leader" not in r.data]
        if removals:
            place = Place(
                topic=topic_name(copy, removals[0].data["topicId"]),
                partition=removals[0].data["partitionId"],
                evidence=f"offset: {begins.offset} ",
            )
            removals[0].become_no_op()
            return place
    raise NotThereError("no controlled shutdown that leaves an ISR with its leader")


@mutation("IS-08", INELIGIBLE, fetches=False)
def partitions_created_on_fenced_broker(copy: Copy) -> Place:
    """A broker is unfenced only after the first topic has been created with it in the ISRs."""
    created = copy.metadata.record("PARTITION_RECORD")
    unfenced = [
        r
        for r in copy.metadata.records(REGISTRATION_CHANGE)
        if r.offset < created.offset and r.data.get("fenced") == -1
    ][-1]
    last = max(r.offset for r in copy.metadata.records("PARTITION_RECORD", topicId=created.data["topicId"]))
    copy.metadata.no_op_after(last).become(unfenced)
    unfenced.become_no_op()
    return Place(topic=topic_name(copy, created.data["topicId"]))


@mutation("IS-09", HEALTHY, fetches=False)
def new_incarnation_left_in_isr(copy: Copy) -> Place:
    """A broker that died and came back is registered anew, and a record of that event leaves it in an ISR."""
    for registration in copy.metadata.records(REGISTRATION):
        broker = registration.data["brokerId"]
        for record, state in partitions(copy):
            if record.batch is registration.batch and "leader" not in record.data and broker in state["isr"]:
                record.change(isr=state["isr"])
                place = place_of(copy, record)
                return Place(topic=place.topic, partition=place.partition, evidence=f"offset: {registration.offset} ")
    raise NotThereError("no registration over a live incarnation")


@mutation("IS-14", INELIGIBLE, fetches=False)
def isr_outside_the_replicas(copy: Copy) -> Place:
    """The record of an election puts a broker into the ISR that is no replica of the partition."""
    brokers = {r.data["brokerId"] for r in copy.metadata.records(REGISTRATION)}
    for record, state in partitions(copy):
        if record.type == CHANGE and set(record.data) == {"partitionId", "topicId", "leader"}:
            others = brokers - set(state["replicas"]) - fenced_at(copy, record.offset)
            if others:
                record.change(isr=[*state["isr"], min(others)])
                return place_of(copy, record)
    raise NotThereError("no election of a partition that lacks a replica on some broker")


@mutation("LD-01", INELIGIBLE, fetches=False)
def leader_left_the_isr(copy: Copy) -> Place:
    """The last election of a preferred leader writes an ISR without that leader."""
    elections = [
        (record, state)
        for record, state in partitions(copy)
        if record.type == CHANGE and set(record.data) == {"partitionId", "topicId", "leader"} and len(state["isr"]) > 2
    ]
    record, state = elections[-1]
    record.change(isr=[broker for broker in state["isr"] if broker != record.data["leader"]])
    return place_of(copy, record)


@mutation("LD-02", INELIGIBLE, fetches=False)
def fenced_leader_elected(copy: Copy) -> Place:
    """A partition without leader gets the member of its ELR for a leader although that broker is fenced."""
    for record, _ in partitions(copy):
        elr = record.data.get("eligibleLeaderReplicas")
        if record.type == CHANGE and elr:
            fence = copy.metadata.record(REGISTRATION_CHANGE, record.offset, brokerId=elr[0], fenced=1)
            election = copy.metadata.no_op_after(fence.offset)
            election.become(record, isr=elr[:1], leader=elr[0], eligibleLeaderReplicas=[], lastKnownElr=[])
            return place_of(copy, election)
    raise NotThereError("no partition that was left with an ELR")


@mutation("LD-03", INELIGIBLE, fetches=False)
def leader_elected_from_outside(copy: Copy) -> Place:
    """A leader is elected that had left the ISR in the change before, alone and without a mark that it recovers."""
    accepted = {(c.key, c.answered["partitionEpoch"]): c for c in changes(copy) if c.changed}
    for record, state in reversed(list(partitions(copy))):
        if record.type != CHANGE or set(record.data) != {"partitionId", "topicId", "leader"}:
            continue
        leader = record.data["leader"]
        for change in accepted.values():
            before = [
                r for r, _ in partitions(copy) if r.data["topicId"] == change.topic_id and r.offset < record.offset
            ]
            ours = change.key == (record.data["topicId"], record.data["partitionId"]) and before
            if not ours or change.request.asked["brokerId"] == leader or leader not in change.isr:
                continue
            written = written_by(copy, change)
            if written.data.get("isr") == state["isr"] and written.offset == _last_before(copy, record).offset:
                _leave(copy, change.asked, change.answered, written, leader)
                change.request.write()
                record.change(isr=[leader])
                return place_of(copy, record)
    raise NotThereError("no election right after an ISR change")


def _last_before(copy: Copy, record: Record) -> Record:
    key = (record.data["topicId"], record.data["partitionId"])
    same = [
        r for r, _ in partitions(copy) if (r.data["topicId"], r.data["partitionId"]) == key and r.offset < record.offset
    ]
    return same[-1]


def _leave(copy: Copy, asked: dict[str, Any], answered: dict[str, Any], written: Record, broker: int) -> None:
    """Take a broker out of an accepted ISR: request, answer, record and the leader's line about it."""
    asked["newIsrWithEpochs"] = [member for member in asked["newIsrWithEpochs"] if member["brokerId"] != broker]
    answered["isr"] = [member for member in answered["isr"] if member != broker]
    written.change(isr=answered["isr"])
    partition = f"{topic_name(copy, written.data['topicId'])}-{written.data['partitionId']}"
    pattern = rf"Partition {re.escape(partition)} broker=\d+\] ISR updated to (\S+) .*version updated to {answered['partitionEpoch']}\b"
    for line in copy.lines(SERVER_LOG, pattern):
        members = ",".join(map(str, answered["isr"]))
        line.replace(line.text.replace(f"ISR updated to {line.match[1]}", f"ISR updated to {members}"))


@mutation("EL-01", INELIGIBLE, fetches=False)
def eligible_replica_left_in_isr(copy: Copy) -> Place:
    """The record that leaves a partition's last replica in the ISR names that replica as eligible, too.

    min.insync.replicas is 2 in the copy, so that the partition may have eligible replicas.
    """
    copy.metadata.record("CONFIG_RECORD", resourceType=4, name=MIN_INSYNC_REPLICAS).change(value="2")
    for record in (record for record, _ in partitions(copy) if record.data.get("eligibleLeaderReplicas")):
        before = _last_before(copy, record)
        if before.type == CHANGE and len(before.data.get("isr", [])) == 1:
            before.change(eligibleLeaderReplicas=before.data["isr"])
            return place_of(copy, before)
    raise NotThereError("no partition whose ISR shrank to one replica before it became empty")


@mutation("EL-02", INELIGIBLE, fetches=False)
def eligible_replica_from_nowhere(copy: Copy) -> Place:
    """The record that empties an ISR names a replica as eligible that had left the ISR before, and was not eligible."""
    for record, state in partitions(copy):
        elr = record.data.get("eligibleLeaderReplicas")
        others = sorted({*state.get("replicas", [])} - {*state.get("isr", [])})
        if record.type == CHANGE and elr and others:
            record.change(eligibleLeaderReplicas=[*elr, others[0]])
            return place_of(copy, record)
    raise NotThereError("no partition that was left with an ELR")


@mutation("EL-03", INELIGIBLE, also=("LD-03",), fetches=False)
def eligible_replica_elected_past_the_isr(copy: Copy) -> Place:
    """A leader is elected from the ELR although all members of the ISR are there.

    The election leaves nobody of that ISR and has no mark, which is a matter of LD-03, too. min.insync.replicas of the topic is 3 in the
    copy, so that the partition may have eligible replicas.
    """
    copy.metadata.record("CONFIG_RECORD", resourceType=2, name=MIN_INSYNC_REPLICAS).change(value="3")
    place = leader_elected_from_outside(copy)
    record = next(record for record, _ in partitions(copy) if place_of(copy, record) == place)
    left = _last_before(copy, record)
    left.change(eligibleLeaderReplicas=record.data["isr"])
    record.change(eligibleLeaderReplicas=[])
    return place


@mutation("EL-04", INELIGIBLE, fetches=False)
def replica_eligible_above_min_isr(copy: Copy) -> Place:
    """A replica that leaves the ISR becomes eligible although min.insync.replicas members remain, and stays it when the ISR is empty."""
    for emptied in (record for record, _ in partitions(copy) if record.data.get("eligibleLeaderReplicas")):
        shrunk = _last_before(copy, emptied)
        state = next(state for one, state in partitions(copy) if one is shrunk)
        departed = sorted({*state["isr"]} - {*shrunk.data.get("isr", state["isr"])})
        if shrunk.type == CHANGE and departed:
            shrunk.change(eligibleLeaderReplicas=departed)
            emptied.change(eligibleLeaderReplicas=sorted({*emptied.data["eligibleLeaderReplicas"], *departed}))
            return place_of(copy, shrunk)
    raise NotThereError("no partition whose ISR shrank before it became empty")


@mutation("EL-05", INELIGIBLE, fetches=False)
def unclean_incarnation_stays_eligible(copy: Copy) -> Place:
    """After its replicas were left without a leader, a broker registers again, as after a crash, and remains eligible for them."""
    emptied = [record for record, _ in partitions(copy) if record.data.get("eligibleLeaderReplicas")][-1]
    (broker,) = emptied.data["eligibleLeaderReplicas"]
    registered = list(copy.metadata.records(REGISTRATION, brokerId=broker))[-1]
    again = copy.metadata.no_op_after(emptied.offset)
    again.become(registered, incarnationId=UNCLEAN, brokerEpoch=again.offset)
    request = list(copy.requests("BROKER_REGISTRATION", lambda r: r.asked["brokerId"] == broker))[-1]
    request.asked.update(incarnationId=UNCLEAN, previousBrokerEpoch=-1)
    request.answered.update(brokerEpoch=again.offset)
    request.write_behind(list(copy.requests("BROKER_HEARTBEAT", node=request.node))[-1])
    return Place(evidence=f"offset: {again.offset} ")


@mutation("EL-07", INELIGIBLE, fetches=False)
def eligible_replica_forgotten(copy: Copy) -> Place:
    """The record that empties an ISR drops the replica that had become eligible, and adds the one that leaves the ISR.

    min.insync.replicas is 2 in the copy, so that a replica is eligible when it has left an ISR of two.
    """
    copy.metadata.record("CONFIG_RECORD", resourceType=4, name=MIN_INSYNC_REPLICAS).change(value="2")
    for record in (record for record, _ in partitions(copy) if record.data.get("eligibleLeaderReplicas")):
        before = _last_before(copy, record)
        state = next(state for one, state in partitions(copy) if one is before)
        if before.type == CHANGE and len(before.data.get("isr", [])) == 1 and len(state["isr"]) == 2:
            before.change(eligibleLeaderReplicas=sorted({*state["isr"]} - {*before.data["isr"]}))
            return place_of(copy, record)
    raise NotThereError("no partition whose ISR shrank from two to one and to none")


@mutation("EP-03", INELIGIBLE, fetches=False)
def leader_epoch_bumped_for_nothing(copy: Copy) -> Place:
    """The last record of the log sets the leader of a partition to the one it has, which raises its leader epoch."""
    last, _ = list(partitions(copy))[-1]
    bump = copy.metadata.no_op_after(last.offset)
    leader = last.data["leader"]
    bump.become(last, isr=None, leader=leader, eligibleLeaderReplicas=None, lastKnownElr=None)
    return place_of(copy, bump)


@mutation("EP-05", HEALTHY, fetches=False)
def record_missing_from_the_log(copy: Copy) -> Place:
    """A batch in the middle of the metadata log is missing."""
    batches = copy.metadata.batches
    middle = next(b for b in batches[len(batches) // 2 :] if [r.type for r in b.records] == ["NO_OP_RECORD"])
    batches.remove(middle)
    return Place(evidence=f"offset: {middle.records[0].offset + 1} ")


@mutation("EP-06", HEALTHY, fetches=False)
def copies_of_the_log_disagree(copy: Copy) -> Place:
    """One of the two copies of the metadata log has other record contents at an offset."""
    record = copy.metadata.record("CONFIG_RECORD", name=MIN_INSYNC_REPLICAS)
    record.change(value=str(int(record.data["value"]) + 1))
    copy.segment_as_it_was = True
    return Place(evidence=f"offset: {record.offset} ")


@mutation("BE-04", INELIGIBLE, fetches=False)
def broker_epoch_falls(copy: Copy) -> Place:
    """A broker comes back and is given a broker epoch below its former one; all that follows goes on with it."""
    registrations = list(copy.metadata.records(REGISTRATION))
    last = registrations[-1]
    former = [r for r in registrations[:-1] if r.data["brokerId"] == last.data["brokerId"]][-1]
    new = former.data["brokerEpoch"] - 1
    rename_broker_epoch(copy, last.data["brokerEpoch"], new)
    return Place(evidence=f"offset: {last.offset} ")


def rename_broker_epoch(copy: Copy, old: int, new: int) -> None:
    """Replace a broker epoch wherever records and requests state it."""
    for batch in copy.metadata.batches:
        for record in batch.records:
            if record.type is not None and record.data.get("brokerEpoch") == old:
                record.change(brokerEpoch=new)
    stated = rf'("(?:brokerEpoch|replicaEpoch|previousBrokerEpoch)":){old}\b'
    for line in list(copy.lines(REQUEST_LOG, stated)):
        line.replace(re.sub(stated, rf"\g<1>{new}", line.text))


@mutation("UF-02", HEALTHY, fetches=False)
def granted_shutdown_does_not_fence(copy: Copy) -> Place:
    """A broker is answered that it should shut down, and no record fences it: it registers again while it is live."""
    for granted in copy.requests("BROKER_HEARTBEAT", lambda r: r.answered.get("shouldShutDown")):
        epoch = {name: granted.asked[name] for name in ("brokerId", "brokerEpoch")}
        fences = list(copy.metadata.records(REGISTRATION_CHANGE, fenced=1, **epoch))
        for again in copy.metadata.records(REGISTRATION, fences[-1].offset, brokerId=epoch["brokerId"]):
            for fence in fences:
                fence.become_no_op()
            return Place(evidence=f"offset: {again.offset} ")
    raise NotThereError("no registration after a shutdown that was granted")


@mutation("UF-01", HEALTHY, fetches=False)
def unfenced_before_registration(copy: Copy) -> Place:
    """A broker that has reached the offset before its registration is answered that it is not fenced."""
    registration = copy.metadata.record(REGISTRATION)
    epoch = registration.data["brokerEpoch"]
    beat = copy.request(
        "BROKER_HEARTBEAT",
        lambda r: r.asked["brokerEpoch"] == epoch and r.answered["errorCode"] == 0 and not r.answered["isFenced"],
    )
    beat.asked["currentMetadataOffset"] = registration.offset - 1
    beat.write()
    return Place(node=beat.node, correlation_id=beat.correlation_id)
