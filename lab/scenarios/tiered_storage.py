"""See the function's docstring."""

from __future__ import annotations

from lab.cluster import Cluster
from lab.comparison import Expected
from lab.processes import wait_for
from lab.releases import KRAFT
from lab.scenario import scenario

# Kafka's own storage for tests, with the metadata in a topic, as by default.
TIERED = {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "remote.log.storage.manager.impl.prefix": "rsm.config.",
    "rsm.config.dir": "{folder}/tiered",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
    "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
    "rlmm.config.remote.log.metadata.topic.replication.factor": 3,
    "remote.log.manager.task.interval.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 1000,
}


@scenario("orders", modes=(KRAFT,), since=(4, 0), settings=TIERED, test_jars=("kafka-storage", "kafka-clients"))
def tiered_storage(cluster: Cluster) -> Expected:
    """Old segments move to tiered storage, a new replica begins there, and records are deleted on request: no finding.

    Segments are rolled each second, and their local copies removed a second after they were copied. A consumer then reads from the
    beginning: the leader gives it the records from tiered storage. The partition moves to a broker without a log: its first Fetch is
    answered 109 (OFFSET_MOVED_TO_TIERED_STORAGE), which LS-04 must judge as right. DeleteRecords twice, in tiered storage and in the
    local log, which LS-02 must judge: the leader confirms when all live replicas have deleted them. Neither is a loss.

    The report must have no finding. No acknowledged record above the deleted ones may be missing.
    """
    cluster.create(
        "orders", "1,2", remote_storage_enable="true", segment_ms=1000, local_retention_ms=1000, retention_ms=3600000
    )
    shop = cluster.producer("shop", ["orders-0"], "all", pause_ms=40)
    shop.tell("run")
    wait_for("old segments are in tiered storage only", lambda: _local_start(cluster, 1) > 0, 90)
    early = cluster.consumer("audit", ["orders"])
    early.wait("consumed", 60)
    cluster.admin("reassign orders 0 3,2")
    wait_for("the reassignment ends", lambda: cluster.admin("reassigning").get("partitions") == 0)
    cluster.wait_for_isr("orders", [2, 3])
    cluster.wait_for_leader("orders", other_than=1)
    shop.wait("acknowledged", len(shop.events("acknowledged")) + 50)
    for offset in (40, _local_start(cluster, 2) + 5):
        answer = cluster.admin(f"delete-records orders 0 {offset}")
        cluster.note(f"low watermark {answer['low_watermark']}")
        shop.wait("acknowledged", len(shop.events("acknowledged")) + 20)
    shop.tell("halt")
    deleted = int(answer["low_watermark"])
    return Expected(deleted_below={("orders", 0): deleted}, passed=frozenset({"LS-02", "LS-04"}))


def _local_start(cluster: Cluster, broker: int) -> int:
    """The base offset of the broker's first local segment."""
    segments = (cluster.nodes[broker].folder / "data" / "orders-0").glob("*.log")
    return min((int(one.stem) for one in segments), default=0)
