"""The notebook and the README's snippet run as they are printed, and show what the capture's truth states."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "investigate.ipynb"
CAPTURE = "zk-unclean-truncation-3.9"
PATIENCE = 900  # seconds that a cell may take on a machine that is busy with other things

pytestmark = [pytest.mark.slow, pytest.mark.thorough]


@pytest.fixture(scope="module")
def executed() -> Any:
    """The notebook, after all its cells have run. An error in a cell fails here."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
    return client.execute()


def outputs(cell: Any) -> str:
    """What a cell shows: its printed text, and of a result the HTML."""
    shown = [one.get("text") or one["data"].get("text/html") or one["data"].get("text/plain") for one in cell.outputs]
    return "\n".join(shown)


def test_the_notebook_leads_to_the_lost_records(executed: Any, expected: Callable[[str], dict[str, Any]]) -> None:
    shown = [outputs(cell) for cell in executed.cells if cell.cell_type == "code"]
    whole = "\n".join(shown)
    truth = next(one for one in expected(CAPTURE)["must_flag"] if "TR-01" in one["any_rule"])
    assert f"{truth['topic']}-{truth['partition']}: offsets 10 to 29, at most 20 records" in whole
    assert f"{truth['client']} skipped the new records at offsets " in whole
    assert re.search(r"<caption>Lost records</caption>", shown[1])
    assert "<svg" in shown[3]
    assert re.search(r"server\.log|kafka-request\.log|state-change\.log", shown[4])
    assert re.search(rf"^\|{truth['client']} *\|{truth['node']} *\|0 *\|\d+ *\|$", shown[5], re.MULTILINE), shown[5]


def test_its_stored_outputs_are_those_of_a_run(executed: Any) -> None:
    """Readers who don't run it see what they would get."""
    stored = nbformat.read(NOTEBOOK, as_version=4)
    for before, after in zip(stored.cells, executed.cells, strict=True):
        assert before.source == after.source
        if before.cell_type == "code":
            assert outputs(before) == outputs(after), "run and save the notebook again"


def test_the_snippet_of_the_readme_runs_as_printed(capture: Callable[[str], Path], tmp_path: Path) -> None:
    """In an empty folder, with an empty home, without an activated environment."""
    [snippet] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    code = "\n".join(line.removeprefix("  ") for line in snippet.splitlines())
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "last-night").symlink_to(capture(CAPTURE))
    (tmp_path / "snippet.py").write_text(code.replace("orders-3", "u-0"))
    path = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "JAVA_HOME": os.environ.get("JAVA_HOME", "")}
    environment = {key: value for key, value in path.items() if value}
    ran = subprocess.run(
        [sys.executable, "snippet.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("✗ 4 violations, 5 exposed")
    assert "Loss(" in ran.stdout
    assert re.search(r"\|TR-06\| *u\| *0\|", ran.stdout)
