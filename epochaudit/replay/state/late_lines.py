"""What a request log shows of an earlier answer, if lines may be written late.

A request's line is written after its answer, and its arrival is computed from the line's time. So a request certainly came after an answer
only if it arrived SLACK_MS after that answer's line. If it arrived within that time, it seems to have come after, but may have come first.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from epochaudit.events.times import SLACK_MS
from epochaudit.events.views import holds


def came_after(line_ms: Column) -> Column:
    """The request certainly came after the answer whose line has that time; false if that is null. Needs: arrival_ms."""
    return holds(F.col("arrival_ms") > line_ms + SLACK_MS)


def came_just_after(line_ms: Column) -> Column:
    """By the times of the lines the request came after that answer, but it may have come first; null if the time is. Needs: arrival_ms."""
    return F.col("arrival_ms").between(line_ms + 1, line_ms + SLACK_MS)


def binding_times() -> Column:
    """Generates two rows per answer, with the columns at_ms and recent. Needs: time_ms, of the answer's line.

    Requests that arrive after at_ms came just after the answer, if recent, else certainly after it.
    """
    times = ((F.col("time_ms"), True), (F.col("time_ms") + SLACK_MS, False))
    return F.inline(F.array(*(F.struct(ms.alias("at_ms"), F.lit(recent).alias("recent")) for ms, recent in times)))
