"""What an audit of light request logs finds: all that they can prove, and nothing false.

One audit of three clusters, one for each file of settings, whose request logs were filtered as these settings do it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from epochaudit.cli import app
from epochaudit.cli.exit_codes import FINDINGS
from epochaudit.rules.catalogue import catalogue
from tests.expected import finding_differences
from tests.light_settings import LOG4J, LOG4J2, LOG4J_TEXT, light_copy

pytestmark = pytest.mark.thorough

RECORDED_WITH = {
    "zk-unclean-truncation-3.9": LOG4J,
    "zk-unclean-truncation-2.0": LOG4J_TEXT,
    "kraft-k1-healthy": LOG4J2,
}

# What only routine Fetches show: librdkafka by Fetch 8 states no leader epochs, opens no sessions, and commits none.
LOST = {
    "zk-unclean-truncation-2.0": {"silent-rd-earliest", "silent-rd-error", "silent-grd-restarted"},
}
NOT_FOUND = re.compile(r"must_flag (\S+) not found: ")


def test_an_audit_finds_what_light_logs_can_tell_and_nothing_false(
    spark: SparkSession,
    capture: Callable[[str], Path],
    expected: Callable[[str], dict[str, Any]],
    tmp_path: Path,
) -> None:
    copies = {name: light_copy(capture(name), tmp_path / name, settings) for name, settings in RECORDED_WITH.items()}
    for name, copy in copies.items():
        (copy / "capture.toml").write_text(f'cluster = "{name}"\n')
    output = tmp_path / "report.json"
    options = ["--show", "fenced", "--format", "json", "--output", str(output)]
    assert app.main(["audit", *map(str, copies.values()), *options]) == FINDINGS
    spark.catalog.clearCache()  # a process audits once; here the session goes on
    report = json.loads(output.read_text("utf-8"))
    assert {node["cluster"] for node in report["capture"]["light_request_logs"]} == set(copies)
    rules = [rule.id for rule in catalogue()]
    for name in copies:
        findings = [one for one in report["findings"] if one["cluster"] == name]
        differing = finding_differences(findings, expected(name), rules)
        lost = {one[1] for one in map(NOT_FOUND.match, differing) if one}
        assert lost == LOST.get(name, set()), name
        assert len(differing) == len(lost), "\n".join(differing)
