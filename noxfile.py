"""The audit on each line of Spark 4, and on each Python: `nox`, or `nox --session 'audit(spark=4.0)'`.

Each session makes an environment with that Spark, and compares the JSON reports of recorded captures with those that
this environment's Spark gives, byte for byte.
"""

from __future__ import annotations

import sys

import nox

SPARKS = ("4.0", "4.1", "4.2", "4.3")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")

nox.options.sessions = ["audit"]


@nox.session
@nox.parametrize("spark", SPARKS)
def audit(session: nox.Session, spark: str) -> None:
    """The audit on a line of Spark, with the Python that runs nox."""
    _compared(session, spark)


@nox.session(python=PYTHONS)
def python(session: nox.Session) -> None:
    """The audit on a Python, with the newest Spark for which Delta Lake exists."""
    _compared(session, "4.2")


def _compared(session: nox.Session, spark: str) -> None:
    session.install(".", f"pyspark=={spark}.*")
    session.run(sys.executable, "-m", "tests.other_spark", session.virtualenv.bin, external=True)
