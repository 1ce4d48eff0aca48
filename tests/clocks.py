"""Sets the clocks of a recorded node: rewrites the printed times of its logs from a moment on."""

from __future__ import annotations

import re
import shutil
from datetime import datetime, timedelta
from pathlib import Path

_PRINTED = re.compile(rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.MULTILINE)
_SHOWN = "%Y-%m-%d %H:%M:%S"


def set_clock(capture: Path, copy: Path, node: str, since: datetime, by: timedelta) -> None:
    """Copy a capture; in the logs of the folder `node` all times at or after `since` are printed `by` later."""
    shutil.copytree(capture, copy)

    def moved(match: re.Match[bytes]) -> bytes:
        moment = datetime.strptime(match[1].decode(), _SHOWN)
        return match[0] if moment < since else f"[{moment + by:{_SHOWN}},{match[2].decode()}]".encode()

    for log in (copy / node).glob("*.log"):
        log.write_bytes(_PRINTED.sub(moved, log.read_bytes()))
