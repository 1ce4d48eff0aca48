"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.load import Load
from lab.releases import KRAFT
from lab.scenario import scenario


@scenario("orders", layouts={KRAFT: Layout(controllers=(100, 101, 102))}, upgrades=True)
def rolling_upgrade(cluster: Cluster) -> Expected:
    """All nodes are restarted with a newer release, one after the other, under load: no finding at all.

    With KRaft first the controllers, then the brokers, and at the end metadata.version is raised. With ZooKeeper the brokers go on with the
    former inter.broker.protocol.version, and are restarted once more without it.

    No acknowledged record may be missing, and the report must name the newer release of each node.
    """
    load, brokers = Load(cluster), cluster.layout.brokers
    load.goes_on()
    if cluster.mode == KRAFT:
        for node in (*cluster.controller_ids, *brokers):
            cluster.restart(node, cluster.settings.with_kraft(node), cluster.newer)
            load.goes_on()
        cluster.admin("upgrade metadata.version latest")
    else:
        former = {"inter.broker.protocol.version": ".".join(map(str, cluster.release.number))}
        for added in (former, {}):
            for broker in brokers:
                cluster.restart(broker, cluster.settings.with_zookeeper(broker) | added, cluster.newer)
                load.goes_on()
    load.goes_on()
    load.elect_preferred()
    load.goes_on()
    load.halt()
    return Expected()
