"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final


def _installed() -> str:
    try:
        return version("epochaudit")
    except PackageNotFoundError:  # run from a checkout or a zip on PYTHONPATH
        return "0+unknown"


VERSION: Final = _installed()
