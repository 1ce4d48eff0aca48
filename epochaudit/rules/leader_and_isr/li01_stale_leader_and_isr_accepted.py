"""LI-01."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import LEADER_AND_ISR
from epochaudit.events.views import holds
from epochaudit.kafka.errors import Errors
from epochaudit.replay.control_plane.refusal_lines import BY_LEADER_EPOCH
from epochaudit.rules.leader_and_isr.follower_lines import FIRST_WITH_FOLLOWER_LINES, refused_at_the_accepted_epoch
from epochaudit.rules.reasons import CONTROL_REQUESTS_MISSING, NO_STATE_CHANGE_LOG, RESTARTED_OR_EXPIRED
from epochaudit.rules.rule import (
    CRITICAL,
    Branch,
    Rule,
    exposed,
    fenced,
    first_of,
    passed,
    rule,
    unverifiable,
    violation,
)

_UNPLACED: Final = "the request has no line in state-change.log, so its place among the others is not certain"
_BROUGHT: Final = "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch} with leader {leader}"
_ACCEPTED: Final = (
    "broker {node} had accepted a LeaderAndIsr with leader epoch {accepted_leader_epoch} for {topic}-{partition}",
    _BROUGHT,
)
_DELETED: Final = (
    "broker {node} had accepted leader epoch {forgotten_leader_epoch} for {topic}-{partition}, and a StopReplica deleted"
    " its replica"
)
_IF_HELD: Final = (
    "error {STALE_CONTROLLER_EPOCH} only if broker {node} holds leader epoch {leader_epoch} of {topic}-{partition} or"
    " a newer one"
)
_NEWER: Final = (
    "no error {STALE_CONTROLLER_EPOCH}: leader epoch {leader_epoch} is above {installed_leader_epoch}, which broker {node} holds for"
    " {topic}-{partition}"
)


@rule("LI-01", frame="control", kip="KIP-570", severity=CRITICAL, since="0.8")
class StaleLeaderAndIsrAccepted(Rule):
    """A LeaderAndIsr with an older leader epoch was accepted.

    ## What it checks
    A broker that holds a leader epoch for a partition must answer 11 for the partition to a LeaderAndIsr with a smaller
    one. A broker whose replica a StopReplica has deleted holds none. If it then accepts a LeaderAndIsr below the leader
    epoch that it had accepted before, and the topic was not deleted, that is exposed.

    ## Why it matters
    Accepting it takes the replica back to an older leader or ISR: the partition has two leaders, or a follower of the wrong
    one.

    ## Evidence needed
    The request log, and state-change.log for the installed epoch ("starts at leader epoch"): a LeaderAndIsr may be
    answered 0 without being installed, if the new leader is not alive. Up to 2.5 a follower has no such line. There a
    refusal below an epoch that the broker had accepted counts as the fence, a refusal at that epoch belongs to LI-02,
    and what is not refused at or below it is unverifiable. So is the first accepted request of a partition, unless the
    start of the process is recorded, or the broker's line states what it held before. After a deletion: the topic id,
    or without ids a later request in the newer leader epoch, which shows that the topic still exists. For restarts:
    server.log. Without it a newer broker epoch may be that of a restart or of a session with ZooKeeper that expired,
    after which the broker holds the same epochs. Without the request, the broker's line about its refusal ("smaller
    than the current leader epoch") states both epochs; no line at INFO states an acceptance.

    ## What is allowed
    A broker accepts the first LeaderAndIsr after a restart at any epoch, because it keeps epochs in memory only. The same
    holds for the first one of a re-created topic. LI-02 covers equal epochs. A request refused as a whole (11, 77) proves
    nothing about its epochs. The broker answers a failed log directory (56) and a wrong topic id (103) before it compares
    epochs. Where a correlation id of the controller's connection is missing, a request is: it may have deleted the replica,
    or brought a newer epoch.

    ## What to do
    If the broker led in the old epoch, save the partition's folder first: records that it took then are nowhere else.
    Then restart it: the controller sends the present state, and the replica truncates what the leader lacks. Exposed
    means that a StopReplica had deleted the replica: without one a broker holds no epoch, and no release with ZooKeeper
    fences that; it ends with 4.0. Report a violation, with its lines, to the Kafka project.

    ## Example
    Broker 3 follows orders-0 in epoch 6. A LeaderAndIsr of epoch 5 is answered 0.

    ## References
    ReplicaManager.becomeLeaderOrFollower; KIP-570, which brings StopReplica in line with it.
    """

    caused_by = ("CE-01", "BE-01", "TI-01")
    evidence = {
        "the LeaderAndIsr request and its answer": "request_ref",
        "the leader epoch the broker had installed": "installed_ref",
        "the LeaderAndIsr that the broker had accepted": "accepted_ref",
        "the newer LeaderAndIsr before the deletion": "forgotten_ref",
        "the StopReplica that deleted the replica": "forgotten_by_ref",
        "the newer leader epoch afterwards": "outlived_ref",
        "the broker's own line": "line_ref",
        "the broker's line about its refusal": "refusal_ref",
    }
    expected = (
        "error {STALE_CONTROLLER_EPOCH}: leader epoch {leader_epoch} is below {installed_leader_epoch}, which broker {node}"
        " holds for {topic}-{partition}"
    )
    observed = "the partition was answered {error_code}"
    because = ("broker {node} had installed leader epoch {installed_leader_epoch} for {topic}-{partition}", _BROUGHT)

    def applies(self) -> Column:
        by_line = (col("refused_api") == LEADER_AND_ISR) & (col("refused_for") == BY_LEADER_EPOCH)
        return by_line | (
            (col("event_type") == LEADER_AND_ISR)
            & (col("request_error_code") == Errors.NONE)
            & col("error_code").isin(Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.STALE_CONTROLLER_EPOCH)
            & ~holds(col("leader_epoch") == col("installed_leader_epoch"))
            & ~refused_at_the_accepted_epoch()
        )

    def verdict(self) -> tuple[Branch, ...]:
        return first_of(
            fenced(
                col("refused_for") == BY_LEADER_EPOCH,
                expected="error {STALE_CONTROLLER_EPOCH} for a leader epoch below {current_leader_epoch}, which broker {node} holds for"
                " {topic}-{partition}",
                observed="broker {node} refused leader epoch {leader_epoch}",
                because=(
                    "the line of broker {node} states that it held leader epoch {current_leader_epoch} of {topic}-{partition}",
                    "LeaderAndIsr {correlation_id} of controller {controller_id} brought leader epoch {leader_epoch}",
                ),
            ),
            unverifiable(~col("state_change_recorded"), NO_STATE_CHANGE_LOG, expected=_IF_HELD),
            *_below_installed(),
            *_below_forgotten(),
            *_not_refused(),
            *_refused(),
            otherwise=violation(expected=_NEWER),
        )


def _is_refused() -> Column:
    return col("error_code") == Errors.STALE_CONTROLLER_EPOCH


def _accepted_without_line() -> Column:
    """The process had accepted a LeaderAndIsr, and its release has no line of a follower's leader epoch."""
    return col("accepted_in_process") & (col("kafka_version") < FIRST_WITH_FOLLOWER_LINES)


def _above_accepted() -> Column:
    """The process had accepted an older leader epoch, and so held no newer one than that, in a release without a follower's line."""
    return holds(_accepted_without_line() & (col("leader_epoch") > col("accepted_leader_epoch")))


def _below_installed() -> tuple[Branch, ...]:
    """Of requests below the leader epoch that the broker holds."""
    below = col("leader_epoch") < col("installed_leader_epoch")
    below_accepted = col("leader_epoch") < col("accepted_leader_epoch")
    return (
        fenced(below & _is_refused()),
        fenced(
            below_accepted & _accepted_without_line() & _is_refused(),
            expected="error {STALE_CONTROLLER_EPOCH}: leader epoch {leader_epoch} is below {accepted_leader_epoch}, which"
            " broker {node} had accepted for {topic}-{partition}",
            because=_ACCEPTED,
        ),
        unverifiable(below & (col("ordered_by") == "time"), _UNPLACED),
        unverifiable(below & col("requests_missing_since_installed"), CONTROL_REQUESTS_MISSING, expected=_IF_HELD),
        violation(below),
    )


def _below_forgotten() -> tuple[Branch, ...]:
    """Of accepted requests below the leader epoch that the broker had before the replica's deletion."""
    accepted, forgotten = col("error_code") == Errors.NONE, col("forgotten_leader_epoch")
    another_topic = holds(col("topic_id") != col("forgotten_topic_id"))  # its epochs start at 0
    goes_back = col("installed_leader_epoch").isNull() & (col("leader_epoch") < forgotten) & ~another_topic
    topic_exists = (col("topic_id") == col("forgotten_topic_id")) | (
        (col("alive_leader_epoch") >= forgotten) & ~col("topic_deletion_seen")
    )
    return (
        unverifiable(~_is_refused() & goes_back & (col("ordered_by") == "time"), _UNPLACED, expected=_IF_HELD),
        exposed(
            accepted & goes_back & topic_exists,
            expected="no leader epoch below {forgotten_leader_epoch}, which broker {node} had accepted for {topic}-{partition}",
            observed="leader epoch {leader_epoch} was answered {error_code} and applied",
            because=(
                _DELETED,
                _BROUGHT,
                "{topic}-{partition} is in leader epoch {alive_leader_epoch} afterwards: the topic was not deleted",
                "a broker without the replica has no leader epoch to compare with",
            ),
        ),
        unverifiable(
            accepted & goes_back,
            "the replica was deleted, and whether the topic was created again since is not in the evidence",
            expected="no leader epoch below {forgotten_leader_epoch}, unless {topic} was created again",
            because=(_DELETED, _BROUGHT),
        ),
    )


def _not_refused() -> tuple[Branch, ...]:
    """Of other requests that were not refused as stale."""
    epoch, installed = col("leader_epoch"), col("installed_leader_epoch")
    return (
        unverifiable(
            ~_is_refused() & (epoch <= col("accepted_leader_epoch")) & _accepted_without_line(),
            "not refused up to an epoch that had been accepted, whose installation has no line at a follower up to 2.5",
            expected=_IF_HELD,
            because=_ACCEPTED,
        ),
        unverifiable(
            ~_is_refused() & installed.isNull() & (epoch < col("former_leader_epoch")),
            RESTARTED_OR_EXPIRED,
            expected="error {STALE_CONTROLLER_EPOCH} unless broker {node} has restarted since it had leader epoch"
            " {former_leader_epoch} of {topic}-{partition}",
            because=(_BROUGHT,),
        ),
        unverifiable(
            ~_is_refused() & installed.isNull() & ~col("no_epoch_before") & ~_above_accepted(),
            "the leader epoch that the broker held when its logs begin is not in the evidence",
            expected=_IF_HELD,
            because=(_BROUGHT,),
        ),
        passed(
            ~_is_refused() & installed.isNull(),
            expected="no error {STALE_CONTROLLER_EPOCH}: no leader epoch of {topic}-{partition} that broker {node} held in this"
            " process is recorded",
            because=(_BROUGHT,),
        ),
        passed(~_is_refused(), expected=_NEWER),
    )


def _refused() -> tuple[Branch, ...]:
    """Of requests that were refused as stale, but are not below an epoch that the broker certainly holds."""
    return (
        unverifiable(
            col("installed_leader_epoch").isNull(),
            "refused as stale, but the leader epoch that the broker held is not in the evidence",
            expected=_IF_HELD,
        ),
        unverifiable(
            col("leader_epoch") <= col("accepted_leader_epoch"),
            "refused at an epoch that had been accepted, though its installation is not in the evidence",
            expected=_IF_HELD,
        ),
        unverifiable(
            col("leader_epoch") <= col("metadata_leader_epoch"),
            "refused at an epoch that an UpdateMetadata had stated before, so that a line about it may be missing",
            expected=_IF_HELD,
        ),
        unverifiable(
            col("requests_missing_since_installed"),
            "a control request in between is missing, perhaps one with a newer leader epoch (request log)",
            expected=_IF_HELD,
        ),
    )
