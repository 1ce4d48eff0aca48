"""See the function's docstring."""

from __future__ import annotations

import re

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.load import Load
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
    load = Load(cluster)

    def goes_on() -> None:
        load.goes_on()
        load.elect_preferred()

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
    load.halt()
    return Expected()
