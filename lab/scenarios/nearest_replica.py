"""See the function's docstring."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cluster import Client, Cluster
from lab.comparison import Expected
from lab.racks import RACKS, require_reads_from_followers
from lab.releases import READS_FROM_FOLLOWERS_FROM
from lab.scenario import scenario


@scenario("orders", since=READS_FROM_FOLLOWERS_FROM, settings=RACKS)
def nearest_replica(cluster: Cluster) -> Expected:
    """Consumers read from the replicas of their rack (KIP-392), while leaders and followers are killed, frozen and restarted: no finding.

    Each broker is a rack, leads one partition, and follows the leaders of two. Three consumers, one in each rack, read all partitions;
    two of three partitions from a follower. One broker dies by kill -9 and returns, another one is frozen beyond its session and goes on
    as a follower that is not in sync, the third one shuts down and returns.
    """
    cluster.create_spread("orders", 3)
    shop = cluster.producer("shop", ["orders-0", "orders-1", "orders-2"], "all")
    readers = [
        cluster.consumer(f"reader-{one}", ["orders"], client_rack=f"rack-{one}") for one in cluster.layout.brokers
    ]
    shop.tell("run")
    _read_on(readers)
    killed, frozen, stopped = cluster.layout.brokers
    cluster.nodes[killed].kill()
    cluster.wait_for_brokers([frozen, stopped])
    _read_on(readers)
    cluster.nodes[killed].start()
    cluster.wait_until_in_sync(["orders"])
    _read_on(readers)
    cluster.nodes[frozen].freeze()
    cluster.wait_for_brokers([killed, stopped])
    cluster.nodes[frozen].thaw()
    cluster.wait_until_in_sync(["orders"])
    _read_on(readers)
    cluster.nodes[stopped].stop()
    cluster.nodes[stopped].start()
    cluster.wait_until_in_sync(["orders"])
    _read_on(readers)
    shop.tell("halt")
    require_reads_from_followers(cluster)
    return Expected(killed=1)


def _read_on(readers: Sequence[Client], records: int = 60) -> None:
    """Until each consumer has read so many more records."""
    for reader in readers:
        reader.wait("consumed", len(reader.events("consumed")) + records)
