"""The schemas of the JSON documents are closed, described, and true of what is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from epochaudit.cli import app
from epochaudit.events.package_data import package_data
from epochaudit.findings.finding import Finding
from epochaudit.inventory.inventory import Migration, Mode
from epochaudit.losses.removal import Reader, Removal, Replica
from epochaudit.report import json_report
from epochaudit.report.contents import Acceptance, LateFile, LostWrites, Repeated, Report, StuckMember
from epochaudit.spark import run_metrics
from tests.json_schemas import complaints, validator

REPLICA = Replica(2, 40, None)
READER = Reader("c", None, 10, 19)


@pytest.fixture
def full(lacking: Report, finding: Finding) -> Report:
    """A report with something in each of its lists."""
    election = replace(finding, finding_id="1" * 24, rule="TR-06", first_offset=10, last_offset=29)
    skipping = replace(election, finding_id="2" * 24, rule="TR-01", client="c", group="g", evidence=())
    recreated = replace(skipping, finding_id="3" * 24, rule="TI-09", topic_id="a" * 22)
    removals = (
        Removal("west", "orders", None, 0, 2, 10, 29, (1,), True, (REPLICA,), (READER,), True, 20),
        Removal("west", "audit", "b" * 22, 1, 7, 0, 4),
    )
    again = Repeated("SR-01", "violation", "west", "orders-0", "c", 2, 7, "2026-11-21T04:08:14.133", None)
    modes = (Mode(1, "zookeeper", None), Mode(1, "zookeeper_in_migration", 1_700_000_000_000))
    return replace(
        lacking,
        inventory=replace(
            lacking.inventory,
            migrations=(Migration("west", (("dual-write", 1_700_000_000_000),), modes),),
            light_nodes=(("west", 2),),
            metadata_records={"PARTITION_RECORD": 4},
            first_time="2026-11-21T04:00:00.000",
        ),
        findings=(replace(election, consequences=(skipping,)), recreated, finding),
        left_out={"SR-01": 7},
        accepted={finding.finding_id: Acceptance("a drill", "storage", date(2027, 2, 20))},
        expired=frozenset({election.finding_id}),
        unmatched={"4" * 24: "SR-01 of orders-0"},
        known={skipping.finding_id: "2026-11-20T02:00:00"},
        removals=removals,
        repeated=(again,),
        loops=(replace(again, rule="FETCH", verdict="error 3 UNKNOWN_TOPIC_OR_PARTITION", node=None),),
        stuck=(StuckMember("west", "g", "c", "orders", 0, 1, 17, 90, None, None, finding.evidence),),
        lost_writes=(LostWrites("west", "orders", None, 0, 2, 10, -1, "p", None, "t", 3, 10, 19, finding.evidence),),
        settled_until="2026-11-20T04:00:00.000",
        late=(LateFile("west", "broker-2/server.log", "2026-11-20T01:00:00.000"),),
    )


def empty_lists(content: Any, path: str = "$") -> Iterator[str]:
    """Where a document has an empty list or object."""
    if content in ([], {}):
        yield path
    children = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for name, child in children:
        yield from empty_lists(child, f"{path}.{name}")


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for child in schema.values():
            yield from subschemas(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from subschemas(child)


@pytest.mark.parametrize("document", app.DOCUMENTS)
def test_a_schema_is_closed_and_describes_each_field(document: str) -> None:
    schema = validator(document).schema
    Draft202012Validator.check_schema(schema)
    objects = [
        one for one in subschemas(schema) if isinstance(one.get("properties"), dict) and one.get("type") == "object"
    ]
    assert objects
    assert [one["description"] for one in objects if one["additionalProperties"] is not False] == []
    assert [one["description"] for one in objects if one["required"] != [*one["properties"]]] == []
    referenced = {one["$ref"] for one in subschemas(schema) if "$ref" in one}
    assert referenced == {f"#/$defs/{name}" for name in schema.get("$defs", {})}
    fields = [(name, field) for one in objects for name, field in one["properties"].items()]
    assert [name for name, field in fields if not field.get("description", "").endswith(".")] == []


def test_each_published_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    published = {
        path.name.removesuffix(".schema.json")
        for path in package_data("schemas").iterdir()
        if path.name.endswith(".json")
    }
    assert published == set(app.DOCUMENTS)
    assert app.main(["schema", "report"]) == 0
    assert json.loads(capsys.readouterr().out)["$id"] == f"urn:epochaudit:schema:report:{json_report.SCHEMA_VERSION}"


def test_a_report_with_something_of_everything_is_valid(full: Report) -> None:
    document = json.loads(json_report.render(full))
    empty_ones = {path.rpartition(".")[2] for path in empty_lists(document) if path.count(".") == 1}
    assert empty_ones == set()
    assert complaints("report", document) == []


def test_a_report_with_nothing_is_valid(report: Report) -> None:
    assert complaints("report", json.loads(json_report.render(replace(report, findings=(), rules=())))) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("findings", 0, "extra"), 1),
        (("findings", 0, "verdict"), "guilty"),
        (("findings", 0, "evidence", 0, "line"), "96"),
        (("capture", "files", 0, "lines"), -1),
        (("findings", 2, "accepted", "expires"), "soon"),
        (("schema_version",), 2),
    ],
)
def test_a_report_that_differs_is_invalid(full: Report, path: tuple[Any, ...], value: object) -> None:
    document = json.loads(json_report.render(full))
    parent = document
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    assert len(complaints("report", document)) == 1


def test_the_catalogue_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["rules", "--format", "json"]) == 0
    assert complaints("rules", json.loads(capsys.readouterr().out)) == []


def test_metrics_of_good_and_failed_runs_are_valid(report: Report) -> None:
    metrics = run_metrics.Metrics(
        seconds={"reading": 1.5}, read={"files": 2}, frames={"fetches": run_metrics.FrameCost(4, 0.1, 0.2)}
    )
    for judged, error in ((report.totals, None), (None, "no such directory")):
        assert complaints("metrics", json.loads(run_metrics.line(metrics, 1, judged, error))) == []
