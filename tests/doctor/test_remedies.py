"""The doctor ranks what is missing by what it would settle, and states what it costs."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from epochaudit.doctor.remedies import _SETTLED_BY, LIGHT_SHARE, NO_LOG, cost_of, remedies, settled_by
from epochaudit.inventory.inventory import METADATA_LOG, REQUEST_LOG, STATE_CHANGE_LOG, FileRead, Inventory, NodeRead
from epochaudit.report.contents import RuleResult
from epochaudit.rules.catalogue import catalogue

NODES = (NodeRead("c", 1, ("broker",)), NodeRead("c", 3, ("broker",), (), (STATE_CHANGE_LOG,)))


def rule(**reasons: int) -> RuleResult:
    by_reason = {name.replace("_", " "): count for name, count in reasons.items()}
    return RuleResult("FF-01", "n", "t", "KIP-320", "high", {"unverifiable": sum(by_reason.values())}, by_reason)


def test_what_would_settle_most_comes_first_with_the_nodes_that_lack_it() -> None:
    rules = (
        rule(the_leader_epoch_that_the_broker_held_is_not_recorded=200, several_consumers_share_the_client_id=20),
        rule(the_leader_epoch_that_the_broker_held_is_not_in_the_evidence=12, no_metadata_log=8),
    )
    first, second = remedies(Inventory(nodes=NODES), rules, 0)
    assert str(first) == "state-change.log of node 3 would settle up to 212 of 240 unverifiable"
    assert (second.source, second.nodes, second.settles) == (METADATA_LOG, (), 8)
    assert "from further back or without gaps" in str(second)


def test_nothing_is_recommended_for_what_no_log_can_settle() -> None:
    assert remedies(Inventory(nodes=NODES), (rule(several_consumers_share_the_client_id=20),), 0) == ()


def test_the_request_log_costs_what_it_cost_here() -> None:
    file = FileRead("1/kafka-request.log", "request-log-json", 1, 3_000_000, 2_000, 2_000, 0, 0)
    light = f"with conf/kafka-log4j*-light.*, on busy clusters about {LIGHT_SHARE:.0%} of it (docs/collecting.md)"
    assert cost_of(REQUEST_LOG, Inventory(files=(file,)), 60_000) == (
        f"1.5 kB a request as stored here: at this capture's rate 4.3 GB a day; {light}: {4_320 * LIGHT_SHARE:.0f} MB"
    )
    assert cost_of(REQUEST_LOG, Inventory(), 0) == f"about 1.5 kB a request; {light}"


def test_of_a_light_request_log_the_whole_one_is_estimated() -> None:
    file = FileRead("1/kafka-request.log", "request-log-json", 1, 3_000_000, 2_000, 2_000, 0, 0)
    cost = cost_of(REQUEST_LOG, Inventory(files=(file,), light_nodes=(("c", 1),)), 60_000)
    assert f"at this capture's rate {4.32 / LIGHT_SHARE:,.1f} GB a day" in cost
    assert cost.endswith(": 4.3 GB")


def test_the_leaders_lines_settle_in_which_epoch_a_write_was_acknowledged() -> None:
    reason = "in which leader epoch the writes were acknowledged is not in the evidence"
    assert settled_by(reason) == STATE_CHANGE_LOG


@pytest.mark.parametrize("one", catalogue(), ids=lambda one: one.id)
@pytest.mark.usefixtures("spark")
def test_every_reason_is_one_that_a_log_would_settle_or_none(one) -> None:
    reasons = {arm.reason for arm in one.verdict() if arm.verdict == "unverifiable" and arm.reason}
    assert [reason for reason in reasons if not any(re.search(pattern, reason) for _, pattern in _SETTLED_BY)] == []


def test_a_reason_is_settled_by_the_log_that_it_names(spark: SparkSession) -> None:
    assert spark is not None
    named = {"(request log)": REQUEST_LOG, "state-change.log": STATE_CHANGE_LOG, "(metadata log)": METADATA_LOG}
    for one in catalogue():
        for reason in (arm.reason for arm in one.verdict() if arm.reason and arm.verdict == "unverifiable"):
            for name, source in named.items():
                if name in reason:
                    assert settled_by(reason) in (source, NO_LOG), reason
