"""Constants for comparing times, in milliseconds."""

from __future__ import annotations

from typing import Final

FOREVER: Final = 2**62
"""The end of an open interval: later than any time, higher than any offset."""

DAY_MS: Final = 86_400_000

ANY_ZONE_MS: Final = 14 * 3_600_000
"""No time zone is further from UTC."""

TOLERANCE_MS: Final = 2
"""Tolerance between two events of one host: times are printed in whole milliseconds, and responses are logged after sending."""

REQUEST_LINE_LAG_MS: Final = 500
"""How much later than its answer a request's line may be written: 110 ms were measured. Its arrival is computed from that line's time."""

SLACK_MS: Final = 1_000
"""A request may have arrived up to this much before its arrival_ms, and found a state that was replaced in between.

A request log line is written after the response, by over 100 ms on a busy node, and arrival_ms is computed from that
line's time. A batch of the metadata log gets its CreateTime with its first record and accepts records until it is
drained, 25 ms later by default (controller.quorum.append.linger.ms).
"""
