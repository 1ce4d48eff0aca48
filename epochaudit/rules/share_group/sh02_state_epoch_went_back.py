"""SH-02."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql.functions import col

from epochaudit.events.event_types import READ_SHARE_GROUP_STATE
from epochaudit.kafka.errors import Errors
from epochaudit.kafka.field_values import NO_EPOCH
from epochaudit.replay.data_plane.coordinator_logs import SHARE_GROUP_STATE
from epochaudit.rules.coordinator_log import LOSS, breaches
from epochaudit.rules.reasons import NEWER_JUST_BEFORE, SHARE_STATE_REQUESTS_MISSING
from epochaudit.rules.rule import CRITICAL, Branch, OwnSentences, Rule, fenced, first_of, passed, rule, unverifiable

_ASKED = "{event_type} {correlation_id} of {client_id} for group {group_id} and {topic}-{partition}"
_NEWER = "coordinator {node} had initialized the state in state epoch {newer_state_epoch} before the request arrived"
_ACCEPTED = "the request in state epoch {state_epoch} was answered {error_code}"
_READ = "the answer has state epoch {state_epoch}"
_NOT_BELOW = "a state epoch not below those to which the coordinator has initialized the state"


@rule("SH-02", frame="share_states", kip="KIP-932", severity=CRITICAL, since="4.1")
class StateEpochWentBack(Rule):
    """A share coordinator accepted or returned a state epoch below the one to which it had initialized a share group's state.

    ## What it checks
    The group coordinator initializes a share group's state of a partition in a state epoch (InitializeShareGroupState) when the group
    subscribes to the topic, and again when an administrator changes the group's offsets. From then on the share coordinator must refuse
    writes and initializations in lower state epochs with 124 (FENCED_STATE_EPOCH), and reads must not return a lower one.

    ## Why it matters
    A leader that did not notice the initialization writes what it knows of the former state: the offsets that an
    administrator set are undone, and records are skipped or delivered again.

    ## Evidence needed
    The request logs of the brokers that are share coordinators, as JSON; the light settings keep these requests. The answer to the
    initialization must have been logged at the same coordinator a second before the request arrived. If it was logged within that second,
    an accepted request is unverifiable, as lines may be written late. For a violation, the elections of __share_group_state:
    state-change.log or the metadata log.

    ## What is allowed
    State epoch -1 of a request that states none; after an initialization with it, nothing is known. A lower epoch after the state was
    deleted (DeleteShareGroupState), as of a group that is deleted and created again. If another broker led a partition of
    __share_group_state in between, that may have happened there: it is unverifiable. Other error codes are
    no verdict.

    ## What to do
    Compare the group's start offset (kafka-share-groups.sh --describe --offsets) with the one that was set or that its members have
    reached, and reset it while the group is empty (--reset-offsets). Exposed points to __share_group_state: set
    `share.coordinator.state.topic.replication.factor=3` and `share.coordinator.state.topic.min.isr=2` before it is created, and
    `unclean.leader.election.enable=false` for it.

    ## Example
    An administrator resets group pickers to offset 0 of orders-0: the state is initialized in state epoch 8. The leader still writes in
    state epoch 7 that the group has reached offset 500, and is answered 0.

    ## References
    ShareCoordinatorShard.maybeGetWriteStateError and maybeGetInitializeStateError; KIP-932.
    """

    evidence = {
        "the request and its answer": "request_ref",
        "the answer to the initialization in the higher state epoch": "newer_state_ref",
        **LOSS,
    }
    caused_by = ("TR-06", "AW-01")
    expected = "error {FENCED_STATE_EPOCH}"
    observed = _ACCEPTED
    because = (_ASKED,)

    def applies(self) -> Column:
        refused = (col("error_code") == Errors.FENCED_STATE_EPOCH) & (col("event_type") != READ_SHARE_GROUP_STATE)
        return (col("state_epoch") > NO_EPOCH) & ((col("error_code") == Errors.NONE) | refused)

    def verdict(self) -> tuple[Branch, ...]:
        refused = col("error_code") == Errors.FENCED_STATE_EPOCH
        newer, read = col("newer_state_epoch").isNotNull(), col("event_type") == READ_SHARE_GROUP_STATE
        unsettled = OwnSentences(expected=_NOT_BELOW, because=(_ASKED, _NEWER))
        return first_of(
            fenced(refused & newer, because=(_ASKED, _NEWER)),
            fenced(refused, expected=f"{_NOT_BELOW}, or this error: {self.expected}"),
            unverifiable(col("just_after_state"), NEWER_JUST_BEFORE, **unsettled),
            unverifiable(
                newer & col("deleted_elsewhere"),
                "another coordinator was asked to delete the state, perhaps in between",
                **unsettled,
            ),
            unverifiable(
                newer & col("returned_since_state"),
                "another broker led a partition of __share_group_state in between, or may have: the state may have been "
                "deleted there",
                **unsettled,
            ),
            unverifiable(newer & col("requests_missing_since_state"), SHARE_STATE_REQUESTS_MISSING, **unsettled),
            *breaches(newer & ~read, SHARE_GROUP_STATE, _ACCEPTED, _ASKED, _NEWER),
            *breaches(newer, SHARE_GROUP_STATE, _READ, _ASKED, _NEWER, expected=_NOT_BELOW),
            unverifiable(
                ~col("recorded"),
                "no earlier answer of this coordinator to a read or an initialization of the state is in the evidence",
                expected=_NOT_BELOW,
            ),
            otherwise=passed(
                expected=_NOT_BELOW,
                because=(
                    _ASKED,
                    "coordinator {node} had initialized the state to no higher state epoch before the request arrived, or had deleted the "
                    "state since, or initialized it without a state epoch",
                ),
            ),
        )
