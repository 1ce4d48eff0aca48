"""epochaudit, as its users run it: by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from lab.processes import RunError

ROOT: Final = Path(__file__).parents[1]
NO_FINDINGS, FINDINGS, INCOMPLETE = 0, 1, 3


def epochaudit(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command of this source tree."""
    search = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "epochaudit", *arguments],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )


def audit(folder: Path, shown: Sequence[str]) -> dict[str, Any]:
    """Collect what the nodes of a run recorded, audit it, and return the report. Both stay in the run's folder.

    shown: verdicts that the report lists besides the breaches.
    """
    capture, report = folder / "capture", folder / "report.json"
    collected = epochaudit("collect", folder / "nodes", "--output", capture)
    if collected.returncode:
        raise RunError(f"epochaudit collect exits with {collected.returncode}: {collected.stderr[-2000:]}")
    options = [option for verdict in shown for option in ("--show", verdict)]
    audited = epochaudit("audit", capture, "--format", "json", "--output", report, *options)
    if audited.returncode not in (NO_FINDINGS, FINDINGS, INCOMPLETE):
        raise RunError(f"epochaudit audit exits with {audited.returncode}: {audited.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(report.read_text("utf-8"))
    breaches = any(one["verdict"] in ("violation", "exposed") for one in found["findings"])
    stated = FINDINGS if breaches else INCOMPLETE if found["unsettled"] else NO_FINDINGS
    if audited.returncode != stated:
        raise RunError(f"epochaudit audit exits with {audited.returncode}, and its report is one of {stated}")
    return found
