"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.processes import RunError
from lab.releases import KRAFT
from lab.scenario import scenario

REQUIRED = frozenset({("TR-06", "orders", 0), ("AW-01", "orders", 0)})
ELR = frozenset({"EL-01", "EL-02", "EL-03"})


@scenario("orders", modes=(KRAFT,), since=(4, 1))
def eligible_leader(cluster: Cluster) -> Expected:
    """An eligible leader replica (KIP-966) is elected, later one that is none: EL-01 to EL-03 pass, TR-06 and AW-01 find the loss.

    min.insync.replicas is 2. Broker 3 shuts down, then broker 2: the ISR is broker 1 alone, and broker 2 becomes eligible. Writes with
    acks=all are refused from there on, those with acks=1 are not. Broker 1 dies, broker 2 comes back and is elected from the ELR: only
    writes with acks=1 are missing, and no consumer could read them. Then brokers 1 and 2 go on without broker 3, and both die. Broker 3,
    which is in neither list, is elected uncleanly.

    The report must have TR-06 and AW-01 of the second election as exposed, the writes with acks=1 of both elections, and no finding of the
    first one.
    """
    cluster.create("orders", "1,2,3", min_insync_replicas=2, unclean_leader_election_enable="true")
    shop = cluster.producer("shop", ["orders-0"], "all", pause_ms=1)
    web = cluster.producer("web", ["orders-0"], "1", pause_ms=1)
    ledger = cluster.consumer("ledger", ["orders"])
    for producer in (shop, web):
        producer.send(30)
    cluster.nodes[3].stop()
    cluster.wait_for_isr("orders", [1, 2])
    for producer in (shop, web):
        producer.send(20)
    ledger.wait("consumed", 100)
    cluster.nodes[2].stop()
    cluster.wait_for_isr("orders", [1])
    shop.send(3)
    if len(shop.events("failed")) < 3:
        raise RunError("writes with acks=all were acknowledged by fewer replicas than min.insync.replicas")
    web.send(15)
    cluster.nodes[1].kill()
    cluster.nodes[2].start()
    cluster.wait_for_leader("orders", other_than=1)
    cluster.nodes[1].start()
    cluster.wait_for_isr("orders", [1, 2])
    for producer in (shop, web):
        producer.send_until_acknowledged()
        producer.send(25)
    ledger.wait("consumed", 152)
    cluster.nodes[1].kill()
    cluster.wait_for_isr("orders", [2])
    cluster.nodes[2].kill()
    cluster.nodes[3].start()
    cluster.wait_for_unclean_leader("orders", other_than=2, seconds=10)
    for broker in (1, 2):
        cluster.nodes[broker].start()
    cluster.wait_for_isr("orders", [1, 2, 3])
    for producer in (shop, web):
        producer.send_until_acknowledged()
        producer.send(5)
    lost = frozenset({("orders", 0)})
    return Expected(losses=lost, required=REQUIRED, passed=ELR, killed=3)
