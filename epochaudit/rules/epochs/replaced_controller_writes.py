"""CE-04."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.replay.partition_states import CONTROLLER
from epochaudit.rules.rule import INFO, Branch, Rule, first_of, passed, rule, unverifiable


@rule("CE-04", frame="metadata", kip="KIP-570", severity=INFO, since="2.1")
class ReplacedControllerWrites(Rule):
    """Observation: a controller that had been replaced still wrote partition states to ZooKeeper.

    ## What it checks
    Every write of a partition's state in ZooKeeper raises its partition epoch. A state that a controller reports in
    controller epoch N, above the partition epoch that a later controller reports first, was written after that
    controller had begun. Each such report counts as one `pass` here. This rule never gives a violation.

    ## Why it matters
    Up to 2.0 nothing kept a replaced controller from writing (KAFKA-6082). From 2.1 on each write is bound to the version of
    the controller epoch in ZooKeeper, so that a sighting there means a broken ZooKeeper or a damaged log.

    ## Evidence needed
    state-change.log of the brokers that were controller. The writes themselves are in no log: only the lines "Changed
    partition ... with state" and "Partition ... state changed to" tell of them.

    ## What is allowed
    All of it. What the replaced controller still sends to brokers is judged by CE-01 and UM-01. A topic that is created
    again starts at partition epoch 0: where the name has had several topics nothing is claimed. Two controllers may report
    one state, since the line is written also where a change was found needless.

    ## Example
    Controller 1 reports orders-0 at partition epoch 8 in controller epoch 5; controller 2 reports it first at partition epoch
    7, in controller epoch 6.

    ## References
    KafkaZkClient.updateLeaderAndIsr; KAFKA-6082; KIP-570, Proposed Changes.
    """

    evidence = {"the replaced controller's report": "state_ref", "the first report of a later controller": "next_ref"}
    expected = "no state written in controller epoch {controller_epoch} once a later controller had begun"
    observed = "partition epoch {partition_epoch}, a later controller's first report has {next_partition_epoch}"
    because = (
        "controller {controller_id} reported partition epoch {partition_epoch} in controller epoch {controller_epoch}",
        "the first report of a later controller has partition epoch {next_partition_epoch}, in controller epoch {next_clock}",
    )

    def applies(self) -> Column:
        return (
            (col("scope") == CONTROLLER)
            & (col("next_clock") > col("clock"))
            & (col("next_partition_epoch") > 0)
            & (col("partition_epoch") > col("next_partition_epoch"))
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            unverifiable(col("recreated"), "the topic name has had several topics"),
            otherwise=passed(),
        )
