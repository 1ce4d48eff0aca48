"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.scenario import scenario


@scenario("orders")
def killed_leader(cluster: Cluster) -> Expected:
    """A leader dies by kill -9, and another member of the ISR is elected: no finding.

    The leader comes back, recovers its log and follows. No record that was acknowledged with acks=all may be missing. Those with acks=1
    that the followers had not fetched yet are missing, and the report must list exactly these, without a finding.
    """
    brokers = cluster.layout.brokers
    cluster.create("orders", "1,2,3", min_insync_replicas=2)
    shop = cluster.producer("shop", ["orders-0"], "all")
    web = cluster.producer("web", ["orders-0"], "1", pause_ms=1)
    cluster.consumer("billing", ["orders"])
    for producer in (shop, web):
        producer.tell("run")
    shop.wait("acknowledged", 50)
    leader = int(cluster.partition("orders")["leader"])
    cluster.nodes[leader].kill()
    cluster.wait_for_leader("orders", other_than=leader)
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 50)
    cluster.nodes[leader].start()
    cluster.wait_for_isr("orders", brokers)
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 20)
    for producer in (shop, web):
        producer.tell("halt")
    return Expected(killed=1)
