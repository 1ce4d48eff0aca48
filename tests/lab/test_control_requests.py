"""What a release of Kafka does with requests that a controller sends, and how they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.control_requests import (
    EPOCH_DURING_DELETE,
    LEADER_AND_ISR,
    NO_EPOCH,
    STOP_REPLICA,
    UPDATE_METADATA,
    ControlRequest,
    Epochs,
    Replicas,
    version_of,
)

CURRENT = Epochs(controller_epoch=6, broker_epoch=126, leader_epoch=4, partition_epoch=9, topic_id="A")
OLD, NEW = (2, 3, 1), (3, 9, 1)


def request(api: str, release: tuple[int, ...] = NEW, **changes: Any) -> ControlRequest:
    """One that is not stale, in the version that the release's controllers send."""
    fields = {name: changes.pop(name) for name in list(changes) if name in CURRENT.__dataclass_fields__}
    stated = replace(CURRENT, **fields)
    return replace(ControlRequest(api, version_of(api, release[:2]), 2, "orders", 0, stated, CURRENT), **changes)


def outcome(
    *requests: ControlRequest, release: tuple[int, ...] = NEW, recreated: str = ""
) -> tuple[tuple[int, ...], set[tuple[str, str]]]:
    """That of the last one: codes and findings."""
    replicas = Replicas(release, {recreated})
    last = [replicas.receive(one) for one in requests][-1]
    return last.codes, set(last.findings)


@pytest.mark.parametrize("release", [OLD, NEW])
@pytest.mark.parametrize(
    ("api", "codes", "rule"),
    [(LEADER_AND_ISR, (11, 11), "CE-01"), (STOP_REPLICA, (11,), "CE-01"), (UPDATE_METADATA, (11,), "UM-01")],
)
def test_every_release_refuses_an_older_controller_epoch_as_a_whole(
    api: str, codes: tuple[int, ...], rule: str, release: tuple[int, ...]
) -> None:
    stale = request(api, release, controller_epoch=5)
    assert outcome(stale, release=release) == (codes, {(rule, "fenced")})


@pytest.mark.parametrize("api", [LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA])
def test_the_broker_epoch_is_compared_before_the_controller_epoch(api: str) -> None:
    codes, findings = outcome(request(api, controller_epoch=5, broker_epoch=61))
    assert (set(codes), findings) == ({77}, {("BE-01", "fenced")})


def test_a_leader_and_isr_is_compared_by_topic_id_then_by_leader_epoch() -> None:
    assert outcome(request(LEADER_AND_ISR, leader_epoch=3)) == ((0, 11), {("LI-01", "fenced")})
    assert outcome(request(LEADER_AND_ISR, leader_epoch=3, topic_id="B")) == ((0, 103), {("TI-01", "fenced")})
    assert outcome(request(LEADER_AND_ISR, OLD, leader_epoch=5, topic_id="B"), release=OLD) == ((0, 0), set())


def test_before_3_0_the_topic_id_of_the_first_leader_and_isr_is_not_stored() -> None:
    former = request(LEADER_AND_ISR, (2, 8, 2), topic_id="B", leader_epoch=5)
    assert outcome(former, release=(2, 8, 2), recreated="orders") == ((0, 0), {("TI-01", "exposed")})
    assert outcome(former, release=(2, 8, 2), recreated="payments") == ((0, 103), {("TI-01", "fenced")})
    assert outcome(former, release=(3, 0, 2), recreated="orders") == ((0, 103), {("TI-01", "fenced")})


def test_a_repeated_leader_and_isr_is_refused_whatever_its_partition_epoch() -> None:
    assert outcome(request(LEADER_AND_ISR)) == outcome(request(LEADER_AND_ISR, partition_epoch=2)) == ((0, 11), set())


def test_a_broker_that_deleted_its_replica_has_no_leader_epoch() -> None:
    deletion = request(STOP_REPLICA, leader_epoch=EPOCH_DURING_DELETE, delete_partition=True)
    older = request(LEADER_AND_ISR, leader_epoch=1)
    assert outcome(deletion, older) == ((0, 0), {("LI-01", "exposed")})
    assert outcome(replace(deletion, delete_partition=False), older) == ((0, 11), {("LI-01", "fenced")})
    assert outcome(deletion, older, older) == ((0, 11), set())
    assert outcome(replace(deletion, broker=3), older) == ((0, 11), {("LI-01", "fenced")})


def test_stop_replica_has_a_leader_epoch_from_2_6_on() -> None:
    assert outcome(request(STOP_REPLICA, leader_epoch=3)) == ((0, 74), {("SR-01", "fenced")})
    assert outcome(request(STOP_REPLICA, (2, 5, 1), leader_epoch=3), release=(2, 5, 1)) == (
        (0, 0),
        {("SR-04", "exposed")},
    )
    assert outcome(request(STOP_REPLICA, version=2, leader_epoch=3)) == ((0, 0), {("SR-04", "exposed")})
    for epoch in (NO_EPOCH, EPOCH_DURING_DELETE):
        assert outcome(request(STOP_REPLICA, leader_epoch=epoch)) == ((0, 0), {("SR-03", "violation")})


def test_a_deletion_of_a_former_topic_meets_the_topic_of_its_name() -> None:
    stop = request(STOP_REPLICA, leader_epoch=EPOCH_DURING_DELETE)
    for one, rule in ((stop, "SR-03"), (replace(stop, delete_partition=True), "SR-07")):
        assert outcome(one, recreated="orders") == ((0, 0), {(rule, "exposed")})
        assert outcome(one, recreated="payments") == ((0, 0), {("SR-03", "violation")})


def test_an_equal_leader_epoch_stops_a_replica_from_3_4_1_on() -> None:
    assert outcome(request(STOP_REPLICA), release=(3, 4, 0)) == ((0, 74), {("SR-02", "fenced")})
    assert outcome(request(STOP_REPLICA), release=(3, 4, 1)) == ((0, 0), set())


def test_the_metadata_cache_compares_no_topic_ids() -> None:
    assert outcome(request(UPDATE_METADATA, topic_id="B", leader_epoch=9)) == ((0,), {("UM-02", "exposed")})
    assert outcome(request(UPDATE_METADATA, OLD, topic_id="B", leader_epoch=9), release=OLD) == ((0,), set())
    assert outcome(request(UPDATE_METADATA, topic_id="B", leader_epoch=9), request(UPDATE_METADATA)) == ((0,), set())


def test_the_metadata_cache_compares_no_leader_epochs() -> None:
    older, newest = request(UPDATE_METADATA, leader_epoch=1), request(UPDATE_METADATA)
    assert outcome(older) == ((0,), {("UM-02", "exposed")})
    assert outcome(older, newest) == outcome(older, older) == ((0,), set())


@pytest.mark.parametrize(
    ("release", "versions"),
    [((2, 3), (2, 1, 5)), ((2, 5), (4, 2, 6)), ((2, 7), (4, 3, 6)), ((3, 3), (6, 3, 7)), ((3, 9), (7, 4, 8))],
)
def test_controllers_of_a_release_send_one_version(release: tuple[int, int], versions: tuple[int, int, int]) -> None:
    assert tuple(version_of(api, release) for api in (LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA)) == versions


STATE = {"controller_epoch": 5, "isr": [1, 2], "replicas": [1, 2, 3]}


def test_the_fields_are_those_of_the_request_and_the_rest_of_the_state() -> None:
    stop = request(STOP_REPLICA, leader_epoch=3, partition_epoch=2, controller_epoch=4, delete_partition=True)
    fields = stop.fields({"controller_id": 7, "leader": 1}, STATE, {1: 9091})
    sender = (fields["controller_id"], fields["controller_epoch"], fields["broker_epoch"])
    assert sender == (7, 4, 126)
    (topic,) = fields["topic_states"]
    (partition,) = topic["partition_states"]
    assert (topic["topic_name"], topic["topic_id"], partition["leader"], partition["leader_epoch"]) == (
        "orders",
        "A",
        1,
        3,
    )
    assert (partition["partition_epoch"], partition["zk_version"], partition["isr"]) == (2, 2, [1, 2])
    assert (partition["delete_partition"], fields["delete_partitions"], fields["topics"]) == (
        True,
        True,
        [{"name": "orders", "partition_indexes": [0]}],
    )
    assert fields["live_leaders"] == [{"broker_id": 1, "host_name": "127.0.0.1", "port": 9091}]


def test_a_replaced_controller_did_not_know_who_wrote_the_state_later() -> None:
    for sent, written in ((4, 4), (6, 5)):
        fields = request(LEADER_AND_ISR, controller_epoch=sent).fields({"controller_id": 7, "leader": 1}, STATE, {})
        assert fields["topic_states"][0]["partition_states"][0]["controller_epoch"] == written
