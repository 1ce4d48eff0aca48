"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.processes import wait_for
from lab.releases import REASSIGNMENTS_FROM
from lab.scenario import scenario


@scenario("orders", since=REASSIGNMENTS_FROM)
def reassignment(cluster: Cluster) -> Expected:
    """A partition moves to other brokers and back, while clients use it, and records are deleted on request: no finding.

    The leader is among the replicas that are removed, so that another is elected, and a replica is deleted and created again.

    LS-02 must have judged the deletion: the leader confirms it when all live replicas have deleted the records. No record above them that
    was acknowledged with acks=all may be missing. If one with acks=1 is, the report must list it, without a finding.
    """
    cluster.create("orders", "1,2")
    shop = cluster.producer("shop", ["orders-0"], "all")
    web = cluster.producer("web", ["orders-0"], "1")
    cluster.consumer("billing", ["orders"])
    for producer in (shop, web):
        producer.tell("run")
    for replicas in ([2, 3], [3, 1], [1, 2]):
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
        cluster.admin(f"reassign orders 0 {','.join(map(str, replicas))}")
        wait_for("the reassignment ends", lambda: cluster.admin("reassigning").get("partitions") == 0)
        cluster.wait_for_isr("orders", replicas)
    answer = cluster.admin("delete-records orders 0 20")
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)
    for producer in (shop, web):
        producer.tell("halt")
    return Expected(deleted_below={("orders", 0): int(answer["low_watermark"])}, passed=frozenset({"LS-02"}))
