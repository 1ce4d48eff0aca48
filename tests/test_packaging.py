"""What the wheel carries, and that it works as it is put on a cluster: as one archive, nothing beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


def built(folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder], cwd=ROOT, check=True
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_a_wheel_is_built_again_byte_for_byte(wheel: Path, tmp_path: Path) -> None:
    """Whoever has the sources can check a release."""
    assert built(tmp_path).read_bytes() == wheel.read_bytes()


def test_the_wheel_carries_contracts_settings_types_and_license(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        f"epochaudit/{path.relative_to(ROOT)}" for folder in ("schemas", "conf") for path in (ROOT / folder).iterdir()
    }
    assert data <= names
    assert "epochaudit/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_carries_every_module_and_nothing_else(wheel: Path) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "epochaudit").rglob("*.py")}
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if name.endswith(".py")} == modules
    assert len(names) == len(set(names))
    assert {name.split("/")[0].split("-")[0] for name in names} == {"epochaudit"}


def test_the_html_report_is_made_inside_the_archive(wheel: Path, tmp_path: Path) -> None:
    program = (
        "from epochaudit.report import html; from epochaudit.report.contents import Report; "
        "from epochaudit.inventory.inventory import Inventory; print(html.__file__, html.render(Report('x', Inventory(), (), ())))"
    )
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    place, page = ran.stdout.split(" ", 1)
    assert place.startswith(str(wheel))
    assert page.startswith("<!doctype html>")


def test_contracts_are_found_inside_the_archive(wheel: Path, tmp_path: Path) -> None:
    program = "import epochaudit.events.schema as s; print(s.__file__, len(s.EVENTS), s.contract('findings').grain)"
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    place, events, grain = ran.stdout.split(" ", 2)
    assert place.startswith(str(wheel))
    assert int(events) > 90
    assert grain.strip() == "One row per finding, with what became of it."
