"""Workers that are forked from a process with the decoders loaded decode as others do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from epochaudit.spark.session import PRELOADED

ROOT = Path(__file__).parents[3]

SHOWN = """
import json, sys
from unittest.mock import patch
from zipimport import zipimporter
from epochaudit.sources.request_log import compiled
from epochaudit.sources.scan import worker_daemon

def forks():
    archives = [path for path, importer in sys.path_importer_cache.items() if isinstance(importer, zipimporter)]
    print(json.dumps([compiled._scanners.cache_info().currsize, archives, "pyspark.worker" in sys.modules]))

sys.path_importer_cache["/tmp/a.zip"] = zipimporter(sys.argv[2])
with patch.object(worker_daemon, "manager", forks):
    worker_daemon.main()
"""


def test_the_daemon_loads_compiled_code_before_it_forks(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    command = [sys.executable, "-c", SHOWN, "pyspark.worker", str(archive)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert json.loads(ran.stdout) == [1, [], True]


@pytest.mark.spark
def test_an_audit_with_the_daemon_is_the_same(
    capture: Callable[[str], Path], expected: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    name, out = "kraft-unclean-truncation-4.1", tmp_path / "report.json"
    conf = [argument for key, value in PRELOADED.items() for argument in ("--conf", f"{key}={value}")]
    command = ["audit", str(capture(name)), *conf, "--select", "TR", "--format", "json", "--output", str(out)]
    subprocess.run([sys.executable, "-m", "epochaudit", *command], check=False, cwd=ROOT)
    rules = {finding["rule"] for finding in json.loads(out.read_text())["findings"]}
    assert rules >= {rule for one in expected(name)["must_flag"] for rule in one["any_rule"] if rule.startswith("TR-")}
