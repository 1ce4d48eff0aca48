"""Files that are installed with the package: schemas/ and conf/."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def package_data(folder: str) -> Traversable:
    """The folder `schemas` or `conf`: inside the installed package, or beside it in a source checkout."""
    package = files("epochaudit")
    inside = package / folder
    return inside if inside.is_dir() else package / ".." / folder
