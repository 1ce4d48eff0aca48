"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.processes import wait_for
from lab.releases import KRAFT
from lab.scenario import scenario


@scenario("orders", "during", "after", layouts={KRAFT: Layout(brokers=(1, 2), controllers=(100, 101, 102))})
def frozen_controller(cluster: Cluster) -> Expected:
    """The active controller is frozen until another was elected, and goes on: it is fenced, and there is no finding.

    With KRaft it is the leader of a quorum of three, with ZooKeeper one of three brokers. Topics are created by its successor while it is
    frozen and after it has returned. The report must have all controllers, and no two histories of the metadata.
    """
    replicas = ",".join(map(str, cluster.layout.brokers[:2]))
    cluster.create("orders", replicas)
    shop = cluster.producer("shop", ["orders-0"], "all")
    cluster.consumer("billing", ["orders"])
    shop.tell("run")
    shop.wait("acknowledged", 30)
    active = cluster.active_controller()
    assert active is not None  # noqa: S101 - the cluster answers
    cluster.nodes[active].freeze()

    def replaced() -> int | None:
        found = cluster.active_controller()
        return found if found != active else None

    successor = wait_for("another controller is active", replaced, 60)
    cluster.note(f"controller {successor} is active in place of {active}")
    brokers = [one for one in cluster.layout.brokers if one != active]
    cluster.create("during", ",".join(map(str, brokers[:2])))
    during = cluster.producer("web", ["during-0"], "all", pause_ms=1)
    during.send(20)
    cluster.nodes[active].thaw()
    cluster.wait_for_brokers(cluster.layout.brokers)
    cluster.wait_for_isr("orders", list(cluster.layout.brokers[:2]))
    cluster.create("after", replicas)
    after = cluster.producer("mobile", ["after-0"], "all", pause_ms=1)
    after.send(20)
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
    shop.tell("halt")
    return Expected()
