"""The state after a metadata record, and the standing of the ISR's members at its offset."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from epochaudit.replay.control_plane.metadata import metadata
from tests.replay.histories import Checks, Event, Replay

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAtA"

replay = Replay(metadata, order=("clock",))


def record(event_type: str, offset: int, **columns: Any) -> Event:
    """One record of the metadata log; its line is placed by its offset."""
    return {
        "event_id": offset, "cluster": "c", "source": "metadata_log", "event_type": event_type, "file": "metadata.log",
        "file_order": 0, "byte_offset": offset * 100, "split": 0, "line_in_split": offset + 1, "partition_row": 0,
        "time_ms": offset * 10, "metadata_offset": offset,
    } | columns  # fmt: skip


def partition(offset: int, **columns: Any) -> Event:
    return record("PARTITION_RECORD", offset, topic_id=TOPIC_ID, partition=0, **columns)


def change(offset: int, **columns: Any) -> Event:
    return record("PARTITION_CHANGE_RECORD", offset, topic_id=TOPIC_ID, partition=0, **columns)


def of(cluster: str, event: Event) -> Event:
    """The event in another cluster."""
    return event | {"cluster": cluster}


@replay.test
def test_a_change_raises_the_partition_epoch_and_the_leader_epoch_only_with_the_leader() -> Checks:
    created = partition(0, leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2, 3], replicas=[1, 2, 3])
    after = yield [created, change(1, isr=[1, 2]), change(2, leader=1), change(3, leader=-1, isr=[])]
    assert [(row.leader, row.leader_epoch, row.partition_epoch, row.isr) for row in after] == [
        (1, 0, 0, [1, 2, 3]),
        (1, 0, 1, [1, 2]),
        (1, 1, 2, [1, 2]),
        (-1, 2, 3, []),
    ]
    assert [(row.previous_leader, row.previous_leader_epoch, row.previous_partition_epoch) for row in after] == [
        (None, None, None),
        (1, 0, 0),
        (1, 0, 1),
        (1, 1, 2),
    ]
    assert all(row.replicas == [1, 2, 3] for row in after)


@replay.test
def test_without_the_first_record_the_epochs_are_unknown() -> Checks:
    (row,) = yield [change(70, leader=2)]
    assert (row.leader, row.leader_epoch, row.partition_epoch, row.isr) == (2, None, None, None)


@replay.test
def test_a_snapshot_replaces_the_state_before_its_end_offset() -> Checks:
    snapshot = {"in_snapshot": True, "file": "00000000000000000070-0000000002.checkpoint"}
    whole = partition(3, leader=2, leader_epoch=8, partition_epoch=20, isr=[2], replicas=[2], **snapshot)
    row = (yield [change(70, leader=2), whole])[-1]
    assert (row.metadata_offset, row.leader_epoch, row.partition_epoch, row.isr) == (70, 9, 21, [2])


@replay.test
def test_members_have_the_standing_of_their_registrations_at_the_offset() -> Checks:
    broker = [record("REGISTER_BROKER_RECORD", i, broker_id=i + 1, broker_epoch=i, fenced=False) for i in range(3)]
    fenced = record("BROKER_REGISTRATION_CHANGE_RECORD", 4, broker_id=1, broker_epoch=0, fenced=True)
    leaving = record("BROKER_REGISTRATION_CHANGE_RECORD", 6, broker_id=2, broker_epoch=1, in_controlled_shutdown=True)
    unregistered = record("UNREGISTER_BROKER_RECORD", 8, broker_id=3, broker_epoch=2)
    created = partition(3, leader=1, leader_epoch=0, partition_epoch=0, isr=[1, 2, 3], replicas=[1, 2, 3])
    rows = yield [*broker, created, fenced, change(5, leader=2), leaving, change(7, leader=3), unregistered, change(9)]
    assert [row.ineligible_members for row in rows] == [
        [],
        ["1 fenced"],
        ["1 fenced", "2 shutting down"],
        ["1 fenced", "2 shutting down", "3 unregistered"],
    ]
    assert [row.ineligible_ref and row.ineligible_ref.byte_offset for row in rows] == [None, 400, 400, 400]


@replay.test
def test_a_broker_without_records_is_unregistered_only_if_the_log_is_complete() -> Checks:
    created = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": [1], "replicas": [1]}
    complete, cut = yield [of("complete", partition(0, **created)), of("cut", partition(9, **created))]
    assert (complete.standings, cut.standings) == (["unregistered"], ["unknown"])


@replay.test
def test_the_controller_is_the_raft_leader_of_the_records_epoch() -> Checks:
    elected = [record("LEADER_CHANGE", offset, raft_epoch=offset, leader=100 + offset) for offset in (0, 2)]
    state = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": [1], "replicas": [1]}
    rows = yield [*elected, partition(1, raft_epoch=0, **state), change(3, raft_epoch=2), change(4, raft_epoch=7)]
    assert [row.node for row in rows] == [100, 102, None]


RELEASES: Final = [
    ("4", None, True), ("3", "3.2.3", False), (None, "3.3.0", True), (None, "2.8.1", False), (None, None, None),
]  # fmt: skip


@replay.test
def test_the_controllers_release() -> Checks:
    events = []
    for level, version, _ in RELEASES:
        cluster = f"{level} {version}"
        created = partition(1, leader=1, leader_epoch=0, partition_epoch=0, isr=[1], replicas=[1])
        events.append(of(cluster, created))
        if level:
            events.append(of(cluster, record("FEATURE_LEVEL_RECORD", 0, name="metadata.version", value=level)))
        if version:
            started = record("KAFKA_VERSION", 0, source="server_log", node=100, name="kafka", value=version)
            events.append(of(cluster, started))
    after = yield events
    found = [(row.cluster, row.checks_eligibility) for row in after]
    assert found == sorted((f"{level} {version}", checks) for level, version, checks in RELEASES)


def random_change(random: Random) -> tuple[int | None, list[int] | None]:
    """A change of the leader, of the ISR, of both or of nothing."""
    isr = random.sample((1, 2, 3), random.randint(0, 3))
    return random.choice((None, -1, 1, 2, 3)), random.choice((None, isr))


@replay.test
def test_the_merge_agrees_with_a_replay_in_plain_python() -> Checks:
    random = Random(23)  # noqa: S311  the same histories each time
    events, expected = [], []
    for number in range(90):
        state: dict[str, Any] = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0, "isr": [1, 2, 3]}
        cluster = f"{number:03}"
        events.append(of(cluster, partition(0, replicas=[1, 2, 3], **state)))
        expected.append(tuple(state.values()))
        for offset in range(1, random.randint(1, 13)):
            leader, isr = random_change(random)
            events.append(of(cluster, change(offset, leader=leader, isr=isr)))
            state["partition_epoch"] += 1
            state["leader_epoch"] += leader is not None
            state["leader"] = state["leader"] if leader is None else leader
            state["isr"] = state["isr"] if isr is None else isr
            expected.append(tuple(state.values()))
    after = yield events
    assert [(row.leader, row.leader_epoch, row.partition_epoch, row.isr) for row in after] == expected
