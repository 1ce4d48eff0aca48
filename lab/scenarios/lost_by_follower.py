"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.racks import RACKS, require_reads_from_followers
from lab.releases import KRAFT, READS_FROM_FOLLOWERS_FROM, ZOOKEEPER
from lab.scenario import scenario

FOUR = Layout(brokers=(1, 2, 3, 4))


@scenario("payments", layouts={KRAFT: FOUR, ZOOKEEPER: FOUR}, since=READS_FROM_FOLLOWERS_FROM, settings=RACKS)
def lost_by_follower(cluster: Cluster) -> Expected:
    """A consumer had read from a follower what an unclean election then loses: the report must name it like one that read from the leader.

    Of three replicas the third shuts down; a fourth broker has none, so that clients always know a broker that runs. Then the leader
    and the follower die one after the other, the third one returns, and is elected uncleanly.

    The report must have TR-06 and AW-01, the lost offsets, the producer's missing acknowledgements, and both consumers.
    """
    leader, follower, outdated, _ = cluster.layout.brokers
    cluster.create("payments", f"{leader},{follower},{outdated}", unclean_leader_election_enable="true")
    shop = cluster.producer("shop", ["payments-0"], "all", pause_ms=1)
    readers = [
        cluster.consumer("near", ["payments"], client_rack=f"rack-{follower}"),
        cluster.consumer("ledger", ["payments"]),
    ]
    shop.send(40)
    cluster.nodes[outdated].stop()
    cluster.wait_for_isr("payments", [leader, follower])
    shop.send(30)
    for reader in readers:
        reader.wait("consumed", 70)
    require_reads_from_followers(cluster)
    for broker in (follower, leader):
        cluster.nodes[broker].kill()
    cluster.nodes[outdated].start()
    cluster.wait_for_unclean_leader("payments", other_than=leader, seconds=15)
    shop.send_until_acknowledged()
    shop.send(10)
    for broker in (leader, follower):
        cluster.nodes[broker].start()
    cluster.wait_for_isr("payments", [leader, follower, outdated])
    shop.send(10)
    required = frozenset({("TR-06", "payments", 0), ("AW-01", "payments", 0)})
    return Expected(losses=frozenset({("payments", 0)}), required=required, killed=1)
