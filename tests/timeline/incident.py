"""The history of an unclean election: broker 1 led, broker 2 took over from behind, and a consumer read on."""

from __future__ import annotations

from typing import Any

from tests.timeline.facts import Event, fact

CONTROLLER = {"source": "state_change_log", "controller_epoch": 1, "file": "broker-3/state-change.log"}


def state(second: float, epoch: int, leader: int, isr: list[int], partition_epoch: int, **more: Any) -> Event:
    """What the controller, node 3, writes."""
    columns = {"leader_epoch": epoch, "leader": leader, "isr": isr, "partition_epoch": partition_epoch}
    return fact("PARTITION_STATE_CHANGED", 3, second, **{**CONTROLLER, **columns, **more})


def fetch(node: int, second: float, client: str, offset: int, **more: Any) -> Event:
    """A consumer's request."""
    columns = {"client_id": client, "fetch_offset": offset, "least": offset, "greatest": offset, "diverging_epoch": -1}
    return fact("FETCH", node, second, **{**columns, **more})


READ = fetch(1, 5, "c1", 30, current_leader_epoch=1, greatest=30, least=0, requests=4)
READ["last"] |= {"byte_offset": 5_900, "line_in_split": 7}
UNCLEAN = (
    state(1, 1, 1, [1, 2], 4),
    fact("LEADER_STARTS", 1, 2, leader_epoch=1, leader=1, start_offset=0, isr=[1, 2]),
    fact("FOLLOWER_STARTS", 2, 2, leader_epoch=1, leader=1, start_offset=0),
    fact("LOG_TRUNCATED", 2, 2.5, offset=0),
    READ,
    state(6, 2, 1, [1], 5),
    state(8, 3, 2, [2], 6),
    fact("LEADER_STARTS", 2, 9, leader_epoch=3, leader=2, start_offset=10, isr=[2]),
    fetch(2, 10, "c1", 30, current_leader_epoch=1, error_code=74),
    fetch(2, 11, "c2", 30, current_leader_epoch=-1),
    fact("FOLLOWER_STARTS", 1, 12, leader_epoch=3, leader=2, start_offset=30),
    fact("LOG_TRUNCATED", 1, 13, offset=10),
)
