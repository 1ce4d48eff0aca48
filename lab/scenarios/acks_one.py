"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.scenario import scenario


@scenario("clicks", "views")
def acks_one(cluster: Cluster) -> Expected:
    """Leaders die while their followers lag, and all producers use acks=1: what only a leader had is missing, and there is no finding.

    Three partitions, two of them with broker 1 as leader and broker 2 as follower. The follower is frozen, the producers go on, and the
    leader dies by kill -9. The follower goes on before its session ends, so that it is in the ISR: a clean election, without the last
    records. Later the roles change, and the same happens to the other broker. Two producers: one sends records one by one, the other
    batches of five. The third partition keeps its leader and loses nothing.

    The report must list the missing writes by producer, partition and offsets, apart from those with acks=all, and nothing else. It has no
    finding: acks=1 promises no more than the leader's copy.
    """
    cluster.create("clicks", "1,2/3,1")
    cluster.create("views", "1,2")
    partitions = ["clicks-0", "clicks-1", "views-0"]
    web = cluster.producer("web", partitions, "1", pause_ms=1)
    mobile = cluster.producer("mobile", ["clicks-0", "views-0"], "1", pause_ms=1, records=5)
    cluster.consumer("dashboard", ["clicks", "views"])
    for leader, follower, count in ((1, 2, 24), (2, 1, 15)):
        for producer in (web, mobile):
            producer.send_until_acknowledged()
            producer.send(2 * count)
        cluster.nodes[follower].freeze()
        for producer in (web, mobile):
            producer.send(count)
        cluster.nodes[leader].kill()
        cluster.nodes[follower].thaw()
        for topic in ("clicks", "views"):
            cluster.wait_for_leader(topic, other_than=leader)
        cluster.nodes[leader].start()
        for topic in ("clicks", "views"):
            cluster.wait_for_isr(topic, [1, 2])
    for producer in (web, mobile):
        producer.send_until_acknowledged()
        producer.send(10)
    return Expected(losses=frozenset({("clicks", 0), ("views", 0)}), killed=2)
