"""The version of a node at a time: restarts, rolling upgrades, and capture.toml."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from epochaudit.kafka.releases import release
from epochaudit.replay.state.releases import releases, releases_at
from tests.replay.histories import history

HISTORY = """
| # | event_type | node | source | name | value | raft_epoch | time_ms |
|---|---|---|---|---|---|---|---|
| v0 | KAFKA_VERSION | 1 | server_log | kafka | 2.3.1 | | 100 |
| s1 | PROCESS_STARTING | 1 | server_log | broker | | | 2000 |
| v1 | KAFKA_VERSION | 1 | server_log | kafka | 3.4.0 | | 2500 |
| s2 | PROCESS_STARTING | 1 | server_log | broker | | | 4000 |
| s3 | PROCESS_STARTING | 1 | server_log | broker | | | 5000 |
| v3 | KAFKA_VERSION | 1 | server_log | kafka | 3.9.1 | | 5500 |
| s4 | PROCESS_STARTING | 1 | server_log | broker | | | 7000 |
| s5 | PROCESS_STARTING | 2 | server_log | broker | | | 3000 |
| v5 | KAFKA_VERSION | 2 | server_log | kafka | 4.1 | | 3500 |
| s6 | PROCESS_STARTING | 3 | server_log | broker | | | 3000 |
| v6 | KAFKA_VERSION | 3 | server_log | kafka | 3.2.3 | | 3500 |
| m3 | KAFKA_VERSION | 3 | manifest | kafka | 3.3.1 | | |
| v9 | KAFKA_VERSION | 9 | server_log | kafka | 3.2.0 | | 100 |
| a1 | CONTROLLER_ACTIVE | 9 | server_log | | | 1 | 200 |
| s9 | PROCESS_STARTING | 9 | server_log | controller | | | 1000 |
| w9 | KAFKA_VERSION | 9 | server_log | kafka | 3.9.0 | | 1500 |
| f9 | RAFT_STATE_CHANGED | 9 | server_log | Follower | | 2 | 1600 |
| a3 | RAFT_STATE_CHANGED | 9 | server_log | Leader | | 3 | 1700 |
| x | FETCH | 7 | request_log | | | | 1000 |
"""


def versions(nodes: DataFrame, at_ms: int | None) -> dict[int, list[int]]:
    at = F.lit(at_ms).cast("bigint")
    return {
        row.node: sorted(row.found)
        for row in nodes.select("node", releases_at(at_ms=at)["version"].alias("found")).collect()
    }


def test_a_nodes_version_at_a_time(spark: SparkSession) -> None:
    nodes = releases(history(spark, HISTORY))
    assert versions(nodes, 50) == {1: [release("2.3.1")], 2: [], 3: [release("3.3.1")], 9: [release("3.2.0")]}
    assert versions(nodes, 1999)[1] == [release("2.3.1")]
    assert versions(nodes, 2000)[1] == [
        release("3.4.0")
    ]  # from the beginning of the process, before it logs its version
    assert versions(nodes, 4500)[1] == [
        release("3.9.1")
    ]  # a process that ended while it started is taken for the next one
    assert versions(nodes, 5200)[1] == [release("3.9.1")]
    assert versions(nodes, 7000)[1] == []  # the process has not logged it, or not yet
    assert versions(nodes, 3000) == {
        1: [release("3.4.0")],
        2: [release("4.1.0")],
        3: [release("3.3.1")],
        9: [release("3.9.0")],
    }
    assert versions(nodes, None)[1] == [release("2.3.1"), release("3.4.0"), release("3.9.1")]
    (two,) = nodes.where("node = 2").collect()
    assert [span.version for span in two.releases] == [release("4.1")]


def test_a_controllers_version_by_the_raft_epoch_that_it_led(spark: SparkSession) -> None:
    nodes = releases(history(spark, HISTORY)).where("node = 9")
    by_epoch = [releases_at(F.lit(9), raft_epoch=F.lit(epoch))["version"].alias(f"e{epoch}") for epoch in (1, 2, 3)]
    (row,) = nodes.select(*by_epoch).collect()
    assert (row.e1, row.e3) == ([release("3.2.0")], [release("3.9.0")])
    assert sorted(row.e2) == [
        release("3.2.0"),
        release("3.9.0"),
    ]  # it followed: nothing shows in which process another led
