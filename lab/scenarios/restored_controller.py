"""See the function's docstring."""

from __future__ import annotations

from functools import partial
from shutil import copytree, rmtree

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.processes import wait_for
from lab.releases import KRAFT, TOOLS_FROM
from lab.scenario import scenario

ELECTIONS = 2
METADATA = "data/__cluster_metadata-0"


@scenario("orders", layouts={KRAFT: Layout(brokers=(1, 2), controllers=(100, 101, 102))}, since=TOOLS_FROM)
def restored_controller(cluster: Cluster) -> Expected:
    """A controller starts with an older copy of its metadata directory, as after a snapshot of its disk was restored.

    It was no leader when the copy was made. Since then it has logged higher epochs of the quorum, as the active controller was stopped
    twice, and another one elected. Brokers, producer and consumer go on, and no record may be missing.

    The report must have RA-04, and may have RA-03: if the controller does not learn of the leader in time, it votes in an epoch in which it
    had voted for another one.
    """
    cluster.create_spread("orders", 2)
    shop = cluster.producer("shop", ["orders-0", "orders-1"], "all")
    cluster.consumer("billing", ["orders"])
    shop.tell("run")
    shop.wait("acknowledged", 30)
    first = _leader(cluster)
    restored = cluster.random.choice([one for one in cluster.layout.controllers if one != first])
    node = cluster.nodes[restored]
    node.stop()
    copytree(node.folder / METADATA, node.folder / "copy")
    node.start()
    for _ in range(ELECTIONS):
        active = _leader(cluster)
        cluster.nodes[active].stop()
        wait_for("another controller is active", partial(_is_replaced, cluster, active), 60)
        cluster.nodes[active].start()
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
    node.stop()
    rmtree(node.folder / METADATA)
    copytree(node.folder / "copy", node.folder / METADATA)
    cluster.note(f"controller {restored} starts with an older copy of its metadata directory")
    node.start()
    cluster.wait_until_in_sync(["orders"])
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
    shop.tell("halt")
    return Expected(required=frozenset({("RA-04", None, None)}), allowed=frozenset({("RA-03", None, None)}))


def _leader(cluster: Cluster) -> int:
    """The active controller."""
    return wait_for("a controller is active", cluster.active_controller, 60)


def _is_replaced(cluster: Cluster, active: int) -> bool:
    return cluster.active_controller() not in (None, active)
