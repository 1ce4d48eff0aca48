"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.releases import DISKS_FROM, KRAFT, ZOOKEEPER
from lab.scenario import scenario

BROKER, DISK, PARTITIONS = 1, 1, 6
TWO_DISKS = Layout(disks=2)


@scenario("orders", layouts={KRAFT: TWO_DISKS, ZOOKEEPER: TWO_DISKS}, kraft_since=DISKS_FROM)
def failed_disk(cluster: Cluster) -> Expected:
    """A log directory of a broker fails and is replaced by an empty one: other brokers lead, nothing is lost, and there is no finding.

    Each broker has two log directories, with half of the replicas each. One of them can no longer be written. The controller takes these
    replicas out of the ISRs, and the broker goes on with the others. Then it restarts with an empty directory in place of the failed one,
    and copies what was there from the leaders. Producers with acks=all and acks=1 write all the time.
    """
    cluster.create_spread("orders", PARTITIONS)
    partitions = [f"orders-{number}" for number in range(PARTITIONS)]
    producers = [cluster.producer("shop", partitions, "all"), cluster.producer("web", partitions, "1")]
    cluster.consumer("billing", ["orders"])
    for producer in producers:
        producer.tell("run")
        producer.wait("acknowledged", 60)
    replicas = cluster.break_disk(BROKER, DISK)
    failed = [int(one.rpartition("-")[2]) for one in replicas if one.startswith("orders-")]
    others = [one for one in cluster.layout.brokers if one != BROKER]
    for partition in failed:
        cluster.wait_for_isr("orders", others, partition)
    for producer in producers:
        producer.wait("acknowledged", len(producer.events("acknowledged")) + 60)
    cluster.nodes[BROKER].stop()
    cluster.replace_disk(BROKER, DISK)
    cluster.nodes[BROKER].start()
    cluster.wait_until_in_sync(["orders"])
    for producer in producers:
        producer.wait("acknowledged", len(producer.events("acknowledged")) + 60)
        producer.tell("halt")
    return Expected()
