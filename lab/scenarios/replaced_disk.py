"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.scenario import scenario

BROKER = 3
LOST = (("cache", 0), ("payments", 0))


@scenario("cache", "payments", "orders")
def replaced_disk(cluster: Cluster) -> Expected:
    """A broker returns with an empty disk, and leads what only it had: TR-06 and AW-01 name exactly the records that are missing.

    Broker 3 has the only replica of `cache`. Of `payments` broker 2 has another one, but shuts down before. Producers with acks=all go
    on, and a consumer reads. Then broker 3 shuts down, loses its log directory, and starts with an empty one. It is the whole ISR of both
    partitions, and leads them again; broker 2 returns, and truncates its log to nothing. Of `orders` all brokers have a replica: broker 3
    copies it anew, and nothing is lost.

    The report must have TR-06 and AW-01 of `cache` and `payments`, the lost offsets, each producer's missing acknowledgements, the
    consumer that had read them, and nothing about `orders`. It may have TR-07 of broker 2, which truncates committed records.
    """
    cluster.create("cache", "3")
    cluster.create("payments", "3,2")
    cluster.create("orders", "3,1,2")
    shop = cluster.producer("shop", ["cache-0", "payments-0"], "all", pause_ms=1)
    calm = cluster.producer("mobile", ["orders-0"], "all")
    ledger = cluster.consumer("ledger", ["cache", "payments"])
    calm.tell("run")
    shop.send(40)
    cluster.nodes[2].stop()
    cluster.wait_for_isr("payments", [BROKER])
    shop.send(30)
    ledger.wait("consumed", 70)
    cluster.nodes[BROKER].stop()
    cluster.wait_for_brokers([1])
    cluster.replace_disk(BROKER)
    cluster.nodes[BROKER].start()
    cluster.wait_for_brokers([1, BROKER])
    for topic in ("cache", "payments"):
        # a controller that knows of the unclean shutdown (KIP-966) takes it out of the ISR
        cluster.wait_for_unclean_leader(topic, other_than=-1, seconds=10)
    shop.send_until_acknowledged()
    shop.send(10)
    cluster.nodes[2].start()
    cluster.wait_for_isr("payments", [2, BROKER])
    cluster.wait_for_isr("orders", [1, 2, 3])
    shop.send(10)
    calm.tell("halt")
    required = frozenset((rule, *partition) for rule in ("TR-06", "AW-01") for partition in LOST)
    return Expected(losses=frozenset(LOST), required=required, allowed=frozenset({("TR-07", "payments", 0)}))
