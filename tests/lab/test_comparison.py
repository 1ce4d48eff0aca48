"""The comparison of a report with what clients know: it passes what is right, and each way to be wrong has its own check."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from epochaudit.inventory.missing_evidence import EMPTY_LOG
from epochaudit.report.contents import Report
from epochaudit.report.json_report import document
from lab.comparison import Check, Expected, Judged, Refusal, Subject, compare, failed, tampered, unnoticed
from lab.releases import Release
from lab.truth import Truth, of_events, read

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/report.schema.json").read_text("utf-8"))
PLACE = {"topic": "payments", "partition": 0}
OFFSETS = range(10)
MISSING = "acknowledged records that are missing"
CUT = 6  # the later leader epoch starts here


def acknowledged(client: str, acks: str, offsets: range | list[int]) -> list[dict[str, Any]]:
    """A producer's list; each value names its client."""
    events: list[dict[str, Any]] = [{"event": "started", "acks": acks}]
    for offset in offsets:
        value = f"{client}-{offset}"
        events.append({"event": "sent", "value": value, **PLACE})
        events.append({"event": "acknowledged", "offset": offset, "value": value, **PLACE})
    return events


def lists() -> dict[str, list[dict[str, Any]]]:
    """shop (acks=all) has the even offsets, web (acks=1) the odd ones; from 6 on the partition has others at the end."""
    shop, web = acknowledged("shop", "all", [0, 2, 4, 6, 8]), acknowledged("web", "1", [1, 3, 5, 7, 9])
    values = {offset: f"{'web' if offset % 2 else 'shop'}-{offset}" for offset in OFFSETS}
    later = acknowledged("mobile", "all", [6, 7])
    ledger = [{"event": "consumed", "offset": offset, "value": value, **PLACE} for offset, value in values.items()]
    stored = [{"event": "stored", "offset": offset, "value": values[offset], **PLACE} for offset in range(CUT)]
    stored += [{"event": "stored", "offset": offset, "value": f"mobile-{offset}", **PLACE} for offset in (6, 7)]
    return {
        "shop": shop,
        "web": web,
        "mobile": later,
        "ledger": ledger,
        "reader": [*stored, {"event": "end", "offset": 8, **PLACE}],
    }


def finding(rule: str, **changes: Any) -> dict[str, Any]:
    return {
        "rule": rule,
        "verdict": "exposed",
        "observed": "it starts at 6",
        "client": None,
        "consequences": [],
        **PLACE,
        **changes,
    }


def lost_writes(client: str, acks: int, batches: int, first: int, last: int) -> dict[str, Any]:
    return {"client": client, "acks": acks, "batches": batches, "first_offset": first, "last_offset": last, **PLACE}


def reported_losses() -> dict[str, Any]:
    """What epochaudit reports of it, as far as the comparison reads it."""
    return {
        "capture": {
            "nodes": [
                {"node": 1, "roles": ["broker"], "kafka": "4.1.0"},
                {"node": 100, "roles": ["controller"], "kafka": "4.1.0"},
            ],
            "lines": 99,
            "quarantined": 0,
            "missing": [],
            "complete": True,
            "unknown_files": [],
            "error_codes": {"PRODUCE": {"0": 12}},
        },
        "findings": [finding("TR-06", consequences=[finding("AW-01")]), finding("FF-04", verdict="fenced")],
        "lost_writes": [lost_writes("shop", -1, 2, 6, 8), lost_writes("web", 1, 2, 7, 9)],
        "losses": [{"first_offset": 6, "last_offset": 9, "read_by": [{"client": "ledger"}], **PLACE}],
        "undelivered": [],
    }


def subject(changed: Callable[[dict[str, Any]], None] = lambda _: None, **others: Any) -> Subject:
    """The run, with a changed report or other parts."""
    found = reported_losses()
    changed(found)
    expected = Expected(losses=frozenset({("payments", 0)}))
    nodes = {1: ("broker",), 100: ("controller",)}
    return replace(Subject(found, of_events(lists()), expected, "4.1.0", nodes), **others)


def names(checks: list[Check]) -> list[str]:
    return [check.name for check in checks]


def test_a_report_that_says_what_the_clients_know_passes() -> None:
    assert failed(subject()) == []


def test_each_tampering_is_noticed() -> None:
    changes = [change for change, _ in tampered(subject())]
    assert "mobile-7 is missing" in changes
    assert "the report has no lost_writes" in changes
    assert len(changes) == len(set(changes)) == 9
    assert unnoticed(subject()) == []


def test_a_comparison_that_notices_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.comparison.compare", lambda _: [])
    assert len(unnoticed(subject())) == 9


def test_the_truth_of_files_is_that_of_events(tmp_path: Path) -> None:
    for client, events in lists().items():
        (tmp_path / f"{client}.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    truth = read(tmp_path)
    assert truth == of_events(dict(sorted(lists().items())))
    assert (truth.sent, len(truth.acknowledged), len(truth.consumed)) == (12, 12, 10)


def no_findings(found: dict[str, Any]) -> None:
    found["findings"] = []


def fewer_batches(found: dict[str, Any]) -> None:
    found["lost_writes"][0]["batches"] = 1


def other_offset(found: dict[str, Any]) -> None:
    found["lost_writes"][1]["last_offset"] = 7


def other_acks(found: dict[str, Any]) -> None:
    found["lost_writes"][0]["acks"] = 1


def stranger(found: dict[str, Any]) -> None:
    found["lost_writes"].append(lost_writes("mobile", -1, 1, 7, 7))


def shorter_loss(found: dict[str, Any]) -> None:
    found["losses"][0]["last_offset"] = 8


def longer_loss(found: dict[str, Any]) -> None:
    found["losses"][0]["first_offset"] = 5


def no_reader(found: dict[str, Any]) -> None:
    found["losses"][0]["read_by"] = []


def another_reader(found: dict[str, Any]) -> None:
    found["losses"][0]["read_by"].append({"client": "reader"})


def false_alarm(found: dict[str, Any]) -> None:
    found["findings"].append(finding("LD-03", topic="orders"))


def false_consequence(found: dict[str, Any]) -> None:
    found["findings"][0]["consequences"].append(finding("TR-01"))


def fewer_answers(found: dict[str, Any]) -> None:
    found["capture"]["error_codes"]["PRODUCE"]["0"] = 11


def quarantined(found: dict[str, Any]) -> None:
    found["capture"]["quarantined"] = 1


def incomplete(found: dict[str, Any]) -> None:
    found["capture"]["complete"] = False


def unknown_file(found: dict[str, Any]) -> None:
    found["capture"]["unknown_files"] = ["broker-1/core"]


def other_release(found: dict[str, Any]) -> None:
    found["capture"]["nodes"][0]["kafka"] = "4.0.1"


def other_role(found: dict[str, Any]) -> None:
    found["capture"]["nodes"][1]["roles"] = ["broker", "controller"]


def undelivered(found: dict[str, Any]) -> None:
    found["undelivered"] = [{"first_offset": 0, "last_offset": 3, "skipped": [{"client": "ledger"}], **PLACE}]


@pytest.mark.parametrize(
    ("change", "check", "reason"),
    [
        (no_findings, "findings", "missed: AW-01 of payments-0; missed: TR-06 of payments-0"),
        (false_alarm, "findings", "false alarm: LD-03 of orders-0: it starts at 6"),
        (false_consequence, "findings", "false alarm: TR-01 of payments-0: it starts at 6"),
        (
            fewer_batches,
            MISSING,
            "shop (acks=all) in payments-0 misses 2, the report 1; 0 were not answered",
        ),
        (
            other_offset,
            MISSING,
            "web (acks=1) in payments-0 misses offsets 7 to 9, the report has 7 to 7",
        ),
        (
            stranger,
            MISSING,
            "mobile (acks=all) in payments-0 misses 0, the report 1; 0 were not answered",
        ),
        (shorter_loss, "lost offsets", "lost, not reported: payments-0: 9"),
        (longer_loss, "lost offsets", "reported, not lost: payments-0: 5"),
        (
            no_reader,
            "consumers that had read lost records",
            "ledger had read lost records of payments-0, and is not named",
        ),
        (another_reader, "consumers that had read lost records", "reader is named, and had read none of payments-0"),
        (fewer_answers, "acknowledgements are counted", "clients count 12 acknowledgements, the report 11"),
        (quarantined, "the evidence is complete", "1 lines could not be read"),
        (incomplete, "the evidence is complete", "evidence is missing"),
        (unknown_file, "the evidence is complete", "broker-1/core is of no known kind"),
        (other_release, "the evidence is complete", "Kafka is 4.1.0, the report has ['4.0.1', '4.1.0']"),
        (undelivered, "records that were skipped", "ledger did not read (6, 7) of payments-0, the report has (0, 3)"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_each_mistake_fails_one_check_with_its_reason(
    change: Callable[[dict[str, Any]], None], check: str, reason: str
) -> None:
    (wrong,) = failed(subject(change))
    assert (wrong.name, wrong.reason) == (check, reason)


@pytest.mark.parametrize("change", [other_acks, other_role])
def test_other_mistakes_fail_too(change: Callable[[dict[str, Any]], None]) -> None:
    assert len(failed(subject(change))) == 1


def test_a_request_log_may_be_empty_but_not_absent() -> None:
    def lacks(remedy: str) -> Callable[[dict[str, Any]], None]:
        def change(found: dict[str, Any]) -> None:
            found["capture"]["complete"] = False
            found["capture"]["missing"] = [{"node": 1, "what": "request log", "remedy": remedy}]

        return change

    assert failed(subject(lacks(EMPTY_LOG))) == []
    assert names(failed(subject(lacks("add it: node 100 wrote one")))) == ["the evidence is complete"]


def test_with_zookeeper_each_broker_may_be_the_controller() -> None:
    def controls(found: dict[str, Any]) -> None:
        found["capture"]["nodes"][0]["roles"] = ["broker", "controller"]

    nodes = {1: ("broker",), 100: ()}
    assert failed(subject(controls, nodes=nodes, may_control=True)) == []
    assert names(failed(subject(controls, nodes=nodes))) == ["the evidence is complete"]


def test_a_producer_without_an_answer_may_have_lost_more_than_it_knows() -> None:
    events = lists()
    events["web"] = [one for one in events["web"] if one.get("offset") != 9]
    events["web"].append({"event": "failed", "value": "web-9", "error": "TimeoutException", **PLACE})
    assert failed(subject(truth=of_events(events))) == []
    assert unnoticed(subject(truth=of_events(events))) == []
    del events["web"][-1]
    events["ledger"] = [one for one in events["ledger"] if one["offset"] != 9]
    assert names(failed(subject(truth=of_events(events)))) == ["acknowledged records that are missing", "lost offsets"]


def test_the_last_answers_before_a_kill_may_not_be_logged() -> None:
    def last_of_web(found: dict[str, Any]) -> None:
        found["lost_writes"][1] |= {"batches": 1, "last_offset": 7}
        found["capture"]["error_codes"]["PRODUCE"]["0"] = 11

    def first_of_web(found: dict[str, Any]) -> None:
        found["lost_writes"][1] |= {"batches": 1, "first_offset": 9}

    def two_of_web(found: dict[str, Any]) -> None:
        del found["lost_writes"][1]

    killed = Expected(losses=frozenset({("payments", 0)}), killed=1)
    assert failed(subject(last_of_web, expected=killed)) == []
    assert unnoticed(subject(last_of_web, expected=killed)) == []
    assert names(failed(subject(last_of_web))) == ["acknowledgements are counted", MISSING]
    assert names(failed(subject(first_of_web, expected=killed))) == [MISSING]
    assert names(failed(subject(two_of_web, expected=killed))) == [MISSING]


def test_a_report_need_not_name_a_missing_batch_whose_answer_may_not_be_logged() -> None:
    events = lists()
    for client in ("shop", "ledger", "mobile"):
        events[client] = [one for one in events[client] if one.get("offset", 0) < CUT]
    events["web"] = [one for one in events["web"] if one.get("offset", 0) < 9]
    truth = of_events(events)

    def one_of_web(found: dict[str, Any]) -> None:
        found["lost_writes"] = [lost_writes("web", 1, 1, 7, 7)]
        found["findings"], found["losses"] = [], []
        found["capture"]["error_codes"]["PRODUCE"]["0"] = 7

    killed = Expected(killed=1)
    one = subject(one_of_web, truth=truth, expected=killed)
    assert failed(one) == []
    assert unnoticed(one) == []
    assert "the report has no lost_writes" not in [change for change, _ in tampered(one)]
    assert "the report has no lost_writes" in [change for change, _ in tampered(replace(one, expected=Expected()))]


def test_a_defect_of_a_release_that_the_report_exposes_is_no_false_alarm() -> None:
    def served(verdict: str) -> Callable[[dict[str, Any]], None]:
        return lambda found: found["findings"].append(finding("FF-01", verdict=verdict))

    old = Release("2.3.1").reported_defects
    assert names(failed(subject(served("exposed")))) == ["findings"]
    assert failed(subject(served("exposed"), reported_defects=old)) == []
    assert names(failed(subject(served("violation"), reported_defects=old))) == ["findings"]
    assert Release("2.5.0").reported_defects == Release("3.3.2").reported_defects == frozenset()
    assert Release("2.8.2").reported_defects == Release("3.2.3").reported_defects == {"IS-05"}

    def only_served(found: dict[str, Any]) -> None:
        found["findings"] = [finding("FF-01")]

    changes = [change for change, _ in tampered(subject(only_served, reported_defects=old))]
    assert "the report has no findings" not in changes


def test_records_that_were_deleted_with_their_topic_are_not_missing() -> None:
    events = lists()
    events["old"] = acknowledged("old", "all", [0, 1, 2])
    truth = of_events(events)

    def counted(found: dict[str, Any]) -> None:
        found["capture"]["error_codes"]["PRODUCE"]["0"] = 15

    expected = Expected(losses=frozenset({("payments", 0)}))
    assert "lost offsets" in names(failed(subject(counted, truth=truth, expected=expected)))
    assert failed(subject(counted, truth=truth, expected=replace(expected, deleted=frozenset({"old"})))) == []


def test_a_consumer_that_skipped_records_is_compared_with_its_list() -> None:
    stored = {("sessions", 0): {offset: f"new-{offset}" for offset in range(5)}}
    place = {"topic": "sessions", "partition": 0}
    events = {
        "archive": [{"event": "consumed", "offset": offset, "value": f"new-{offset}", **place} for offset in (3, 4)]
    }
    truth = replace(of_events({**lists(), **events}))
    truth = replace(truth, stored={**truth.stored, **stored})
    expected = Expected(losses=frozenset({("payments", 0)}), skipped=frozenset({("archive", "sessions", 0)}))

    def reported(found: dict[str, Any]) -> None:
        found["undelivered"] = [{"first_offset": 0, "last_offset": 2, "skipped": [{"client": "archive"}], **place}]

    assert failed(subject(reported, truth=truth, expected=expected)) == []
    (wrong,) = failed(subject(truth=truth, expected=expected))
    assert wrong.reason == "archive did not read (0, 2) of sessions-0, the report has None"


def test_a_refusal_must_be_counted_and_judged() -> None:
    truth = replace(of_events(lists()), refused=(("zombie", "commit", "ProducerFencedException"),))
    refused = (Refusal("OFFSET_COMMIT", (22, 25)),)
    expected = Expected(losses=frozenset({("payments", 0)}), refusals=refused, fenced=frozenset({("PE-01", "zombie")}))
    (wrong,) = failed(subject(truth=truth, expected=expected))
    assert wrong.reason == "no OFFSET_COMMIT was answered 22, 25; PE-01 judged no request of zombie as fenced"

    def counted(found: dict[str, Any]) -> None:
        found["capture"]["error_codes"]["OFFSET_COMMIT"] = {"25": 1}
        found["findings"].append(finding("PE-01", verdict="fenced", client="zombie"))

    right = subject(counted, truth=truth, expected=expected)
    assert failed(right) == []
    changes = [change for change, _ in tampered(right)]
    assert {"the refusals are not counted", "nothing was judged as fenced"} <= set(changes)
    assert unnoticed(right) == []
    (silent,) = failed(replace(right, truth=of_events(lists())))
    assert silent.reason == "no client was refused anything"


def raw_requests(*codes: list[int]) -> Truth:
    """The lists, and one of a sender of raw requests to controller 100, with these answers."""
    answers = [
        {
            "event": "refused",
            "command": "ALTER_PARTITION",
            "error": "",
            "node": 100,
            "correlation_id": 900001 + at,
            "codes": of_one,
        }
        for at, of_one in enumerate(codes)
    ]
    return of_events({**lists(), "raw": answers})


RAW = Expected(
    losses=frozenset({("payments", 0)}),
    requests=(
        Judged(100, 900001, "a stale leader epoch", (0, 74), frozenset({("IS-12", "fenced")})),
        Judged(100, 900002, "as it must be", (0, 0)),
    ),
)


def judged(*verdicts: tuple[int, str, str]) -> Callable[[dict[str, Any]], None]:
    """The report has these findings: correlation id, rule, verdict."""

    def changed(found: dict[str, Any]) -> None:
        for correlation_id, rule, verdict in verdicts:
            found["findings"].append(finding(rule, verdict=verdict, node=100, correlation_id=correlation_id))

    return changed


def test_each_raw_request_must_be_answered_and_judged_as_it_must_be() -> None:
    right = subject(judged((900001, "IS-12", "fenced")), truth=raw_requests([0, 74], [0, 0]), expected=RAW)
    assert failed(right) == []
    changes = [change for change, _ in tampered(right)]
    assert len([change for change in changes if "request 90000" in change]) == 10
    assert unnoticed(right) == []


@pytest.mark.parametrize(
    ("codes", "verdicts", "reason"),
    [
        (
            ([0, 74], [0, 0]),
            [],
            "request 900001 to node 100 (a stale leader epoch), answered 0, 74, must have IS-12 fenced, the report has no finding",
        ),
        (
            ([0, 74], [0, 0]),
            [(900001, "IS-12", "fenced"), (900002, "IS-13", "unverifiable")],
            "request 900002 to node 100 (as it must be), answered 0, 0, must have no finding, the report has IS-13 unverifiable",
        ),
        (
            ([0, 74], [0, 0], [77]),
            [(900001, "IS-12", "fenced")],
            "request 900003 to node 100 is not expected; the report has no finding",
        ),
        (
            ([0, 74],),
            [(900001, "IS-12", "fenced")],
            "request 900002 to node 100 (as it must be) is not listed by a client; the report has no finding",
        ),
        (
            ([0, 0], [0, 0]),
            [(900001, "IS-12", "violation")],
            "request 900001 to node 100 (a stale leader epoch) was answered 0, 0, by Kafka's protocol it is 0, 74",
        ),
        (
            ([0, 95], [0, 0]),
            [(900001, "IS-12", "fenced")],
            "request 900001 to node 100 (a stale leader epoch) was answered 0, 95, by Kafka's protocol it is 0, 74",
        ),
    ],
    ids=["not judged", "judged", "not expected", "not sent", "obeyed", "another refusal"],
)
def test_each_mistake_about_a_raw_request_has_its_reason(
    codes: tuple[list[int], ...], verdicts: list[tuple[int, str, str]], reason: str
) -> None:
    (wrong,) = failed(subject(judged(*verdicts), truth=raw_requests(*codes), expected=RAW))
    assert (wrong.name, wrong.reason) == ("raw requests", reason)


def test_a_raw_request_that_was_obeyed_must_be_a_violation() -> None:
    (wrong,) = failed(subject(judged((900001, "IS-12", "fenced")), truth=raw_requests([0, 0], [0, 0]), expected=RAW))
    assert "answered 0, 0, must have IS-12 violation, the report has IS-12 fenced" in wrong.reason


@pytest.mark.parametrize(
    ("truth", "reason"),
    [
        (Truth(), "no record was acknowledged; nothing of payments-0 is missing"),
        (
            of_events({name: events for name, events in lists().items() if name != "reader"}),
            "not read back at the end: payments-0",
        ),
        (
            of_events({name: events for name, events in lists().items() if name in ("mobile", "reader")}),
            "nothing of payments-0 is missing",
        ),
    ],
    ids=["nothing sent", "not read back", "nothing lost"],
)
def test_a_run_that_shows_nothing_does_not_pass(truth: Truth, reason: str) -> None:
    assert reason in failed(subject(truth=truth))[0].reason


def test_the_comparison_reads_a_real_document(report: Report) -> None:
    found = document(report)
    jsonschema.validate(found, SCHEMA)
    assert len(compare(Subject(found, Truth(), Expected(), "4.1.0"))) == len(compare(subject()))
