"""A small report with one of everything, for the output formats."""

from __future__ import annotations

from dataclasses import replace

import pytest

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import FileRead, Inventory, Missing, NodeRead
from epochaudit.report.contents import Report, RuleResult
from epochaudit.rules.rule import EXPOSED, FENCED, PASS, UNVERIFIABLE, VIOLATION

REQUEST = (
    '[2026-11-21 04:08:14,133] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":5,'
    '"requestApiVersion":4,"correlationId":17,"clientId":"1","requestApiKeyName":"STOP_REPLICA"},"request":{"controllerId":1,'
    '"isKRaftController":false,"controllerEpoch":3,"brokerEpoch":26,"topicStates":[{"topicName":"orders","partitionStates":'
    '[{"partitionIndex":0,"leaderEpoch":2,"deletePartition":true}]}]},"response":{"errorCode":0,"partitionErrors":'
    '[{"topicName":"orders","partitionIndex":0,"errorCode":0}]}}'
)


@pytest.fixture
def finding() -> Finding:
    return Finding(
        finding_id="8b1f0c6e2d0e4a55b2c1a9d7",
        rule="SR-01",
        verdict=VIOLATION,
        severity="critical",
        cluster="west",
        node=2,
        topic="orders",
        topic_id=None,
        partition=0,
        leader_epoch=2,
        client=None,
        group=None,
        correlation_id=17,
        expected="partition error 74 FENCED_LEADER_EPOCH",
        observed="error 0 NONE: the replica was stopped and its log deleted",
        because=("broker 2 had installed leader epoch 3", "the StopReplica carries leader epoch 2, which is older"),
        evidence=(
            Evidence(
                "the StopReplica request and its answer",
                2,
                "broker-2/kafka-request.log",
                96,
                51234,
                "2026-11-21T04:08:14.133",
                REQUEST,
            ),
            Evidence(
                "the leader epoch that was installed",
                2,
                "broker-2/state-change.log",
                264,
                40100,
                "2026-11-21T04:08:12.001",
                "[2026-11-21 04:08:12,001] INFO [Broker id=2] Follower orders-0 starts at leader epoch 3",
            ),
        ),
    )


@pytest.fixture
def inventory() -> Inventory:
    return Inventory(
        clusters=("west",),
        nodes=(NodeRead("west", 1, ("broker", "controller"), ("3.9.1",)), NodeRead("west", 2, ("broker",))),
        files=(
            FileRead("broker-1/kafka-request.log", "request-log-json", 1, 2_500_000, 2_000, 1_900, 100, 0, "west"),
            FileRead("broker-2/state-change.log", "state-change-log", 2, 50_000, 400, 300, 99, 1, "west"),
        ),
        left_out={"metadata-log-segment": 2, "unknown": 1},
        unknown_files=("broker-1/notes.txt",),
        requests={"FETCH": 1_900, "STOP_REPLICA": 2},
        partition_rows={"FETCH": 4_000, "STOP_REPLICA": 2},
        error_codes={"FETCH": {0: 3_999, 74: 1}, "STOP_REPLICA": {0: 2}},
        metadata_records={},
    )


@pytest.fixture
def rules() -> tuple[RuleResult, ...]:
    return (
        RuleResult("FF-01", "stale-fetch-served", "Stale fetch served", "KIP-320", "high", {PASS: 41_000, FENCED: 12}),
        RuleResult(
            "SR-01",
            "stale-stop-replica-accepted",
            "Stale StopReplica accepted",
            "KIP-570",
            "critical",
            {PASS: 20, FENCED: 1, VIOLATION: 1, EXPOSED: 0, UNVERIFIABLE: 3},
            {"no state-change.log for the broker": 2, "the response was not logged": 1},
        ),
        RuleResult("TI-01", "wrong-topic-id-accepted", "Request with a wrong topic id accepted", "KIP-516", "high"),
    )


@pytest.fixture
def report(inventory: Inventory, rules: tuple[RuleResult, ...], finding: Finding) -> Report:
    return Report("0.1.0", inventory, rules, (finding,))


@pytest.fixture
def lacking(report: Report) -> Report:
    """A report on a cluster of which one node has no logs here, and another lacks one of its own."""
    one, two = report.inventory.nodes
    nodes = (one, replace(two, missing_logs=("request_log", "state_change_log")))
    missing = (
        Missing(
            *("west", 3, "all logs of node 3, which others name", "collect its log directory", 4_100),
            logs=("request_log", "server_log"),
        ),
        Missing("west", 2, "state-change.log of node 2", "add it: node 1 wrote one"),
    )
    inventory = replace(report.inventory, nodes=nodes, missing_nodes=(("west", 3),), missing=missing)
    return replace(report, inventory=replace(inventory, absent_logs=("request_log",)))
