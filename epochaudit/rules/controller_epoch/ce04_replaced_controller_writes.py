"""CE-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.state.partition_states import OF_CONTROLLER
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("CE-04", frame="metadata", kip="KIP-570", severity=INFO, since="2.1")
class ReplacedControllerWrites(Rule):
    """Observation: a controller that had been replaced still wrote partition states to ZooKeeper.

    ## What it checks
    Every write of a partition's state in ZooKeeper raises its partition epoch. If a controller of controller epoch N
    reports a state above the partition epoch that a later controller reports first, it wrote that state after the later
    controller had begun. The last report of each controller epoch about a partition is compared, and counts as one `pass`.
    This rule never gives a violation.

    ## Why it matters
    Up to 2.0 nothing stopped a replaced controller from writing (KAFKA-6082). Since 2.1 each write is conditional on the
    version of the controller epoch in ZooKeeper. In these releases a report means a broken ZooKeeper or a damaged log.

    ## Evidence needed
    state-change.log of the brokers that were controller. No log has the writes themselves; the lines "Changed partition ...
    with state" and "Partition ... state changed to" report them.

    ## What is allowed
    Every such report is allowed. CE-01 and UM-01 judge the replaced controller's requests to brokers. A re-created topic
    starts at partition epoch 0; if a name had several topics, the rule claims nothing. Two controllers may report one
    state, as the line is also written if a change turned out to be unnecessary.

    ## What to do
    Compare the leader and the ISR in the partition's znode with those that the brokers have (`epochaudit timeline
    TOPIC-PARTITION`). If they agree, nothing needs repair; if not, restart the controller, so that the next one sends
    out what ZooKeeper has. Up to 2.0, upgrade to 2.1 (KAFKA-6082). From 2.1 on, check whether ZooKeeper was restored
    from a backup.

    ## Example
    Controller 1 reports orders-0 at partition epoch 8 in controller epoch 5. The first report of controller 2, in
    controller epoch 6, has partition epoch 7.

    ## References
    KafkaZkClient.updateLeaderAndIsr; KAFKA-6082; KIP-570, Proposed Changes.
    """

    evidence = {"the replaced controller's report": "state_ref", "the first report of a later controller": "next_ref"}
    expected = "a write that was under way when the later controller began"
    observed = "partition epoch {partition_epoch}, a later controller's first report has {next_partition_epoch}"
    because = (
        "controller {controller_id} reported partition epoch {partition_epoch} in controller epoch {controller_epoch}",
        "the first report of a later controller has partition epoch {next_partition_epoch}, in controller epoch {next_clock}",
    )

    def applies(self) -> Column:
        return (
            (col("scope") == OF_CONTROLLER)
            & (col("next_clock") > col("clock"))
            & (col("next_partition_epoch") > 0)
            & (col("partition_epoch") > col("next_partition_epoch"))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(unverifiable(col("recreated"), "the topic name has had several topics"), otherwise=passed())
