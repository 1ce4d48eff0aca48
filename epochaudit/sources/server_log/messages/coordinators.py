"""Coordinators of transactional producers: the producer ids and epochs that they give (TransactionCoordinator)."""

from __future__ import annotations

from typing import Final

from epochaudit.sources.lines.log4j import LogPattern
from epochaudit.sources.server_log.messages.parts import PatternsByClass

PATTERNS: Final[PatternsByClass] = {
    b"TransactionCoordinator": {
        b"Initialized transactionalId ": (
            LogPattern(
                "PRODUCER_INITIALIZED",
                rb"\[TransactionCoordinator id=\d+\] Initialized transactionalId (?P<transactional_id>.*) with producerId"
                rb" (?P<response_producer_id>\d+) and producer epoch (?P<response_producer_epoch>\d+) on partition"
                rb" __transaction_state-\d+",
            ),
        ),
    },
}  # fmt: skip
