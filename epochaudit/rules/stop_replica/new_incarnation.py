"""Deletions of a topic that reach a replica of a topic created again under its name."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.kafka.field_values import EPOCH_DURING_DELETE


def meets_new_incarnation() -> Column:
    """The deletion's request reached a replica of a topic created anew under the name, whose own deletion nobody had announced."""
    deleting = col("leader_epoch") == EPOCH_DURING_DELETE
    return holds(deleting & col("topic_id_changed") & col("accepted_ref").isNotNull() & ~col("deletion_announced"))


def hits_new_incarnation() -> Column:
    """The same, and the request deletes the replica."""
    return meets_new_incarnation() & col("delete_partition")
