"""The daemon loads the decoders before it forks workers. The audits of other tests use such workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

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


def test_the_session_of_the_tests_forks_its_workers_from_it(spark: SparkSession) -> None:
    assert {key: spark.sparkContext.getConf().get(key) for key in PRELOADED} == PRELOADED
