"""Acknowledged writes that are missing, from the events to the report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.report import html, json_report, text
from epochaudit.report.contents import LostWrites, Report
from epochaudit.report.losses import losses_of
from epochaudit.report.lost_writes import lost_rows
from epochaudit.rules.rule import EXPOSED
from tests.replay.histories import history

# Broker 1 leads in epoch 6, broker 2 in epoch 7 without the records from 110 on, broker 1 in epoch 8 without those from 105 on.
#   shop    acks=all; 110 and 112 are missing in epoch 7, 105 and 107 in epoch 8
#   audit   acks=1; in a transaction
#   late    writes in epoch 7, from 110 on
#   other   another partition, which loses nothing
EVENTS = """
| # | event_type | node | topic | partition | leader_epoch | start_offset | acks | base_offsets | client_id | transactional_id | connection |
|---|---|---|---|---|---|---|---|---|---|---|---|
| s6 | LEADER_STARTS | 1 | t | 0 | 6 | 100 | | | | | |
| o6 | LEADER_STARTS | 1 | t | 1 | 6 | 100 | | | | | |
| x1 | LEADER_AND_ISR_FINISHED | 1 | | | | | | | | | |
| p1 | PRODUCE | 1 | t | 0 | | | -1 | 101,105,107 | shop | | 10.0.0.1:9092-10.0.0.7:4000-1 |
| p2 | PRODUCE | 1 | t | 0 | | | -1 | 110,112 | shop | | 10.0.0.1:9092-10.0.0.7:4000-1 |
| p3 | PRODUCE | 1 | t | 0 | | | 1 | 111 | audit | tx | 10.0.0.1:9092-10.0.0.8:4000-2 |
| p4 | PRODUCE | 1 | t | 1 | | | -1 | 111 | other | | 10.0.0.1:9092-10.0.0.7:4000-1 |
| s7 | LEADER_STARTS | 2 | t | 0 | 7 | 110 | | | | | |
| o7 | LEADER_STARTS | 2 | t | 1 | 7 | 112 | | | | | |
| x2 | LEADER_AND_ISR_FINISHED | 2 | | | | | | | | | |
| p5 | PRODUCE | 2 | t | 0 | | | -1 | 110 | late | | 10.0.0.2:9092-10.0.0.9:4000-1 |
| s8 | LEADER_STARTS | 1 | t | 0 | 8 | 105 | | | | | |
"""  # noqa: E501


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return history(spark, EVENTS)


def test_each_producer_of_each_epoch_is_told_what_is_gone(events: DataFrame) -> None:
    rows, epochs = lost_rows(events)
    listed = [
        (
            epochs[row["number"]]["removed_in"],
            *(row[name] for name in ("acks", "client_id", "client_host", "transactional_id")),
            *(row[name] for name in ("batches", "first_offset", "last_offset")),
        )
        for row in rows
    ]
    assert sorted(listed, key=str) == [
        (7, -1, "shop", "10.0.0.7", None, 2, 110, 112),
        (7, 1, "audit", "10.0.0.8", "tx", 1, 111, 111),
        (8, -1, "late", "10.0.0.9", None, 1, 110, 110),
        (8, -1, "shop", "10.0.0.7", None, 2, 105, 107),
    ]
    assert {epochs[row["number"]]["partition"] for row in rows} == {0}
    assert [epochs[row["number"]]["start_offset"] for row in rows] == sorted(
        (epochs[row["number"]]["start_offset"] for row in rows), reverse=True
    )


ANSWER = Evidence("the answer that acknowledged the last of them", 1, "broker-1/kafka-request.log", 7, 0, None, "line")
START = Evidence("the leader's line that starts the epoch", 2, "broker-2/state-change.log", 9, 0, None, "line")
SHOP = LostWrites("west", "orders", None, 0, 7, 90, -1, "shop", "10.0.0.7", None, 30, 90, 119, (ANSWER, START))
AUDIT = replace(SHOP, acks=1, client="audit", transactional_id="tx", batches=1, first_offset=95, last_offset=95)


def test_all_formats_tell_acks_apart_and_name_producers_and_lines(report: Report) -> None:
    lost = replace(report, lost_writes=(AUDIT, SHOP))
    page = " ".join(text.render(lost, width=200).split())
    promised, leaders = (
        "orders-0 of west: 30 writes of 1 producer that were acknowledged with acks=all are missing since leader epoch 7",
        "orders-0 of west: 1 write of 1 producer that was acknowledged with acks=1, which promises no more than",
    )
    assert page.index(promised) < page.index(leaders)
    assert (
        "shop at 10.0.0.7: 30 writes with base offsets 90 to 119; acknowledged at broker-1/kafka-request.log:7" in page
    )
    assert "audit at 10.0.0.7, transactional id tx: 1 write with base offset 95" in page
    assert "the epoch starts at broker-2/state-change.log:9" in page
    rendered = html.render(lost)
    assert "30 writes of 1 producer that were acknowledged with acks=all" in rendered
    assert "shop at 10.0.0.7: 30 writes with base offsets 90 to 119" in rendered
    assert [(one["acks"], one["batches"]) for one in json.loads(json_report.render(lost))["lost_writes"]] == [
        (1, 1),
        (-1, 30),
    ]


def test_findings_about_one_leader_epoch_are_one_loss(report: Report, finding: Finding) -> None:
    election = replace(
        finding, finding_id="e", rule="TR-06", verdict=EXPOSED, leader_epoch=3, first_offset=10, last_offset=19
    )
    write = replace(election, finding_id="w", rule="AW-01", last_offset=29)
    (loss,) = losses_of(replace(report, findings=(replace(election, consequences=(write,)),)))
    assert (loss.first_offset, loss.last_offset, loss.committed, loss.finding_ids) == (10, 29, True, ("e", "w"))
    (alone,) = losses_of(replace(report, findings=(write,)))
    assert (alone.first_offset, alone.last_offset, alone.skipped) == (10, 29, ())
