"""What executors get when nothing is installed on their machines: the wheel, and an archive of the packages that it declares."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
OF_SPARK: Final = {"pyspark", "delta-spark", "py4j"}  # every executor has Spark's own, which Spark puts on its path
UNUSED: Final = ("pyarrow/include/", "pyarrow/tests/", "pyarrow/libarrow_flight", "../")  # large, or scripts


def wheel(folder: Path) -> Path:
    """The wheel, named as spark-submit --py-files wants it: what ends in .whl never gets onto an executor's path."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built.rename(folder / "epochaudit.zip")


def environment(folder: Path) -> Path:
    """A virtual environment with the declared dependencies, those of webhdfs://, and nothing else, as venv-pack would find it."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for one in _installed([*project["dependencies"], *project["optional-dependencies"]["webhdfs"]], set()):
        for file in one.files or ():
            source = Path(str(one.locate_file(file)))
            if not str(file).startswith(UNUSED) and source.is_file():
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)
    return folder


def _installed(requirements: Iterable[str], seen: set[str]) -> Iterator[Distribution]:
    """The distributions that are required, and those that they require."""
    for requirement in requirements:
        named = re.match(r"[\w.-]+", requirement)
        if named is None or named[0] in OF_SPARK | seen or ";" in requirement:  # of another platform, or an extra
            continue
        seen.add(named[0])
        found = distribution(named[0])
        yield found
        yield from _installed(found.requires or (), seen)


def archive(folder: Path, path: Path) -> Path:
    """The environment as one archive. Its interpreter stays a link: the machines have the same one, as venv-pack needs it."""
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for file in sorted(folder.rglob("*")):
            if file.is_symlink() or file.is_file():
                stored = file.resolve() if "site-packages" in file.parts else file
                tar.add(stored, file.relative_to(folder), recursive=False)
    return path
