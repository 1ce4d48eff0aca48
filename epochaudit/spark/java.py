"""Finds the Java that Spark needs, checks its version, and advises what to install.

Imports nothing but the standard library, so that it can run before anything is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

OLDEST: Final = 17
_INSTALLED_BY: Final = (
    ("apt-get", "apt-get install openjdk-17-jre-headless"),
    ("dnf", "dnf install java-17-openjdk-headless"),
    ("apk", "apk add openjdk17-jre-headless"),
    ("brew", "brew install openjdk@17"),
)


class JavaError(Exception):
    """No Java that Spark can run on; the message states what was found and what to install."""


def require_java() -> int:
    """The major version of the Java that Spark will start: JAVA_HOME's, else the PATH's. Raises JavaError."""
    java = _java()
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', printed.stderr + printed.stdout)
    if match is None:
        raise JavaError(f"{java} does not tell its version; {_advice()}")
    if int(match[1]) < OLDEST:
        raise JavaError(f"{java} is Java {match[1]}, which is too old; {_advice()}")
    return int(match[1])


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:  # Spark takes it without looking further
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise JavaError(f"JAVA_HOME is {home}, where there is no bin/java; correct or unset it, or {_advice()}")
        return str(java)
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaError(f"no Java found; {_advice()}")
    return on_path


def _advice() -> str:
    command = next((command for tool, command in _INSTALLED_BY if shutil.which(tool)), None)
    return f"install Java {OLDEST} or newer" + (f": {command}" if command else " from your system's packages")


if __name__ == "__main__":
    try:
        require_java()
    except JavaError as error:
        sys.exit(f"epochaudit: {error}")
