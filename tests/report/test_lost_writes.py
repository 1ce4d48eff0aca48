"""Acknowledged writes that are missing, from the events to the report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame, SparkSession

from epochaudit.findings.evidence import Evidence
from epochaudit.findings.finding import Finding
from epochaudit.losses.removal import Removal, Replica
from epochaudit.report import html, json_report, missing_writes, text
from epochaudit.report.contents import LostWrites, Report, RuleResult
from epochaudit.report.losses import Loss, losses_of
from epochaudit.report.lost_writes import lost_rows
from epochaudit.report.missing_writes import LAST_ANSWERS, SEND_AGAIN, answer, completeness
from epochaudit.rules.rule import EXPOSED, PASS, UNVERIFIABLE
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
    rows, epochs, cut = lost_rows(events)
    assert not cut
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


ANSWERED, BEGUN = "2026-11-21T04:08:12.001", "2026-11-21T04:08:18.200"
ANSWER = Evidence(
    "the answer that acknowledged the last of them", 1, "broker-1/kafka-request.log", 7, 0, ANSWERED, "line"
)
START = Evidence("the leader's line that starts the epoch", 2, "broker-2/state-change.log", 9, 0, BEGUN, "line")
SHOP = LostWrites("west", "orders", None, 0, 7, 90, -1, "shop", "10.0.0.7", None, 30, 90, 119, (ANSWER, START))
AUDIT = replace(SHOP, acks=1, client="audit", transactional_id="tx", batches=1, first_offset=95, last_offset=95)


def test_all_formats_tell_acks_apart_and_name_producers_and_lines(report: Report) -> None:
    lost = replace(report, lost_writes=(AUDIT, SHOP))
    page = " ".join(text.render(lost, width=200).split())
    promised, leaders = (
        "orders-0: 30 writes of 1 producer that were acknowledged with acks=all are missing since leader epoch 7",
        "orders-0: 1 write of 1 producer that was acknowledged with acks=1, which promises no more than",
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


WEB = replace(AUDIT, client="web", transactional_id=None, batches=33, first_offset=91, last_offset=118)


@pytest.fixture
def clean(report: Report) -> Report:
    """A report without findings, of a capture that lacks nothing."""
    passed = RuleResult("FF-01", "stale-fetch-served", "Stale fetch served", "KIP-320", "high", {PASS: 7})
    return replace(report, rules=(passed,), findings=())


def lines(report: Report, width: int = 200) -> list[str]:
    return text.render(report, width=width).splitlines()


def test_the_page_begins_with_what_is_missing_whose_and_since_when(clean: Report) -> None:
    lost = replace(clean, lost_writes=(replace(AUDIT, election="clean", candidates_before="the ISR [1, 2]"), WEB))
    page = lines(lost)
    assert page[:8] == [
        "! 34 acknowledged writes are missing (all with acks=1). 0 violations, 0 exposed over 7 judged.",
        "  cluster west",
        "",
        "Was data lost?",
        "  Yes: 34 acknowledged writes of 2 producers are missing from 1 partition, with acks=1. It promises no more than the leader's"
        " copy: no rule is broken.",
        f"    orders-0: 34 writes with acks=1, offsets 91 to 118: web 33, audit 1; last acknowledged at {ANSWERED}",
        f"  {LAST_ANSWERS}",
        "  orders-0: 34 writes of 2 producers that were acknowledged with acks=1, which promises no more than the leader's copy,"
        " are missing since leader epoch 7, which starts at offset 90",
    ]
    assert (
        f"    acknowledged by broker 1; broker 2 began leader epoch 7 at {BEGUN}, by a clean election; before it: the ISR [1, 2]"
        in page
    )
    assert SEND_AGAIN in " ".join(part.strip() for part in page)
    assert "Nothing to fix" not in text.render(lost)
    document = json.loads(json_report.render(lost))
    assert document["headline"] == page[0]
    assert document["missing_writes"] == {
        "acks_all": 0, "acks_1": 34, "summary": page[4].strip(), "completeness": LAST_ANSWERS
    }  # fmt: skip
    first = document["lost_writes"][0]
    assert [first[name] for name in ("election", "candidates_before", "acknowledged_by", "begun_by", "begun_at")] == [
        "clean", "the ISR [1, 2]", 1, 2, BEGUN
    ]  # fmt: skip
    rendered = html.render(lost)
    answer = rendered[rendered.index('id="lost"') :]
    assert page[4].strip().replace("'", "&#39;") in answer
    assert answer.index(page[4].strip()[:30]) < answer.index("web 33, audit 1") < answer.index("<article")


def test_both_kinds_of_acks_are_counted_apart(report: Report) -> None:
    lost = replace(report, lost_writes=(AUDIT, SHOP))
    assert text.headline(lost).startswith(
        "✗ 1 violation, 0 exposed; 31 acknowledged writes are missing (30 with acks=all, 1 with acks=1). 41,034 judged"
    )
    assert (
        "Yes: 31 acknowledged writes of 2 producers are missing from 1 partition, 30 with acks=all, 1 with acks=1."
        in (" ".join(text.render(lost).split()))
    )


def test_lost_offsets_are_named_before_the_missing_writes_among_them(
    report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss = Loss("c", "orders", None, 0, 3, 10, 29, committed=True, given_out=True, finding_ids=(), skipped=())
    monkeypatch.setattr(missing_writes, "losses_of", lambda _: (loss, replace(loss, partition=1, last_offset=10)))
    assert answer(replace(report, lost_writes=(SHOP,))).startswith(
        "Yes: 21 records at most were discarded from 2 partitions. 30 acknowledged writes of 1 producer are missing"
    )


def test_a_page_without_missing_writes_says_nothing_of_them(clean: Report) -> None:
    assert text.headline(clean) == "✓ 0 violations, 0 exposed over 7 judged."
    assert "Yes:" not in text.render(clean)
    assert json.loads(json_report.render(clean))["missing_writes"] == {
        "acks_all": 0, "acks_1": 0, "summary": None, "completeness": None
    }  # fmt: skip


def test_what_may_hide_more_missing_writes_is_named(clean: Report, lacking: Report) -> None:
    lost = replace(clean, lost_writes=(AUDIT,))
    assert completeness(lost) == LAST_ANSWERS
    unjudged = RuleResult("AW-01", "w", "W", "KIP-320", "critical", {UNVERIFIABLE: 3})
    for changed, reason in (
        (replace(lost, rules=(*lost.rules, unjudged)), "3 leader epochs could not be judged"),
        (
            replace(lost, inventory=lacking.inventory),
            "missing: all logs of node 3, which others name (about 4,100 answers)",
        ),
        (
            replace(lost, inventory=replace(lost.inventory, light_nodes=(("west", 2),))),
            "the request log of 2 leaves routine answers out",
        ),
        (replace(lost, lost_writes_cut=True), "more leader epochs began without acknowledged writes than are listed"),
    ):
        assert completeness(changed) == f"There may be more: {reason}."


def test_where_copies_of_missing_writes_may_be(clean: Report) -> None:
    lost = replace(clean, lost_writes=(AUDIT,))
    page = " ".join(text.render(lost).split())
    assert "no broker logged that it truncated them: broker 1 may still have them on disk" in page
    assert "by an election of a kind that is not in the evidence" in page
    cut = Removal("west", "orders", None, 0, 7, 90, 119, (6,), False, (Replica(1, 120, 90),))
    page = " ".join(text.render(replace(lost, removals=(cut,))).split())
    assert "broker 1 truncated offsets 90 to 119" in page
    assert "may still have them" not in page
    other = replace(cut, leader_epoch=8)
    assert "may still have them" in " ".join(text.render(replace(lost, removals=(other,))).split())


def test_a_partition_of_several_clusters_is_named_with_its_cluster(clean: Report) -> None:
    inventory = replace(clean.inventory, clusters=("east", "west"))
    lost = replace(clean, inventory=inventory, lost_writes=(AUDIT, replace(SHOP, cluster="east")))
    page = lines(lost)
    assert page[1] == "  clusters east, west"
    assert page[5].startswith(
        "    orders-0 of east: 30 writes with acks=all, offsets 90 to 119: shop; last acknowledged at"
    )
    assert page[6].startswith("    orders-0 of west: 1 write with acks=1, offset 95: audit; last acknowledged at")


def test_findings_about_one_leader_epoch_are_one_loss(report: Report, finding: Finding) -> None:
    election = replace(
        finding, finding_id="e", rule="TR-06", verdict=EXPOSED, leader_epoch=3, first_offset=10, last_offset=19
    )
    write = replace(election, finding_id="w", rule="AW-01", last_offset=29)
    (loss,) = losses_of(replace(report, findings=(replace(election, consequences=(write,)),)))
    assert (loss.first_offset, loss.last_offset, loss.committed, loss.finding_ids) == (10, 29, True, ("e", "w"))
    (alone,) = losses_of(replace(report, findings=(write,)))
    assert (alone.first_offset, alone.last_offset, alone.skipped) == (10, 29, ())


def test_writes_that_an_earlier_run_reported_are_known(report: Report, clean: Report) -> None:
    all_known = replace(clean, lost_writes=(AUDIT,), known_writes=(AUDIT,))
    assert lines(all_known)[:5] == [
        "✓ 0 new violations, 0 new exposed over 7 judged. 1 acknowledged write known to be missing.",
        "  cluster west",
        "",
        "Was data lost?",
        "  Nothing new. Known from earlier runs: 1 acknowledged write of 1 producer is missing from 1 partition, with acks=1. It promises"
        " no more than the leader's copy: no rule is broken.",
    ]
    assert SEND_AGAIN not in " ".join(lines(all_known))
    one_new = replace(report, lost_writes=(AUDIT, SHOP), known_writes=(AUDIT,))
    assert "; 30 acknowledged writes are missing (all with acks=all). " in text.headline(one_new)
    assert (
        "Yes: 30 acknowledged writes of 1 producer are missing from 1 partition, with acks=all. Known from earlier runs: 1 acknowledged"
    ) in answer(one_new)
    assert [one["known"] for one in json.loads(json_report.render(one_new))["lost_writes"]] == [True, False]
