"""epochaudit: did fencing work? Audits Kafka's epochs from recorded controller and broker logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochaudit.pipeline import Audit, audit

__all__ = ["Audit", "audit"]


def __getattr__(name: str) -> Any:
    """`epochaudit.audit` and `epochaudit.Audit`, loaded when asked for: importing the package must not import Spark."""
    if name in __all__:
        from epochaudit import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module 'epochaudit' has no attribute {name!r}")
