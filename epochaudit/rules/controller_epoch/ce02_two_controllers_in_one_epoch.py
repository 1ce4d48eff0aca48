"""CE-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.rules.rule import CRITICAL, Branch, Rule, first_of, passed, rule, unverifiable, violation


@rule("CE-02", frame="leadership", kip="KIP-570", severity=CRITICAL, since="0.8")
class TwoControllersInOneEpoch(Rule):
    """One controller epoch had two controllers.

    ## What it checks
    Each election of a ZooKeeper controller raises the controller epoch by one. All statements about the controller of an
    epoch must agree: accepted LeaderAndIsr, StopReplica and UpdateMetadata requests, and the lines in which a controller
    reports its election, a partition's new state, or a StopReplica that it sends.

    ## Why it matters
    Only the controller epoch fences a replaced controller. If two controllers share an epoch, no broker can refuse either,
    and they undo each other's elections and reassignments.

    ## Evidence needed
    Statements of two nodes about the epoch: request logs of brokers at DEBUG, state-change.log, controller.log. Statements
    of a single node have no counterpart to compare with.

    ## What is allowed
    A refused request states nothing. A KRaft controller that takes over in a migration from ZooKeeper raises the same
    counter (only the controller epochs in its partition states are raft epochs). In KRaft mode brokers do not receive these
    requests, so there are no subjects.

    ## What to do
    Make sure that the capture holds one cluster only (`capture.toml`), then restart both controllers' brokers: the next
    election has a new epoch, and its controller sends all brokers its state. Check ZooKeeper: two ensembles, different
    chroots, or an ensemble restored from an old snapshot give one epoch twice. Compare `/controller_epoch` at each of
    its servers.

    ## Example
    Broker 2 has accepted requests of controller 1 with controller epoch 6, broker 3 those of controller 2 with the same epoch.

    ## References
    KafkaController.elect, KafkaZkClient.registerControllerAndIncrementControllerEpoch,
    tryRegisterKRaftControllerAsActiveController, MigrationPropagator; KIP-570, Proposed Changes.
    """

    evidence = {"one statement": "lowest_leader_ref", "the other": "highest_leader_ref"}
    expected = "one controller in controller epoch {controller_epoch}"
    observed = "controller {lowest_leader} and controller {highest_leader}"
    because = (
        "{lowest_leader_stated_by} names controller {lowest_leader} for controller epoch {controller_epoch}",
        "{highest_leader_stated_by} names controller {highest_leader} for the same epoch",
    )

    def applies(self) -> Column:
        return col("controller_epoch").isNotNull()

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            violation(col("lowest_leader") != col("highest_leader")),
            unverifiable(
                ~col("stated_by_several"),
                "only one node states who was the controller of the epoch",
                observed="controller {lowest_leader}",
                because=(
                    "{lowest_leader_stated_by} names controller {lowest_leader} for controller epoch {controller_epoch}",
                ),
            ),
            otherwise=passed(
                observed="controller {lowest_leader}",
                because=(
                    "all of {statements} statements name controller {lowest_leader} for controller epoch {controller_epoch}",
                ),
            ),
        )
