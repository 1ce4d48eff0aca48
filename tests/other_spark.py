"""Compares the audit in another environment with the audit in this one: `python -m tests.other_spark ENVIRONMENT/bin`.

The other environment has the package with another Spark or Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

CAPTURES: Final = Path(__file__).parent / "captures"
INHERITED: Final = ("PATH", "HOME", "JAVA_HOME", "XDG_CACHE_HOME")
COMPARED: Final = ("zk-unclean-truncation-3.9", "kraft-k1-healthy")  # with findings and without, of either mode


class Different(Exception):
    """The environments give different reports, or one of them gives none."""


def report(python: Path, capture: Path, folder: Path, *options: str, packages: str = "") -> str:
    """The JSON report of a capture, made by that Python in its own environment. packages: directories to import from first."""
    output = folder / "report.json"
    command = [str(python), "-m", "epochaudit", "audit", str(capture), "--format", "json", "--output", str(output)]
    environment = {name: value for name, value in os.environ.items() if name in INHERITED}
    if packages:
        environment["PYTHONPATH"] = packages
    ran = subprocess.run([*command, *options], env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 1):
        raise Different(f"{python} gave no report of {capture}: {ran.stdout}{ran.stderr}")
    return output.read_text("utf-8")


def compare(python: Path) -> list[str]:
    """Audits each capture with that Python and with this one; returns what it compared. Raises Different."""
    done = []
    for name in COMPARED:
        with tempfile.TemporaryDirectory() as place, tarfile.open(CAPTURES / f"{name}.tar.xz") as archive:
            archive.extractall(place, filter="data")
            other, own = (report(one, Path(place) / name, Path(place)) for one in (python, Path(sys.executable)))
        if other != own:
            raise Different(f"{python} gives another report of {name}")
        done.append(f"{name}: {len(own):,} bytes of JSON, the same")
    return done


if __name__ == "__main__":
    try:
        print("\n".join(compare(Path(sys.argv[1]) / "python")))
    except Different as error:
        sys.exit(str(error))
