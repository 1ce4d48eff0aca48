"""TI-06."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.views import holds
from epochaudit.replay.state.inferred_topic_ids import is_inferred
from epochaudit.replay.state.partition_states import OF_CONTROLLER, OF_RECORD
from epochaudit.rules.rule import HIGH, Branch, Rule, first_of, passed, rule, unverifiable, violation

_HAD = (
    "{topic}-{partition} had leader epoch {previous_leader_epoch}",
    "its partition epoch was {previous_partition_epoch}",
)
_NEXT = "its next state has leader epoch {leader_epoch} and partition epoch {partition_epoch}"


@rule("TI-06", frame="metadata", kip="KIP-516", severity=HIGH, since="all")
class EpochsResetWithinTopicId(Rule):
    """A partition's epochs started again at 0 although its topic was not created again.

    ## What it checks
    Leader epoch 0 with partition epoch 0 is the state that creation writes. A partition may return to it only under a new
    topic id. KRaft: a PartitionRecord at (0, 0) for a partition that the log already has under the id. ZooKeeper: a
    controller's state at (0, 0) for a name that had a later state. There the topic ids of requests to the controller's own
    broker, before and after, decide.

    ## Why it matters
    No fence by epoch works: replicas and clients with the former epochs seem to be from the future.

    ## Evidence needed
    The metadata log; or controllers' state-change.log, and a request log with the topic's ids. Before 2.8 there are no ids,
    and only a recorded deletion shows that the topic is another: without one the state is unverifiable.

    ## What is allowed
    Deletion and re-creation: a new id starts at 0. Snapshots repeat states.

    ## What to do
    Pause the producers: replicas and clients with the former epochs refuse the leader, or truncate by it. Save the
    folders of all replicas, and find in `epochaudit timeline TOPIC-PARTITION` which replica has the records of the
    higher epochs. Look for a znode that was deleted or restored, or for a restored metadata log. Then write the records
    from that folder to a new topic.

    ## Example
    The controller reports orders-0 in leader epoch 6, then in leader epoch 0. Before and after, it sends LeaderAndIsr with
    topic id A.

    ## References
    PartitionStateMachine.initializeLeaderAndIsrForPartitions, ReplicationControlManager.createTopic; KIP-516.
    """

    caused_by = ("EP-01", "EP-02")
    evidence = {"the state at leader epoch 0": "state_ref", "the state before": "previous_ref"}
    expected = "no epoch below that of the state before, or another topic id"
    observed = "leader epoch {leader_epoch} and partition epoch {partition_epoch}"
    because = (*_HAD, _NEXT, "both are of the same topic id")

    def applies(self) -> Column:
        return col("created") | ((col("scope") == OF_CONTROLLER) & col("starts_anew"))

    def verdict(self) -> tuple[Branch, ...]:
        restated = (col("previous_leader_epoch") == 0) & (col("previous_partition_epoch") == 0)
        return first_of(
            passed(
                col("previous_leader_epoch").isNull(),
                expected="epochs that begin at 0, as no earlier state of {topic}-{partition} is recorded",
                because=(),
            ),
            passed(restated, expected="the state before once more, or a later one", because=(*_HAD, _NEXT)),
            violation(col("scope") == OF_RECORD),
            # an inferred id stands for all topics between which no deletion is recorded
            violation(col("same_topic_id") & ~holds(is_inferred(col("topic_id")))),
            passed(
                col("another_topic_id") | col("deleted_before"),
                expected="no epoch below that of the state before, or another topic",
                because=(
                    *_HAD,
                    _NEXT,
                    "between them a controller's broker heard of another topic id of the name {topic}, or of a deletion",
                ),
            ),
            otherwise=unverifiable(
                None,
                "neither topic ids nor a deletion tell whether the topic was created again",
                expected="no epoch below that of the state before, or another topic",
                because=(*_HAD, _NEXT),
            ),
        )
