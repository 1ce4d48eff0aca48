"""Oracle of the rules of log directories (KIP-858)."""

from __future__ import annotations

from typing import Any, Final

from prove.history import History
from prove.oracle.metadata_image import Partition, Registration, changes, images, of_change, records
from prove.oracle.verdicts import PASS, VIOLATION, Judged, place

MIGRATING: Final = "AAAAAAAAAAAAAAAAAAAAAA"
UNASSIGNED: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
LOST: Final = "AAAAAAAAAAAAAAAAAAAAAg"


def directory_of(partition: Partition, broker: int) -> str | None:
    """The directory of a replica: the lists of replicas and directories have one order."""
    if broker not in partition.replicas:
        return None
    number = partition.replicas.index(broker)
    return partition.directories[number] if number < len(partition.directories) else None


def is_online(registration: Registration, directory: str) -> bool:
    """DirectoryId.isOnline."""
    if directory == LOST:
        return False
    return not registration.log_dirs or directory in registration.log_dirs


def da01(history: History) -> Judged:
    """A broker whose directory went offline leads no partition on it, and is in no ISR with others of one."""
    after = images(history)
    for record in records(history):
        data: Any = record.data
        if record.kind != "BROKER_REGISTRATION_CHANGE_RECORD" or not data.get("logDirs"):
            continue
        broker = data["brokerId"]
        offline = {*after[record.offset - 1].brokers[broker].log_dirs} - {*data["logDirs"]}
        on_them = [one for one in after[record.offset].partitions.values() if directory_of(one, broker) in offline]
        stays = any(one.leader == broker or (broker in one.isr and len(one.isr) > 1) for one in on_them)
        if offline:
            yield (VIOLATION if stays else PASS), place(record)


def da02(history: History) -> Judged:
    """A change does not elect a replica whose directory is not one of those with which its broker is registered."""
    after = images(history)
    for change in changes(history):
        before, leader = change.before, change.after.leader
        if before is None or change.record.kind != "PARTITION_CHANGE_RECORD" or leader in (-1, before.leader):
            continue
        directory = directory_of(before, leader)
        registration = after[change.record.offset - 1].brokers.get(leader)
        if directory in (None, MIGRATING, UNASSIGNED) or registration is None:
            continue
        assert directory is not None
        yield (PASS if is_online(registration, directory) else VIOLATION), of_change(change)


def da04(history: History) -> Judged:
    """A partition has as many directories as replicas, and a broker registers no directory of another one."""
    after = images(history)
    for change in changes(history):
        partition = change.after
        if partition.directories:
            fits = len(partition.directories) == len(partition.replicas) or {*partition.directories} == {MIGRATING}
            yield (PASS if fits else VIOLATION), of_change(change)
    for record in records(history):
        data: Any = record.data
        if record.kind != "REGISTER_BROKER_RECORD" or not data.get("logDirs"):
            continue
        others = after[record.offset - 1].brokers if record.offset else {}
        shared = any(
            {*one.log_dirs} & {*data["logDirs"]} for broker, one in others.items() if broker != data["brokerId"]
        )
        yield (VIOLATION if shared else PASS), place(record)
