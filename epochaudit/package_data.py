"""Where the files that travel with the package lie: schemas/ and conf/."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable


def package_data(folder: str) -> Traversable:
    """The folder `schemas` or `conf`: inside the installed package, beside it in a checkout of the sources."""
    package = files("epochaudit")
    inside = package / folder
    return inside if inside.is_dir() else package / ".." / folder
