"""epochaudit: did fencing work? Audits Kafka's epochs from recorded controller and broker logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochaudit.notebook import Frames, Result, audit, frames
    from epochaudit.spark.session import session

__all__ = ["Frames", "Result", "audit", "frames", "session"]


def __getattr__(name: str) -> Any:
    """The names of `__all__`, loaded when asked for: importing the package must not import Spark."""
    if name == "session":
        from epochaudit.spark.session import session

        return session
    if name in __all__:
        from epochaudit import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'epochaudit' has no attribute {name!r}")
