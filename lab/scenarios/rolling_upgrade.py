"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.releases import KRAFT
from lab.scenario import scenario


@scenario("orders", layouts={KRAFT: Layout(controllers=(100, 101, 102))}, upgrades=True)
def rolling_upgrade(cluster: Cluster) -> Expected:
    """All nodes are restarted with a newer release, one after the other, under load: no finding at all.

    With KRaft first the controllers, then the brokers, and at the end metadata.version is raised. With ZooKeeper the brokers go on with the
    former inter.broker.protocol.version, and are restarted once more without it.

    No acknowledged record may be missing, and the report must name the newer release of each node.
    """
    brokers = cluster.layout.brokers
    order = [[brokers[(first + at) % len(brokers)] for at in range(len(brokers))] for first in range(len(brokers))]
    cluster.create("orders", "/".join(",".join(map(str, replicas)) for replicas in order), min_insync_replicas=2)
    shop = cluster.producer("shop", [f"orders-{one}" for one in range(len(brokers))], "all")
    cluster.consumer("billing", ["orders"])
    cluster.consumer("shipping", ["orders"], group="shipping")
    shop.tell("run")

    def goes_on() -> None:
        for partition in range(len(brokers)):
            cluster.wait_for_isr("orders", brokers, partition)
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 15)

    goes_on()
    if cluster.mode == KRAFT:
        for node in (*cluster.controller_ids, *brokers):
            cluster.restart(node, cluster.settings.with_kraft(node), cluster.newer)
            goes_on()
        cluster.admin("upgrade metadata.version latest")
    else:
        former = {"inter.broker.protocol.version": ".".join(map(str, cluster.release.number))}
        for added in (former, {}):
            for broker in brokers:
                cluster.restart(broker, cluster.settings.with_zookeeper(broker) | added, cluster.newer)
                goes_on()
    goes_on()
    for partition in range(len(brokers)):
        cluster.admin(f"elect preferred orders {partition}", may_fail=True)
    goes_on()
    shop.tell("halt")
    return Expected()
