"""UM-01."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.epochs.stale_controller_epoch_accepted import StaleControllerEpochAccepted, answered
from epochaudit.rules.rule import HIGH, rule


@rule("UM-01", frame="control", kip="KIP-516", severity=HIGH, since="0.8")
class StaleUpdateMetadataAccepted(StaleControllerEpochAccepted):
    """An UpdateMetadata of an old controller was accepted.

    ## What it checks
    What CE-01 checks of LeaderAndIsr and StopReplica, for UpdateMetadata: an epoch below the highest controller epoch that
    the broker process has accepted in any of the three must be answered 11 (STALE_CONTROLLER_EPOCH).

    ## Why it matters
    The metadata cache has no other fence: it takes over every partition state of a request it accepts (UM-02), and hands
    it to all clients. The old controller's view of leaders and live brokers would be served to them.

    ## Evidence needed
    The broker's request log at DEBUG. With state-change.log the order of application is exact; without it, two requests
    that overlap in time cannot be ordered and stay unverifiable. The first control request of a broker process has
    nothing to be compared with, since the broker keeps the epoch in memory only.

    ## What is allowed
    An equal epoch. The broker epoch is checked first: a request refused with 77 is judged by BE-01, not here.

    ## Example
    Controller 2 has taken over with epoch 6; an UpdateMetadata of controller 1 with epoch 5 arrives and is answered 0.

    ## References
    ReplicaManager.maybeUpdateMetadataCache; KIP-516, UpdateMetadata.
    """

    def applies(self) -> Column:
        return answered() & (col("event_type") == "UPDATE_METADATA")
