"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.scenario import scenario


@scenario("payments", "orders")
def unclean_election(cluster: Cluster) -> Expected:
    """A replica that is not in sync becomes leader: TR-06 and AW-01 name exactly the records that are missing.

    The partition has two replicas. The second shuts down. A producer with acks=all and one with acks=1 go on, and a consumer reads
    what they write. Then the first dies, the second comes back and is elected uncleanly, and the producers go on with it. When the
    first returns, it truncates what only it had. A topic whose leader stays loses nothing.

    The report must have TR-06 and AW-01 as exposed, the lost offsets from the first to the last that the clients miss, each producer's
    missing acknowledgements by number and offsets, and the consumer that had read the lost records.
    """
    cluster.create("orders", "3,1,2")
    cluster.create("payments", "1,2", unclean_leader_election_enable="true")
    shop = cluster.producer("shop", ["payments-0"], "all", pause_ms=1)
    web = cluster.producer("web", ["payments-0"], "1", pause_ms=1)
    ledger = cluster.consumer("ledger", ["payments"])
    calm = cluster.producer("mobile", ["orders-0"], "all")
    calm.tell("run")
    for producer in (shop, web):
        producer.send(40)
    cluster.nodes[2].stop()
    cluster.wait_for_isr("payments", [1])
    for producer, count in ((shop, 30), (web, 25), (shop, 5)):
        producer.send(count)
    ledger.wait("consumed", 140)
    cluster.nodes[1].kill()
    cluster.wait_for_brokers([3])
    cluster.nodes[2].start()
    cluster.wait_for_brokers([2, 3])
    cluster.wait_for_unclean_leader("payments", other_than=1, seconds=5)
    for producer in (shop, web):
        producer.send_until_acknowledged()
        producer.send(10)
    cluster.nodes[1].start()
    cluster.wait_for_isr("payments", [1, 2])
    shop.send(10)
    lost = frozenset({("payments", 0)})
    required = frozenset({("TR-06", "payments", 0), ("AW-01", "payments", 0)})
    return Expected(losses=lost, required=required)
