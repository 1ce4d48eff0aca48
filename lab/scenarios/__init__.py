"""All scenarios, each in the module of its name."""

from __future__ import annotations

from typing import Final

from lab.scenario import Scenario
from lab.scenarios.acks_one import acks_one
from lab.scenarios.cut_off_leader import cut_off_leader
from lab.scenarios.eligible_leader import eligible_leader
from lab.scenarios.failed_disk import failed_disk
from lab.scenarios.fenced_producer import fenced_producer
from lab.scenarios.frozen_controller import frozen_controller
from lab.scenarios.frozen_group_member import frozen_group_member
from lab.scenarios.killed_leader import killed_leader
from lab.scenarios.lost_by_follower import lost_by_follower
from lab.scenarios.many_partitions import many_partitions
from lab.scenarios.migration import migration
from lab.scenarios.nearest_replica import nearest_replica
from lab.scenarios.reassignment import reassignment
from lab.scenarios.recreated_topic import recreated_topic
from lab.scenarios.replaced_disk import replaced_disk
from lab.scenarios.restored_controller import restored_controller
from lab.scenarios.rolling_restart import rolling_restart
from lab.scenarios.rolling_upgrade import rolling_upgrade
from lab.scenarios.share_group import share_group
from lab.scenarios.soak import soak
from lab.scenarios.stale_broker_requests import stale_broker_requests
from lab.scenarios.stale_control_requests import stale_control_requests
from lab.scenarios.stale_requests import stale_requests
from lab.scenarios.tiered_storage import tiered_storage
from lab.scenarios.unclean_election import unclean_election
from lab.scenarios.zombie_leader import zombie_leader

SCENARIOS: Final[tuple[Scenario, ...]] = (
    rolling_restart,
    rolling_upgrade,
    migration,
    killed_leader,
    acks_one,
    unclean_election,
    eligible_leader,
    replaced_disk,
    failed_disk,
    recreated_topic,
    reassignment,
    tiered_storage,
    zombie_leader,
    cut_off_leader,
    nearest_replica,
    lost_by_follower,
    frozen_group_member,
    fenced_producer,
    frozen_controller,
    restored_controller,
    stale_requests,
    stale_broker_requests,
    stale_control_requests,
    soak,
    share_group,
    many_partitions,
)
