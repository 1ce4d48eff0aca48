"""See the function's docstring."""

from __future__ import annotations

from time import sleep

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.load import RivalLoad
from lab.node_settings import SESSION_MS
from lab.processes import wait_for
from lab.releases import KRAFT, ZOOKEEPER
from lab.scenario import scenario

LAYOUT = Layout(linked=True)


@scenario("orders", layouts={KRAFT: LAYOUT, ZOOKEEPER: LAYOUT})
def cut_off_leader(cluster: Cluster) -> Expected:
    """A leader is cut off from the controller and goes on beside its successor: no loss is reported, unless the clients' lists have one.

    Clients and other brokers still reach it, and it does not know that it was replaced. Its followers and the clients that learn of the
    new leader leave it. When it reaches the controller again, it truncates what only it had. Twice, so that the second time its successor
    is cut off.

    Records with acks=all may not be missing. Those with acks=1 that the former leader acknowledged may be; the report must list these,
    without a finding.
    """
    brokers = cluster.layout.brokers
    load = RivalLoad(cluster)
    for _ in range(2):
        load.goes_on()
        leader = int(cluster.partition("orders")["leader"])
        begun = cluster.begun_epochs("orders", other_than=leader)
        cluster.cut_off(leader)
        wait_for(
            f"orders-0 has a leader other than {leader}",
            lambda before=begun, former=leader: cluster.begun_epochs("orders", other_than=former) > before,  # type: ignore[misc]
        )
        sleep(SESSION_MS / 1000)  # clients may learn of the successor or not: the former leader answers Metadata, too
        cluster.reconnect(leader)
        cluster.wait_for_brokers(brokers)
        cluster.wait_for_isr("orders", brokers)
    load.goes_on()
    load.halt()
    return Expected()
