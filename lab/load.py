"""Loads that go on while a scenario changes the cluster."""

from __future__ import annotations

from lab.cluster import Client, Cluster

TOPIC = "orders"
BETWEEN = 15  # acknowledged records between two changes


class Load:
    """A producer with acks=all, a consumer and a group, of a topic with a partition per broker, each broker the preferred leader of one.

    They go on until `halt`.
    """

    def __init__(self, cluster: Cluster) -> None:
        brokers = cluster.layout.brokers
        self._cluster, self._partitions = cluster, range(len(brokers))
        cluster.create_spread(TOPIC, len(brokers), min_insync_replicas=2)
        self._shop: Client = cluster.producer("shop", [f"{TOPIC}-{one}" for one in self._partitions], "all")
        cluster.consumer("billing", [TOPIC])
        cluster.consumer("shipping", [TOPIC], group="shipping")
        self._shop.tell("run")

    def goes_on(self) -> None:
        """Until all replicas are in sync, and some more records were acknowledged."""
        self._cluster.wait_until_in_sync([TOPIC])
        self._shop.wait("acknowledged", len(self._shop.events("acknowledged")) + BETWEEN)

    def elect_preferred(self) -> None:
        """Elect the preferred leaders; it fails where they lead already."""
        for partition in self._partitions:
            self._cluster.admin(f"elect preferred {TOPIC} {partition}", may_fail=True)

    def halt(self) -> None:
        self._shop.tell("halt")


class RivalLoad:
    """Two producers of one partition, with acks=all and, a thousand records per second, with acks=1; and a consumer.

    Between them they show what a leader acknowledges that another one replaces.
    """

    def __init__(self, cluster: Cluster) -> None:
        cluster.create(TOPIC, "1,2,3", min_insync_replicas=2)
        self._shop: Client = cluster.producer("shop", [f"{TOPIC}-0"], "all")
        self._web: Client = cluster.producer("web", [f"{TOPIC}-0"], "1", pause_ms=1)
        cluster.consumer("billing", [TOPIC])
        self._shop.tell("run")
        self._web.tell("run")

    def goes_on(self, records: int = 30) -> None:
        """Until so many more records were acknowledged with acks=all."""
        self._shop.wait("acknowledged", len(self._shop.events("acknowledged")) + records)

    def halt(self) -> None:
        self._shop.tell("halt")
        self._web.tell("halt")
