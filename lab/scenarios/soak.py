"""See the function's docstring."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from time import monotonic

from lab.cluster import Cluster, Layout
from lab.comparison import Expected
from lab.processes import wait_for
from lab.releases import KRAFT, REASSIGNMENTS_FROM
from lab.scenario import scenario

TOPICS = {"orders": 3, "stock": 2}  # partitions
BETWEEN = 15  # acknowledged records between two disturbances


@scenario("orders", "stock", layouts={KRAFT: Layout(combined=True)})
def soak(cluster: Cluster) -> Expected:
    """Random restarts, kills, elections, reassignments and re-creations under load, one at a time: no finding.

    Two producers, a consumer and a group of two members go on meanwhile. Each disturbance ends before the next begins, when all replicas
    are in sync again, so that no acknowledged record with acks=all may be missing. If one with acks=1 is, the report must list it,
    without a finding. `--seed` chooses the disturbances and `--seconds` says how long they go on.
    """
    brokers, random = cluster.layout.brokers, cluster.random
    for topic, count in TOPICS.items():
        cluster.create_spread(topic, count, min_insync_replicas=2)
    partitions = [f"{topic}-{number}" for topic, count in TOPICS.items() for number in range(count)]
    shop = cluster.producer("shop", partitions, "all")
    web = cluster.producer("web", partitions, "1")
    cluster.consumer("billing", [*TOPICS])
    members = [cluster.consumer(name, [*TOPICS], group="shipping") for name in ("shipping-1", "shipping-2")]
    for producer in (shop, web):
        producer.tell("run")

    def goes_on() -> None:
        shop.wait("acknowledged", len(shop.events("acknowledged")) + BETWEEN)

    def restart(stop: Callable[[int], None]) -> None:
        broker = random.choice(brokers)
        stop(broker)
        goes_on()
        cluster.nodes[broker].start()

    def elect() -> None:
        for topic, count in TOPICS.items():  # it fails where the preferred leader leads already
            cluster.admin(f"elect preferred {topic} {random.randrange(count)}", may_fail=True)

    def reassign() -> None:
        topic = random.choice([*TOPICS])
        partition = random.randrange(TOPICS[topic])
        for size in (2, len(brokers)):
            replicas = random.sample(brokers, size)
            cluster.admin(f"reassign {topic} {partition} {','.join(map(str, replicas))}")
            wait_for("the reassignment ends", lambda: cluster.admin("reassigning").get("partitions") == 0)
            cluster.wait_for_isr(topic, replicas, partition)
            goes_on()

    def recreate() -> None:
        cluster.create("scratch", "1,2,3/2,3,1")
        cluster.delete("scratch")

    kinds: list[Callable[[], None]] = [
        lambda: restart(lambda broker: cluster.nodes[broker].stop()),
        lambda: restart(lambda broker: cluster.nodes[broker].kill()),
        elect,
        recreate,
    ]
    if cluster.release.number >= REASSIGNMENTS_FROM:
        kinds.append(reassign)
    random.shuffle(kinds)
    until = monotonic() + cluster.seconds
    for disturb in cycle(kinds):
        random.choice(members).ask("commit")
        disturb()
        cluster.wait_until_in_sync(TOPICS)
        goes_on()
        if monotonic() >= until:
            break
    for producer in (shop, web):
        producer.tell("halt")
    return Expected()
