"""LeaderAndIsr requests to brokers up to 2.5, whose state-change.log has no line of a follower's leader epoch."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.releases import release

FIRST_WITH_FOLLOWER_LINES: Final = release("2.6")


def refused_at_the_accepted_epoch() -> Column:
    """Up to 2.5, where a follower has no line: the process had accepted the same epoch, and so held it when it refused it."""
    held = col("accepted_in_process") & (col("leader_epoch") == col("accepted_leader_epoch"))
    older = F.coalesce(col("installed_leader_epoch") < col("leader_epoch"), F.lit(True))
    without_follower_lines = col("kafka_version") < FIRST_WITH_FOLLOWER_LINES
    return holds((col("error_code") == Errors.STALE_CONTROLLER_EPOCH) & without_follower_lines & held & older)
