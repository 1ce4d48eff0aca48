"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.releases import KRAFT, ZOOKEEPER
from lab.scenario import scenario

TOPICS = tuple(f"shard-{number:02}" for number in range(20))
PARTITIONS = 100  # of each topic
RECREATED, DELETED = TOPICS[-2], TOPICS[-1]
LAYOUT = Layout(combined=True, heap_mb=900)
SETTINGS = {"log.index.size.max.bytes": 65536}  # by default each index of each partition is a file of 10 MB
SECONDS = 240.0


@scenario(*TOPICS[:-1], layouts={KRAFT: LAYOUT, ZOOKEEPER: LAYOUT}, since=(2, 6), settings=SETTINGS)
def many_partitions(cluster: Cluster) -> Expected:
    """Brokers with 2,000 partitions each are restarted, and one is killed; topics are deleted and created again: no finding.

    A producer with acks=all writes to the first partition of each topic but the last two, and a consumer reads these topics. Each
    disturbance ends when all replicas are in sync again. No acknowledged record may be missing.
    """
    brokers = cluster.layout.brokers
    for topic in TOPICS:
        cluster.create_spread(topic, PARTITIONS, min_insync_replicas=2)
    written = TOPICS[:-2]
    shop = cluster.producer("shop", [f"{topic}-0" for topic in written], "all")
    cluster.consumer("billing", written)
    shop.tell("run")

    def goes_on() -> None:
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 30)

    cluster.wait_until_in_sync(TOPICS, SECONDS)
    for broker in brokers:
        goes_on()
        cluster.nodes[broker].stop(SECONDS)
        goes_on()
        cluster.nodes[broker].start()
        cluster.wait_until_in_sync(TOPICS, SECONDS)
    cluster.delete(DELETED)
    cluster.delete(RECREATED)
    cluster.create_spread(RECREATED, PARTITIONS)
    remaining = TOPICS[:-1]
    cluster.wait_until_in_sync(remaining, SECONDS)
    killed = cluster.random.choice(brokers)
    cluster.nodes[killed].kill()
    goes_on()
    cluster.nodes[killed].start()
    cluster.wait_until_in_sync(remaining, SECONDS)
    goes_on()
    shop.tell("halt")
    return Expected(killed=1)
