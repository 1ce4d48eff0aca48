"""UM-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import UPDATE_METADATA
from epochaudit.rules.controller_epoch_fence import ControllerEpochFence, answered, refused_by_line
from epochaudit.rules.rule import HIGH, rule


@rule("UM-01", frame="control", kip="KIP-516", severity=HIGH, since="0.8")
class StaleUpdateMetadataAccepted(ControllerEpochFence):
    """An UpdateMetadata of an old controller was accepted.

    ## What it checks
    The same as CE-01 for LeaderAndIsr and StopReplica: the broker must answer 11 (STALE_CONTROLLER_EPOCH) to an
    UpdateMetadata with an epoch below the highest controller epoch that its process has accepted in any of the three.

    ## Why it matters
    The metadata cache has no other fence: it applies every partition state of a request that it accepts (UM-02). All
    clients would get the old controller's leaders and live brokers.

    ## Evidence needed
    The broker's request log at DEBUG. state-change.log gives the exact order of application. Without it, or if it lacks a
    request's lines, requests that overlap in time cannot be ordered and are unverifiable. The first control request of a
    broker process has no predecessor to compare with, as brokers keep the epoch in memory only. Without the request, the broker's
    line about its refusal ("Latest known controller epoch is") states both epochs; no line states an acceptance.

    ## What is allowed
    An equal epoch. The broker checks the broker epoch first: BE-01 judges a request that was refused with 77.

    ## What to do
    Restart the broker: the present controller then sends it all leaders and live brokers again. Until then its clients
    may be sent to replicas that do not lead, so check them for TR-01. Stop the old controller's process if its
    controller.log shows no resignation. Every release refuses an older controller epoch: report the lines.

    ## Example
    Controller 2 has taken over with epoch 6. An UpdateMetadata of controller 1 with epoch 5 arrives and is answered 0.

    ## References
    ReplicaManager.maybeUpdateMetadataCache; KIP-516, UpdateMetadata.
    """

    def applies(self) -> Column:
        by_request = answered() & (col("event_type") == UPDATE_METADATA)
        return by_request | (refused_by_line() & (col("refused_api") == UPDATE_METADATA))
