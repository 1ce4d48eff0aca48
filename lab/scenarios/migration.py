"""See the function's docstring."""

from __future__ import annotations

import re

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.processes import wait_for
from lab.releases import ZOOKEEPER
from lab.scenario import scenario

COMPLETED = re.compile("Completed migration of metadata from ZooKeeper to KRaft", re.I)


@scenario("orders", modes=(ZOOKEEPER,), since=(3, 6), layouts={ZOOKEEPER: Layout(migrates=True)})
def migration(cluster: Cluster) -> Expected:
    """A cluster moves from ZooKeeper to KRaft under load (KIP-866): no finding at all.

    A KRaft controller starts. The brokers are restarted to register with it, and it takes over the metadata. Then the brokers are restarted
    in KRaft mode, and the controller without ZooKeeper. In between a leader is elected in each of the modes.

    No acknowledged record may be missing.
    """
    brokers, settings = cluster.layout.brokers, cluster.settings
    (controller,) = cluster.controller_ids
    cluster.create("orders", "1,2,3/2,3,1/3,1,2", min_insync_replicas=2)
    shop = cluster.producer("shop", [f"orders-{one}" for one in range(len(brokers))], "all")
    cluster.consumer("billing", ["orders"])
    cluster.consumer("shipping", ["orders"], group="shipping")
    shop.tell("run")

    def goes_on() -> None:
        for partition in range(len(brokers)):
            cluster.wait_for_isr("orders", brokers, partition)
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 15)
        for partition in range(len(brokers)):
            cluster.admin(f"elect preferred orders {partition}", may_fail=True)

    goes_on()
    node = cluster.nodes[controller]
    node.configure(settings.migrating_controller(controller))
    cluster.format([node], cluster.admin("cluster")["cluster_id"])
    node.start()
    for broker in brokers:
        cluster.restart(broker, settings.migrating_broker(broker))
        goes_on()
    wait_for("the metadata is migrated", lambda: node.logged(COMPLETED, "*.log*"))
    goes_on()
    for broker in brokers:
        cluster.restart(broker, settings.with_kraft(broker))
        goes_on()
    cluster.restart(controller, settings.with_kraft(controller))
    goes_on()
    shop.tell("halt")
    return Expected()
