"""Java is looked for before anything is started, and what is missing is reported in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from epochaudit.spark.java import JavaError, require_java


def _java_home(folder: Path, printed: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.12" 2024-07-16', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\njava version "17.0.1" 2021-10-19 LTS', 17),
    ],
)
def test_a_java_that_is_new_enough(printed: str, major: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java_home(tmp_path / "jdk", printed)))
    assert require_java() == major


@pytest.mark.parametrize(
    ("printed", "found"), [('java version "1.8.0_392"', "Java 8"), ('openjdk version "11.0.24"', "Java 11")]
)
def test_an_old_java_is_named(printed: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_java_home(tmp_path / "jdk", printed)))
    with pytest.raises(JavaError, match=f"{found}, which is too old; install Java 17 or newer"):
        require_java()


def test_a_java_home_without_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaError, match="where there is no bin/java; correct or unset it"):
        require_java()


def test_the_path_is_searched_without_java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = _java_home(tmp_path / "jdk", 'openjdk version "17.0.12"')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert require_java() == 17


def test_no_java_at_all_names_the_systems_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dnf = tmp_path / "dnf"
    dnf.touch(mode=0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        JavaError, match="no Java found; install Java 17 or newer: dnf install java-17-openjdk-headless"
    ):
        require_java()
