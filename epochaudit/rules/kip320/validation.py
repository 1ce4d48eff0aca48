"""What the rules about a consumer's position have in common: whether the client could validate it (KIP-320)."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

FIRST_WITH_LEADER_EPOCH: Final = 9
# Consumers validate with OffsetForLeaderEpoch 3, which brokers have since 2.3.
FIRST_VALIDATING_BROKER: Final = 2_003_000
JAVA: Final = "apache-kafka-java"


def can_validate() -> Column:
    """The client states a leader epoch in its fetch, and no release of the broker is known that could not answer it."""
    return (
        (col("api_version") >= FIRST_WITH_LEADER_EPOCH)
        & (col("current_leader_epoch") >= 0)
        & (col("kafka_version").isNull() | (col("kafka_version") >= FIRST_VALIDATING_BROKER))
    )


def topic_unknown() -> Column:
    """The name had several topics, and no id says which one is meant."""
    return col("several_incarnations") & col("topic_id").isNull()
