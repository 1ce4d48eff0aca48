"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.load import RivalLoad
from lab.scenario import scenario


@scenario("orders")
def killed_leader(cluster: Cluster) -> Expected:
    """A leader dies by kill -9, and another member of the ISR is elected: no finding.

    The leader comes back, recovers its log and follows. No record that was acknowledged with acks=all may be missing. Those with acks=1
    that the followers had not fetched yet are missing, and the report must list exactly these, without a finding.
    """
    brokers = cluster.layout.brokers
    load = RivalLoad(cluster)
    load.goes_on(50)
    leader = int(cluster.partition("orders")["leader"])
    cluster.nodes[leader].kill()
    cluster.wait_for_leader("orders", other_than=leader)
    load.goes_on(50)
    cluster.nodes[leader].start()
    cluster.wait_for_isr("orders", brokers)
    load.goes_on(20)
    load.halt()
    return Expected(killed=1)
