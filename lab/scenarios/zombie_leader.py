"""See the function's docstring."""

from __future__ import annotations

from time import sleep

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.load import RivalLoad
from lab.node_settings import SESSION_MS
from lab.scenario import scenario


@scenario("orders")
def zombie_leader(cluster: Cluster) -> Expected:
    """A leader is frozen until another was elected, and goes on: no loss is reported, unless the clients' lists have one.

    When it goes on, it believes for a moment that it leads, and answers what waits in its sockets. Its followers and clients know a newer
    leader epoch. Twice: the second time the zombie was a follower's leader for a short while only.

    Records with acks=all may not be missing. Those with acks=1 that the zombie acknowledged may be; the report must list these, without a
    finding.
    """
    brokers = cluster.layout.brokers
    load = RivalLoad(cluster)
    for _ in range(2):
        load.goes_on()
        leader = int(cluster.partition("orders")["leader"])
        cluster.nodes[leader].freeze()
        cluster.wait_for_leader("orders", other_than=leader)
        load.goes_on()
        sleep(SESSION_MS / 2000)  # its followers' lag and its session have ended by its own clock, too
        cluster.nodes[leader].thaw()
        cluster.wait_for_isr("orders", brokers)
    load.goes_on()
    load.halt()
    return Expected()
