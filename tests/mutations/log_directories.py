"""Records about log directories that a controller should not have written (KRaft, KIP-858)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.mutations.editing import Copy, NotThereError
from tests.mutations.isr import CHANGE, REGISTRATION_CHANGE
from tests.mutations.metadata_records import HEALTHY, REGISTRATION, partitions, place_of
from tests.mutations.planting import Place, mutation

OTHER_DIRECTORY: Final = "bG9nLWRpcmVjdG9yeS1iIQ"
LOG_DIRS_VERSION: Final = 2  # of BROKER_REGISTRATION_CHANGE_RECORD


@mutation("DA-01", HEALTHY, fetches=False)
def replica_kept_on_offline_directory(copy: Copy) -> Place:
    """A broker with two log directories reports one as offline after its last election, and nothing is moved."""
    all_records = [record for record, _ in partitions(copy)]
    for broker in sorted({r.data["brokerId"] for r in copy.metadata.records(REGISTRATION)}):
        elected = [record for record in all_records if record.data.get("leader") == broker][-1]
        offline = copy.metadata.no_op_after(elected.offset)
        if any(elected.offset < record.offset < offline.offset for record in all_records):
            continue
        registration = [r for r in copy.metadata.records(REGISTRATION, brokerId=broker) if r.offset < offline.offset][
            -1
        ]
        registration.change(logDirs=[*registration.data["logDirs"], OTHER_DIRECTORY])
        epoch = registration.data["brokerEpoch"]
        offline.become_new(
            REGISTRATION_CHANGE, LOG_DIRS_VERSION, brokerId=broker, brokerEpoch=epoch, logDirs=[OTHER_DIRECTORY]
        )
        return Place(evidence=f"offset: {offline.offset} ")
    raise NotThereError("no broker whose last election is followed by a record without content")


@mutation("DA-02", HEALTHY, fetches=False)
def leader_elected_on_offline_directory(copy: Copy) -> Place:
    """A partition was created with a replica on a directory that its broker does not have, and the replica is elected."""
    elections = [
        record
        for record, state in partitions(copy)
        if record.type == CHANGE and record.data.get("leader", -1) >= 0 and record.data["leader"] != state["leader"]
    ]
    moved = {
        (r.data["topicId"], r.data["partitionId"])
        for r, _ in partitions(copy)
        if r.type == CHANGE and "directories" in r.data
    }
    key = {r.offset: (r.data["topicId"], r.data["partitionId"], r.data["leader"]) for r in elections}
    times = Counter(key.values())
    for record in elections:
        topic_id, partition, leader = key[record.offset]
        if times[key[record.offset]] == 1 and (topic_id, partition) not in moved:
            created = copy.metadata.record("PARTITION_RECORD", topicId=topic_id, partitionId=partition)
            replicas, directories = created.data["replicas"], created.data["directories"]
            created.change(
                directories=[
                    OTHER_DIRECTORY if replica == leader else directory
                    for replica, directory in zip(replicas, directories, strict=True)
                ]
            )
            return place_of(copy, record)
    raise NotThereError("no replica that was elected once")


@mutation("DA-04", HEALTHY, fetches=False)
def directory_of_another_broker_registered(copy: Copy) -> Place:
    """The last broker that registers brings the log directory of another broker besides its own."""
    registrations = list(copy.metadata.records(REGISTRATION))
    last = registrations[-1]
    other = next(r for r in registrations if r.data["brokerId"] != last.data["brokerId"])
    last.change(logDirs=[*last.data["logDirs"], *other.data["logDirs"]])
    return Place(evidence=f"offset: {last.offset} ")
