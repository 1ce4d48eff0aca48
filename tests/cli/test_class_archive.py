"""Spark's classes are archived once, and the JVM of an audit maps the archive; without a good one it does without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from epochaudit.spark.session import archived_classes, class_archive

pytestmark = pytest.mark.spark

MAPPED = """
from pathlib import Path
from epochaudit.spark.session import session
jvm = session("local[1]", plain_bytes=0)._jvm.java.lang.ProcessHandle.current().pid()
print(Path(f"/proc/{jvm}/maps").read_text().count(".jsa"), end="")
"""


def run(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_nothing_is_asked_of_a_jvm_without_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert archived_classes() == ""


@pytest.mark.parametrize("variable", ["SPARK_HOME", "JAVA_HOME"])
def test_installations_do_not_overwrite_each_others_archive(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/opt/one")
    of_one = class_archive()
    monkeypatch.setenv(variable, "/opt/other")
    assert class_archive().parent == of_one.parent
    assert class_archive() != of_one


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only /proc shows what a process has mapped")
def test_a_recorded_archive_is_mapped(tmp_path: Path) -> None:
    bare = run(tmp_path, "-c", MAPPED)
    if class_archive().is_file():  # `make setup` has recorded it, which takes a minute
        (tmp_path / "epochaudit").mkdir()
        shutil.copy(class_archive(), tmp_path / "epochaudit")
    else:
        recorded = run(tmp_path, "-m", "epochaudit.cli.class_archive")
        assert (recorded.returncode, recorded.stdout) == (0, ""), recorded.stderr
    assert [path.suffix for path in (tmp_path / "epochaudit").iterdir()] == [".jsa"]
    mapped = run(tmp_path, "-c", MAPPED)
    assert int(mapped.stdout) > int(bare.stdout), mapped.stderr


def test_a_file_that_is_no_archive_is_passed_over_in_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    class_archive().parent.mkdir()
    class_archive().write_text("something else")
    started = run(tmp_path, "-c", "from epochaudit.spark.session import session; session('local[1]', plain_bytes=0)")
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
