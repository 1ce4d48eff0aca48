"""CE-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import UPDATE_METADATA
from epochaudit.rules.controller_epoch_fence import ControllerEpochFence, answered, refused_by_line
from epochaudit.rules.rule import HIGH, rule


@rule("CE-01", frame="control", kip="KIP-570", severity=HIGH, since="0.8")
class StaleControllerEpochAccepted(ControllerEpochFence):
    """A control request of an old controller was accepted.

    ## What it checks
    A broker remembers the highest controller epoch of the LeaderAndIsr, StopReplica and UpdateMetadata requests that it
    accepted. It must answer 11 (STALE_CONTROLLER_EPOCH) to every later LeaderAndIsr or StopReplica with a smaller epoch, as
    a whole. An equal epoch is valid. UM-01 judges UpdateMetadata.

    ## Why it matters
    A replaced controller does not always know that it was replaced. Its requests may stop replicas or move leadership back,
    and only the controller epoch fences them.

    ## Evidence needed
    The broker's request log at DEBUG. state-change.log gives the exact order of application. Without it, or if it lacks a
    request's lines, requests that overlap in time cannot be ordered and are unverifiable. The first control request of a
    broker process has no predecessor to compare with, as brokers keep the epoch in memory only. Without the request, the broker's
    line about its refusal ("Latest known controller epoch is") states both epochs; no line states an acceptance.

    ## What is allowed
    The broker checks the broker epoch first: BE-01 judges a request that was refused with 77.

    ## What to do
    See in `epochaudit timeline TOPIC-PARTITION` what the request changed, then restart the broker that accepted it: the
    present controller sends it the state of all its partitions. If a replica was deleted, restart only once another
    replica leads. Stop the old controller's process if its controller.log shows that it still takes itself for the
    controller. Every release refuses such requests: report the finding's lines to the Kafka project.

    ## Example
    Controller 2 has taken over with epoch 6. A StopReplica of controller 1 with epoch 5 arrives and is answered 0.

    ## References
    ReplicaManager.stopReplicas and becomeLeaderOrFollower; KIP-570, Proposed Changes.
    """

    def applies(self) -> Column:
        by_request = answered() & (col("event_type") != UPDATE_METADATA)
        return by_request | (refused_by_line() & (col("refused_api") != UPDATE_METADATA))
