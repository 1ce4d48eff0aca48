"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.releases import KRAFT
from lab.scenario import scenario


@scenario("orders", layouts={KRAFT: Layout(combined=True)})
def rolling_restart(cluster: Cluster) -> Expected:
    """All brokers are restarted, one after the other: no finding at all.

    Two producers, a consumer and a group go on meanwhile. Each broker shuts down in a controlled way, and the next one follows when all
    replicas are in sync again. With KRaft each node is a controller, too, so that the active controller changes as well. Then the preferred
    leaders are elected.

    No record that was acknowledged with acks=all may be missing. If one with acks=1 is, the report must list it, without a finding.
    """
    brokers = cluster.layout.brokers
    cluster.create_spread("orders", 3, min_insync_replicas=2)
    partitions = ["orders-0", "orders-1", "orders-2"]
    shop = cluster.producer("shop", partitions, "all")
    web = cluster.producer("web", partitions, "1")
    cluster.consumer("billing", ["orders"])
    member = cluster.consumer("shipping", ["orders"], group="shipping")
    for producer in (shop, web):
        producer.tell("run")
    for broker in brokers:
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
        member.ask("commit")
        cluster.nodes[broker].stop()
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
        cluster.nodes[broker].start()
        cluster.wait_until_in_sync(["orders"])
    for partition in range(len(partitions)):
        # it fails where the preferred leader leads already
        cluster.admin(f"elect preferred orders {partition}", may_fail=True)
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
    return Expected()
