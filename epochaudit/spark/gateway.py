"""The gateway to the JVM, asked less often. Only for sessions that have one: Spark Connect does without py4j.

For each column that it makes, PySpark asks the JVM where the class is that makes columns, then for its method. The class
it names without its package, so the JVM searches its jars, in vain, for each package that could be meant. That was a
third of the round trips of an audit and a fifth of the driver's CPU time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from py4j.java_gateway import JavaClass, JVMView

# The classes of which PySpark calls static methods for each column and window, by the names by which it asks.
COLUMN_MAKERS: Final = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.expressions.Window",
    "PythonUtils",
    "PythonSQLUtils",
)
CONSTANTS: Final = ("col", "lit")  # give the same column, which never changes, for the same name or value


class _LookedUpOnce(JavaClass):  # type: ignore[misc]
    """A class of the JVM whose static methods are looked up once; a constant column is made once."""

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)

        @lru_cache(maxsize=None, typed=True)
        def column(given: Any) -> Any:
            return method(given)

        member = column if name in CONSTANTS else method
        setattr(self, name, member)
        return member


def look_up_once(jvm: JVMView) -> None:
    """Let PySpark find again what it has found in this JVM."""
    for name in COLUMN_MAKERS:
        found = getattr(jvm, name)
        if not isinstance(found, _LookedUpOnce):
            setattr(jvm, name, _LookedUpOnce(found._fqn, found._gateway_client))
